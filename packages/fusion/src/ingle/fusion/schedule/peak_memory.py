"""The most of what rises and falls from step to step, kept up while single steps change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class PeakTracker:
    """How much there is after each step, of which only the most is asked for.

    A change takes as many steps as it takes to halve the number of steps down to one: nodes of a
    balanced tree hold for their part the sum of its changes and the most of its prefix sums.

    Args:
        changes: for each step what comes, less what goes.

    >>> peak = PeakTracker([3, 4, -5, 1])
    >>> peak.most
    7
    >>> peak.add(1, -3)
    >>> peak.add(3, 9)
    >>> peak.most
    9
    """

    def __init__(self, changes: Sequence[Any]) -> None:
        self._first = first = 1 << (len(changes) - 1).bit_length()
        self._sum: list[Any] = [0] * (2 * first)
        self._most: list[Any] = [0] * (2 * first)
        for at, change in enumerate(changes, first):
            self._sum[at] = self._most[at] = change
        for at in range(first - 1, 0, -1):
            self._join(at)

    @property
    def most(self) -> Any:
        """The most that there is after any step."""
        return self._most[1]

    def add(self, step: int, change: Any) -> None:
        """More, or less, comes at a step."""
        at = self._first + step
        self._sum[at] += change
        self._most[at] += change
        while at > 1:
            at >>= 1
            self._join(at)

    def _join(self, at: int) -> None:
        left = self._sum[2 * at]
        self._sum[at] = left + self._sum[2 * at + 1]
        before, behind = self._most[2 * at], left + self._most[2 * at + 1]
        self._most[at] = before if before >= behind else behind
