"""Movement: views where NumPy can, copies where it must."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingle.tensor.contract import Shape
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Op

from ..memory import LARGE, empty
from .selecting import select


def _reshape(op: Op, x: np.ndarray) -> np.ndarray:
    return x.reshape(op.attributes["shape"])


def _permute_dims(op: Op, x: np.ndarray) -> np.ndarray:
    return x.transpose(op.attributes["axes"])


def _broadcast_to(op: Op, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, op.attributes["shape"])


def slices(op: Op, shape: Shape, starts: Sequence[Any], sizes: Shape) -> tuple[slice, ...]:
    """NumPy's slice objects of a piece; starts that were computed are checked here."""
    found = []
    for axis, (start, size, step) in enumerate(
        zip(starts, sizes, op.attributes["steps"], strict=True)
    ):
        length = shape[axis]
        first = int(start)
        first += length if first < 0 else 0
        if step == 1 and first >= 0 and first + size <= length:  # as mostly
            found.append(slice(first, first + size))
            continue
        stop, last = first + size * step, first + (size - 1) * step
        inside = 0 <= first < length and 0 <= last < length if size else 0 <= first <= length
        if not inside:
            raise OutOfRangeError(
                f"{op.operation.name}: {size} elements from {int(start)} in steps of {step} do "
                f"not lie inside of axis {axis} of size {length}"
            )
        # Before the first element there is no index to stop at but None.
        found.append(slice(first, None if stop < 0 else stop, step))
    return tuple(found)


def _slice(op: Op, x: np.ndarray, *starts: Any) -> np.ndarray:
    return x[slices(op, x.shape, starts, op.attributes["sizes"])]


def slice_of(op: Op, shape: Shape) -> Callable[..., np.ndarray]:
    """The kernel of `slice` for tensors of one shape, of which axes that are taken whole need no
    look."""
    sizes = op.attributes["sizes"]
    parts = [axis for axis, n in enumerate(shape) if sizes[axis] != n]
    if not parts or {*op.attributes["steps"]} != {1}:
        return _slice
    bounds = [(n, length - n) for n, length in zip(sizes, shape, strict=True)][: parts[-1] + 1]

    def kernel(op: Op, x: np.ndarray, *starts: Any) -> np.ndarray:
        found = []
        for start, (size, last) in zip(starts, bounds):  # noqa: B905 (whole axes end it)
            if type(start) is not int or not 0 <= start <= last:
                return _slice(op, x, *starts)
            found.append(slice(start, start + size))
        return x[tuple(found)]

    return kernel


def _concat(op: Op, *arrays: np.ndarray) -> np.ndarray:
    axis, first = op.attributes["axis"], arrays[0]
    if len(arrays) == 1:
        return first
    if sum([a.nbytes for a in arrays]) < LARGE:
        # NumPy keeps the order of axes that all parts have; here it is that of large ones, and of
        # plans, since a product takes its sums in an order that depends on how operands lie.
        return np.ascontiguousarray(np.concatenate(arrays, axis=axis))
    shape = list(first.shape)
    shape[axis] = sum(a.shape[axis] for a in arrays)
    return np.concatenate(arrays, axis=axis, out=empty(shape, first.dtype, op))


def _unstack(op: Op, x: np.ndarray) -> tuple[np.ndarray, ...]:
    before = (slice(None),) * op.attributes["axis"]
    # The dots keep a row of no axes a view, where NumPy would make a number of its own.
    return tuple([x[(*before, i, ...)] for i in range(x.shape[op.attributes["axis"]])])


def _where(op: Op, condition: np.ndarray, x1: np.ndarray, x2: np.ndarray) -> Any:
    return select(condition, x1, x2)


def _pad(op: Op, x: np.ndarray, value: np.ndarray) -> np.ndarray:
    low, high = op.attributes["low"], op.attributes["high"]
    shape = tuple(a + n + b for a, n, b in zip(low, x.shape, high, strict=True))
    out = np.full(shape, value, x.dtype)
    out[tuple(slice(a, a + n) for a, n in zip(low, x.shape, strict=True))] = x
    return out


def _tril(op: Op, x: np.ndarray) -> np.ndarray:
    rows, columns = x.shape[-2:]
    return _masked(op, x, np.tri(rows, columns, op.attributes["k"], dtype=bool))


def _triu(op: Op, x: np.ndarray) -> np.ndarray:
    rows, columns = x.shape[-2:]
    return _masked(op, x, ~np.tri(rows, columns, op.attributes["k"] - 1, dtype=bool))


def _masked(op: Op, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    out: np.ndarray = empty(x.shape, x.dtype, op)
    out.fill(0)
    np.copyto(out, x, where=mask)
    return out


def _diagonal(op: Op, x: np.ndarray) -> np.ndarray:
    return x.diagonal(op.attributes["offset"], -2, -1)


KERNELS: dict[str, Callable[..., Any]] = {
    "pad": _pad,
    "reshape": _reshape,
    "permute_dims": _permute_dims,
    "broadcast_to": _broadcast_to,
    "slice": _slice,
    "concat": _concat,
    "unstack": _unstack,
    "where": _where,
    "tril": _tril,
    "triu": _triu,
    "diagonal": _diagonal,
}
