"""Quantization in NumPy, for the samples of its rooms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...contract import Shape
from ...dtypes import DType, int8


def quantize_reference(x: Any, scale: Any, zero_point: Any = None, *, dtype: DType = int8) -> Any:
    info = np.iinfo(dtype.dtype)
    low = -info.max if zero_point is None and dtype is int8 else info.min
    zero = 0 if zero_point is None else _spread(zero_point, x.shape)
    steps = np.rint(x / _spread(scale, x.shape)) + zero
    return np.clip(steps, low, info.max).astype(dtype.dtype)


def dequantize_reference(values: Any, scale: Any, zero_point: Any = None) -> Any:
    zero = 0 if zero_point is None else _spread(zero_point, values.shape)
    return (np.asarray(values, np.float64) - zero) * _spread(scale, values.shape)


def fake_quantize_reference(x: Any, scale: Any, zero_point: Any = None) -> Any:
    return dequantize_reference(quantize_reference(x, scale, zero_point), scale, zero_point)


def unpack_reference(codes: Any, dtype: DType, size: int) -> Any:
    """So many numbers of each row of bytes."""
    shifts = np.arange(0, 8, dtype.bits)
    each = (np.asarray(codes).astype(np.int64)[..., None] >> shifts) & ((1 << dtype.bits) - 1)
    each = each.reshape(len(codes), each.shape[1] * len(shifts))[:, :size]
    if dtype.is_signed:
        each = each - ((each >> (dtype.bits - 1)) << dtype.bits)
    return each


def _spread(value: Any, shape: Shape) -> Any:
    """A parameter repeated over its blocks, in NumPy, for references."""
    out = np.asarray(value, np.float64)
    for axis, count in enumerate(out.shape):
        out = np.repeat(out, shape[axis] // count if count else 1, axis)
    return out
