"""Memory of a plan: which values share the arena, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

ALIGNMENT = 64


class Span(NamedTuple):
    """Memory that is needed from one step to another, both included."""

    value: int
    nbytes: int
    first: int
    last: int


def packed(spans: Sequence[Span]) -> tuple[dict[int, int], int]:
    """Offsets in an arena in which no two values overlap that live at the same time.

    Large values first, each at the lowest place that is free while it lives.

    Returns:
        Offsets by value, and the size of the arena.

    >>> packed([Span(7, 100, 0, 1), Span(8, 64, 1, 2), Span(9, 100, 2, 3)])
    ({7: 0, 9: 0, 8: 128}, 192)
    """
    offsets: dict[int, int] = {}
    placed: list[tuple[int, int, Span]] = []
    size = 0
    for span in sorted(spans, key=lambda s: (-s.nbytes, s.first, s.value)):
        room = -(-span.nbytes // ALIGNMENT) * ALIGNMENT
        at = 0
        for start, end, other in sorted(placed):
            if other.last < span.first or span.last < other.first:
                continue
            if at + room <= start:
                break
            at = max(at, end)
        offsets[span.value] = at
        placed.append((at, at + room, span))
        size = max(size, at + room)
    return offsets, size
