"""Values whose elements lie in another one: where what was said of the first is in the second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .merge_axes import merged
from .views import strides_of


class Placement(NamedTuple):
    """Where all elements of a value lie in another one.

    Attributes:
        target: the other value.
        sizes: of axes that the value's memory splits into, in C order.
        strides: along these, in elements of the other value.
        offset: of the first element there.
    """

    target: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def of(
        self, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> tuple[tuple[int, ...], int] | None:
        """Strides and offset in the other value of elements that lie so in this one.

        None where no strides say that. Along an axis of one element they are 0.

        >>> rows = Placement(7, (4, 6), (10, 1), 3)
        >>> rows.of((4, 2, 3), (6, 3, 1), 0)
        ((10, 3, 1), 3)
        >>> rows.of((2, 3), (12, 2), 7)
        ((20, 2), 14)
        >>> rows.of((24,), (1,), 0)
        """
        steps = strides_of(self.sizes)
        last: list[int] = []  # the place of the last element along each axis of memory
        rest = offset
        for step in steps:
            at, rest = divmod(rest, step)
            last.append(at)
        start = self.offset + sum([at * s for at, s in zip(last, self.strides, strict=True)])
        found: list[int] = []
        for size, stride in zip(shape, strides, strict=True):
            if size == 1 or not stride:
                found.append(0)
                continue
            axis = next((k for k, step in enumerate(steps) if stride % step == 0), None)
            if axis is None or stride < 0:
                return None
            times = stride // steps[axis]
            last[axis] += times * (size - 1)
            found.append(times * self.strides[axis])
        if any(at >= size for at, size in zip(last, self.sizes, strict=True)):
            return None
        return tuple(found), start


def place_of(
    target: int, sizes: Sequence[int], source: Sequence[int], strides: Sequence[int], offset: int
) -> Placement | None:
    """The place of a value that loops copy; None if they do not visit it as dense memory.

    Args:
        target: where to.
        sizes: of the loops.
        source: strides along these of the value, which begins at its first element.
        strides, offset: of the other value.

    >>> place_of(7, (2, 3, 4), (4, 8, 1), (12, 4, 1), 5)
    Placement(target=7, sizes=(3, 2, 4), strides=(4, 12, 1), offset=5)
    """
    loops = sorted(
        [
            (step, size, there)
            for size, step, there in zip(sizes, source, strides, strict=True)
            if size != 1
        ],
        reverse=True,
    )
    steps, long, there = (tuple([loop[k] for loop in loops]) for k in range(3))
    if steps != strides_of(long) or any(step <= 0 for step in there):
        return None
    axes = merged(long, [steps, there])
    return Placement(target, axes.sizes, axes.strides[1], offset)


class Box(NamedTuple):
    """Elements of a value.

    Attributes:
        sizes, strides: of axes.
        offset: of the first of them.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def meets(self, other: Box) -> bool:
        """Whether both may have an element: what is not seen to be apart counts as met.

        They are apart if one ends before the other begins, or if all rows of both lie in windows
        of one length, such as the rows of a matrix, in different parts of these. A row is what the
        axes of strides below some number walk.

        >>> left, right = Box((4, 3), (8, 1), 0), Box((4, 5), (8, 1), 3)
        >>> left.meets(right), left.meets(right._replace(offset=2)), left.meets(left)
        (False, True, True)
        >>> even, odd = Box((4, 3), (12, 2), 0), Box((4, 3), (12, 2), 1)
        >>> even.meets(odd), even.meets(even._replace(offset=6)), even.meets(odd._replace(offset=4))
        (False, False, True)
        """
        (first, last), (begin, end) = self._reach(), other._reach()
        if last < begin or end < first:
            return False
        widths = {abs(s) for s in (*self.strides, *other.strides)}
        return not any(self._is_beside(other, width) for width in widths)

    def _is_beside(self, other: Box, width: int) -> bool:
        """Whether rows, of axes with strides below a width, lie in different parts of windows."""
        (run, steps), (length, others) = self._rows(width), other._rows(width)
        window = math.gcd(*steps, *others)
        at, there = self.offset % window if window else 0, other.offset % window if window else 0
        if not window or at + run > window or there + length > window:
            return False
        return at >= there + length or there >= at + run

    def _reach(self) -> tuple[int, int]:
        steps = [(n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True)]
        return (
            self.offset + sum([min(s, 0) for s in steps]),
            self.offset + sum([max(s, 0) for s in steps]),
        )

    def _rows(self, width: int) -> tuple[int, list[int]]:
        """How many elements a row spans, and how far these are apart along each other axis."""
        pairs = [(s, n) for s, n in zip(self.strides, self.sizes, strict=True) if n != 1 and s]
        run = 1 + sum([(n - 1) * s for s, n in pairs if 0 < s < width])
        return run, [abs(s) for s, _ in pairs if not 0 < s < width]
