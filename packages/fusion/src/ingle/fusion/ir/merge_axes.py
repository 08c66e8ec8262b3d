"""Loop axes: merged where every operand allows it, so that loops are few and long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Axes(NamedTuple):
    """Loop axes of a kernel.

    Attributes:
        sizes: of each axis, from the outside in.
        strides: for each operand its stride along each axis, in elements.
    """

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def merged(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> Axes:
    """The same places with as few axes as possible; axes of size 1 disappear.

    >>> merged((2, 1, 3), [(3, 7, 1), (0, 0, 0)])
    Axes(sizes=(6,), strides=((1,), (0,)))
    >>> merged((2, 3), [(3, 1), (0, 1)])
    Axes(sizes=(2, 3), strides=((3, 1), (0, 1)))
    """
    left: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        if left and all(s[-1] == of[axis] * size for s, of in zip(steps, strides, strict=True)):
            left[-1] *= size
            for s, of in zip(steps, strides, strict=True):
                s[-1] = of[axis]
            continue
        left.append(size)
        for s, of in zip(steps, strides, strict=True):
            s.append(of[axis])
    return Axes(tuple(left), tuple([tuple(s) for s in steps]))


def lane_of(stride: int) -> str:
    """What a kernel knows of a stride along its lanes; see `Operand`."""
    return "zero" if stride == 0 else "unit" if stride == 1 else "strided"
