"""Running extrema, and running logarithms of sums of exponentials."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ingle.tensor.operation import Op


def _wide(x: np.ndarray) -> np.ndarray:
    """Half types as float32."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x


def _extremum_indices(combine: Any, op: Op, x: np.ndarray) -> Any:
    axis = op.attributes["axis"]
    values = _wide(x)
    hits = values == combine.accumulate(values, axis=axis)
    if values.dtype.kind == "f":
        hits |= np.isnan(values)
    shape = tuple(n if i == axis else 1 for i, n in enumerate(x.shape))
    places = np.arange(x.shape[axis]).reshape(shape)
    found = np.maximum.accumulate(np.multiply(hits, places), axis=axis)
    return found.astype(op.attributes["dtype"].dtype, copy=False)


def _logcumsumexp(op: Op, x: np.ndarray) -> Any:
    # In double precision: what is added one after the other drifts.
    out = np.logaddexp.accumulate(x.astype(np.float64), axis=op.attributes["axis"])
    return out.astype(x.dtype, copy=False)


KERNELS: dict[str, Callable[..., Any]] = {
    "cummax_indices": partial(_extremum_indices, np.maximum),
    "cummin_indices": partial(_extremum_indices, np.minimum),
    "logcumsumexp": _logcumsumexp,
}
