"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op


def _matmul(op: Op, a: np.ndarray, b: np.ndarray) -> Any:
    if a.dtype.itemsize == 2 and a.dtype.kind in "fV":
        # No BLAS for half types: products are exact in float32, and so is their use as a sum.
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    return np.matmul(a, b)


KERNELS: dict[str, Callable[..., Any]] = {"matmul": _matmul}
