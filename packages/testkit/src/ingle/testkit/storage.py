"""Dtypes that only store values: what a device that has one does with it."""

from __future__ import annotations

import numpy as np

from ingle.tensor import Tensor, asarray, concat, permute_dims, take, where
from ingle.tensor.dtypes import DType, as_dtype

from .bits import same_bits


def check_storage(device: str, dtype: str) -> None:
    """Every value survives the trip, casts and movement; equality looks at values."""
    kind = as_dtype(dtype)
    values = every_value(kind)
    wide = values.astype(np.float32)
    x = asarray(values, device=device)
    _same(x, kind, wide)
    assert same_bits(x, values)
    for between in ("float32", "float16", "int32" if kind.holds != "float" else "float32"):
        there = x.astype(between)
        _same(there, as_dtype(between), wide)
        _same(there.astype(kind), kind, wide)
    square = x.reshape(2, -1)
    rows = wide.reshape(2, -1)
    _same(square[:, ::-2], kind, rows[:, ::-2])
    _same(permute_dims(square, (1, 0)), kind, rows.T)
    _same(concat([square, square], axis=1), kind, np.concatenate([rows, rows], axis=1))
    order = np.arange(values.size)[::-1].copy()
    _same(take(x, asarray(order, device=device)), kind, wide[order])
    mask = np.arange(values.size) % 3 == 0
    picked = where(asarray(mask, device=device), x, asarray(values[::-1].copy(), device=device))
    _same(picked, kind, np.where(mask, wide, wide[::-1]))
    np.testing.assert_array_equal((x == x).numpy(), wide == wide)


def every_value(kind: DType) -> np.ndarray:
    """All the numbers that a dtype has, each once."""
    bits = np.arange(1 << kind.bits, dtype=np.uint8)
    return bits.view(kind.dtype) if kind.bits == 8 else bits.astype(kind.dtype)


def _same(x: Tensor, kind: DType, expected: np.ndarray) -> None:
    assert x.dtype is kind
    assert x.shape == expected.shape
    np.testing.assert_array_equal(x.numpy().astype(np.float32), expected)
