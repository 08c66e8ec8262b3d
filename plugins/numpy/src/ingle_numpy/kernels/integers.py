"""Floats cut to integers, also where C, and so NumPy, leaves open what comes of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .blocks import Formula, in_blocks

_TOP = 1 << 63


def whole(x: np.ndarray, dtype: np.dtype[Any]) -> Any:
    """A float array cut to integers, as `astype` says it for what has no place there."""
    return _formula(dtype)(x)


@cache
def _formula(dtype: np.dtype[Any]) -> Formula:
    def astype(x: Any) -> Any:
        wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
        return _upper_half_too(wide) if dtype == np.uint64 else _cut(wide, dtype)

    return in_blocks(astype)


def _cut(x: Any, dtype: np.dtype[Any]) -> Any:
    through = np.dtype(np.int64 if dtype.name in ("int64", "uint32", "uint64") else np.int32)
    end = x.dtype.type(2.0 ** (8 * through.itemsize - 1))
    return np.where(np.abs(x) < end, x, -end).astype(through).astype(dtype)


def _upper_half_too(x: Any) -> Any:
    end = x.dtype.type(_TOP)
    upper = (x >= end) & (x < 2 * end)
    cut = _cut(np.where(upper, x - end, x), np.dtype(np.uint64))
    return np.where(upper, cut ^ np.uint64(_TOP), cut)
