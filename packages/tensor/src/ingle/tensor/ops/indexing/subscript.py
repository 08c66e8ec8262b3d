"""`x[...]`, `x[...] = value` and `x.at[...]`, with NumPy's meaning of every key."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from ...contract import Handle, Shape
from ...dispatch import TensorLike, handle_of, wrap
from ...errors import DTypeError, OperandError, ShapeError
from ...prepared import remembered
from .._rules import INEXACT, NUMERIC, REAL
from ..creation.conversion import asarray
from ..creation.filled import ones
from ..elementwise.arithmetic import add, divide, multiply, negative
from ..elementwise.cast import astype
from ..elementwise.extrema import maximum, minimum
from ..elementwise.where import filled_like, where
from ..movement.shapes import broadcast_to, permute_dims, reshape
from ..movement.slicing import piece_of, slice, slice_update
from ._index_keys import Plan, read_key, read_regular
from .gathering import take, taken_shape
from .linear_index import ravel_index
from .nonzero import indices_of
from .regular_updates import piece_set
from .scatter_reductions import scatter_reduce
from .scattering import scatter_add, scatter_set

if TYPE_CHECKING:
    from ...dtypes import DType
    from ...tensor import Tensor


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
        return piece_of(handle, *regular)
    chosen = _chosen(handle, key)
    if chosen is not None:
        return take(*chosen, axis=0)
    if _is_of_tensors(key):
        return _by_tensors(x, key)
    return _by_any(x, key)


def _by_any(x: TensorLike, key: Any) -> Tensor:
    handle = handle_of(x, "x[...]")
    plan = read_key(key, handle)
    piece = _basic(wrap(handle), plan)
    if not plan.advanced:
        return piece
    view = _Gathered(piece, plan, "x[...]")
    return take(view.merged, view.positions, axis=plan.position)


_by_tensors = remembered(_by_any)


def _is_of_tensors(key: Any) -> bool:
    """Whether it is a key without numbers and lists, of which there are ever other ones."""
    return type(key) is tuple and not any([type(e) in (int, list) for e in key])  # noqa: C419 (faster)


def updated(x: TensorLike, key: Any, value: Any, /, how: How = "set") -> Tensor:
    """`x` with `x[key]` replaced by a value, or combined with it.

    Args:
        x: a tensor.
        key: as for `x[key]`.
        value: a tensor, array or number that broadcasts to `x[key]`; it takes the dtype of `x`.
        how: `"set"`, where of several values for one element the last one stays; or `"add"`,
            `"multiply"`, `"divide"`, `"max"`, `"min"`, where all of them count.

    Raises:
        ShapeError: the value does not broadcast to `x[key]`.
        DTypeError: the value's dtype is of a higher kind, such as a float for an integer tensor; or
            the dtype of `x` has no such operation.

    >>> import ingle.tensor as it
    >>> it.zeros(4).at[1:3].set(5).tolist()
    [0.0, 5.0, 5.0, 0.0]
    """
    handle = handle_of(x, "x[...] = value")
    _check_kind(how, handle.dtype)
    if how == "set" and not hasattr(key, "_handle"):
        regular = read_regular(key, handle.shape)
        if regular is not None and regular[1] != handle.shape:
            small = piece_set(handle, value, *regular)
            if small is not None:
                return wrap(small)
    tensor = wrap(handle)
    values = value_for(handle, value)
    masked = _masked(tensor, key, values, how)
    if masked is not None:
        return masked
    chosen = _chosen(handle, key)
    if chosen is not None:
        rows, places = chosen
        values = fitted(values, (*places.shape, *rows.shape[1:]))
        return reshape(_scattered(rows, places, values, 0, how), tensor.shape)
    if hasattr(key, "_handle") or _is_of_tensors(key):
        return _replaced_by_tensors(tensor, key, values, how)
    return _replaced_by_any(tensor, key, values, how)


def _replaced_by_any(tensor: Tensor, key: Any, values: Tensor, how: How) -> Tensor:
    handle = tensor._handle
    plan = read_key(key, handle)
    piece = _basic(tensor, plan)
    if plan.advanced:
        piece = _Gathered(piece, plan, "x[...] = value").scattered(values, how)
    else:
        piece = _COMBINE[how](piece, fitted(values, piece.shape))
    piece = reshape(piece, plan.sizes)
    if piece.shape == tensor.shape and all(s == 1 for s in plan.steps):
        return piece
    return slice_update(tensor, piece, plan.starts, plan.steps)


_replaced_by_tensors = remembered(_replaced_by_any)


How = Literal["set", "add", "multiply", "divide", "max", "min"]

_COMBINE: dict[How, Callable[[Tensor, Tensor], Tensor]] = {
    "set": lambda old, new: new,
    "add": add,
    "multiply": multiply,
    "divide": divide,
    "max": maximum,
    "min": minimum,
}
_KINDS: dict[str, tuple[str, ...]] = {
    "add": NUMERIC, "multiply": NUMERIC, "divide": INEXACT, "max": REAL, "min": REAL,
}  # fmt: skip


def _check_kind(how: How, dtype: DType) -> None:
    kinds = _KINDS.get(how)
    if kinds is not None and dtype.kind not in kinds:
        raise DTypeError(
            f"x.at[...].{how}: x must be {' or '.join(kinds)}, got {dtype}; cast it first with "
            "x.astype(...)"
        )


class IndexedUpdate:
    """What `x.at` returns: `x.at[key].add(value)` and its like give new tensors.

    Keys mean what they mean in `x[key]`. A value broadcasts to `x[key]` and takes the dtype of `x`,
    which has to be of the same kind or a higher one. Where a key names an element several times,
    `set` keeps the last value and the others count all of them. All have gradients by `x` and by
    the value; those of `max` and `min` are shared among ties.

    >>> import ingle.tensor as it
    >>> x = it.asarray([1.0, 2.0, 3.0])
    >>> x.at[[0, 0, 2]].multiply(it.asarray([2.0, 5.0, 0.5])).tolist()
    [10.0, 2.0, 1.5]
    >>> x.at[x > 1].set(0).tolist(), x.at[:2].max(1.5).tolist()
    ([1.0, 0.0, 0.0], [1.5, 2.0, 3.0])
    """

    __slots__ = ("_key", "_x")

    def __init__(self, x: TensorLike, key: Any = ...) -> None:
        self._x = x
        self._key = key

    def __getitem__(self, key: Any) -> IndexedUpdate:
        return IndexedUpdate(self._x, key)

    def __setitem__(self, key: Any, value: object) -> NoReturn:
        raise OperandError(
            "x.at[...] = value: nothing is assigned to x.at; write x[key] = value, or "
            "y = x.at[key].set(value) for a new tensor"
        )

    def __call__(self, *key: object) -> NoReturn:
        raise OperandError("x.at(...): a key goes in brackets; write x.at[key].set(value)")

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"x.at[...] has no attribute {name!r}; write {_UPDATES.get(name, _ANY_UPDATE)}",
            name=name,
        )

    def _no_operand(self, other: object = None) -> NoReturn:
        raise OperandError(
            "x.at[...] is no tensor, and no operand; write x.at[key].add(value) for a new tensor "
            "(or subtract, multiply, divide), x[key] for the elements"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_operand
    __truediv__ = __rtruediv__ = __pow__ = __matmul__ = __neg__ = _no_operand

    def get(self) -> Tensor:
        """The indexed elements: `x[key]`."""
        return getitem(self._x, self._key)

    def set(self, value: Any) -> Tensor:
        """The tensor with the indexed elements replaced."""
        return updated(self._x, self._key, value)

    def apply(self, function: Callable[[Tensor], Any]) -> Tensor:
        """The tensor with the indexed elements replaced by a function of them, applied once.

        >>> import ingle.tensor as it
        >>> it.asarray([1.0, 4.0, 9.0]).at[1:].apply(it.sqrt).tolist()
        [1.0, 2.0, 3.0]
        """
        return self.set(function(self.get()))

    def add(self, value: Any) -> Tensor:
        """The tensor with a value added to the indexed elements."""
        return updated(self._x, self._key, value, "add")

    def subtract(self, value: Any) -> Tensor:
        """The tensor with a value subtracted from the indexed elements."""
        handle = handle_of(self._x, "x.at[...].subtract")
        _check_kind("add", handle.dtype)
        return self.add(negative(value_for(handle, value)))

    def multiply(self, value: Any) -> Tensor:
        """The tensor with the indexed elements multiplied by a value."""
        return updated(self._x, self._key, value, "multiply")

    def divide(self, value: Any) -> Tensor:
        """The tensor with the indexed elements divided by a value; for inexact dtypes."""
        return updated(self._x, self._key, value, "divide")

    def max(self, value: Any) -> Tensor:
        """The tensor with the larger of each indexed element and a value."""
        return updated(self._x, self._key, value, "max")

    def min(self, value: Any) -> Tensor:
        """The tensor with the smaller of each indexed element and a value."""
        return updated(self._x, self._key, value, "min")


_UPDATES = {
    "mul": "x.at[key].multiply(value)",
    "sub": "x.at[key].subtract(value)",
    "div": "x.at[key].divide(value)",
    "assign": "x.at[key].set(value)",
}
_ANY_UPDATE = (
    "x[key] for the elements, x.at[key].apply(function) for an update other than get, set, add, "
    "subtract, multiply, divide, max and min"
)


class _Gathered:
    """A tensor with the axes that are indexed merged into one, and positions along that.

    Args:
        piece: the tensor.
        plan: the key.
        called: whose name errors have.

    Attributes:
        merged: the tensor, with the merged axis at the plan's position.
        positions: the indices of `take` along it.
    """

    def __init__(self, piece: Tensor, plan: Plan, called: str) -> None:
        places = [a.place for a in plan.advanced]
        others = [i for i in range(piece.ndim) if i not in places]
        at = plan.position
        self.order = (*others[:at], *places, *others[at:])
        moved = piece if self.order == (*range(piece.ndim),) else permute_dims(piece, self.order)
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
            [a.index for a in plan.advanced],
            sizes,
            called=called,
            axes=[a.axis for a in plan.advanced],
        )

    def scattered(self, values: Tensor, how: How) -> Tensor:
        """The tensor before merging with values written to the positions, or combined."""
        shape = taken_shape(self.merged.shape, self.positions.shape, self.axis)
        out = _scattered(self.merged, self.positions, fitted(values, shape), self.axis, how)
        inverse = sorted(range(len(self.order)), key=self.order.__getitem__)
        return permute_dims(reshape(out, self.moved_shape), inverse)


def _scattered(x: Tensor, positions: Tensor, values: Tensor, axis: int, how: How) -> Tensor:
    if how == "set":
        return scatter_set(x, positions, values, axis=axis)
    if how == "add":
        return scatter_add(x, positions, values, axis=axis)
    if how == "divide":
        one = ones(x.shape, dtype=x.dtype, device=x.device)
        return x / scatter_reduce(one, positions, values, "prod", axis=axis)
    return scatter_reduce(x, positions, values, _REDUCTIONS[how], axis=axis)


_REDUCTIONS = {"multiply": "prod", "max": "amax", "min": "amin"}


def _basic(x: Tensor, plan: Plan) -> Tensor:
    # Where a start is followed through a recording, asking for its value would make it a constant.
    first = all(type(start) is int and not start for start in plan.starts)
    whole = first and (*plan.sizes,) == x.shape and all(step == 1 for step in plan.steps)
    piece = x if whole else slice(x, plan.starts, plan.sizes, plan.steps)
    return piece if piece.shape == tuple(plan.shape) else reshape(piece, plan.shape)


def _chosen(x: Handle, key: Any) -> tuple[Tensor, Tensor] | None:
    """A mask on the leading axes: these as one, and the places along it where the mask is true."""
    if not hasattr(key, "_handle") or key.dtype.kind != "bool" or not key.ndim:
        return None
    if key.shape != x.shape[: key.ndim] or not key.size:
        return None
    rows = wrap(x)
    if key.ndim > 1:
        rows, key = reshape(rows, (key.size, *x.shape[key.ndim :])), reshape(key, (key.size,))
    places = indices_of(key)
    return rows, reshape(places, places.shape[1:])


def _masked(x: Tensor, key: Any, values: Tensor, how: How) -> Tensor | None:
    """A mask on the leading axes with one value for all: a choice, without counting."""
    if not hasattr(key, "_handle") or key.dtype.kind != "bool" or not key.ndim:
        return None
    tail = x.ndim - key.ndim
    if key.shape != x.shape[: key.ndim] or values.ndim > tail:
        return None
    mask = reshape(key, (*key.shape, *(1,) * tail))
    values = fitted(values, x.shape[key.ndim :])
    return where(mask, _COMBINE[how](x, values), x)


def value_for(x: Handle, value: Any) -> Tensor:
    name, device = "x[...] = value", x.backend.device
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        return wrap(filled_like(name, "value", value, x))
    if not hasattr(value, "_handle") and not hasattr(type(value), "__ingle_tensor__"):
        weak = x.dtype.is_inexact or x.dtype.is_storage
        wide = x.dtype if weak and not hasattr(value, "dtype") else None
        value = asarray(value, dtype=wide, device=device)
    handle = handle_of(value, name, "value")
    if not _holds(x.dtype, handle.dtype):
        raise DTypeError(
            f"{name}: a {handle.dtype} value does not fit a tensor of {x.dtype}; "
            f"cast it with value.astype('{x.dtype}')"
        )
    return astype(value, x.dtype)


def _holds(into: DType, dtype: DType) -> bool:
    """Whether values of a dtype may be written into a tensor of another."""
    if into is dtype or into.is_storage or dtype.is_storage:
        return into is dtype
    kinds = ("bool", "unsigned", "signed", "float", "complex")
    have, want = ({"signed": "unsigned"}.get(d.kind, d.kind) for d in (dtype, into))
    return kinds.index(have) <= kinds.index(want)


def fitted(values: Tensor, shape: Shape) -> Tensor:
    while values.ndim > len(shape) and values.shape[0] == 1:
        values = reshape(values, values.shape[1:])
    lead = len(shape) - values.ndim
    if lead < 0 or any(v not in (1, n) for v, n in zip(values.shape, shape[lead:], strict=True)):
        raise ShapeError(
            f"x[...] = value: a value of shape {values.shape} does not broadcast to the indexed "
            f"shape {shape}"
        )
    return broadcast_to(values, shape)
