"""Windows whose taps see padding only are divided so that these are multiplied by nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion import compile, explain
from ingle.fusion.passes.taps_in_padding import LEAST_SAVED, MOST_BANDS, bands

RNG = np.random.default_rng(0)


def test_bands_cover_all_windows_and_see_all_that_the_image_has() -> None:
    divided = 0
    ranges = (1, 4, 7), (1, 3, 5), (2, 5, 8), (1, 2, 3), (-4, -1, 1, 6), range(-9, 9, 2)
    for size, taps, windows, stride, spread, start in itertools.product(*ranges):
        found = bands(size, taps, windows, stride, spread, start)
        assert 1 <= len(found) <= MOST_BANDS
        seen = [
            (band.first + p, band.tap + t)
            for band in found
            for p in range(band.windows)
            for t in range(band.taps)
        ]
        each = list(itertools.product(range(windows), range(taps)))
        inside = [(p, t) for p, t in each if 0 <= start + p * stride + t * spread < size]
        if len(found) > 1:
            divided += 1
            assert seen == inside
            assert LEAST_SAVED * (len(each) - len(inside)) >= len(each)
        else:
            assert set(inside) <= set(seen)
    assert divided > 500


@pytest.mark.parametrize(
    ("channels", "pixels", "padding", "spread"), [(32, 5, 2, 1), (64, 9, 2, 2), (16, 10, 6, 6)]
)
def test_an_image_has_the_same_bits_whatever_stands_beside_it(
    channels: int, pixels: int, padding: int, spread: int
) -> None:
    pytest.importorskip("ingle_cpu")
    images = RNG.standard_normal((96, channels, pixels, pixels)).astype(np.float32)
    weight = RNG.standard_normal((32, channels, 3, 3)).astype(np.float32)
    first: list[np.ndarray] = []
    with it.device("cpu"):
        for count in (1, 96):
            x, w = it.asarray(images[:count]), it.asarray(weight)
            first.append(it.conv2d(x, w, padding=padding, dilation=spread)[0].numpy())
    np.testing.assert_array_equal(first[1], first[0])


def test_windows_that_lose_little_stay_together() -> None:
    assert len(bands(56, 3, 56, 1, 1, -1)) == 1
    assert len(bands(33, 3, 33, 1, 2, -2)) == 1
    assert [band.taps for band in bands(33, 3, 33, 1, 12, -12)] == [2, 3, 2]
    assert [band.taps for band in bands(4, 3, 8, 1, 5, -7)] == [1, 0, 1, 0, 1]


CASES = [
    ((8, 24, 33, 9), (40, 24, 3, 3), {"dilation": (12, 2), "padding": (12, 2)}),
    ((16, 16, 200), (32, 16, 3), {"dilation": 70, "padding": 70}),
    ((8, 16, 17, 20), (24, 8, 3, 1), {"dilation": (9, 1), "padding": (9, 0), "groups": 2}),
    ((8, 12, 20, 16), (24, 12, 5, 3), {"padding": (8, 1), "stride": (3, 2)}),
    ((16, 8, 6, 9, 8), (24, 8, 3, 3, 3), {"padding": (5, 1, 1), "dilation": (5, 1, 1)}),
]


@pytest.mark.parametrize(("image", "weight", "more"), CASES)
def test_results_and_gradients(image, weight, more) -> None:
    torch = pytest.importorskip("torch")
    rank = len(image) - 2
    x, w = (RNG.standard_normal(shape) for shape in (image, weight))
    ours, theirs = (getattr(m, f"conv{rank}d") for m in (it, torch.nn.functional))
    given = [torch.from_numpy(v).requires_grad_() for v in (x, w)]
    wanted = theirs(*given, **more)
    factors = RNG.standard_normal(wanted.shape)
    wanted.backward(torch.from_numpy(factors))

    def loss(x, w, factors):
        return it.sum(ours(x, w, **more) * factors)

    for dtype, far in (("float64", 1e-11), ("float32", 3e-4)):
        arrays = [it.asarray(v, dtype=dtype, device="cpu") for v in (x, w, factors)]
        out = compile(lambda x, w: ours(x, w, **more))(*arrays[:2]).numpy()
        np.testing.assert_allclose(out, wanted.detach().numpy(), rtol=far, atol=far)
        np.testing.assert_array_equal(out, ours(*arrays[:2], **more).numpy())
        for found, of in zip(compile(grad(loss, argnums=(0, 1)))(*arrays), given, strict=True):
            size = np.abs(of.grad.numpy()).max()
            np.testing.assert_allclose(found.numpy(), of.grad.numpy(), rtol=far, atol=far * size)


def test_no_product_multiplies_them() -> None:
    x, w = it.ones((8, 64, 33, 33), device="cpu"), it.ones((64, 64, 3, 3), device="cpu")
    near, far = (
        explain(lambda x, w, d=d: it.conv2d(x, w, dilation=d, padding=d), x, w, runs=0)
        for d in (1, 12)
    )
    counts = [[s.flops for s in found.steps if s.kind == "product"] for found in (near, far)]
    assert [len(flops) for flops in counts] == [1, 3]
    assert sum(counts[1]) / sum(counts[0]) == pytest.approx(75 / 99, rel=1e-3)
