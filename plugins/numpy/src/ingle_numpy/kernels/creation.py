"""Arrays from nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Op

from ..memory import empty


def _full(op: Op, value: np.ndarray) -> np.ndarray:
    out = empty(op.attributes["shape"], op.attributes["dtype"].dtype, op)
    out.fill(value)
    return out


def _iota(op: Op, start: np.ndarray, step: np.ndarray) -> Any:
    size, dtype = op.attributes["size"], op.attributes["dtype"].dtype
    if start.dtype.kind not in "iu":
        found = np.arange(size, dtype=np.result_type(start, np.float64))
        found *= step
        found += start
    else:
        # Integers count modulo 2**64, where each that fits its dtype is exact.
        found = np.arange(size, dtype=np.int64)
        if step != 1:
            found *= step.astype(np.int64)
        if start != 0:
            found += start.astype(np.int64)
    return found.astype(dtype, copy=False)


def _one_hot(op: Op, indices: np.ndarray) -> Any:
    count = op.attributes["num_classes"]
    if indices.size:
        low, high = int(indices.min()), int(indices.max())
        if low < 0 or high >= count:
            raise OutOfRangeError(
                f"one_hot: the indices hold {low if low < 0 else high}, but with "
                f"num_classes={count} valid are 0 to {count - 1}"
            )
    return (indices[..., np.newaxis] == np.arange(count)).astype(op.attributes["dtype"].dtype)


KERNELS: dict[str, Callable[..., Any]] = {"full": _full, "iota": _iota, "one_hot": _one_hot}
