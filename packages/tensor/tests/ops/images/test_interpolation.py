"""interpolate against PyTorch; Lanczos, which PyTorch lacks, by its properties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError, ShapeError

BY_RANK = {1: "linear", 2: "bilinear", 3: "trilinear"}
SIZES: dict[int, list[tuple[int, ...]]] = {
    1: [(11,), (3,), (1,)],
    2: [(9, 11), (3, 2), (1, 4)],
    3: [(9, 2, 7), (1, 5, 3)],
}
CASES = [(rank, size) for rank, sizes in SIZES.items() for size in sizes]


def _image(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).standard_normal((2, 3, *(7, 5, 6)[:rank]))


def _check(like_torch: Any, rank: int, **options: Any) -> None:
    functional = pytest.importorskip("torch").nn.functional
    like_torch(
        lambda a: it.square(it.interpolate(a, **options)),
        lambda a: functional.interpolate(a, **options) ** 2,
        [_image(rank)],
        atol=1e-9,
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("rank", "size"), CASES)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area"])
def test_nearest_and_area(like_torch: Any, rank: int, size: Any, mode: str) -> None:
    _check(like_torch, rank, size=size, mode=mode)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("rank", "size"), CASES)
@pytest.mark.parametrize("corners", [None, False, True])
def test_linear(like_torch: Any, rank: int, size: Any, corners: bool | None) -> None:
    _check(like_torch, rank, size=size, mode=BY_RANK[rank], align_corners=corners)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("size", SIZES[2])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_cubic_and_antialias(
    like_torch: Any, size: Any, corners: bool, mode: str, antialias: bool
) -> None:
    options = {"mode": mode, "align_corners": corners, "antialias": antialias}
    _check(like_torch, 2, size=size, **options)


@pytest.mark.parametrize("factor", [2, 0.6, (1.3, 2.7)])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("recompute", [None, True])
def test_scale_factor(like_torch: Any, factor: Any, mode: str, recompute: bool | None) -> None:
    given = factor if isinstance(factor, tuple) else (factor, factor)
    _check(like_torch, 2, scale_factor=given, mode=mode, recompute_scale_factor=recompute)


def test_one_number_for_all_axes() -> None:
    x = it.asarray(_image(3))
    for one, each in (
        ({"size": 4}, {"size": (4, 4, 4)}),
        ({"scale_factor": 2}, {"size": (14, 10, 12)}),
    ):
        a, b = it.interpolate(x, **one), it.interpolate(x, **each)  # type: ignore[arg-type]
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("size", [(9, 11), (3, 2), (7, 5)])
def test_lanczos_keeps_constants(size: Any, antialias: bool) -> None:
    flat = it.interpolate(
        it.ones((1, 1, 7, 5), dtype="float64"), size, mode="lanczos", antialias=antialias
    )
    np.testing.assert_allclose(flat.numpy(), 1.0, rtol=1e-14)


def test_lanczos_has_the_weights_of_its_window() -> None:
    x = it.asarray(np.eye(17)[None, 8:9])
    wide = it.interpolate(x, 34, mode="lanczos").numpy()[0, 0]
    # A result's six elements are a quarter and three quarters away, and so on.
    t = np.array([-2.75, -1.75, -0.75, 0.25, 1.25, 2.25])
    window = np.sinc(t) * np.sinc(t / 3)
    np.testing.assert_allclose(wide[17:22:2], (window / window.sum())[3:], rtol=1e-12)
    np.testing.assert_allclose(wide[18:23:2], (window / window.sum())[2::-1], rtol=1e-12)


def test_nearest_takes_any_dtype() -> None:
    x = it.asarray([[[True, False]]])
    assert it.interpolate(x, 4).tolist() == [[[True, True, False, False]]]
    assert it.interpolate(it.asarray([[[1j, 2.0]]]), 3).tolist() == [[[1j, 1j, 2.0]]]


def test_half_types_are_summed_in_float32() -> None:
    x = it.asarray(np.random.default_rng(0).uniform(1, 2, (1, 1, 64)))
    got = it.interpolate(x.astype("float16"), 33, mode="linear")
    assert got.dtype is it.float16
    expected = it.interpolate(x.astype("float16").astype("float64"), 33, mode="linear").numpy()
    np.testing.assert_array_equal(got.numpy(), expected.astype(np.float16))


def test_an_infinity_reaches_only_its_neighbours() -> None:
    x = it.asarray([[[1.0, 2.0, np.inf, 4.0, 5.0]]])
    out = it.interpolate(x, 9, mode="linear", align_corners=True).numpy()[0, 0]
    assert np.isfinite(out[[0, 1, 7, 8]]).all()
    assert np.isinf(out[3:6]).all()


def test_bad_input_says_what_is_wrong() -> None:
    x = it.ones((1, 2, 4, 4))
    for error, says, options in (
        (ArgumentError, "give one of size and scale_factor", {}),
        (ArgumentError, "give one of size and scale_factor", {"size": 2, "scale_factor": 2.0}),
        (ArgumentError, "mode='cubic' is none of", {"size": 2, "mode": "cubic"}),
        (ShapeError, "mode 'linear' x must be", {"size": 2, "mode": "linear"}),
        (ArgumentError, "align_corners=True is for", {"size": 2, "align_corners": True}),
        (ArgumentError, "antialias is for 'bilinear'", {"size": 2, "antialias": True}),
        (ArgumentError, "size must be an integer", {"size": 0}),
        (ArgumentError, "size must be an integer or 2", {"size": (1, 2, 3)}),
        (ArgumentError, "scale_factor must be a positive", {"scale_factor": -1.0}),
        (ArgumentError, "leaves nothing", {"scale_factor": 0.1}),
        (ArgumentError, "needs scale_factor", {"size": 2, "recompute_scale_factor": True}),
    ):
        with pytest.raises(error, match=f"interpolate: .*{says}"):
            it.interpolate(x, **options)
    with pytest.raises(ShapeError, match="has no elements"):
        it.interpolate(it.ones((1, 2, 0)), 3)
    with pytest.raises(DTypeError, match="must be floats, got int32"):
        it.interpolate(x.astype("int32"), 3, mode="bilinear")
    with pytest.raises(OperandError, match="interpolate: x must be a tensor"):
        it.interpolate([1.0], 3)  # type: ignore[arg-type]
