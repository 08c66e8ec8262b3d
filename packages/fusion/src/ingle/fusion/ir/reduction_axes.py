"""Which axes a reduction folds, and along which ones its lanes run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from ingle.tensor.operation import Op

T = TypeVar("T")


def folded_axes(op: Op, count: int) -> tuple[int, ...]:
    """The axes that a reduction of an operand with so many axes folds."""
    axis = op.attributes["axis"]
    if axis is None:
        return tuple(range(count))
    return tuple(axis) if isinstance(axis, tuple) else (axis,)


def lanes_of(shape: Sequence[int], folded: Collection[int]) -> str | None:
    """Along a row if rows are what is folded, else across rows; None if nothing is."""
    long = [a for a, n in enumerate(shape) if n != 1]
    if not set(long).intersection(folded):
        return None
    return "inner" if long[-1] in folded else "outer"


def left_over(op: Op, of: Sequence[T]) -> tuple[T | None, ...]:
    """What a reduction leaves of something that its operand has for each axis.

    None stands where an axis of size 1 is kept.
    """
    axes = folded_axes(op, len(of))
    if op.attributes.get("keepdims"):
        return tuple([None if a in axes else x for a, x in enumerate(of)])
    return tuple([x for a, x in enumerate(of) if a not in axes])
