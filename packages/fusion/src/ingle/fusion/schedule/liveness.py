"""What kernels pass to each other through memory: which store a value, which read it, how long."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..grouping.group import Group
from ..grouping.groups import Grouping
from ..ir.graph import Graph
from ..ir.views import Views
from .peak_memory import PeakTracker

LiveRange = tuple[int, int]
"""The first and the last group that need a value in memory, by their places in the order."""
Use = tuple[int, int]
"""The position of a node, and which of its operands."""


def liveness_of(
    graph: Graph, views: Views, grouping: Grouping, stored: Mapping[Group, Sequence[int]]
) -> Liveness:
    """The liveness of the values that groups store.

    Args:
        graph, views, grouping: the groups and what they are of.
        stored: the values that each group stores.
    """
    liveness = Liveness(graph, views, grouping, stored)
    for group in grouping.groups:
        if group.kind == "host" or stored[group]:
            liveness.note_reads(group, group.nodes)
    liveness.measure()
    return liveness


class Liveness:
    """The values that groups store for others, kept up as groups take over work.

    Args:
        graph, views, grouping: the groups and what they are of.
        stored: the values that each group stores.

    Attributes:
        stored: the same, as it stands.
        readers: for each value in memory the groups that read it, with each use.
        reads: the same from the other side: for each group the values that it reads.
        place: of each group in the order in which they run.
    """

    def __init__(
        self, graph: Graph, views: Views, grouping: Grouping,
        stored: Mapping[Group, Sequence[int]],
    ) -> None:  # fmt: skip
        self._graph = graph
        self._views = views
        self._grouping = grouping
        self._outputs = frozenset([views.of(o).root for o in graph.outputs])
        self.stored = {group: dict.fromkeys(values) for group, values in stored.items()}
        self.place = {group: at for at, group in enumerate(grouping.groups)}
        self.readers: dict[int, dict[Group, list[Use]]] = {}
        self.reads: dict[Group, dict[int, list[Use]]] = {g: {} for g in grouping.groups}
        self._stale: dict[int, None] = {}
        self._live_ranges: dict[int, LiveRange] = {}
        self._tide = PeakTracker([0])

    def note_reads(self, group: Group, positions: Iterable[int]) -> None:
        """Notes what nodes of a group read that others store, or that is given."""
        for position in positions:
            for number, value in enumerate(self._graph.nodes[position].args):
                root = self._views.of(value).root
                if self.in_memory(root) and not self._computes(group, root):
                    uses = self.reads[group].get(root)
                    if uses is None:
                        uses = self.reads[group][root] = []
                        self.readers.setdefault(root, {})[group] = uses
                        self._stale[root] = None
                    if (position, number) not in uses:
                        uses.append((position, number))

    def store(self, group: Group, values: Iterable[int]) -> None:
        """A group stores more of what it makes."""
        for value in values:
            self.stored[group][value] = None
            self._stale[value] = None

    def leave(self, value: int, group: Group) -> None:
        """A group reads a value no more."""
        del self.readers[value][group]
        del self.reads[group][value]
        self._stale[value] = None

    def _computes(self, group: Group, root: int) -> bool:
        return self._grouping.producer(root) is group or root in group.coordinates

    def in_memory(self, root: int) -> bool:
        """Whether a value is given, or stored by the group that makes it."""
        maker = self._grouping.producer(root)
        if maker is None:
            return self._graph.values[root].kind == "input"
        return maker.kind == "host" or root in self.stored[maker]

    def is_output(self, root: int) -> bool:
        """Whether the plan returns the value, which therefore stays in memory."""
        return root in self._outputs

    def nbytes(self, root: int) -> int:
        """Of a value."""
        shape, dtype = self._graph.values[root].aval
        return math.prod(shape) * dtype.itemsize

    def live_range(self, root: int) -> LiveRange | None:
        """How long a value takes memory between kernels; None for one that lives elsewhere."""
        known = None if root in self._stale else self._live_ranges.get(root)
        if known is not None:
            return known
        maker = self._grouping.producer(root)
        if maker is None or maker.kind == "host" or root in self._outputs:
            return None
        first = self.place[maker]
        return first, max([self.place[g] for g in self.readers.get(root, ())], default=first)

    def _is_stored(self, root: int) -> bool:
        maker = self._grouping.producer(root)
        return maker is not None and root in self.stored[maker]

    def measure(self) -> None:
        """Finds the bytes between kernels as values are stored now."""
        self._stale.clear()
        rising: list[Any] = [0] * (len(self.place) + 1)
        for root in [v for values in self.stored.values() for v in values]:
            span = self.live_range(root)
            if span is not None:
                self._live_ranges[root] = span
                rising[span[0]] += self.nbytes(root)
                rising[span[1] + 1] -= self.nbytes(root)
        self._tide = PeakTracker(rising)

    def _move(self, root: int, before: LiveRange | None, after: LiveRange | None) -> None:
        """A value is kept for another time."""
        if before == after:
            return
        nbytes = self.nbytes(root)
        for span, sign in ((before, -1), (after, 1)):
            if span is not None:
                self._tide.add(span[0], sign * nbytes)
                self._tide.add(span[1] + 1, -sign * nbytes)

    def peak(self, changes: Mapping[int, LiveRange | None]) -> Any:
        """The most bytes between kernels at a time, if some values lived otherwise."""
        for root in [*self._stale]:
            before, after = self._live_ranges.pop(root, None), None
            if self._is_stored(root):
                after = self.live_range(root)
            if after is not None:
                self._live_ranges[root] = after
            self._move(root, before, after)
        self._stale.clear()
        for root, after in changes.items():
            self._move(root, self._live_ranges.get(root), after)
        found = self._tide.most
        for root, after in changes.items():
            self._move(root, after, self._live_ranges.get(root))
        return found

    def needless(self, group: Group, stored: Iterable[int]) -> list[int]:
        """Positions of a group's nodes that it does without if this is all that it stores, the last
        one first."""
        needed, gone = set(stored), []
        for position in reversed(group.nodes):
            node = self._graph.nodes[position]
            if needed.isdisjoint(node.results):
                gone.append(position)
            else:
                needed.update([self._views.of(a).root for a in node.args])
        return gone

    def forget(self, value: int, group: Group) -> None:
        """A value is stored no more; what was computed and read only for it goes, too."""
        del self.stored[group][value]
        self._stale[value] = None
        for reader in self.readers.pop(value, ()):
            del self.reads[reader][value]
        gone = self.needless(group, self.stored[group])
        group.nodes = [p for p in group.nodes if p not in gone]
        for position in gone:
            for result in self._graph.nodes[position].results:
                group.coordinates.pop(result, None)
            for root in {self._views.of(a).root for a in self._graph.nodes[position].args}:
                self._unread(root, group, position)

    def _unread(self, root: int, group: Group, position: int) -> None:
        """A node that read a value is gone; with its last reader the value goes."""
        readers = self.readers.get(root, {})
        if group not in readers:
            return
        uses = readers[group]
        uses[:] = [use for use in uses if use[0] != position]
        if uses:
            return
        self.leave(root, group)
        maker = self._grouping.producer(root)
        own = maker is not None and maker.kind != "host" and root in self.stored[maker]
        if own and not readers and not self.is_output(root):
            assert maker is not None
            self.forget(root, maker)
