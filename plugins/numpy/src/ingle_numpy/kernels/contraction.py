"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op


def _matmul(op: Op, a: np.ndarray, b: np.ndarray) -> Any:
    if a.dtype.itemsize == 2 and a.dtype.kind in "fV":
        # No BLAS for half types: products are exact in float32, and so is their use as a sum.
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    if a.ndim > 2 and b.ndim == 2:
        # One product of tall matrices is faster than one for each of a stack.
        lead = a.shape[:-1]
        return np.matmul(a.reshape(math.prod(lead), a.shape[-1]), b).reshape(*lead, b.shape[-1])
    return np.matmul(a, b)


KERNELS: dict[str, Callable[..., Any]] = {"matmul": _matmul}
