"""Gather and scatter. Indices are checked here: only a kernel sees their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Op

from .movement import slices


def _indices(op: Op, indices: np.ndarray, size: int, axis: int) -> np.ndarray:
    """Indices as NumPy's own index type in [0, size)."""
    if not indices.size:
        return indices.astype(np.intp)
    low, high = int(indices.min()), int(indices.max())
    if low < -size or high >= size:
        valid = f"valid are {-size} to {size - 1}" if size else "it has no elements"
        raise OutOfRangeError(
            f"{op.operation.name}: the indices hold {high if high >= size else low}, "
            f"but axis {axis} has size {size}: {valid}"
        )
    whole = indices.astype(np.intp, copy=False)
    return np.where(whole < 0, whole + size, whole) if low < 0 else whole


def _take(op: Op, x: np.ndarray, indices: np.ndarray) -> Any:
    axis = op.attributes["axis"]
    return np.take(x, _indices(op, indices, x.shape[axis], axis), axis=axis)


def _take_along_axis(op: Op, x: np.ndarray, indices: np.ndarray) -> Any:
    axis = op.attributes["axis"]
    return np.take_along_axis(x, _indices(op, indices, x.shape[axis], axis), axis=axis)


def _ravel_index(op: Op, *indices: np.ndarray) -> Any:
    total: Any = 0
    for index, size, axis in zip(
        indices, op.attributes["sizes"], op.attributes["axes"], strict=True
    ):
        total = total * size + _indices(op, index, size, axis)
    return np.asarray(total, np.int64)


def _slice_update(op: Op, x: np.ndarray, y: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    out = np.array(x, order="C")
    out[slices(op, x.shape, starts, y.shape)] = y
    return out


def _scatter_set(op: Op, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    out, rows, moved = _prepared(op, x, indices, updates)
    out[rows] = moved
    return np.moveaxis(out, 0, op.attributes["axis"])


# From here on one NumPy call for each row beats `np.add.at`, which adds element by element.
_WIDE_ROW = 128


def _scatter_add(op: Op, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    out, rows, moved = _prepared(op, x, indices, updates)
    half = x.dtype.itemsize == 2 and x.dtype.kind in "fV"
    wide = out.astype(np.float32) if half else out
    moved = moved.astype(wide.dtype, copy=False)
    if wide.size >= _WIDE_ROW * wide.shape[0]:
        for row, update in zip(rows.tolist(), moved, strict=True):
            wide[row] += update
    else:
        np.add.at(wide, rows, moved)
    return np.moveaxis(wide.astype(x.dtype, copy=False), 0, op.attributes["axis"])


def _scatter_reduced(op: Op, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> Any:
    largest = op.attributes.get("largest")
    combine: Any = np.multiply if largest is None else np.maximum if largest else np.minimum
    out, rows, moved = _prepared(op, x, indices, updates)
    half = x.dtype.itemsize == 2 and x.dtype.kind in "fV"
    wide = out.astype(np.float32) if half else out
    moved = moved.astype(wide.dtype, copy=False)
    if not op.attributes["include_self"]:
        # The first update of each row takes its place; the others are combined with it.
        places, first = np.unique(rows, return_index=True)
        wide[places] = moved[first]
        rows, moved = np.delete(rows, first), np.delete(moved, first, axis=0)
    combine.at(wide, rows, moved)
    return np.moveaxis(wide.astype(x.dtype, copy=False), 0, op.attributes["axis"])


def _prepared(
    op: Op, x: np.ndarray, indices: np.ndarray, updates: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A copy of `x` with the axis in front, flat indices, and a row of updates for each."""
    axis = op.attributes["axis"]
    rows = _indices(op, indices, x.shape[axis], axis).ravel()
    out = np.array(np.moveaxis(x, axis, 0), order="C")
    moved = np.moveaxis(updates, range(axis, axis + indices.ndim), range(indices.ndim))
    return out, rows, moved.reshape(rows.size, *out.shape[1:])


def _nonzero(op: Op, x: np.ndarray) -> np.ndarray:
    return np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)


KERNELS: dict[str, Callable[..., Any]] = {
    "nonzero": _nonzero,
    "take": _take,
    "take_along_axis": _take_along_axis,
    "ravel_index": _ravel_index,
    "slice_update": _slice_update,
    "scatter_set": _scatter_set,
    "scatter_add": _scatter_add,
    "scatter_prod": _scatter_reduced,
    "scatter_extremum": _scatter_reduced,
}
