"""Arrays from nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Op


def _full(op: Op, value: np.ndarray) -> np.ndarray:
    return np.full(op.attributes["shape"], value, op.attributes["dtype"].dtype)


def _iota(op: Op, start: np.ndarray, step: np.ndarray) -> Any:
    dtype = op.attributes["dtype"]
    steps = np.arange(op.attributes["size"])
    if start.dtype.kind not in "iu":
        return (steps * step + start).astype(dtype.dtype)
    # Integers count modulo 2**64, where each that fits its dtype is exact.
    whole = (steps * step.astype(np.int64)).astype(np.uint64) + start.astype(np.uint64)
    signed = whole.astype(np.int64) if dtype.kind != "unsigned" else whole
    return signed.astype(dtype.dtype)


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
