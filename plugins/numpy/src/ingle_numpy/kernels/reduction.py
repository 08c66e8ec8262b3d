"""Reductions over axes. Half types are summed and multiplied in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from ..memory import LARGE, empty, empty_like
from .blocks import row_blocks
from .elementwise import is_half

Kernel = Callable[..., Any]


def _exact(ufunc: np.ufunc) -> Kernel:
    """Of a ufunc that rounds nothing."""

    def kernel(op: Op, x: np.ndarray) -> Any:
        axis, keepdims = op.attributes["axis"], op.attributes["keepdims"]
        dtype = np.dtype(np.bool_) if ufunc in _LOGICAL else x.dtype
        return ufunc.reduce(x, axis=axis, keepdims=keepdims, out=_room(op, x, dtype))

    return kernel


def _rounded(ufunc: np.ufunc) -> Kernel:
    def kernel(op: Op, x: np.ndarray) -> Any:
        axis, keepdims = op.attributes["axis"], op.attributes["keepdims"]
        if is_half(x):
            return ufunc.reduce(x, axis=axis, keepdims=keepdims, dtype=np.float32).astype(x.dtype)
        if ufunc is np.multiply and x.dtype.kind == "c" and axis == (x.ndim - 1,):
            x = _multiplied(x)
        out = _room(op, x, x.dtype)
        return ufunc.reduce(x, axis=axis, keepdims=keepdims, dtype=x.dtype, out=out)

    return kernel


def _multiplied(x: np.ndarray) -> np.ndarray:
    """Rows with the same products of a few elements: one half times the other, again and again.

    NumPy multiplies rows of complex numbers by vectors, and one element after the other within a
    row.
    """
    size = x.shape[-1]
    if size <= _FEW:
        return x
    left = size >> (size // _FEW).bit_length() - 1
    rows = x.reshape(-1, size)
    out = np.empty((len(rows), left), x.dtype)
    for here in row_blocks(len(rows), size):
        part = rows[here]
        while (size := part.shape[-1]) > left:
            half = size // 2
            halves = part[:, :half] * part[:, half : 2 * half]
            if size % 2:
                halves[:, 0] *= part[:, -1]
            part = halves
        out[here] = part
    return out.reshape(*x.shape[:-1], left)


_FEW = 8
"""Elements of a row that are multiplied one after the other."""
_LOGICAL = (np.logical_and, np.logical_or)


def _room(op: Op, x: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray | None:
    """Memory of the pool for a large result; else None, and NumPy takes its own."""
    if x.nbytes < LARGE:
        return None
    axes, keepdims = op.attributes["axis"], op.attributes["keepdims"]
    shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes]
    if math.prod(shape) * dtype.itemsize < LARGE or not x.flags.c_contiguous:
        return None
    return empty(shape, dtype, op)


def _count(shape: tuple[int, ...], axis: tuple[int, ...]) -> int:
    count = 1
    for a in axis:
        count *= shape[a]
    return count


def _mean(op: Op, x: np.ndarray) -> Any:
    axis, keepdims = op.attributes["axis"], op.attributes["keepdims"]
    wide = np.float32 if is_half(x) else x.dtype
    total = np.add.reduce(x, axis=axis, keepdims=keepdims, dtype=wide)
    return np.divide(total, _count(x.shape, axis), dtype=wide).astype(x.dtype, copy=False)


def _var(op: Op, x: np.ndarray) -> Any:
    axis, count = op.attributes["axis"], _count(x.shape, op.attributes["axis"])
    wide = np.dtype(np.float32) if is_half(x) else x.dtype
    mean = np.divide(np.add.reduce(x, axis=axis, keepdims=True, dtype=wide), count, dtype=wide)
    off = empty_like(x, wide, op)
    np.subtract(x, mean, out=off, dtype=wide)
    np.multiply(off, off, out=off)
    total = np.add.reduce(off, axis=axis, keepdims=op.attributes["keepdims"])
    left = max(count - op.attributes["correction"], 0)
    return np.divide(total, left, dtype=wide).astype(x.dtype, copy=False)


def _std(op: Op, x: np.ndarray) -> Any:
    if is_half(x):
        return np.sqrt(_var(op, x.astype(np.float32))).astype(x.dtype)
    return np.sqrt(_var(op, x))


def _arg(function: Kernel) -> Kernel:
    def kernel(op: Op, x: np.ndarray) -> Any:
        axis, keepdims = op.attributes["axis"], op.attributes["keepdims"]
        found = function(x, axis=axis, keepdims=keepdims)
        return found.astype(op.attributes["dtype"].dtype, copy=False)

    return kernel


BLOCK = 1 << 14
"""Elements that are added up, or multiplied, at once."""
_DOUBLE = {np.dtype(np.float32): np.dtype(np.float64),
           np.dtype(np.complex64): np.dtype(np.complex128)}  # fmt: skip


def _cumulative(ufunc: np.ufunc) -> Kernel:
    def kernel(op: Op, x: np.ndarray) -> Any:
        # What is added one after the other drifts: a million times 0.1 in float32 is 100,958.
        wide = np.dtype(np.float64) if is_half(x) else _DOUBLE.get(x.dtype, x.dtype)
        axis = op.attributes["axis"]
        if wide == x.dtype or axis != x.ndim - 1 or x.ndim == 1 or x.size <= BLOCK:
            found = ufunc.accumulate(x, axis=axis, dtype=wide)
            return found.astype(x.dtype, copy=False)
        # Wide numbers stay in the cache: by parts along the first axis.
        out = empty(x.shape, x.dtype, op)
        rows = max(1, BLOCK * len(x) // x.size)
        for start in range(0, len(x), rows):
            wider = x[start : start + rows].astype(wide)
            out[start : start + rows] = ufunc.accumulate(wider, axis=axis).astype(x.dtype)
        return out

    return kernel


KERNELS: dict[str, Kernel] = {
    "all": _exact(np.logical_and),
    "any": _exact(np.logical_or),
    "argmax": _arg(np.argmax),
    "argmin": _arg(np.argmin),
    "cumulative_prod": _cumulative(np.multiply),
    "cumulative_sum": _cumulative(np.add),
    "max": _exact(np.maximum),
    "mean": _mean,
    "min": _exact(np.minimum),
    "prod": _rounded(np.multiply),
    "std": _std,
    "sum": _rounded(np.add),
    "var": _var,
}
