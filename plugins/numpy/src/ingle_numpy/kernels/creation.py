"""Arrays from nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op


def _full(op: Op, value: np.ndarray) -> np.ndarray:
    return np.full(op.attributes["shape"], value, op.attributes["dtype"].dtype)


def _iota(op: Op, start: np.ndarray, step: np.ndarray) -> np.ndarray:
    dtype = op.attributes["dtype"]
    wide = np.float64 if dtype.is_inexact else np.int64
    steps = np.arange(op.attributes["size"], dtype=wide)
    return (steps * step.astype(wide) + start.astype(wide)).astype(dtype.dtype)


KERNELS: dict[str, Callable[..., Any]] = {"full": _full, "iota": _iota}
