"""Pooling against PyTorch, with NumPy's kernels and composed of core operations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, ShapeError


def _random_case(seed: int, dilated: bool) -> tuple[np.ndarray, dict[str, Any], int]:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))

    def draw(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.integers(low, high, rank))

    kernel = draw(1, 4)
    options: dict[str, Any] = {
        "kernel_size": kernel,
        "stride": draw(1, 4) if seed % 3 else None,
        "padding": tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel),
        "ceil_mode": bool(seed % 2),
    }
    if dilated:
        options["dilation"] = draw(1, 3)
    size = tuple(k * 2 + n for k, n in zip(kernel, draw(0, 5), strict=True))
    shape = (2, 3, *size)
    return rng.permutation(math.prod(shape)).reshape(shape) / 10.0, options, rank


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.usefixtures("road")
def test_max_pool(like_torch: Any, seed: int) -> None:
    functional = pytest.importorskip("torch").nn.functional
    x, options, rank = _random_case(seed, dilated=True)
    ours, theirs = (getattr(m, f"max_pool{rank}d") for m in (it, functional))
    like_torch(lambda a: ours(a, **options), lambda a: theirs(a, **options), [x])


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.usefixtures("road")
def test_avg_pool(like_torch: Any, seed: int, include: bool) -> None:
    functional = pytest.importorskip("torch").nn.functional
    x, options, rank = _random_case(seed, dilated=False)
    options["count_include_pad"] = include
    ours, theirs = (getattr(m, f"avg_pool{rank}d") for m in (it, functional))
    like_torch(lambda a: ours(a, **options), lambda a: theirs(a, **options), [x])


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d", "lp_pool2d"])
@pytest.mark.parametrize(("size", "window", "stride"), [((1, 2), 3, None), ((2, 5), (3, 4), 2)])
@pytest.mark.usefixtures("road")
def test_one_window_may_reach_over_an_image_that_is_less(
    like_torch: Any, name: str, size: tuple[int, int], window: Any, stride: int | None
) -> None:
    functional = pytest.importorskip("torch").nn.functional
    x = np.random.default_rng(0).standard_normal((2, 2, *size))
    options = (2.0, window, stride) if name == "lp_pool2d" else (window, stride)
    ours, theirs = (getattr(m, name) for m in (it, functional))
    like_torch(
        lambda a: ours(a, *options, ceil_mode=True),
        lambda a: theirs(a, *options, ceil_mode=True),
        [x],
    )
    with pytest.raises(ShapeError, match="must have elements and fit"):
        ours(it.asarray(x), *options)


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
@pytest.mark.usefixtures("road")
def test_second_order_through_a_square(like_torch: Any, name: str) -> None:
    functional = pytest.importorskip("torch").nn.functional
    x = np.random.default_rng(0).standard_normal((2, 2, 5, 6))
    ours, theirs = (getattr(m, name) for m in (it, functional))
    like_torch(
        lambda a: it.square(ours(a * a, 3, stride=2, padding=1)),
        lambda a: theirs(a * a, 3, stride=2, padding=1) ** 2,
        [x],
    )


@pytest.mark.usefixtures("road")
def test_the_first_of_equal_elements_takes_the_gradient() -> None:
    x = it.asarray([[[2.0, 2.0, 1.0, 3.0, 3.0, 3.0]]]).require_grad()
    grads = it.max_pool1d(x, 3).sum().backward()
    assert grads[x].tolist() == [[[1.0, 0.0, 0.0, 1.0, 0.0, 0.0]]]


@pytest.mark.usefixtures("road")
def test_nan_propagates_and_takes_the_gradient() -> None:
    x = it.asarray([[[1.0, math.nan, 5.0, 1.0, 2.0, 0.0]]]).require_grad()
    out = it.max_pool1d(x, 3)
    assert math.isnan(out.numpy()[0, 0, 0])
    assert out.numpy()[0, 0, 1] == 2.0
    assert out.sum().backward()[x].tolist() == [[[0.0, 1.0, 0.0, 0.0, 1.0, 0.0]]]


@pytest.mark.usefixtures("road")
def test_an_infinite_cotangent_stays_where_it_belongs() -> None:
    x = it.asarray([[[1.0, 2.0]]]).require_grad()
    grads = it.max_pool1d(x, 2).backward(it.asarray([[[math.inf]]]))
    assert grads[x].tolist() == [[[0.0, math.inf]]]


@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float16", "bfloat16"])
def test_max_pool_of_every_real_dtype(dtype: str) -> None:
    x = it.asarray(np.array([[[3, 1, 2, 7]]]), dtype=dtype)
    out = it.max_pool1d(x, 3, stride=2, padding=1)
    assert out.dtype is x.dtype
    assert out.astype("float32").tolist() == [[[3.0, 7.0]]]


@pytest.mark.usefixtures("road")
def test_averages_of_half_types_are_summed_in_float32() -> None:
    x = it.ones((1, 1, 4096), dtype="float16")
    assert it.avg_pool1d(x, 4096).item() == 1.0


def test_channels_last_memory_gives_the_same() -> None:
    x = np.random.default_rng(0).standard_normal((2, 7, 8, 3))
    view = it.permute_dims(it.asarray(x), (0, 3, 1, 2))
    copy = it.asarray(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
    for pool in (it.max_pool2d, it.avg_pool2d):
        a = pool(view, 3, stride=2, padding=1).numpy()
        np.testing.assert_array_equal(a, pool(copy, 3, stride=2, padding=1).numpy())


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize(
    ("shape", "kernel", "options", "error", "says"),
    [
        ((2, 3), 2, {}, ShapeError, r"got shape \(2, 3\)"),
        ((1, 1, 2, 2, 2), 2, {}, ShapeError, "2 image axes"),
        ((1, 1, 3, 8), 4, {}, ShapeError, "spans 4 elements"),
        ((1, 1, 8, 8), 2, {"padding": 2}, ArgumentError, "at most half"),
        ((1, 1, 8, 8), 0, {}, ArgumentError, "kernel_size"),
        ((1, 1, 8, 8), (2, 2, 2), {}, ArgumentError, "kernel_size"),
        ((1, 1, 8, 8), 2, {"stride": 0}, ArgumentError, "stride"),
        ((1, 1, 8, 8), 2, {"padding": -1}, ArgumentError, "padding"),
    ],
)
def test_bad_input_says_what_is_wrong(
    name: str, shape: Any, kernel: Any, options: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        getattr(it, name)(it.ones(shape), kernel, **options)
    assert name in str(caught.value)


def test_dtypes_that_have_no_order_or_no_average() -> None:
    with pytest.raises(DTypeError, match="real numbers, got bool"):
        it.max_pool1d(it.ones((1, 1, 4), dtype="bool"), 2)
    with pytest.raises(DTypeError, match="must be floats, got int64"):
        it.avg_pool1d(it.ones((1, 1, 4), dtype="int64"), 2)
