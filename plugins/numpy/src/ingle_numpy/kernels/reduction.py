"""Reductions over axes. Half types are summed in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ingle.tensor.operation import Op


def _sum(op: Op, x: np.ndarray) -> Any:
    wide = np.dtype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x.dtype
    out = np.sum(x, axis=op.attributes["axis"], keepdims=op.attributes["keepdims"], dtype=wide)
    return out.astype(x.dtype, copy=False)


def _by(function: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(op: Op, x: np.ndarray) -> Any:
        return function(x, axis=op.attributes["axis"], keepdims=op.attributes["keepdims"])

    return kernel


KERNELS: dict[str, Callable[..., Any]] = {"sum": _sum, "max": _by(np.max), "min": _by(np.min)}
