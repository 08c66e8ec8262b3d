"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from ..memory import LARGE, empty


def _matmul(op: Op, a: np.ndarray, b: np.ndarray) -> Any:
    if a.dtype.itemsize == 2 and a.dtype.kind in "fV":
        # No BLAS for half types: products are exact in float32, and so is their use as a sum.
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    if a.ndim > 2 and b.ndim == 2:
        # One product of tall matrices is faster than one for each of a stack.
        lead = a.shape[:-1]
        return _product(op, a.reshape(math.prod(lead), a.shape[-1]), b).reshape(*lead, b.shape[-1])
    return _product(op, a, b)


def _product(op: Op, a: np.ndarray, b: np.ndarray) -> Any:
    if a.ndim < 2 or b.ndim < 2 or (a.ndim == b.ndim == 2 and _is_small(a, b)):
        return np.matmul(a, b)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) if a.ndim + b.ndim > 4 else ()
    return np.matmul(a, b, out=empty((*lead, a.shape[-2], b.shape[-1]), a.dtype, op))


def _is_small(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(len(a) * b.shape[1] * a.itemsize < LARGE)


KERNELS: dict[str, Callable[..., Any]] = {"matmul": _matmul}
