"""`x += y` and `x[i] = v` into memory that only `x` holds.

The first such statement on a tensor gives it memory of its own, with a ledger of its holders (see
`Handle.owned`). Later ones write there for as long as nobody else does: no other tensor, view,
recording or NumPy array. Everything else computes a new value.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .contract import Handle, Scalar
from .dispatch import promote, run, wrap
from .dtypes import int64
from .operation import OPERATIONS, Op
from .ops.creation.conversion import asarray
from .ops.indexing._index_keys import read_regular
from .ops.indexing.gathering import index_handle, taken_shape
from .ops.indexing.regular_updates import piece_set
from .ops.indexing.scattering import SCATTER_SET
from .ops.indexing.subscript import fitted, value_for
from .ops.movement.shapes import reshape
from .ops.movement.slicing import SLICE_UPDATE

if TYPE_CHECKING:
    from .tensor import Tensor

WORTH = 1 << 16
"""Bytes from which on a copy is worth avoiding."""

_OPS: dict[str, Op] = {
    name: OPERATIONS[operation].op()
    for name, operation in {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
        "and_": "bitwise_and", "or_": "bitwise_or", "xor": "bitwise_xor",
        "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    }.items()
}  # fmt: skip
_WHERE = OPERATIONS["where"].op()


def combined(x: Tensor, name: str, other: Any) -> Handle | None:
    """`x OP other` in the memory of `x` or in memory of its own; None where that cannot be."""
    handle, op = x._handle, _OPS.get(name)
    if op is None or not _worth(handle) or (name == "truediv" and not handle.dtype.is_inexact):
        return None
    a, b = promote(op.operation.name, ("x1", x), ("x2", other))
    return _reused(op, (a, b), 0, x) if a is handle else None


def summed(total: Tensor, part: Tensor, mine: bool) -> Tensor:
    """`total + part`; in the memory of `total` if `mine` says that an earlier call made it.

    For loops that add up, and hand out no total but the last.
    """
    a, b = total._handle, part._handle
    if a.shape != b.shape or a.dtype is not b.dtype or not _worth(a):
        return total + part
    found = _reused(_OPS["add"], (a, b), 0, total if mine else None)
    return total + part if found is None else wrap(found)


def assigned(x: Tensor, key: Any, value: Any) -> Handle | None:
    """`x` after `x[key] = value`, likewise; None also for keys that it does not know."""
    handle = x._handle
    if hasattr(key, "_handle") or isinstance(key, np.ndarray):
        if not _worth(handle) or _differs(handle, key) or _differs(handle, value):
            return None
        return _assigned_by_tensor(x, asarray(key, device=handle.backend.device), value)
    regular = read_regular(key, handle.shape)
    if regular is None:
        return None
    starts, sizes, steps, shape = regular
    if not _worth(handle):
        small = piece_set(handle, value, *regular)
        if small is not None:
            return small
    piece = reshape(fitted(value_for(handle, value), shape), sizes)
    places = [Scalar(start, int64) for start in starts]
    inputs: tuple[Handle | Scalar, ...] = (handle, piece._handle, *places)
    op = SLICE_UPDATE.op(steps=steps)
    found = _reused(op, inputs, 0, x) if _worth(handle) else None
    return run(op, inputs)[0]._handle if found is None else found


def _assigned_by_tensor(x: Tensor, key: Tensor, value: Any) -> Handle | None:
    """By indices of the first axis, or under a mask with one value for all."""
    handle = x._handle
    if key.dtype.is_integer and handle.shape:
        values = fitted(value_for(handle, value), taken_shape(handle.shape, key.shape, 0))
        indices = index_handle("x[...] = value", key, handle)
        return _reused(SCATTER_SET.op(axis=0), (handle, indices, values._handle), 0, x)
    tail = x.ndim - key.ndim
    if key.dtype.kind != "bool" or not key.ndim or key.shape != x.shape[: key.ndim]:
        return None
    values = value_for(handle, value)
    if values.ndim > tail:
        return None
    mask = reshape(key, (*key.shape, *(1,) * tail))
    values = fitted(values, x.shape[key.ndim :])
    return _reused(_WHERE, (mask._handle, values._handle, handle), 2, x)


def _worth(handle: Handle) -> bool:
    if math.prod(handle.shape) * handle.dtype.itemsize < WORTH:
        return False
    return hasattr(handle.backend, "reuse")


def _differs(handle: Handle, other: Any) -> bool:
    """Whether this is a tensor of another device, or one that records gradients."""
    found = getattr(other, "_handle", None)
    return hasattr(type(other), "__ingle_tensor__") or (
        found is not None and found.backend is not handle.backend
    )


def _reused(
    op: Op, inputs: tuple[Handle | Scalar, ...], place: int, owner: Tensor | None
) -> Handle | None:
    backend = inputs[place].backend
    if any(h.backend is not backend for h in inputs if isinstance(h, Handle)):
        return None
    found: Handle = backend.reuse(op, inputs, place, owner)  # type: ignore[union-attr]
    return found
