"""Orders that are found by integers of 64 bits, beside NumPy's stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.operation import OPERATIONS
from ingle_numpy.kernels import sorting

DTYPES = ["bool", "uint8", "float16", "int32", "float32", "int64", "uint64", "float64"]


def stable(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


def numbers(dtype: str, shape: tuple[int, ...], step: float) -> np.ndarray:
    """With many ties, and with odd ones among floats."""
    rng = np.random.default_rng(7)
    values = np.round(rng.standard_normal(shape) * 30) * step
    if dtype[0] == "u" or dtype == "bool":
        values = np.abs(values)
    x = values.astype(dtype)
    if x.dtype.kind == "f":
        for odd in (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0):
            x[rng.random(shape) < 0.02] = odd
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [0, 1, 5])
def test_a_few_of_long_rows(dtype: str, k: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(sorting, "_MANY", 1000)
    monkeypatch.setattr(sorting, "_PART", 1000)
    monkeypatch.setattr(sorting, "_MANY_LONG", 1000)
    for shape, axis in (((3, 700), 1), ((700, 2), 0), ((1, 2, 400), 2), ((0, 300), 1)):
        x = numbers(dtype, shape, 1)
        for largest in (True, False):
            with it.device("numpy"):
                values, places = it.topk(it.asarray(x), k, axis=axis, largest=largest)
            wanted = np.take(stable(x, axis, largest), range(k), axis)
            np.testing.assert_array_equal(places.numpy(), wanted)
            np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, wanted, axis))


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
@pytest.mark.parametrize("short", [0, 1 << 12])
@pytest.mark.parametrize("rarely", [1, 1 << 20])
def test_elements_whose_first_bits_are_equal(
    dtype: str, short: int, rarely: int, monkeypatch: Any
) -> None:
    """Some rows have them beside each other, others are equal or far apart."""
    monkeypatch.setattr(sorting, "_SHORT", short)
    monkeypatch.setattr(sorting, "_RARELY", rarely)
    monkeypatch.setattr(sorting, "_PART", 128)
    x = numbers(dtype, (5, 300), 1e16)
    near = np.random.default_rng(1).integers(0, 3, x.shape)
    x[:3] = np.nextafter(x, np.inf)[:3] if dtype == "float64" else (x + near.astype(dtype))[:3]
    x[1, ::2] = x[1, 1]
    for descending in (False, True):
        with it.device("numpy"):
            found = it.argsort(it.asarray(x), axis=1, descending=descending).numpy()
        np.testing.assert_array_equal(found, stable(x, 1, descending))


@pytest.mark.parametrize("dtype", [*DTYPES, "int8", "complex64"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,), (40, 30)])
@pytest.mark.parametrize("short", [0, 1 << 12])
def test_distinct_values_equal_numpy(
    dtype: str, shape: tuple[int, ...], short: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(sorting, "_SHORT", short)
    x = np.asarray(numbers(dtype, (1200,), 1)[: int(np.prod(shape))]).reshape(shape)
    with it.device("numpy"):
        found = it.unique_all(it.asarray(x))
    for part, wanted in zip(found, np.unique_all(x), strict=True):
        assert part.shape == wanted.shape
        np.testing.assert_array_equal(part.numpy(), wanted)


@pytest.mark.parametrize(("dtype", "count"), [("float32", 1 << 18), ("int64", 1 << 13)])
def test_a_few_of_long_rows_need_no_sort_of_all(dtype: str, count: int, monkeypatch: Any) -> None:
    sizes = []

    def noted(rows: np.ndarray, k: int, descending: bool) -> np.ndarray:
        sizes.append(rows.shape[1])
        return in_order(rows, k, descending)

    in_order = sorting._in_order
    monkeypatch.setattr(sorting, "_in_order", noted)
    op = OPERATIONS["topk"].op(k=3, axis=1, largest=True, dtype=it.int64)
    x = np.random.default_rng(0).permutation(count).reshape(2, -1).astype(dtype)
    sorting.KERNELS["topk"](op, x)
    assert sizes
    assert max(sizes) < 100


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16"])
def test_small_integers_in_order(dtype: str) -> None:
    x = numbers(dtype, (7, 300), 2.0)
    for axis in (0, 1):
        for descending in (False, True):
            found = it.sort(it.asarray(x), axis=axis, descending=descending).numpy()
            wanted = np.sort(x.astype(np.int64), axis=axis).astype(dtype)
            np.testing.assert_array_equal(found, np.flip(wanted, axis) if descending else wanted)
