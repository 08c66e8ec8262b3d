"""Memory of a plan: which values share the arena, and where."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ingle.tensor.static_values import largest

ALIGNMENT = 64
FEW = 64
"""Values up to which looking at all of them takes less time than a tree."""


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
    few = len(spans) <= FEW
    calendar = _Intervals() if few else _Calendar(max([span.last for span in spans], default=0) + 1)
    size = 0
    for span in sorted(spans, key=lambda s: (-s.nbytes, s.first, s.value)):
        room = -(-span.nbytes // ALIGNMENT) * ALIGNMENT
        at = 0
        for start, end in sorted(calendar.taken(span.first, span.last)):
            if at + room <= start:
                break
            if end > at:
                at = end
        offsets[span.value] = at
        calendar.occupy(span.first, span.last, at, at + room)
        size = largest(size, at + room)
    return offsets, size


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

    def taken(self, first: int, last: int) -> list[tuple[int, int]]:
        """Pieces that are not free at some time between two steps; they may overlap."""
        return [(a, b) for start, end, a, b in self._entries if start <= last and end >= first]


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

    def taken(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Pieces that are not free at some time between two steps; they may overlap."""
        nodes = self._cover(first, last)
        for node in nodes:
            yield from self._some.get(node, ())
        for node in self._above(nodes):
            yield from self._every.get(node, ())
