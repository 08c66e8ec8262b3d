"""Adaptive pooling against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError, ShapeError

CASES: list[tuple[tuple[int, ...], Any]] = [
    ((2, 3, 7), 3),
    ((2, 3, 3), 7),
    ((2, 3, 8, 9), (4, 3)),
    ((2, 1, 10, 7), (None, 4)),
    ((3, 5, 6), 1),
    ((1, 2, 5, 4, 6), (2, 3, 4)),
    ((2, 3, 5, 6), (1, 1)),
    ((2, 3, 6, 7), (3, 1)),
    ((2, 3, 5, 4, 6), (1, 2, 1)),
]


@pytest.mark.parametrize(("shape", "size"), CASES)
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_forward_and_gradients(like_torch: Any, shape: Any, size: Any, kind: str) -> None:
    functional = pytest.importorskip("torch").nn.functional
    rank = len(size) if isinstance(size, tuple) else 1 if shape[-1] in (3, 7) else 2
    ours, theirs = (getattr(m, f"adaptive_{kind}_pool{rank}d") for m in (it, functional))
    x = np.random.default_rng(0).permutation(math.prod(shape)).reshape(shape) / 10.0
    like_torch(lambda a: it.square(ours(a, size)), lambda a: theirs(a, size) ** 2, [x])


@pytest.mark.usefixtures("road")
def test_one_window_over_whole_images_is_their_mean() -> None:
    x = it.asarray(np.random.default_rng(0).standard_normal((3, 5, 7, 7)), dtype="float32")
    whole = it.adaptive_avg_pool2d(x, 1).numpy()
    np.testing.assert_array_equal(whole, it.mean(x, axis=(2, 3), keepdims=True).numpy())


@pytest.mark.parametrize(("shape", "size"), CASES[2:4])
def test_indices(shape: Any, size: Any) -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal(shape)
    values, indices = it.adaptive_max_pool2d(it.asarray(x), size, return_indices=True)
    wanted = torch.nn.functional.adaptive_max_pool2d(torch.tensor(x), size, return_indices=True)
    np.testing.assert_array_equal(values.numpy(), wanted[0].numpy())
    np.testing.assert_array_equal(indices.numpy(), wanted[1].numpy())


def test_nan_and_infinity_stay_in_their_windows() -> None:
    x = it.asarray([[1.0, math.nan, 3.0, 4.0, math.inf]])
    averages = it.adaptive_avg_pool1d(x, 3).numpy()
    assert np.isnan(averages[0]).tolist() == [True, True, False]
    assert averages[0, 2] == math.inf
    values, indices = it.adaptive_max_pool1d(x, 3, return_indices=True)
    assert np.isnan(values.numpy()[0]).tolist() == [True, True, False]
    assert indices.tolist() == [[1, 1, 4]]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(
    ("shape", "size"), [((6, 8), (3, 2)), ((6, 8), (1, 1)), ((20, 16), (2, 1))]
)
@pytest.mark.usefixtures("road")
def test_windows_that_are_alike(dtype: str, shape: Any, size: Any) -> None:
    """Equal elements, the lowest numbers, NaN: values with indices are those without, and the
    gradient goes where the index says."""
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 2, (2, 3, *shape)).astype(dtype)
    x[0, 0] = np.iinfo(dtype).min if dtype == "int8" else -math.inf
    if dtype == "float32":
        x[0, 1, 1, 1:3], x[1, 2, -1, -2] = math.nan, math.inf
    given = it.asarray(x)
    values, indices = it.adaptive_max_pool2d(given, size, return_indices=True)
    alone = it.adaptive_max_pool2d(given, size)
    high, wide = (n // m for n, m in zip(shape, size, strict=True))
    parts = x.reshape(2, 3, size[0], high, size[1], wide).transpose(0, 1, 2, 4, 3, 5)
    parts = parts.reshape(2, 3, *size, high * wide)
    first = parts.argmax(axis=-1)
    np.testing.assert_array_equal(alone.numpy(), parts.max(axis=-1))
    np.testing.assert_array_equal(values.numpy(), alone.numpy())
    tops, lefts = np.arange(size[0])[:, np.newaxis] * high, np.arange(size[1]) * wide
    places = (tops + first // wide) * shape[1] + lefts + first % wide
    np.testing.assert_array_equal(indices.numpy(), places)
    if dtype == "float32":
        leaf = given.require_grad()
        found = it.adaptive_max_pool2d(leaf, size).sum().backward()[leaf].numpy()
        expected = np.zeros((2, 3, math.prod(shape)), dtype)
        np.put_along_axis(expected, places.reshape(2, 3, -1), 1, axis=2)
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def test_lowest_numbers_win_over_what_is_outside() -> None:
    x = it.full((1, 5), -128, dtype="int8")
    values, indices = it.adaptive_max_pool1d(x, 3, return_indices=True)
    assert values.tolist() == [[-128] * 3]
    assert indices.tolist() == [[0, 1, 3]]


def test_empty() -> None:
    assert it.adaptive_avg_pool2d(it.ones((0, 2, 5, 5)), 3).shape == (0, 2, 3, 3)
    assert it.adaptive_max_pool2d(it.ones((1, 2, 5, 5)), (0, 2)).shape == (1, 2, 0, 2)
    x = it.ones((1, 2, 5)).require_grad()
    assert it.adaptive_avg_pool1d(x, 0).sum().backward()[x].tolist() == [[[0.0] * 5] * 2]


def test_bad_input_says_what_is_wrong() -> None:
    x = it.ones((1, 2, 5, 5))
    with pytest.raises(ArgumentError, match="adaptive_avg_pool2d: output_size must be a number"):
        it.adaptive_avg_pool2d(x, (1, 2, 3))
    with pytest.raises(
        ArgumentError, match=r"adaptive_max_pool2d: output_size must be .* none neg"
    ):
        it.adaptive_max_pool2d(x, -1)
    with pytest.raises(ArgumentError, match="adaptive_max_pool2d: output_size must be an integer"):
        it.adaptive_max_pool2d(x, 1.5)  # type: ignore[call-overload]
    with pytest.raises(ShapeError, match=r"adaptive_avg_pool1d: x must be .*\(1, 2, 5, 5\)"):
        it.adaptive_avg_pool1d(x, 1)
    with pytest.raises(ShapeError, match=r"adaptive_max_pool2d: .* no elements"):
        it.adaptive_max_pool2d(it.ones((1, 2, 0, 5)), 1)
    with pytest.raises(DTypeError, match=r"adaptive_avg_pool2d: .* must be floats, got int32"):
        it.adaptive_avg_pool2d(x.astype("int32"), 1)
    with pytest.raises(OperandError, match="adaptive_avg_pool2d: x must be a tensor"):
        it.adaptive_avg_pool2d([1.0], 1)  # type: ignore[arg-type]
