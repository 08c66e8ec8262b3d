"""Tensors that go on beyond their ends: mirrored, with their outermost elements, or in a circle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Shape
from ...dispatch import TensorLike, handle_of, run1
from ...errors import ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import NUMERIC, widened
from ..elementwise.cast import astype
from ..reductions.basic import sum
from .joining import concat
from .shapes import broadcast_to
from .slicing import slice_axis

if TYPE_CHECKING:
    from ...tensor import Tensor


_STATICS = ("low", "high", "mode")


def extended(x: TensorLike, low: Shape, high: Shape, mode: str) -> Tensor:
    """The tensor with elements of its own added at the ends of its axes.

    Args:
        x: a tensor.
        low, high: how many, before and after, for each axis.
        mode: `"reflect"`, `"edge"` or `"circular"`; see `pad`.
    """
    return run1(EXTENDED.op(low=low, high=high, mode=mode), handle_of(x, "extended"))


def _rule(x: Aval, *, low: Shape, high: Shape, mode: str) -> Aval:
    _require_axes("extended", x, low)
    _require_enough("pad (extended)", x.shape, low, high, mode)
    return Aval(tuple(a + n + b for a, n, b in zip(low, x.shape, high, strict=True)), x.dtype)


def _body(x: Tensor, *, low: Shape, high: Shape, mode: str) -> Tensor:
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        if before or after:
            x = concat(_PARTS[mode](x, axis, before, after), axis=axis)
    return x


def _samples(draw: Draw, back: bool) -> Iterator[Sample]:
    if back and draw.dtype.kind not in NUMERIC:
        return
    for shape, low, high in _CASES:
        for mode in _PARTS:
            added = zip(shape, low, high, strict=True)
            x = draw.array(tuple(n + a + b for n, a, b in added) if back else shape)
            yield Sample((x, low, high, mode))


def _reference(x: Any, low: Shape, high: Shape, mode: str) -> Any:
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        x = np.take(x, _repeated(x.shape[axis], before, after, mode), axis)
    return x


EXTENDED = Operation(
    "extended",
    tensors=("x",),
    statics=_STATICS,
    rule=_rule,
    traits=Traits("opaque", storage=True),
    vjp={"x": lambda g, low, high, mode: extended_gradient(g, low, high, mode)},
    body=_body,
    public=extended,
    samples=partial(_samples, back=False),
    reference=_reference,
)


def extended_gradient(g: TensorLike, low: Shape, high: Shape, mode: str) -> Tensor:
    """The gradient of `extended`: what was added goes to the elements that it repeats.

    Args:
        g: of the shape of the result.
        low, high, mode: those of `extended`.
    """
    return run1(
        EXTENDED_GRADIENT.op(low=low, high=high, mode=mode), handle_of(g, "extended_gradient", "g")
    )


def _gradient_rule(g: Aval, *, low: Shape, high: Shape, mode: str) -> Aval:
    _require_axes("extended_gradient", g, low)
    shape = tuple(n - a - b for a, n, b in zip(low, g.shape, high, strict=True))
    _require_enough("extended_gradient", shape, low, high, mode)
    return Aval(shape, g.dtype)


def _gradient_body(g: Tensor, *, low: Shape, high: Shape, mode: str) -> Tensor:
    """The last axis first: kernels take rows, and leave less to the other axes."""
    none = (0,) * (len(low) - 1)
    if (any(low[:-1]) or any(high[:-1])) and (low[-1] or high[-1]):
        g = extended_gradient(g, (*none, low[-1]), (*none, high[-1]), mode)
        low, high = (*low[:-1], 0), (*high[:-1], 0)
    for axis in reversed(range(len(low))):
        if low[axis] or high[axis]:
            g = _folded(g, axis, low[axis], high[axis], mode)
    return g


def _gradient_reference(g: Any, low: Shape, high: Shape, mode: str) -> Any:
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        size = g.shape[axis] - before - after
        lines: Any = np.moveaxis(g, axis, 0)
        total: Any = np.zeros((size, *lines.shape[1:]), g.dtype)
        np.add.at(total, _repeated(size, before, after, mode), lines)
        g = np.moveaxis(total, 0, axis)
    return g


EXTENDED_GRADIENT = Operation(
    "extended_gradient",
    tensors=("g",),
    statics=_STATICS,
    rule=_gradient_rule,
    traits=Traits("opaque"),
    vjp={"g": lambda g, low, high, mode: extended(g, low, high, mode)},
    body=_gradient_body,
    public=extended_gradient,
    samples=partial(_samples, back=True),
    reference=_gradient_reference,
)


def _require_axes(name: str, x: Aval, low: Shape) -> None:
    if len(x.shape) != len(low):
        raise ShapeError(
            f"{name}: low and high must have a number for each axis of shape {x.shape}, got "
            f"{len(low)} of them"
        )


def _require_enough(name: str, shape: Shape, low: Shape, high: Shape, mode: str) -> None:
    """That a tensor has the elements that `extended` repeats."""
    for axis, (size, before, after) in enumerate(zip(shape, low, high, strict=True)):
        most = max(before, after)
        least = 0 if not most else 1 if mode == "edge" else most + (mode == "reflect")
        if size < least:
            raise ShapeError(
                f"{name}: mode {mode!r} needs at least {least} elements along axis {axis} "
                f"to add {most}, got shape {shape}"
            )


def _mirrored(x: Tensor, axis: int, before: int, after: int) -> list[Tensor]:
    size = x.shape[axis]
    low = [slice_axis(x, axis, before, before, -1)] if before else []
    return [*low, x, *([slice_axis(x, axis, size - 2, after, -1)] if after else [])]


def _with_edges(x: Tensor, axis: int, before: int, after: int) -> list[Tensor]:
    def edge(at: int, width: int) -> Tensor:
        shape = *x.shape[:axis], width, *x.shape[axis + 1 :]
        return broadcast_to(slice_axis(x, axis, at, 1), shape)

    return [edge(0, before), x, edge(x.shape[axis] - 1, after)]


def _in_a_circle(x: Tensor, axis: int, before: int, after: int) -> list[Tensor]:
    end = slice_axis(x, axis, x.shape[axis] - before, before)
    return [end, x, slice_axis(x, axis, 0, after)]


_PARTS: dict[str, Callable[[Tensor, int, int, int], list[Tensor]]] = {
    "reflect": _mirrored,
    "edge": _with_edges,
    "circular": _in_a_circle,
}


def _folded(g: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    """What was added along one axis added to what it repeats, in one pass if these lie apart."""
    size = g.shape[axis] - before - after
    inside, behind = slice_axis(g, axis, before, size), before + size
    step = -1 if mode == "reflect" else 1
    first, last = (before - 1, g.shape[axis] - 1) if step < 0 else (0, behind)
    low, high = _FIRST[mode](size, before, after)
    added = [(low, first, before)] if before else []
    added += [(high, last, after)] if after else []
    parts = [(at, slice_axis(g, axis, start, count, step)) for at, start, count in added]
    if mode == "edge":
        parts = [(at, _sum(part, axis)) for at, part in parts]
    parts.sort(key=lambda part: part[0])
    if len(parts) == 2 and parts[0][0] + parts[0][1].shape[axis] > parts[1][0]:
        inside = _with_sums(inside, parts[:1], axis)
        del parts[0]
    return _with_sums(inside, parts, axis)


_FIRST: dict[str, Callable[[int, int, int], tuple[int, int]]] = {
    "reflect": lambda size, before, after: (1, size - 1 - after),
    "edge": lambda size, before, after: (0, size - 1),
    "circular": lambda size, before, after: (size - before, 0),
}
"""The first element that is repeated before a tensor, and behind it."""


def _sum(g: Tensor, axis: int) -> Tensor:
    return astype(sum(widened(g), axis=axis, keepdims=True), g.dtype)


def _with_sums(x: Tensor, parts: Sequence[tuple[int, Tensor]], axis: int) -> Tensor:
    """A tensor with others added to pieces of it, which lie one behind the other."""
    pieces, end = [], 0
    for at, part in parts:
        count = part.shape[axis]
        pieces.append(slice_axis(x, axis, end, at - end))
        pieces.append(slice_axis(x, axis, at, count) + part)
        end = at + count
    pieces.append(slice_axis(x, axis, end, x.shape[axis] - end))
    return concat([piece for piece in pieces if piece.shape[axis]], axis=axis)


_CASES: tuple[tuple[Shape, Shape, Shape], ...] = (
    ((2, 3, 9), (0, 1, 3), (0, 2, 2)),
    ((3, 2), (2, 0), (1, 0)),
    ((1, 3), (0, 2), (0, 2)),
)
"""Shapes, and how many elements are added before and behind along each axis."""


def _repeated(size: int, before: int, after: int, mode: str) -> Any:
    """Which element of an axis is where, by definition."""
    name: Any = "wrap" if mode == "circular" else mode
    return np.pad(np.arange(size), (before, after), mode=name)
