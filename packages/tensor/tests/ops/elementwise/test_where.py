"""Choices for each element, and positions of what is not zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.dtypes import ALL_DTYPES
from ingle.tensor.errors import DTypeError, OperandError, ShapeError


@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_where_in_every_dtype(dtype: it.DType) -> None:
    a = np.array([0, 1, 1, 0]).astype(dtype.dtype)
    b = np.array([1, 1, 0, 0]).astype(dtype.dtype)
    mask = np.array([True, False, True, False])
    got = it.where(it.asarray(mask), it.asarray(a), it.asarray(b))
    assert got.dtype is dtype
    np.testing.assert_array_equal(got.numpy(), np.where(mask, a, b))


def test_where_broadcasts_three_shapes() -> None:
    rng = np.random.default_rng(0)
    for c, a, b in (((3, 1), (4,), ()), ((), (2, 3), (3,)), ((2, 1, 1), (0,), (3, 1))):
        mask, x, y = rng.random(c) < 0.5, rng.normal(size=a), rng.normal(size=b)
        got = it.where(it.asarray(mask), it.asarray(x), it.asarray(y))
        np.testing.assert_array_equal(got.numpy(), np.where(mask, x, y))


def test_where_with_numbers() -> None:
    mask = it.asarray([True, False])
    x = it.asarray([1, 2], dtype=it.int16)
    assert it.where(mask, x, 0).dtype is it.int16
    assert it.where(mask, 0.5, x).tolist() == [0.5, 2.0]
    assert it.where(mask, 1.0, 0.0).dtype is it.float32
    assert it.where(mask, 1, 0).dtype is it.int64
    assert it.where(mask, True, False).dtype is it.bool
    assert it.where(mask, 1j, 0).dtype is it.complex64
    assert it.where(mask, float("nan"), it.ones(2)).tolist()[1] == 1.0


def test_where_keeps_nan_and_infinity_where_they_are_chosen() -> None:
    x = it.asarray([float("nan"), float("inf"), 1.0])
    got = it.where(it.asarray([False, True, True]), x, 0.0)
    assert got.tolist() == [0.0, float("inf"), 1.0]


def test_masked_fill() -> None:
    x = it.asarray([[1.0, 2.0], [3.0, 4.0]])
    mask = it.asarray([True, False])
    assert it.masked_fill(x, mask, float("-inf")).tolist() == [
        [float("-inf"), 2.0],
        [float("-inf"), 4.0],
    ]
    assert x.masked_fill(mask, 0).dtype is it.float32
    assert it.masked_fill(it.arange(2), mask, True).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: it.where(it.arange(2), 1, 0), DTypeError, "condition must be bool, got int64"),
        (lambda: it.where([True], 1, 0), OperandError, "condition must be a tensor"),
        (
            lambda: it.where(it.asarray([True, False]), it.ones(3), 0.0),
            ShapeError,
            "where: shapes .* do not broadcast",
        ),
        (lambda: it.masked_fill(it.ones(2), it.ones(2), 0), DTypeError, "mask must be bool"),
        (
            lambda: it.masked_fill(it.arange(2), it.asarray([True, False]), 0.5),
            DTypeError,
            r"value=0\.5 does not fit the dtype int64",
        ),
        (
            lambda: it.masked_fill(it.arange(2), it.asarray(True), it.ones(1)),
            DTypeError,
            "value of dtype float32 does not fit the dtype int64",
        ),
        (lambda: it.nonzero(it.asarray(1)), ShapeError, "0-d"),
    ],
)
def test_where_refuses(call: Any, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("shape", [(6,), (3, 4), (2, 3, 2), (0, 3), (3, 0)])
def test_nonzero_equals_numpy(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 2, shape) * 1.5
    got = it.nonzero(it.asarray(x))
    expected = np.nonzero(x)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert g.dtype is it.int64
        np.testing.assert_array_equal(g.numpy(), e)


def test_nonzero_counts_nan_and_complex() -> None:
    assert it.nonzero(it.asarray([0.0, float("nan"), -0.0]))[0].tolist() == [1]
    assert it.nonzero(it.asarray([0j, 1j]))[0].tolist() == [1]
