"""Which groups of operations run before which."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .groups import Group


class Order:
    """The groups, and for each all that runs before it.

    Attributes:
        groups: in the order in which they began.
    """

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self._above: dict[Group, int] = {}
        self._bit: dict[Group, int] = {}

    def add(self, group: Group, before: Iterable[Group]) -> None:
        """Notes a new group, and what it needs."""
        self._bit[group] = 1 << group.nodes[0]
        self.groups.append(group)
        self._above[group] = 0
        self.depend(group, before)

    def depend(self, group: Group, before: Iterable[Group]) -> None:
        """Notes that a group needs others, now that there is another node in it."""
        above = 0
        for other in before:
            if other is not group:
                above |= self._above[other] | self._bit[other]
        if above & ~self._above[group]:
            self._above[group] |= above
            for third in self.groups:
                if self._above[third] & self._bit[group]:
                    self._above[third] |= above

    def reachable(self, group: Group, before: Iterable[Group]) -> bool:
        """Whether none of these, other than itself, comes after the group."""
        bit = self._bit[group]
        return not any(self._above[other] & bit for other in before if other is not group)

    def connected(self, group: Group, other: Group) -> bool:
        """Whether a third group runs between the two."""
        for between in self.groups:
            if between is group or between is other:
                continue
            above = self._above[between]
            if above & self._bit[other] and self._above[group] & self._bit[between]:
                return True
            if above & self._bit[group] and self._above[other] & self._bit[between]:
                return True
        return False

    def absorb(self, group: Group, other: Group) -> None:
        """Makes one of two groups."""
        own, gone = self._bit[group], self._bit[other]
        merged = (self._above[group] | self._above[other]) & ~(own | gone)
        self.groups.remove(other)
        del self._above[other]
        for third in self.groups:
            above = self._above[third]
            if third is not group and above & (own | gone):
                self._above[third] = (above & ~gone) | own | merged
        self._above[group] = merged

    def runnable(self) -> list[Group]:
        """Each group after all that it needs, and otherwise as early as its last node was asked
        for, so that a gradient's update runs right behind it."""
        done = 0
        waiting = sorted(self.groups, key=lambda g: g.nodes[0])
        ordered: list[Group] = []
        while waiting:
            ready = next(g for g in waiting if not self._above[g] & ~done)
            waiting.remove(ready)
            ordered.append(ready)
            done |= self._bit[ready]
        return ordered
