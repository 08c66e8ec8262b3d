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
        of one length, such as the rows of a matrix, in different parts of these.

        >>> left, right = Box((4, 3), (8, 1), 0), Box((4, 5), (8, 1), 3)
        >>> left.meets(right), left.meets(right._replace(offset=2)), left.meets(left)
        (False, True, True)
        """
        (first, last), (begin, end) = self._reach(), other._reach()
        if last < begin or end < first:
            return False
        (run, steps), (length, others) = self._runs(), other._runs()
        window = math.gcd(*steps, *others)
        at, there = self.offset % window if window else 0, other.offset % window if window else 0
        if not window or at + run > window or there + length > window:
            return True
        return at < there + length and there < at + run

    def _reach(self) -> tuple[int, int]:
        steps = [(n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True)]
        return (
            self.offset + sum([min(s, 0) for s in steps]),
            self.offset + sum([max(s, 0) for s in steps]),
        )

    def _runs(self) -> tuple[int, list[int]]:
        """How many elements lie side by side at most, and the distances of such runs."""
        pairs = zip(self.strides, self.sizes, strict=True)
        wide = sorted([(s, n) for s, n in pairs if n != 1], reverse=True)
        axes = merged([n for _, n in wide], [[s for s, _ in wide]])
        loops = list(zip(axes.sizes, axes.strides[0], strict=True))
        run = 1 + sum([n - 1 for n, s in loops if s == 1])
        return run, [abs(s) for _, s in loops if s not in (0, 1)]
