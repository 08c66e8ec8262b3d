"""Layers that come again are planned once.

A graph of many equal layers is planned as one of `KEPT` layers, and what was made of the layer in
the middle is written again for those that were left out, on their values. So kernels reach from
layer to layer, and passes decide, as they would have in the whole graph, but at the ends of it.
What three layers in the middle have in common holds for all between them; if they differ, a few
more layers are planned, and then the whole graph.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ..ir.graph import Graph
from ..ir.layers import Layers, layers_of
from ..ir.short_graph import FEWEST_NODES, ShortGraph, UnlikeError
from ..ir.views import Views
from ..support.time_slices import tick
from .moved_groups import LoweredGroup, MovedGroup, Numbered, Piece, Reference
from .moving_pieces import MovingPieces
from .schedule import HostStep, arguments_of

KEPT = (5, 7)
"""How many layers are planned, and how many where these have become unlike: the ends of a graph may
reach far into it. The one in the middle is written again; the two beside it have to be like it."""


class Shortened(ShortGraph):
    """A graph with fewer layers, whose groups are written again for the others."""

    def positions(self, chosen: Sequence[int], pieces: MovingPieces) -> list[int]:
        """Nodes of the whole graph by those of this one.

        Raises:
            UnlikeError: other ones were chosen in the next layer.
        """
        groups = [LoweredGroup((p,), (), ()) for p in chosen]
        return sorted([g.first for g in self._written(groups, pieces)])

    def groups(self, groups: Sequence[LoweredGroup], pieces: MovingPieces) -> list[LoweredGroup]:
        """Those of the whole graph, in an order in which they can run.

        Raises:
            UnlikeError: layers in the middle have other groups.
        """
        return ordered(self._written(groups, pieces))

    def _written(self, groups: Sequence[LoweredGroup], pieces: MovingPieces) -> list[LoweredGroup]:
        by_layer: dict[int | None, list[LoweredGroup]] = {}
        for group in groups:
            group = self._in_whole(group)
            layer = self._layer_of(group.first)
            if layer is None:
                self._check_apart(group)
            by_layer.setdefault(layer, []).append(group)
        steady = self._steady(by_layer, pieces)
        found = by_layer.pop(None, [])
        for by in range(-1, self.left_out + 2):
            tick("writing layers again", len(steady))
            begins = pieces.in_whole(self.steady + by)
            found += [group.at(by.__add__, begins) for group in steady]
        for layer, those in by_layer.items():
            assert layer is not None
            if abs(layer - self.steady) > 1:
                pieces.check_over(those)
                by = 0 if layer < self.steady else self.left_out
                found += [self._moved(group).at(by.__add__) for group in those]
        return found

    def _steady(
        self, by_layer: Mapping[int | None, Sequence[LoweredGroup]], pieces: MovingPieces
    ) -> list[MovedGroup]:
        """The groups that are written again, which those of the layers beside are like."""
        there = {
            by: {group.first: group for group in by_layer.get(self.steady + by, ())}
            for by in (0, -1, 1)
        }
        nodes, spots = self.layers.nodes, self.layers.node_spots
        found: list[MovedGroup] = []
        for group in by_layer.get(self.steady, ()):
            place, _ = spots[group.first]
            alike = {0: group}
            for by in (-1, 1):
                first = nodes.get((place, self.number_in_whole(self.steady + by)), -1)
                if first not in there[by]:
                    raise UnlikeError
                alike[by] = there[by][first]
            moved = self._moved(group, pieces.of(alike))
            for by in (-1, 1):
                if moved.at(self._beside(by), pieces.beside(by)) != alike[by]:
                    raise UnlikeError
            found.append(moved)
        if any(len(those) != len(found) for those in there.values()):
            raise UnlikeError
        return found

    def _beside(self, by: int) -> Numbered:
        return lambda layer: self.number_in_whole(layer + by)

    def _in_whole(self, group: LoweredGroup) -> LoweredGroup:
        """With the positions of the whole graph; values stay those of the layers that are there."""
        at = self.nodes
        calls = [
            HostStep(at[c.position])
            if isinstance(c, HostStep)
            else c._replace(nodes=tuple([at[p] for p in c.nodes]))
            for c in group.calls
        ]
        nodes = tuple([at[p] for p in group.nodes])
        return LoweredGroup(nodes, tuple([at[p] for p in group.needs]), tuple(calls))

    def _layer_of(self, position: int) -> int | None:
        """The layer, among those that are there, of a node; None if it is in none."""
        layers = self.layers
        spot = layers.node_spots.get(position)
        if spot is None or not layers.holds(spot[1]):
            return None
        return self.number_among_kept(spot[1])

    def _check_apart(self, group: LoweredGroup) -> None:
        """A group that is of no layer computes nothing of the one that is written again, and does
        not reach over what was left out. Those of layers at the ends may: they are moved as a
        whole, to where the layers beside them are as they are here."""
        within = [layer for p in group.nodes if (layer := self._layer_of(p)) is not None]
        over = within and min(within) <= self.steady < max(within)
        if over or self.steady in within or not self.over.isdisjoint(group.nodes):
            raise UnlikeError

    def _moved(
        self, group: LoweredGroup, pieces: Mapping[tuple[int, int], Piece] = MappingProxyType({})
    ) -> MovedGroup:
        layers = self.layers
        return MovedGroup(group, self._node, self._value, layers.nodes, layers.values, pieces)

    def _node(self, position: int) -> Reference:
        spot = self.layers.node_spots.get(position)
        if spot is None or not self.layers.holds(spot[1]):
            return position
        return spot[0], self.number_among_kept(spot[1])

    def _value(self, value: int) -> Reference:
        spot = self.layers.value_spots.get(value)
        if spot is None:
            return value
        inside = self.layers.holds(spot[1])
        if self.whole.values[value].kind == "result" and not inside:
            return value
        return spot[0], self.number_among_kept(spot[1])


def shortened(graph: Graph, layers: Layers | None = None, kept: int = KEPT[0]) -> Shortened | None:
    """The graph with fewer layers; None if it has no layers, or few.

    Args:
        graph: with composites expanded.
        layers: its layers, if they are known.
        kept: how many of them stay.
    """
    if type(graph) is not Graph or len(graph.nodes) < FEWEST_NODES:
        return None
    found = layers_of(graph) if layers is None else layers
    if found is None or found.last - found.first < kept:
        return None
    return Shortened.of(graph, found, kept, kept // 2)


def is_complete(graph: Graph, views: Views, groups: Sequence[LoweredGroup]) -> bool:
    """Whether every value is written before it is read, and so are the outputs."""
    known = {number for number, value in enumerate(graph.values) if value.kind != "result"}
    for call in [call for group in groups for call in group.calls]:
        if isinstance(call, HostStep):
            node = graph.nodes[call.position]
            reads, writes = [views.of(a).root for a in node.args], list(node.results)
        else:
            arguments = arguments_of(call)
            reads = [a.root for a in arguments if not a.output]
            writes = [a.root for a in arguments if a.output]
        if not known.issuperset(reads):
            return False
        known.update(writes)
    return known.issuperset([views.of(o).root for o in graph.outputs])


def ordered(groups: Sequence[LoweredGroup]) -> list[LoweredGroup]:
    """Each group behind those that it needs, and otherwise in the order of first nodes."""
    by_first = {group.first: group for group in groups}
    if len(by_first) != len(groups):
        raise UnlikeError
    missing = {g.first: len(g.needs) for g in groups}
    needed_by: dict[int, list[int]] = {}
    for group in groups:
        for need in group.needs:
            if need not in by_first:
                raise UnlikeError
            needed_by.setdefault(need, []).append(group.first)
    ready = [first for first, count in missing.items() if not count]
    heapq.heapify(ready)
    found: list[LoweredGroup] = []
    while ready:
        first = heapq.heappop(ready)
        found.append(by_first[first])
        for below in needed_by.get(first, ()):
            missing[below] -= 1
            if not missing[below]:
                heapq.heappush(ready, below)
    if len(found) != len(groups):
        raise UnlikeError
    return found
