"""Loops of maps over very short rows, turned so that vectors go along a longer axis.

Vectors along a row of a few elements are mostly empty. Where neighbours along it are far apart, as
where channels become pixels, each element is gathered by itself as well; where a row repeats one
element, that is loaded anew for each row. Along another axis all of them are read from one to the
next, and written in steps of a few elements, by vectors of neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..kernel.nest import MAX_OUTER

VERY_SHORT = 8
"""Elements of a row below which vectors along it are mostly empty."""
NEAR = 4
"""Elements from one to the next up to which vectors of neighbours hold what is apart so far."""
SHORTEST, LONGEST = 64, 1024
"""Elements of a piece of a long axis: a loop pays, and what is written again and again is near."""

Sizes = tuple[int, ...]
Strides = list[tuple[int, ...]]


def turned(
    sizes: Sizes, strides: Sequence[tuple[int, ...]], operands: int
) -> tuple[Sizes, Strides]:
    """The loops of a map, which may go in any order.

    Args:
        sizes: of the loops, from the outside in.
        strides: of each operand, and then of places, along these.
        operands: how many of the strides are those of operands.

    >>> turned((28, 4, 28, 4), [(28, 3136, 1, 784), (448, 112, 4, 1)], 2)
    ((28, 4, 4, 28), [(28, 3136, 784, 1), (448, 112, 1, 4)])
    """
    read = strides[:operands]
    # Strides first, which are mostly 1: a question about a size that is a symbol costs plans.
    far = any(s[-1] > NEAR for s in read)
    repeats = len(read) > 1 and sum(s[-1] != 0 for s in read) == 1
    if len(sizes) > 1 and (far or repeats) and sizes[-1] < VERY_SHORT:
        for axis in reversed(range(len(sizes) - 1)):
            steps = [s[axis] for s in read]
            if 1 in steps and all(0 <= n <= NEAR for n in steps) and sizes[axis] >= VERY_SHORT:
                return _along(axis, sizes, strides)
    return sizes, [*strides]


def _along(axis: int, sizes: Sizes, strides: Sequence[tuple[int, ...]]) -> tuple[Sizes, Strides]:
    """Loops of which an axis, or pieces of a long one, is the innermost."""
    size = sizes[axis]
    before, behind = sizes[:axis], sizes[axis + 1 :]
    if size <= LONGEST:
        moved = [(*s[:axis], *s[axis + 1 :], s[axis]) for s in strides]
        return (*before, *behind, size), moved
    part = min(size & -size, LONGEST) if type(size) is int else 0
    if part < SHORTEST or len(sizes) > MAX_OUTER:
        return sizes, [*strides]
    moved = [(*s[:axis], s[axis] * part, *s[axis + 1 :], s[axis]) for s in strides]
    return (*before, size // part, *behind, part), moved
