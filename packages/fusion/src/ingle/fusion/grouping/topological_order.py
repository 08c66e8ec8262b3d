"""Which groups of operations run before which."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .group import Group


class GroupOrder:
    """The order of groups: for each its direct dependencies, and all its ancestors as a bit set.

    A bit set is one number, so that a union or a question takes the interpreter a single step.
    What changes for a group goes on to those that need it, and no further than where it is known.
    """

    def __init__(self) -> None:
        self._number: dict[Group, int] = {}
        self._bits: dict[Group, int] = {}
        self._above: dict[Group, int] = {}
        self._needs: dict[Group, dict[Group, None]] = {}
        self._needed_by: dict[Group, dict[Group, None]] = {}
        self._count = 0

    def add(self, group: Group, before: Iterable[Group]) -> None:
        """Adds a group with its direct dependencies."""
        self._number[group] = self._count
        self._bits[group] = 1 << self._count
        self._count += 1
        self._above[group] = 0
        self._needs[group], self._needed_by[group] = {}, {}
        self.depend(group, before)

    def number(self, group: Group) -> int:
        """The number of a group, in the order in which groups were added."""
        return self._number[group]

    def depend(self, group: Group, before: Iterable[Group]) -> None:
        """Adds dependencies to a group, which has got another node."""
        above = 0
        for other in before:
            if other is not group:
                above |= self._above[other] | self._bits[other]
                self._needs[group][other] = None
                self._needed_by[other][group] = None
        self._raise(group, above)

    def needs(self, group: Group) -> Iterable[Group]:
        """The direct dependencies of a group."""
        return self._needs[group]

    def touches(self, group: Group, others: Container[Group]) -> bool:
        """Whether the group and any of some others depend on each other directly."""
        return any(g in others for g in (*self._needs[group], *self._needed_by[group]))

    def _raise(self, group: Group, above: int) -> None:
        """Adds ancestors to a group, and to all groups that depend on it."""
        waiting = [group]
        while waiting:
            below = waiting.pop()
            if above & ~self._above[below]:
                self._above[below] |= above
                waiting.extend(self._needed_by[below])

    def reachable(self, group: Group, before: Iterable[Group]) -> bool:
        """Whether none of these, other than itself, comes after the group."""
        bits = self._bits[group]
        return not any(self._above[other] & bits for other in before if other is not group)

    def connected(self, group: Group, other: Group) -> bool:
        """Whether a third group runs between the two."""
        return self._goes_round(group, other) or self._goes_round(other, group)

    def _goes_round(self, last: Group, first: Group) -> bool:
        bits = self._bits[first]
        return any(self._above[g] & bits for g in self._needs[last] if g is not first)

    def absorb(self, group: Group, other: Group) -> None:
        """Merges a group into another, which gets its dependencies and bits."""
        del self._number[other]
        bits = self._bits[group] | self._bits.pop(other)
        above = (self._above[group] | self._above.pop(other)) & ~bits
        for those, back in ((self._needs, self._needed_by), (self._needed_by, self._needs)):
            for third in those.pop(other):
                del back[third][other]
                if third is not group:
                    those[group][third] = None
                    back[third][group] = None
        self._bits[group] = bits
        self._above[group] = 0
        for below in self._needed_by[group]:
            self._raise(below, above)
        self._above[group] = above

    def runnable(self) -> list[Group]:
        """Each group after all that it needs, and otherwise as early as its first node was asked
        for, so that a gradient's update runs right behind it."""
        missing = {group: len(needs) for group, needs in self._needs.items()}
        ready = [(g.nodes[0], self._number[g], g) for g, count in missing.items() if not count]
        heapq.heapify(ready)
        ordered: list[Group] = []
        while ready:
            group = heapq.heappop(ready)[2]
            ordered.append(group)
            for below in self._needed_by[group]:
                missing[below] -= 1
                if not missing[below]:
                    heapq.heappush(ready, (below.nodes[0], self._number[below], below))
        return ordered
