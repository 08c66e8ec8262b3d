"""Graphs of many equal layers with a few of them.

What holds for three layers in the middle holds for all between them. So a graph is shortened, what
is found out of the short one is written again for the layers that were left out, and if layers in
the middle have become unlike each other, the whole graph is looked at after all.
"""

from __future__ import annotations

from typing import Self

from .graph import Graph, Node
from .layers import Layers

FEWEST_NODES = 512
"""Graphs of fewer operations are planned in less time than layers are found."""


class UnlikeError(Exception):
    """The layers in the middle are, or have become, different things."""


class ShortGraph:
    """A graph with fewer layers; made by `of`.

    Args:
        graph: the whole one.
        layers: its layers.
        kept: how many of them stay.
        steady: the one of these behind which the others were, by number among those that stay.

    Attributes:
        graph: what is left. Values have their numbers.
        whole, layers: the graph and its layers, as given.
        steady, left_out: the layer that is written again, and how often it is.
        nodes: the positions of those that are left in the whole graph.
        over: the positions of those that read over what was left out.
    """

    def __init__(self, graph: Graph, layers: Layers, kept: int, steady: int) -> None:
        self.whole = graph
        self.layers = layers
        self.steady = layers.first + steady
        self.left_out = layers.last - layers.first + 1 - kept
        self.nodes: list[int] = []
        self.over: set[int] = set()
        self._until = self.steady + self.left_out
        self.graph = graph

    @classmethod
    def of(cls, graph: Graph, layers: Layers, kept: int, steady: int) -> Self | None:
        """A graph with so many layers; None if something else reads those that are left out."""
        short = cls(graph, layers, kept, steady)
        try:
            short._leave_out()
        except UnlikeError:
            return None
        return short

    def _leave_out(self) -> None:
        """Leaves out layers in the middle; what read them reads the layers beside them."""
        graph, spots, nodes = self.whole, self.layers.node_spots, list[Node]()
        gone: set[int] = set()
        for position, node in enumerate(graph.nodes):
            spot = spots.get(position)
            if spot is not None and self.is_gone(spot[1]):
                gone.update(node.results)
                continue
            now = node if spot is None else self._joined(node, *spot)
            if now is not node:
                self.over.add(position)
            nodes.append(now)
            self.nodes.append(position)
        if any(a in gone for node in nodes for a in node.args):
            raise UnlikeError
        outputs = tuple([self._instead(o) if o in gone else o for o in graph.outputs])
        self.graph = Graph(graph.values, nodes, graph.inputs, graph.scalars, outputs, graph.donors)

    def is_gone(self, layer: int) -> bool:
        """Whether a layer of the whole graph was left out."""
        return self.steady < layer <= self._until

    def number_among_kept(self, layer: int) -> int:
        """A layer's number among those that are there."""
        return layer if layer <= self._until else layer - self.left_out

    def number_in_whole(self, layer: int) -> int:
        """The number in the whole graph of a layer among those that are there."""
        return layer if layer <= self.steady else layer + self.left_out

    def _joined(self, node: Node, place: int, layer: int) -> Node:
        """A node that reads the layer before it, or behind it, though others were in between."""
        layers = self.layers
        if not layers.holds(layer):
            return node
        args = list(node.args)
        for n, (value, moves) in enumerate(zip(node.args, layers.moving[place], strict=True)):
            spot = layers.value_spots.get(value) if moves else None
            if spot is not None:
                other = self.number_in_whole(self.number_among_kept(layer) + spot[1] - layer)
                args[n] = layers.values.get((spot[0], other), -1)
        if args == list(node.args):
            return node
        if -1 in args:
            raise UnlikeError
        return Node(node.op, tuple(args), node.results)

    def _instead(self, output: int) -> int:
        """An output of a layer that is there, for one of a layer that is not."""
        place, _ = self.layers.value_spots[output]
        return self.layers.values[place, self.steady]
