"""Gather and scatter. Indices are checked here: only a kernel sees their values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Op

from .blocks import row_blocks
from .classes import checked
from .elementwise import is_half
from .movement import slices

Array = np.ndarray[Any, Any]
_LONG = 32
"""Rows of a run from which on one call for it costs less than a part of a call for all runs."""


def checked_indices(op: Op, indices: Array, size: int, axis: int, name: str = "") -> Array:
    """Indices as NumPy's own index type in [0, size); errors name the operation, or `name`."""
    if not indices.size:
        return indices.astype(np.intp)
    low, high = int(indices.min()), int(indices.max())
    if low < -size or high >= size:
        valid = f"valid are {-size} to {size - 1}" if size else "it has no elements"
        raise OutOfRangeError(
            f"{name or op.operation.name}: the indices hold {high if high >= size else low}, "
            f"but axis {axis} has size {size}: {valid}"
        )
    whole = indices.astype(np.intp, copy=False)
    return np.where(whole < 0, whole + size, whole) if low < 0 else whole


def _take(op: Op, x: Array, indices: Array) -> Any:
    axis = op.attributes["axis"]
    return np.take(x, checked_indices(op, indices, x.shape[axis], axis), axis=axis)


def _take_along_axis(op: Op, x: Array, indices: Array) -> Any:
    axis = op.attributes["axis"]
    return np.take_along_axis(x, checked_indices(op, indices, x.shape[axis], axis), axis=axis)


def _ravel_index(op: Op, *indices: Array) -> Any:
    total: Any = 0
    for index, size, axis in zip(
        indices, op.attributes["sizes"], op.attributes["axes"], strict=True
    ):
        total = total * size + checked_indices(op, index, size, axis, op.attributes["called"])
    return np.asarray(total, np.int64)


def _slice_update(op: Op, x: Array, y: Array, *starts: Array) -> Array:
    out = np.array(x, order="C")
    out[slices(op, x.shape, starts, y.shape)] = y
    return out


def _scatter_set(op: Op, x: Array, indices: Array, updates: Array) -> Array:
    out, rows, moved = _prepared(op, x, indices, updates)
    out[rows] = moved
    return out.reshape(x.shape)


def _scatter_add(op: Op, x: Array, indices: Array, updates: Array) -> Array:
    return _added(x, *_prepared(op, x, indices, _wide(updates)))


def _embedding_gradient(op: Op, table: Array, indices: Array, rows: Array) -> Array:
    places = checked("embedding", "indices", indices, table.shape[0], "rows").reshape(-1)
    moved = _wide(rows).reshape(len(places), table.shape[1])
    return _added(table, np.array(table, order="C"), places, moved)


def _added(x: Array, out: Array, rows: Array, moved: Array) -> Array:
    """Rows added to those of a copy of `x`, in its shape."""
    wide = _wide(out)
    _combine(np.add, wide, rows, moved)
    return wide.astype(x.dtype, copy=False).reshape(x.shape)


def _scatter_reduced(op: Op, x: Array, indices: Array, updates: Array) -> Any:
    largest = op.attributes.get("largest")
    combine: Any = np.multiply if largest is None else np.maximum if largest else np.minimum
    out, rows, moved = _prepared(op, x, indices, _wide(updates))
    wide = _wide(out)
    if not op.attributes["include_self"]:
        # The first update of each row takes its place; the others are combined with it.
        places, first = np.unique(rows, return_index=True)
        wide[places] = moved[first]
        rows, moved = np.delete(rows, first), np.delete(moved, first, axis=0)
    _combine(combine, wide, rows, moved)
    return wide.astype(x.dtype, copy=False).reshape(x.shape)


def _combine(ufunc: np.ufunc, out: Array, rows: Array, updates: Array) -> None:
    """`ufunc.at(out, rows, updates)`, element by element, which NumPy does fast along one axis."""
    width = out.shape[1]
    flat, columns = out.reshape(-1), np.arange(width)
    for here in row_blocks(len(rows), width):
        places = rows[here, np.newaxis] * width + columns
        ufunc.at(flat, places.reshape(-1), updates[here].reshape(-1))


def _prepared(op: Op, x: Array, indices: Array, updates: Array) -> tuple[Array, Array, Array]:
    """A copy of `x` as rows of what lies behind the axis, and for each row of updates its row."""
    axis = op.attributes["axis"]
    lead, size, width = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    rows = checked_indices(op, indices, size, axis).reshape(-1)
    rows = (np.arange(lead)[:, np.newaxis] * size + rows).reshape(-1)
    out = np.array(x, order="C").reshape(lead * size, width)
    return out, rows, updates.reshape(len(rows), width)


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if is_half(x) else x


def _occurrences(op: Op, places: Array) -> Array:
    found = np.bincount(np.ravel(places), minlength=op.attributes["size"])
    return found.astype(np.int64, copy=False)


def _products_beside(op: Op, indices: Array, updates: Array) -> Array:
    axis, size = op.attributes["axis"], op.attributes["size"]
    ndim = indices.ndim
    places = checked_indices(op, indices, size, axis).reshape(-1)
    moved = np.moveaxis(updates, range(axis, axis + ndim), range(ndim))
    rows = _wide(moved.reshape(len(places), math.prod(moved.shape[ndim:])))
    order = np.argsort(places, kind="stable")
    ordered, rows = places[order], rows[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(places)])
    counts = np.diff(starts, append=len(places))
    out = np.empty_like(rows)
    out[order] = _before(rows, starts, counts) * _behind(rows, starts, counts)
    found = out.astype(updates.dtype, copy=False).reshape(moved.shape)
    return np.moveaxis(found, range(ndim), range(axis, axis + ndim))


def _before(rows: Array, starts: Array, counts: Array) -> Array:
    """The product of the rows of a run that come before each: of short runs, all at once."""
    out = np.ones_like(rows)
    long = counts > _LONG
    for start, count in zip(starts[long], counts[long], strict=True):
        stop = start + count
        np.multiply.accumulate(rows[start : stop - 1], axis=0, out=out[start + 1 : stop])
    starts, counts = starts[~long], counts[~long]
    for place in range(1, int(counts.max(initial=0))):
        here = starts[counts > place] + place
        out[here] = out[here - 1] * rows[here - 1]
    return out


def _behind(rows: Array, starts: Array, counts: Array) -> Array:
    turned = len(rows) - starts - counts
    return _before(rows[::-1], turned[::-1], counts[::-1])[::-1]


def _nonzero(op: Op, x: Array) -> Array:
    # NumPy's search along one axis, and dividing by sizes, take a tenth of its search along two.
    places = np.flatnonzero(x)
    found = np.empty((x.ndim, len(places)), np.int64)
    for axis in range(x.ndim - 1, 0, -1):
        rest = places // max(x.shape[axis], 1)
        np.subtract(places, rest * x.shape[axis], out=found[axis])
        places = rest
    found[:1] = places
    return found


KERNELS: dict[str, Callable[..., Any]] = {
    "embedding_gradient": _embedding_gradient,
    "nonzero": _nonzero,
    "occurrences": _occurrences,
    "products_beside": _products_beside,
    "take": _take,
    "take_along_axis": _take_along_axis,
    "ravel_index": _ravel_index,
    "slice_update": _slice_update,
    "scatter_set": _scatter_set,
    "scatter_add": _scatter_add,
    "scatter_prod": _scatter_reduced,
    "scatter_extremum": _scatter_reduced,
}
