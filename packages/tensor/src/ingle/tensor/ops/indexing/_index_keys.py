"""Reading what stands in the brackets of `x[...]`.

A key is read in two parts. The basic part (numbers, slices, None, Ellipsis) is one slice and one
reshape. The advanced part (index tensors, lists, masks) applies to what that leaves.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Handle, Shape
from ...device import backend_of
from ...dispatch import handle_of, wrap
from ...errors import AxisError, OperandError, OutOfRangeError
from ..creation.conversion import asarray, holds_tensors
from ..movement.joining import unstack
from .nonzero import indices_of

if TYPE_CHECKING:
    from ...tensor import Tensor

_ALL = builtins.slice(None)


@dataclass(slots=True)
class Advanced:
    """One index tensor.

    Attributes:
        index: integers, in range if they came from the host.
        place: the axis that it indexes after the basic part.
        axis: the axis of the tensor itself, for messages.
    """

    index: Tensor
    place: int
    axis: int


@dataclass(slots=True)
class Plan:
    """A key, read for one shape.

    Attributes:
        starts, sizes, steps: the slice of the basic part.
        shape: after the slice, without the axes that numbers picked and with the new ones.
        advanced: the index tensors, in order.
        position: how many other axes come before those of the index tensors in the result.
    """

    starts: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    shape: list[int] = field(default_factory=list)
    advanced: list[Advanced] = field(default_factory=list)
    position: int = 0

    def take_slice(self, start: int, size: int, step: int) -> None:
        self.starts.append(start)
        self.sizes.append(size)
        self.steps.append(step)


def read_regular(
    key: Any, shape: Shape
) -> tuple[list[int], tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """Starts, sizes, steps and final shape of a key of numbers, slices, None and `...` only; None
    for another one, and for one of too many axes.

    `read_key` reads these too. This is the short way for what loops and models write most.
    """
    items = key if type(key) is tuple else (key,)
    starts: list[int] = []
    sizes: list[int] = []
    steps: list[int] = []
    final: list[int] = []
    axis = 0
    for place, item in enumerate(items):
        if item is None:
            final.append(1)
            continue
        if item is Ellipsis:
            behind = items[place + 1 :]
            whole = shape[axis : len(shape) - sum([e is not None for e in behind])]
            if any([e is Ellipsis for e in behind]):  # noqa: C419 (faster)
                return None
            starts += [0] * len(whole)
            sizes += whole
            steps += [1] * len(whole)
            final += whole
            axis += len(whole)
            continue
        if axis == len(shape):
            return None
        size = shape[axis]
        if type(item) is int:
            starts.append(_checked(item, axis, size))
            sizes.append(1)
            steps.append(1)
        elif type(item) is builtins.slice:
            if item.start is None and item.stop is None and item.step is None:
                start, count, step = 0, size, 1
            else:
                start, count, step = _regular(item, size)
            starts.append(start)
            sizes.append(count)
            steps.append(step)
            final.append(count)
        else:
            return None
        axis += 1
    rest = shape[axis:]
    starts += [0] * len(rest)
    return starts, (*sizes, *rest), (*steps, *[1] * len(rest)), (*final, *rest)


def read_key(key: object, x: Handle) -> Plan:
    """The plan of a key for a tensor."""
    items = _filled([e for k in _as_tuple(key) for e in _expanded(k, x)], x.shape)
    plan = Plan()
    fancy = [i for i, e in enumerate(items) if _is_fancy(e)]
    together = not fancy or fancy[-1] - fancy[0] == len(fancy) - 1
    axis = 0
    for i, item in enumerate(items):
        if fancy and i == fancy[0] and together:
            plan.position = len(plan.shape)
        axis += _read_item(plan, item, axis, x)
    if not any(isinstance(e, (_Index, bool)) for e in items):
        plan.position = 0
    return plan


@dataclass(slots=True)
class _Index:
    """An index tensor among the items; `size` is what a mask expects of its axis."""

    index: Any
    size: int | None = None


def _as_tuple(key: object) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _is_fancy(item: object) -> bool:
    """Numbers count among the index tensors when it is decided whether these are adjacent."""
    return isinstance(item, (int, _Index))


def _expanded(item: Any, x: Handle) -> Sequence[Any]:
    """An element of a key as None, Ellipsis, slices, numbers, bools and index tensors."""
    if item is None or item is Ellipsis or isinstance(item, (builtins.slice, bool)):
        return (item,)
    if hasattr(item, "_handle") or hasattr(type(item), "__ingle_tensor__"):
        return _tensor_items(wrap(handle_of(item, "x[...]", "index")))
    if hasattr(type(item), "__dlpack__") and not isinstance(item, np.ndarray):
        handle_of(item, "x[...]", "index")  # another library's array: says what to do
    if isinstance(item, np.generic) or not isinstance(item, (np.ndarray, list, tuple, range)):
        return (_number(item),)
    if isinstance(item, (list, tuple)) and holds_tensors(item):
        return _tensor_items(asarray(item))
    return _array_items(item)


def _number(item: Any) -> int | bool:
    if isinstance(item, np.bool_):
        return bool(item)
    if not hasattr(item, "__index__"):
        raise OperandError(
            f"x[...]: an index is an integer, a slice, None, ..., or an integer or bool tensor, "
            f"list or array; got {item!r:.80} of type {type(item).__name__}"
        )
    # A number that a recording follows must stay one.
    return item if isinstance(item, int) else operator.index(item)


def _tensor_items(index: Tensor) -> Sequence[Any]:
    if index.dtype.is_integer:
        return (_Index(index),)
    if index.dtype.kind != "bool":
        raise OperandError(
            f"x[...]: an index tensor must be integer or bool, got {index.dtype}; "
            "cast it with index.astype('int64')"
        )
    if not index.shape:
        return (bool(index),)
    rows = unstack(indices_of(index))
    return [_Index(r, n) for r, n in zip(rows, index.shape, strict=True)]


def _array_items(item: Any) -> Sequence[Any]:
    try:
        values = np.asarray(item)
    except ValueError as error:
        raise OperandError(f"x[...]: a list of indices is ragged: {error}") from None
    if not values.size and not isinstance(item, np.ndarray):
        values = values.astype(np.int64)
    if not values.ndim:
        return (_number(values[()]),)
    if values.dtype.kind == "b":
        return [_Index(i, n) for i, n in zip(np.nonzero(values), values.shape, strict=True)]
    if values.dtype.kind not in "iu":
        raise OperandError(
            f"x[...]: indices must be integers or bools, got {values.dtype}: {item!r:.80}"
        )
    return (_Index(values),)


def _consumes(item: object) -> bool:
    """Whether an item uses up an axis; None, Ellipsis and bools do not."""
    return not (item is None or item is Ellipsis or isinstance(item, bool))


def _filled(items: list[Any], shape: Shape) -> list[Any]:
    """The items with a whole slice for every axis that they leave out."""
    used = sum(map(_consumes, items))
    if used > len(shape):
        raise AxisError(
            f"x[...]: {used} axes are indexed, but the tensor of shape {shape} has {len(shape)}"
        )
    dots = [i for i, e in enumerate(items) if e is Ellipsis]
    if len(dots) > 1:
        raise AxisError("x[...]: a key can have only one Ellipsis (...)")
    # The Ellipsis stays: even where it stands for no axis it parts the index tensors around it.
    at = dots[0] + 1 if dots else len(items)
    return [*items[:at], *[_ALL] * (len(shape) - used), *items[at:]]


def _read_item(plan: Plan, item: Any, axis: int, x: Handle) -> int:
    """Adds an item to the plan; returns how many axes of the tensor it used."""
    if item is Ellipsis:
        return 0
    if item is None:
        plan.shape.append(1)
        return 0
    if isinstance(item, bool):
        # True keeps everything and False nothing, along a new axis of size 1.
        _add_index(plan, np.zeros(int(item), np.int64), axis, x)
        plan.shape.append(1)
        return 0
    size = x.shape[axis]
    if isinstance(item, int):
        plan.take_slice(_checked(item, axis, size), 1, 1)
        return 1
    if isinstance(item, _Index):
        if item.size not in (None, 0, size):
            raise OutOfRangeError(
                f"x[...]: a mask has size {item.size} where axis {axis} of shape {x.shape} has "
                f"size {size}; they must be equal, or the mask empty"
            )
        if isinstance(item.index, np.ndarray) and item.index.size:
            _checked(int(item.index.min()), axis, size)
            _checked(int(item.index.max()), axis, size)
        _add_index(plan, item.index, axis, x)
        start, count, step = 0, size, 1
    else:
        start, count, step = _regular(item, size)
    plan.take_slice(start, count, step)
    plan.shape.append(count)
    return 1


def _regular(item: builtins.slice, size: int) -> tuple[int, int, int]:
    try:
        start, stop, step = item.indices(size)
    except TypeError:
        raise OperandError(
            f"x[...]: the parts of a slice must be integers or None, got {item!r}"
        ) from None
    except ValueError:
        raise OperandError(f"x[...]: a slice needs a step other than 0, got {item!r}") from None
    count = len(range(start, stop, step))
    return (start, count, step) if count else (0, 0, 1)


def _add_index(plan: Plan, index: Any, axis: int, x: Handle) -> None:
    if isinstance(index, np.ndarray):
        index = wrap(backend_of(x.backend.device).upload(index))
    plan.advanced.append(Advanced(index, len(plan.shape), axis))


def _checked(index: int, axis: int, size: int) -> int:
    if not -size <= index < size:
        valid = f"valid are {-size} to {size - 1}" if size else "it has no elements"
        raise OutOfRangeError(
            f"x[...]: index {index} is out of range for axis {axis} of size {size}: {valid}"
        )
    return index + size if index < 0 else index
