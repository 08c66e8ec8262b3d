"""`x[...]`, `x[...] = value` and `x.at[...]`, with NumPy's meaning of every key."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..contract import Handle, Shape
from ..dispatch import TensorLike, handle_of, wrap
from ..errors import DTypeError, ShapeError
from ._index_keys import Plan, read_key, read_regular
from .cast import astype
from .conversion import asarray
from .creation import full
from .gathering import take, taken_shape
from .linear_index import ravel_index
from .manipulation import broadcast_to, permute_dims, reshape, reshaped
from .scattering import scatter_add, scatter_set
from .slicing import slice, slice_update, sliced
from .where import weak_scalar, where

if TYPE_CHECKING:
    from ..tensor import Tensor


def getitem(x: TensorLike, key: Any, /) -> Tensor:
    """`x[key]`: numbers, slices, None, Ellipsis, integer tensors and masks, as in NumPy.

    Numbers and slices make one slice, whose starts may change from call to call at no cost. A mask
    gives a result whose size depends on its values.

    Raises:
        OutOfRangeError: an index points outside of its axis.
        AxisError: more axes are indexed than there are.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[1, 2, 3], [4, 5, 6]])
    >>> x[1, ::-1].tolist(), x[:, [0, 2]].tolist(), x[x > 4].tolist()
    ([6, 5, 4], [[1, 3], [4, 6]], [5, 6])
    """
    handle = handle_of(x, "x[...]")
    if hasattr(key, "_handle") and key.dtype.is_integer and handle.shape:
        return take(x, key, axis=0)
    regular = read_regular(key, handle.shape)
    if regular is not None:
        return reshaped(sliced(handle, *regular[:3])._handle, regular[3])
    plan = read_key(key, handle)
    piece = _basic(wrap(handle), plan)
    if not plan.advanced:
        return piece
    view = _Gathered(piece, plan)
    return take(view.merged, view.positions, axis=plan.position)


def updated(x: TensorLike, key: Any, value: Any, /, *, add: bool = False) -> Tensor:
    """`x` with `x[key]` replaced by a value, or with the value added to it.

    Args:
        x: a tensor.
        key: as for `x[key]`. Of several values for one element the last one stays.
        value: a tensor, array or number that broadcasts to `x[key]`; it takes the dtype of `x`.
        add: add instead; several values for one element all count.

    Raises:
        ShapeError: the value does not broadcast to `x[key]`.
        DTypeError: the value's dtype is of a higher kind, such as a float for an integer tensor.

    >>> import ingle.tensor as it
    >>> it.zeros(4).at[1:3].set(5).tolist()
    [0.0, 5.0, 5.0, 0.0]
    """
    handle = handle_of(x, "x[...] = value")
    tensor = wrap(handle)
    values = _value(handle, value)
    masked = _masked(tensor, key, values, add)
    if masked is not None:
        return masked
    plan = read_key(key, handle)
    piece = _basic(tensor, plan)
    if plan.advanced:
        piece = _Gathered(piece, plan).scattered(values, add)
    else:
        fitted = _fit(values, piece.shape)
        piece = piece + fitted if add else fitted
    piece = reshape(piece, plan.sizes)
    if piece.shape == tensor.shape and all(s == 1 for s in plan.steps):
        return piece
    return slice_update(tensor, piece, plan.starts, plan.steps)


class IndexedUpdate:
    """What `x.at` returns: `x.at[key].set(value)` and `x.at[key].add(value)` give new tensors."""

    __slots__ = ("_key", "_x")

    def __init__(self, x: TensorLike, key: Any = ...) -> None:
        self._x = x
        self._key = key

    def __getitem__(self, key: Any) -> IndexedUpdate:
        return IndexedUpdate(self._x, key)

    def set(self, value: Any) -> Tensor:
        """The tensor with the indexed elements replaced."""
        return updated(self._x, self._key, value)

    def add(self, value: Any) -> Tensor:
        """The tensor with a value added to the indexed elements, repeated ones repeatedly."""
        return updated(self._x, self._key, value, add=True)


class _Gathered:
    """A tensor with the axes that are indexed merged into one, and positions along that.

    Attributes:
        merged: the tensor, with the merged axis at the plan's position.
        positions: the indices of `take` along it.
    """

    def __init__(self, piece: Tensor, plan: Plan) -> None:
        places = [a.place for a in plan.advanced]
        others = [i for i in range(piece.ndim) if i not in places]
        at = plan.position
        self.order = (*others[:at], *places, *others[at:])
        moved = permute_dims(piece, self.order)
        self.moved_shape = moved.shape
        self.axis = at
        sizes = moved.shape[at : at + len(places)]
        if len(places) == 1 and plan.advanced[0].axis == at:
            self.merged = moved
            self.positions = plan.advanced[0].index
            return
        rest = moved.shape[at + len(places) :]
        self.merged = reshape(moved, (*moved.shape[:at], math.prod(sizes), *rest))
        self.positions = ravel_index(
            [a.index for a in plan.advanced], sizes, axes=[a.axis for a in plan.advanced]
        )

    def scattered(self, values: Tensor, add: bool) -> Tensor:
        """The tensor before merging with values written to the positions, or added."""
        shape = taken_shape(self.merged.shape, self.positions.shape, self.axis)
        scatter = scatter_add if add else scatter_set
        out = scatter(self.merged, self.positions, _fit(values, shape), axis=self.axis)
        inverse = sorted(range(len(self.order)), key=self.order.__getitem__)
        return permute_dims(reshape(out, self.moved_shape), inverse)


def _basic(x: Tensor, plan: Plan) -> Tensor:
    return reshape(slice(x, plan.starts, plan.sizes, plan.steps), plan.shape)


def _masked(x: Tensor, key: Any, values: Tensor, add: bool) -> Tensor | None:
    """A mask on the leading axes with one value for all: a choice, without counting."""
    if not hasattr(key, "_handle") or key.dtype.kind != "bool" or not key.ndim:
        return None
    tail = x.ndim - key.ndim
    if key.shape != x.shape[: key.ndim] or values.ndim > tail:
        return None
    mask = reshape(key, (*key.shape, *(1,) * tail))
    values = _fit(values, x.shape[key.ndim :])
    return where(mask, x + values if add else values, x)


def _value(x: Handle, value: Any) -> Tensor:
    name, device = "x[...] = value", x.backend.device
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        weak_scalar(name, "value", value, x.dtype)
        return full((), value, dtype=x.dtype, device=device)
    if not hasattr(value, "_handle") and not hasattr(type(value), "__ingle_tensor__"):
        wide = x.dtype if x.dtype.is_inexact and not hasattr(value, "dtype") else None
        value = asarray(value, dtype=wide, device=device)
    handle = handle_of(value, name, "value")
    kinds = ("bool", "unsigned", "signed", "float", "complex")
    order = [{"signed": "unsigned"}.get(d.kind, d.kind) for d in (handle.dtype, x.dtype)]
    if kinds.index(order[0]) > kinds.index(order[1]):
        raise DTypeError(
            f"{name}: a {handle.dtype} value does not fit a tensor of {x.dtype}; "
            f"cast it with value.astype('{x.dtype}')"
        )
    return astype(value, x.dtype)


def _fit(values: Tensor, shape: Shape) -> Tensor:
    while values.ndim > len(shape) and values.shape[0] == 1:
        values = reshape(values, values.shape[1:])
    lead = len(shape) - values.ndim
    if lead < 0 or any(v not in (1, n) for v, n in zip(values.shape, shape[lead:], strict=True)):
        raise ShapeError(
            f"x[...] = value: a value of shape {values.shape} does not broadcast to the indexed "
            f"shape {shape}"
        )
    return broadcast_to(values, shape)
