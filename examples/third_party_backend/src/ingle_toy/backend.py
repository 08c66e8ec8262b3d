"""Thirteen kernels, one for each core family; everything else is composed from them by Ingle."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingle.tensor.eager import EagerBackend
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Op

Array = Any
EXACT = ("bitcast", "nextafter")  # which are about the dtype's own bits
_erf = np.vectorize(math.erf, otypes=[np.float64])


def unary(op: Op, x: Array) -> Array:
    name = op.operation.name
    return _erf(x).astype(x.dtype) if name == "erf" else getattr(np, name)(x)


def binary(op: Op, x1: Array, x2: Array) -> Array:
    if op.operation.name == "pow" and x1.dtype.kind == "i" and np.any(x2 < 0):
        return np.trunc(np.pow(x1.astype(np.float64), x2)).astype(x1.dtype)
    return getattr(np, op.operation.name)(x1, x2)


def cast(op: Op, x: Array) -> Array:
    # `rounding_once` casts every result to the dtype that the operation names.
    return x.view(op.attributes["dtype"].dtype) if op.operation.name == "bitcast" else x


def argreduce(op: Op, x: Array) -> Array:
    return getattr(np, op.operation.name)(x, **{k: op.attributes[k] for k in ("axis", "keepdims")})


def argsort(op: Op, x: Array) -> Array:
    axis, down = op.attributes["axis"], op.attributes["descending"]
    order = np.argsort(np.flip(x, axis) if down else x, axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(order, axis) if down else order


def movement(op: Op, x: Array, *more: Array) -> Array:
    if op.operation.name == "slice":
        return x[_places(op, x, more, op.attributes["sizes"])]
    (static,) = op.attributes.values()
    arrays = (x, *more) if op.operation.name == "concat" else x
    return getattr(np, op.operation.name)(arrays, static)


def gather(op: Op, x: Array, indices: Array) -> Array:
    axis = op.attributes["axis"]
    return getattr(np, op.operation.name)(x, _checked(op, indices, x.shape[axis]), axis=axis)


def scatter(op: Op, x: Array, *more: Array) -> Array:
    if op.operation.name == "slice_update":
        y, *starts = more
        out = x.copy()
        out[_places(op, x, starts, y.shape)] = y
        return out
    axis, (indices, updates) = op.attributes["axis"], more
    out = np.moveaxis(x, axis, 0).copy()
    rows = _checked(op, indices, x.shape[axis])
    updates = np.moveaxis(updates, range(axis, axis + rows.ndim), range(rows.ndim))
    put = np.add.at if op.operation.name == "scatter_add" else operator.setitem
    put(out, rows, updates)
    return np.moveaxis(out, 0, axis)


def _checked(op: Op, places: Array, size: int) -> Array:
    if np.any((places < -size) | (places >= size)):
        raise OutOfRangeError(f"{op.operation.name}: an index is beyond -{size} to {size - 1}")
    return places.astype(np.int64)


def _places(op: Op, x: Array, starts: Sequence[Array], sizes: Sequence[int]) -> tuple[Array, ...]:
    axes = zip(starts, sizes, op.attributes["steps"], x.shape, strict=True)
    lines = [_checked(op, a + step * np.arange(n), size) for a, n, step, size in axes]
    return np.ix_(*lines) if lines else ()


FAMILIES = {
    "where": lambda op, condition, x1, x2: np.where(condition, x1, x2),
    "reduce": lambda op, x: getattr(np, op.operation.name)(x, **op.attributes).astype(x.dtype),
    "matmul": lambda op, x1, x2: np.matmul(x1, x2),
    "full": lambda op, value: np.full(op.attributes["shape"], value),
    "iota": lambda op, a, b: (
        np.arange(op.attributes["size"], dtype=a.dtype) * b.astype(a.dtype) + a
    ),
    **{f.__name__: f for f in (unary, binary, cast, argreduce, argsort, gather, scatter, movement)},
}


def rounding_once(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """Half types are computed in float32, and a result gets the dtype that the operation has."""

    def run(op: Op, *arrays: Array) -> Array:
        half = [a.dtype for a in arrays if a.dtype.itemsize == 2 and a.dtype.kind in "fV"]
        wide = [a.astype(np.float32) if a.dtype in half else a for a in arrays]
        with np.errstate(all="ignore"):
            result = kernel(op, *(arrays if op.operation.name in EXACT else wide))
        static = op.attributes.get("dtype")
        to = static.dtype if static else half[0] if half and result.dtype == np.float32 else None
        return result if to is None else result.astype(to)

    return run


class ToyBackend(EagerBackend):
    """Runs each operation at once on NumPy arrays."""

    name = "toy"
    kernels = {family: rounding_once(f) for family, f in FAMILIES.items()}  # noqa: RUF012

    def to_device_array(self, array: np.ndarray) -> Array:
        return array.copy()

    def to_host_array(self, array: Array) -> np.ndarray:
        return np.array(array)
