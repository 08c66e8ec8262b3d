"""Distinct values, insertion points and differences against NumPy, with kernels and bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError, ShapeError

pytestmark = pytest.mark.usefixtures("road")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "float16", "complex64"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (40,), (3, 4), (2, 0), (3, 2, 5)])
def test_unique_equals_numpy(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 5, shape).astype(dtype)
    if dtype == "complex64":
        x = (x + 1j * rng.integers(0, 3, shape)).astype(dtype)
    t, expected = it.asarray(x), np.unique_all(x)
    found = it.unique_all(t)
    for name in ("values", "indices", "inverse_indices", "counts"):
        got, want = getattr(found, name), getattr(expected, name)
        assert got.shape == want.shape
        assert got.tolist() == want.tolist()
    assert found.values.dtype is t.dtype
    assert found.values[found.inverse_indices].tolist() == x.tolist()
    assert it.unique_values(t).tolist() == found.values.tolist()
    assert it.unique_counts(t).counts.tolist() == found.counts.tolist()
    assert it.unique_inverse(t).inverse_indices.tolist() == found.inverse_indices.tolist()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_each_nan_is_distinct_and_zeros_are_one(dtype: str) -> None:
    x = it.asarray([np.nan, 0.0, -0.0, np.inf, np.nan, 0.0], dtype=dtype)
    values, counts = it.unique_counts(x)
    np.testing.assert_array_equal(values.numpy().astype(float), [0, np.inf, np.nan, np.nan])
    assert counts.tolist() == [3, 1, 1, 1]


def test_the_gradient_of_unique_values_goes_to_their_first_places() -> None:
    x = it.asarray([3.0, 1.0, 3.0]).require_grad()
    g = it.unique_values(x).backward(it.asarray([10.0, 20.0]))[x]
    assert g.tolist() == [20, 10, 0]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32", "float64", "bfloat16", "bool"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 64])
def test_searchsorted_equals_numpy(side: Any, dtype: str, n: int) -> None:
    rng = np.random.default_rng(n)
    x1, x2 = np.sort(rng.integers(0, 20, n)), rng.integers(0, 20, (3, 4))
    if dtype == "bool":
        x1, x2 = np.sort(x1 > 10), x2 > 10
    got = it.searchsorted(it.asarray(x1).astype(dtype), it.asarray(x2).astype(dtype), side=side)
    assert got.dtype is it.int64
    assert got.tolist() == np.searchsorted(x1, x2, side).tolist()


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_of_odd_values(side: Any) -> None:
    x1 = np.asarray([-np.inf, 0.0, 1.0, np.inf, np.inf, np.nan, np.nan])
    x2 = np.asarray([np.nan, np.inf, -np.inf, 0.0, -0.0, 2.0])
    got = it.searchsorted(it.asarray(x1), it.asarray(x2), side=side)
    assert got.tolist() == np.searchsorted(x1, x2, side).tolist()
    assert it.searchsorted(it.asarray(x1), it.asarray(1.0), side=side).shape == ()


def test_searchsorted_through_a_sorter() -> None:
    x1, x2 = np.asarray([5, 1, 3]), np.asarray([2, 3, 9])
    got = it.searchsorted(it.asarray(x1), it.asarray(x2), sorter=it.argsort(it.asarray(x1)))
    assert got.tolist() == np.searchsorted(x1, x2, sorter=np.argsort(x1)).tolist()


@pytest.mark.parametrize("n", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8", "complex128", "bool"])
def test_diff_equals_numpy(n: int, axis: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 9, (4, 5)).astype(dtype)
    got, expected = it.diff(it.asarray(x), n=n, axis=axis), np.diff(x, n=n, axis=axis)
    assert (got.shape, got.dtype.name) == (expected.shape, expected.dtype.name)
    assert got.tolist() == expected.tolist()


def test_diff_with_more_at_the_ends() -> None:
    x, more = np.arange(6.0).reshape(2, 3) ** 2, np.asarray([[1.0], [2.0]])
    t, m = it.asarray(x), it.asarray(more)
    assert it.diff(t, prepend=m).tolist() == np.diff(x, prepend=more).tolist()
    assert it.diff(t, n=0, prepend=m, append=m).tolist() == np.diff(x, n=0, prepend=more).tolist()
    both = it.diff(t, prepend=m, append=m, n=2)
    assert both.tolist() == np.diff(x, prepend=more, append=more, n=2).tolist()


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: it.unique_values([1]), OperandError, "unique_values: x must be a tensor"),
        (lambda x: it.searchsorted(x, x[:1]), ShapeError, "x2 must have a row for each of x1"),
        (lambda x: it.searchsorted(x[0], x, side="up"), ArgumentError, "side='up'"),
        (lambda x: it.searchsorted(x[0] * 1j, x), DTypeError, "must be ordered"),
        (lambda x: it.searchsorted(x[0], x, sorter=x[:, 0]), ShapeError, "sorter must have"),
        (lambda x: it.diff(it.asarray(1.0)), ShapeError, "diff: needs at least one axis"),
        (lambda x: it.diff(x, n=-1), ArgumentError, "diff: n must not be negative"),
        (lambda x: it.diff(x, append=1.0), OperandError, "diff: append must be a tensor"),
    ],
)
def test_refusals(call: Any, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call(it.ones((2, 3)))


def test_isin_takes_scalars_of_numpy_on_either_side() -> None:
    x = it.asarray([1, 4, 2])
    assert it.isin(x, np.int32(4)).tolist() == [False, True, False]
    assert it.isin(np.int16(4), x).item() is True
    assert it.isin(x.astype("float32"), np.float32(2.0)).tolist() == [False, False, True]
