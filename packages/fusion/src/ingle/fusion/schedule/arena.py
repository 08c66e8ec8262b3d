"""Memory of a plan: which values share the arena, and where."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ingle.tensor.static_values import largest

ALIGNMENT = 64
FEW, SOME = 256, 1 << 13
"""Values up to which looking at all of them takes less time than a tree: one by one, and in arrays
if their sizes are plain numbers."""


class LiveBuffer(NamedTuple):
    """Memory that is needed from one step to another, both included."""

    value: int
    nbytes: int
    first: int
    last: int


def packed(spans: Sequence[LiveBuffer]) -> tuple[dict[int, int], int]:
    """Offsets in an arena in which no two values overlap that live at the same time.

    Large values first, each at the lowest place that is free while it lives.

    Returns:
        Offsets by value, and the size of the arena.

    >>> packed([LiveBuffer(7, 100, 0, 1), LiveBuffer(8, 64, 1, 2), LiveBuffer(9, 100, 2, 3)])
    ({7: 0, 9: 0, 8: 128}, 192)
    """
    offsets: dict[int, int] = {}
    calendar = _calendar(spans)
    size = 0
    for span in sorted(spans, key=lambda s: (-s.nbytes, s.first, s.value)):
        room = -(-span.nbytes // ALIGNMENT) * ALIGNMENT
        at = calendar.lowest(span.first, span.last, room)
        offsets[span.value] = at
        calendar.occupy(span.first, span.last, at, at + room)
        size = largest(size, at + room)
    return offsets, size


def _calendar(spans: Sequence[LiveBuffer]) -> _Intervals | _SortedIntervals | _Calendar:
    """What finds places for so many values in the least time."""
    if len(spans) <= FEW:
        return _Intervals()
    if len(spans) <= SOME and all(type(s.nbytes) is int for s in spans):
        return _SortedIntervals(len(spans))
    return _Calendar(max([span.last for span in spans]) + 1)


def _lowest(taken: Iterable[tuple[int, int]], room: int) -> int:
    """The lowest place between pieces that are taken."""
    at = 0
    for start, end in sorted(taken):
        if at + room <= start:
            break
        if end > at:
            at = end
    return at


class _Pieces:
    """Pieces of the arena that do not touch, in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Makes one piece of it and all that it touches."""
        starts, ends = self._starts, self._ends
        first, last = bisect_left(ends, start), bisect_right(starts, end)
        if first == last:
            starts.insert(first, start)
            ends.insert(first, end)
            return
        starts[first:last] = [min(start, starts[first])]
        ends[first:last] = [max(end, ends[last - 1])]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)


class _Intervals:
    """Which pieces of the arena are taken when: one entry for each, in no order."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int, int]] = []

    def occupy(self, first: int, last: int, start: int, end: int) -> None:
        """A piece is taken from a step to another."""
        self._entries.append((first, last, start, end))

    def lowest(self, first: int, last: int, room: int) -> int:
        """The lowest place with so much room between two steps."""
        known = self._entries
        return _lowest([(a, b) for f, till, a, b in known if f <= last and till >= first], room)


class _SortedIntervals:
    """The same in arrays, by where pieces start.

    Args:
        count: how many entries there will be.
    """

    def __init__(self, count: int) -> None:
        self._entries = np.empty((4, count), np.int64)
        self._count = 0

    def occupy(self, first: int, last: int, start: int, end: int) -> None:
        """A piece is taken from a step to another."""
        entries, count = self._entries, self._count
        at = int(np.searchsorted(entries[2, :count], start))
        entries[:, at + 1 : count + 1] = entries[:, at:count]
        entries[:, at] = first, last, start, end
        self._count = count + 1

    def lowest(self, first: int, last: int, room: int) -> int:
        """The lowest place with so much room between two steps."""
        firsts, lasts, starts, ends = self._entries[:, : self._count]
        taken = (firsts <= last) & (lasts >= first)
        starts, ends = starts[taken], ends[taken]
        if not len(starts) or room <= starts[0]:
            return 0
        reached = np.maximum.accumulate(ends)
        (wide,) = np.nonzero(starts[1:] - reached[:-1] >= room)
        return int(reached[wide[0] if len(wide) else -1])


class _Calendar:
    """Which pieces of the arena are taken when.

    A tree of halves of all steps: each node has the pieces that are taken in every step of it, and
    those that are taken in some. What many values take side by side is one piece, so that it does
    not matter how many live at a time.
    """

    def __init__(self, steps: int) -> None:
        self._first = 1 << (steps - 1).bit_length()
        self._every: defaultdict[int, _Pieces] = defaultdict(_Pieces)
        self._some: defaultdict[int, _Pieces] = defaultdict(_Pieces)

    def _cover(self, first: int, last: int) -> list[int]:
        """The largest nodes that make up the steps from one to another, both included."""
        left, right = self._first + first, self._first + last + 1
        found = []
        while left < right:
            if left & 1:
                found.append(left)
                left += 1
            if right & 1:
                right -= 1
                found.append(right)
            left, right = left >> 1, right >> 1
        return found

    @staticmethod
    def _above(nodes: Iterable[int]) -> set[int]:
        """All nodes that others are parts of."""
        found: set[int] = set()
        for node in nodes:
            node >>= 1
            while node and node not in found:
                found.add(node)
                node >>= 1
        return found

    def occupy(self, first: int, last: int, start: int, end: int) -> None:
        """A piece is taken from a step to another."""
        nodes = self._cover(first, last)
        for node in nodes:
            self._every[node].add(start, end)
        for node in self._above(nodes).union(nodes):
            self._some[node].add(start, end)

    def lowest(self, first: int, last: int, room: int) -> int:
        """The lowest place with so much room between two steps."""
        return _lowest(self._taken(first, last), room)

    def _taken(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Pieces that are not free at some time between two steps; they may overlap."""
        nodes = self._cover(first, last)
        for node in nodes:
            yield from self._some.get(node, ())
        for node in self._above(nodes):
            yield from self._every.get(node, ())
