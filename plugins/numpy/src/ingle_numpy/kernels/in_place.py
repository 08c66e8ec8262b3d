"""Kernels that write their result where they are told, which may be one of their inputs.

Each takes `(op, out, *arrays)`. What else they read is not in the memory of `out`, unless it is
`out` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from .elementwise import BINARY, UNARY
from .indexing import checked_indices
from .movement import slices

Array = np.ndarray[Any, Any]
Kernel = Callable[..., None]


def _elementwise(ufunc: np.ufunc) -> Kernel:
    def kernel(op: Op, out: Array, *arrays: Any) -> None:
        ufunc(*arrays, out=out)

    return kernel


def _slice_update(op: Op, out: Array, x: Array, y: Array, *starts: Any) -> None:
    where = slices(op, x.shape, starts, y.shape)
    _begin(out, x)
    out[where] = y


def _scatter_set(op: Op, out: Array, x: Array, indices: Array, updates: Array) -> None:
    axis, ndim = op.attributes["axis"], indices.ndim
    rows = checked_indices(op, indices, x.shape[axis], axis)
    moved = np.moveaxis(updates, range(axis, axis + ndim), range(ndim))
    _begin(out, x)
    np.moveaxis(out, axis, 0)[rows] = moved


def _where(op: Op, out: Array, condition: Array, x1: Any, x2: Any) -> None:
    if x2 is out:
        np.copyto(out, x1, where=condition)
    else:
        _begin(out, x1)
        np.copyto(out, x2, where=~condition)


def _begin(out: Array, x: Any) -> None:
    if out is not x:
        np.copyto(out, x)


IN_PLACE: dict[str, Kernel] = {
    **{name: _elementwise(ufunc) for name, ufunc in {**UNARY, **BINARY}.items()},
    "slice_update": _slice_update,
    "scatter_set": _scatter_set,
    "where": _where,
}
