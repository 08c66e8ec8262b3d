"""Augmentations beside Pillow, SciPy and formulas in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.dataset import augment as au
from ingle.dataset.augment import colors, rand_augment
from ingle.fusion import compile
from ingle.tensor.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
IMAGES = RNG.random((6, 3, 12, 10)).astype(np.float32)


def seeded(seed: int = 0) -> it.random.Generator:
    return it.random.Generator(seed)


def pillow(x: np.ndarray) -> Any:
    pil = pytest.importorskip("PIL.Image")
    return pil.fromarray(np.rint(x.transpose(1, 2, 0) * 255).astype(np.uint8))


def array(image: Any) -> np.ndarray:
    return np.asarray(image, np.float32).transpose(2, 0, 1) / 255


def test_flips_choose_each_image() -> None:
    x = it.asarray(IMAGES)
    for kind, axis in ((au.RandomHorizontalFlip, 3), (au.RandomVerticalFlip, 2)):
        np.testing.assert_array_equal(kind(1.0)(x).numpy(), np.flip(IMAGES, axis))
        np.testing.assert_array_equal(kind(0.0)(x).numpy(), IMAGES)
        found = kind(0.5)(x, seeded()).numpy()
        kept = [np.array_equal(a, b) for a, b in zip(found, IMAGES, strict=True)]
        assert 0 < sum(kept) < 6
        for i, same in enumerate(kept):
            want = IMAGES[i] if same else np.flip(IMAGES[i], axis - 1)
            np.testing.assert_array_equal(found[i], want)


def test_crops_are_pieces() -> None:
    x = it.asarray(IMAGES)
    np.testing.assert_array_equal(au.CenterCrop((8, 6))(x).numpy(), IMAGES[:, :, 2:10, 2:8])
    padded = np.pad(IMAGES, ((0, 0), (0, 0), (2, 2), (2, 2)), constant_values=0.5)
    places = set()
    for seed in range(4):
        found = au.RandomCrop((8, 7), padding=2, fill=0.5)(x, seeded(seed)).numpy()
        for piece, image in zip(found, padded, strict=True):
            windows = np.lib.stride_tricks.sliding_window_view(image, (8, 7), (1, 2))
            hit = np.argwhere((windows == piece[:, None, None]).all((0, 3, 4)))
            assert len(hit) == 1
            places.add(tuple(hit[0]))
    assert len(places) > 10


def test_sizes_are_pillows() -> None:
    pil = pytest.importorskip("PIL.Image")
    x = np.stack([array(pillow(i)) for i in IMAGES])
    for size in ((5, 7), (24, 20)):
        found = au.Resize(size)(it.asarray(x)).numpy()
        want = [array(pillow(i).resize(size[::-1], pil.Resampling.BILINEAR)) for i in x]
        np.testing.assert_allclose(found, want, atol=2.5 / 255)


def test_turns_are_scipys() -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    x = RNG.random((2, 1, 9, 9)).astype(np.float32)
    found = au.RandomRotation((30, 30))(it.asarray(x)).numpy()
    want = [ndimage.rotate(i[0], 30, reshape=False, order=1) for i in x]
    # Pixels at the border blend with what is outside in other ways.
    np.testing.assert_allclose(found[:, 0, 2:-2, 2:-2], np.stack(want)[:, 2:-2, 2:-2], atol=1e-4)
    quarter = au.RandomAffine((90, 90))(it.asarray(x)).numpy()
    np.testing.assert_allclose(quarter, np.rot90(x, 1, (2, 3)), atol=1e-5)


@pytest.mark.slow
def test_moves_scales_and_shears() -> None:
    x = np.zeros((1, 1, 9, 9), np.float32)
    x[0, 0, 4, 6] = 1.0
    moved = {tuple(np.argwhere(au.RandomAffine(translate=(0.2, 0.2))(
        it.asarray(x), seeded(s)).numpy()[0, 0] > 0.5)[0]) for s in range(8)}  # fmt: skip
    assert len(moved) > 3
    grown = au.RandomAffine(scale=(2.0, 2.0))(it.asarray(x)).numpy()
    assert grown[0, 0, 4, 8] == pytest.approx(1.0, abs=1e-5)
    column = np.zeros((1, 1, 9, 9), np.float32)
    column[:, :, :, 4] = 1.0
    sheared = au.RandomAffine(shear=(45, 45))(it.asarray(column)).numpy()[0, 0]
    np.testing.assert_allclose(sheared, np.eye(9), atol=1e-4)
    whole = au.RandomResizedCrop((12, 10), scale=(1.0, 1.0), ratio=(10 / 12, 10 / 12))
    np.testing.assert_allclose(whole(it.asarray(IMAGES)).numpy(), IMAGES, atol=1e-5)
    assert au.RandomResizedCrop(5)(it.asarray(IMAGES), seeded()).shape == (6, 3, 5, 5)


@pytest.mark.parametrize(("name", "change"), [
    ("Brightness", colors.brightened), ("Contrast", colors.contrasted), ("Color", colors.saturated),
])  # fmt: skip
def test_colors_are_pillows(name: str, change: Any) -> None:
    enhance = pytest.importorskip("PIL.ImageEnhance")
    x = np.stack([array(pillow(i)) for i in IMAGES])
    for factor in (0.4, 1.0, 1.7):
        want = [array(getattr(enhance, name)(pillow(i)).enhance(factor)) for i in x]
        np.testing.assert_allclose(change(it.asarray(x), factor).numpy(), want, atol=2.5 / 255)


def test_hues_are_those_of_the_standard_library() -> None:
    import colorsys

    found = colors.with_hue(it.asarray(IMAGES), 0.3).numpy()
    for image, turned in zip(IMAGES[:2], found[:2], strict=True):
        for rgb, got in zip(image.reshape(3, -1).T, turned.reshape(3, -1).T, strict=True):
            h, s, v = colorsys.rgb_to_hsv(*map(float, rgb))
            np.testing.assert_allclose(got, colorsys.hsv_to_rgb((h + 0.3) % 1, s, v), atol=1e-5)


def test_sharpness_is_pillows() -> None:
    filters = pytest.importorskip("PIL.ImageFilter")
    x = np.stack([array(pillow(i)) for i in IMAGES])
    want = [array(pillow(i).filter(filters.SMOOTH)) for i in x]
    found = rand_augment.smoothed(it.asarray(x)).numpy()
    np.testing.assert_allclose(found, want, atol=1.5 / 255)


def test_jitter_and_other_changes_of_each_image() -> None:
    x = it.asarray(IMAGES)
    jitter = au.ColorJitter(0.4, 0.4, 0.4, 0.1)
    a, b = jitter(x, seeded(1)).numpy(), jitter(x, seeded(1)).numpy()
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, jitter(x, seeded(2)).numpy())
    assert ((a >= 0) & (a <= 1)).all()
    gray = au.RandomGrayscale(1.0)(x).numpy()
    np.testing.assert_allclose(gray[:, 0], gray[:, 2])
    found = au.Normalize([0.5, 0.4, 0.3], [0.2, 0.1, 0.3])(x).numpy()
    mean, std = np.reshape([0.5, 0.4, 0.3], (3, 1, 1)), np.reshape([0.2, 0.1, 0.3], (3, 1, 1))
    np.testing.assert_allclose(found, (IMAGES - mean) / std, rtol=1e-4, atol=1e-5)
    erased = au.RandomErasing(1.0, (0.2, 0.2), (1.0, 1.0), value=7.0)(x, seeded()).numpy()
    areas = (erased == 7.0).all(1).mean((1, 2))
    np.testing.assert_allclose(areas, 0.2, atol=0.06)
    many = au.RandAugment(2, 15.0)(x, seeded(3)).numpy()
    assert ((many >= -1e-6) & (many <= 1 + 1e-6)).all()
    assert len({m.tobytes() for m in many}) == 6


@pytest.mark.slow
def test_mixed_labels_are_shares() -> None:
    x, y = it.asarray(IMAGES), it.arange(6) % 3
    pictures, labels = au.MixUp(3, 1.0)((x, y), seeded())
    np.testing.assert_allclose(labels.numpy().sum(1), 1.0, rtol=1e-6)
    flat = IMAGES.reshape(6, -1)
    for picture in pictures.numpy().reshape(6, -1):
        parts, *_ = np.linalg.lstsq(flat.T, picture, rcond=None)
        assert (parts > -1e-3).all()
        np.testing.assert_allclose(parts.sum(), 1.0, atol=1e-3)
    pictures, labels = au.CutMix(3)((x, y), seeded(1))
    same = (pictures.numpy() == IMAGES).all(1).mean((1, 2))
    own = labels.numpy()[np.arange(6), y.numpy()]
    assert (own >= same - 1e-6).all()
    assert it.cross_entropy(it.zeros((6, 3)), labels).item() == pytest.approx(np.log(3))


@pytest.mark.slow
def test_compositions_run_compiled() -> None:
    from ingle.fusion import compile

    chain = au.Compose([au.RandomCrop(8, padding=1), au.RandomHorizontalFlip(),
                        au.RandomApply(au.ColorJitter(0.2), 0.5)])  # fmt: skip
    g = seeded(5)
    step = compile(lambda x: chain(x, g))
    found = [step(it.asarray(IMAGES)).numpy() for _ in range(3)]
    assert not np.array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], chain(it.asarray(IMAGES), seeded(5)).numpy(), atol=1e-6)


def test_resampled_tones_keep_their_pitch() -> None:
    signal = pytest.importorskip("scipy.signal")
    t = np.arange(2000) / 8000
    x = np.sin(2 * np.pi * 440 * t).astype(np.float32)[None]
    for new in (16000, 6000, 11025):
        found = au.Resample(8000, new)(it.asarray(x)).numpy()[0]
        assert len(found) == int(np.ceil(2000 * new / 8000))
        want = np.sin(2 * np.pi * 440 * np.arange(len(found)) / new)
        np.testing.assert_allclose(found[200:-200], want[200:-200], atol=5e-3)
    polyphase = signal.resample_poly(x[0], 2, 1)
    found = au.Resample(8000, 16000)(it.asarray(x)).numpy()[0]
    np.testing.assert_allclose(found[200:-200], polyphase[200:-200], atol=1e-2)
    noise = RNG.normal(size=(1, 4000)).astype(np.float32)
    low = au.Resample(8000, 4000)(it.asarray(noise)).numpy()[0]
    assert abs(low.var() - 0.5) < 0.1  # half of the band is gone


def test_mel_spectrograms_are_the_formula() -> None:
    signal = pytest.importorskip("scipy.signal")
    x = RNG.normal(size=(2, 3000)).astype(np.float32)
    found = au.MelSpectrogram(8000, n_fft=256, hop_length=100, n_mels=20)(it.asarray(x)).numpy()
    window = signal.get_window("hann", 256)
    padded = np.pad(x, ((0, 0), (128, 128)), mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 256, 1)[:, ::100]
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    mels = np.linspace(0, 2595 * np.log10(1 + 4000 / 700), 22)
    hertz = 700 * (10 ** (mels / 2595) - 1)
    bins = np.arange(129) * 8000 / 256
    bank = np.stack([np.interp(bins, hertz[i : i + 3], [0, 1, 0]) for i in range(20)])
    want = bank @ power.transpose(0, 2, 1)
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-3)
    logs = au.LogMelSpectrogram(8000, n_fft=256, hop_length=100, n_mels=20)(it.asarray(x)).numpy()
    np.testing.assert_allclose(logs, np.log(np.maximum(want, 1e-10)), atol=1e-2)


def test_noise_and_masks() -> None:
    x = np.sin(np.arange(20000) / 5).astype(np.float32)[None] * np.float32([[1.0], [3.0]])
    noisy = au.AddNoise((10.0, 10.0))(it.asarray(x), seeded()).numpy()
    ratio = 10 * np.log10((x**2).mean(1) / ((noisy - x) ** 2).mean(1))
    np.testing.assert_allclose(ratio, 10.0, atol=0.3)
    spectra = np.ones((50, 20, 30), np.float32)
    for kind, axis, most in ((au.TimeMasking, 2, 10), (au.FrequencyMasking, 1, 8)):
        found = kind(most)(it.asarray(spectra), seeded(1)).numpy()
        runs = (found == 0).any(3 - axis).sum(1)
        assert runs.max() == most
        assert runs.min() == 0
        assert set(np.unique(found)) == {0.0, 1.0}


def test_bad_input() -> None:
    with pytest.raises(ShapeError, match=r"floats of shape \(N, C, H, W\), got uint8"):
        au.Resize(4)(it.zeros((1, 1, 8, 8), dtype="uint8"))
    with pytest.raises(ArgumentError, match="expected a tensor, got ndarray"):
        au.Resize(4)(IMAGES)
    with pytest.raises(ShapeError, match=r"size \(20, 20\) is larger than the images"):
        au.RandomCrop(20)(it.asarray(IMAGES))
    with pytest.raises(ShapeError, match="mean has 1 channels, the images have 3"):
        au.Normalize([0.5], [0.5])(it.asarray(IMAGES))
    with pytest.raises(ArgumentError, match=r"p must be in \[0, 1\]"):
        au.RandomHorizontalFlip(2.0)
    with pytest.raises(ArgumentError, match="hue must lie"):
        au.ColorJitter(hue=0.7)
    with pytest.raises(ArgumentError, match=r"expected \(images, labels\)"):
        au.MixUp(3)(it.asarray(IMAGES))
    with pytest.raises(ArgumentError, match="new_freq must be above 0"):
        au.Resample(8000, 0)
    with pytest.raises(ArgumentError, match="f_min=5000"):
        au.mel_filters(10, 256, 8000, f_min=5000.0)


def test_equalization_is_pillows() -> None:
    ops = pytest.importorskip("PIL.ImageOps")
    rough = RNG.integers(0, 256, (4, 3, 40, 37))
    rough[1] = 100 + rough[1] // 8  # little contrast
    rough[2, 0] = 77  # one level
    rough[3] = np.where(rough[3] < 200, 255, rough[3])  # mostly the brightest
    x = (rough / 255).astype(np.float32)
    found = rand_augment.equalized(it.asarray(x)).numpy()
    want = np.stack([array(ops.equalize(pillow(i))) for i in x])
    np.testing.assert_allclose(found, want, atol=1e-6)
    small = x[:1, :, :9, :9]
    np.testing.assert_array_equal(rand_augment.equalized(it.asarray(small)).numpy(), small)


@pytest.mark.slow
def test_rand_augment_equalizes() -> None:
    x = it.asarray((IMAGES * 0.2).repeat(3, 2).repeat(3, 3))
    which = rand_augment.GEOMETRIC + rand_augment.COLORS
    chosen = it.full((6,), float(which.index("equalize")))
    found = au.RandAugment()._colored(x, x, chosen, it.ones((6,)))
    np.testing.assert_array_equal(found.numpy(), rand_augment.equalized(x).numpy())
    compiled = compile(rand_augment.equalized)(x)
    np.testing.assert_allclose(compiled.numpy(), found.numpy(), atol=1e-6)


MOVING = [
    au.RandomHorizontalFlip(), au.RandomVerticalFlip(), au.CenterCrop((8, 6)),
    au.RandomCrop((8, 7), padding=2), au.RandomAffine(40.0, (0.2, 0.1), (0.7, 1.4), 20.0),
    au.RandomRotation(90.0), au.RandomResizedCrop((9, 7)), au.Resize((24, 20)),
    au.RandomApply(au.RandomAffine(60.0)), au.Resize((5, 5)),
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("move", MOVING, ids=repr)
def test_masks_move_as_their_images_do(move: Any) -> None:
    """Blocks of one color each, and their classes: what is in the middle of a block stays so."""
    blocks = np.kron(np.arange(24).reshape(6, 2, 2), np.ones((6, 5), np.int64)).astype(np.int64)
    pictures = np.repeat(blocks[:, None], 3, axis=1).astype(np.float32)
    both = (it.asarray(pictures), it.asarray(blocks))
    moved, masks = (x.numpy() for x in move(both, seeded(3)))
    np.testing.assert_array_equal(moved, move(both[0], seeded(3)).numpy())
    assert masks.dtype == np.int64
    assert masks.shape == (6, *moved.shape[2:])
    assert set(masks.ravel()) <= set(range(24))
    # Between blocks, and towards what lies outside, images are blended.
    flat = np.abs(moved[:, 0] - np.round(moved[:, 0])) < 1e-4
    inner = flat & (np.round(moved[:, 0]) == masks)
    assert inner.sum() >= 0.75 * flat.sum()
    nearby = np.abs(moved[:, 0] - masks) <= 3.01
    assert nearby[:, 1:-1, 1:-1].mean() > 0.75


def test_what_comes_in_from_outside_has_a_class_of_its_own() -> None:
    both = (it.ones((4, 3, 12, 10)), it.ones((4, 12, 10), dtype="uint8"))
    for move in (
        au.RandomAffine(45.0, (0.3, 0.3), fill=0.5, mask_fill=255),
        au.RandomCrop((12, 10), padding=4, fill=0.5, mask_fill=255),
        au.RandomRotation((45, 45), fill=0.5, mask_fill=255),
        au.RandAugment(3, 30.0, fill=0.5, mask_fill=255),
    ):
        _, masks = move(both, seeded(2))
        assert masks.dtype is it.uint8
        assert set(masks.numpy().ravel()) == {1, 255}


@pytest.mark.slow
def test_colors_leave_masks_and_labels_alone() -> None:
    masks, labels = it.asarray(RNG.integers(0, 9, (6, 12, 10))), it.arange(6)
    for kind in (
        au.ColorJitter(0.4, 0.4), au.RandomGrayscale(1.0), au.Normalize([0.5] * 3, [0.2] * 3),
        au.RandomErasing(1.0),
    ):  # fmt: skip
        changed, kept = kind((it.asarray(IMAGES), masks), seeded())
        np.testing.assert_array_equal(kept.numpy(), masks.numpy())
        assert not np.array_equal(changed.numpy(), IMAGES)
    flip_and_mix = au.Compose([au.RandomHorizontalFlip(), au.MixUp(6)])
    assert flip_and_mix((it.asarray(IMAGES), labels), seeded())[1].shape == (6, 6)


@pytest.mark.slow
def test_pairs_run_compiled() -> None:
    chain, g = (
        au.Compose([au.RandomCrop(8, padding=1), au.RandomAffine(20.0), au.RandAugment()]),
        (seeded(5)),
    )
    both = (it.asarray(IMAGES), it.asarray(RNG.integers(0, 9, (6, 12, 10))))
    found = compile(lambda x, m: chain((x, m), g))(*both)
    for a, b in zip(found, chain(both, seeded(5)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-5)


def test_pairs_that_do_not_belong_together() -> None:
    x, flip = it.asarray(IMAGES), au.RandomHorizontalFlip()
    for other in (it.zeros((6, 12, 10)), it.zeros((6, 10, 12), dtype="int64"), it.zeros((5,))):
        with pytest.raises(ShapeError, match=r"expected masks, integers of shape \(6, 12, 10\)"):
            flip((x, other))
    with pytest.raises(ArgumentError, match="got 3 parts"):
        flip((x, x, x))
