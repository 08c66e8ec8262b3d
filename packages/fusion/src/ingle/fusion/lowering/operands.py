"""The arrays that a nest touches, and the loop axes that all of them can be walked along."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ..grouping.group import Coordinates, Group
from ..grouping.two_stage_reduction import is_columns
from ..ir.broadcast_axes import GATHERED, alignment, is_gather
from ..ir.graph import Graph
from ..ir.merge_axes import lane_of, merged
from ..ir.split_axes import strides_along
from ..ir.views import View, Views, strides_of
from ..kernel.code import CodeBuilder
from ..kernel.lowering import reduction_of
from ..kernel.nest import MAX_OUTER, Operand
from .turned_axes import turned

NOWHERE: Mapping[int, View] = MappingProxyType({})
"""That no value lies in another one."""


class Argument(NamedTuple):
    """An operand of a kernel as the plan knows it.

    Attributes:
        root: the value whose memory it is.
        strides: in elements, along each axis of the group's space.
        offset: of its first element, in elements.
        output: whether the kernel writes it.
    """

    root: int
    strides: tuple[int, ...]
    offset: int
    output: bool = False


def argument_along(view: View, places: Coordinates, count: int) -> Argument:
    """A view as an operand of so many loops; `places` are those that its axes run along."""
    return Argument(view.root, strides_along(view, places, count), view.offset)


def bytes_along(
    graph: Graph, root: int, sizes: Sequence[int], strides: Sequence[int]
) -> int:  # fmt: skip
    """What loops touch of a value, each byte once."""
    aval = graph.values[root].aval
    count = math.prod([n for n, s in zip(sizes, strides, strict=True) if s])
    return min(count, math.prod(aval.shape)) * aval.dtype.itemsize


def number_in(builder: CodeBuilder, graph: Graph, value: int, scalars: list[int]) -> int | None:
    """The instruction of a number, which `scalars` collects if it is given anew to each run.

    None for a value that is no number.
    """
    root = graph.values[value]
    dtype = root.aval.dtype.name
    if root.kind == "constant":
        return builder.constant(root.data, dtype)
    if root.kind != "scalar":
        return None
    if value not in scalars:
        scalars.append(value)
    return builder.append("scalar", dtype, (), scalars.index(value))


def scalars_of(graph: Graph, views: Views, group: Group, inline: Mapping[int, int]) -> list[int]:
    """The numbers that a group's kernel is given anew in each run."""
    found: dict[int, None] = {}

    def note(value: int) -> None:
        root = views.of(value).root
        if graph.values[root].kind == "scalar":
            found[root] = None
        for arg in graph.nodes[inline[root]].args if root in inline else ():
            note(arg)

    for position in group.nodes:
        for arg in graph.nodes[position].args:
            note(arg)
    return list(found)


class Operands:
    """What one group touches; made by `operands_of`.

    Attributes:
        arguments: the arrays, those that are written last.
        outer: how many outer axes the nest has.
        sizes: of its axes.
        strides: for each array along these axes.
        written: for each value that is stored the number of its array.
        place_steps: for strides along the group's space, those along the nest's axes: of places
            from which values are computed.
        lanes: where vector lanes run; see `Nest`.
    """

    outer: int
    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    place_steps: dict[tuple[int, ...], tuple[int, ...]]
    lanes: str

    def __init__(
        self, graph: Graph, views: Views, group: Group, inline: dict[int, int],
        stored: Sequence[int], node_of: dict[int, int],
        placed: Mapping[int, View] = NOWHERE, turns: bool = False,
    ) -> None:  # fmt: skip
        self._graph = graph
        self._views = views
        self._group = group
        self._inline = inline
        self._stored = stored
        self._node_of = node_of
        self._placed = placed
        self._turns = turns
        self.written: dict[int, int] = {}
        self.arguments: list[Argument] = []
        self._places: list[tuple[int, ...]] = []

    def collect(self) -> None:
        """Finds every array that the group touches, since the axes depend on all of them."""
        for position in self._in_order():
            for number, value in enumerate(self._graph.nodes[position].args):
                view = self._views.of(value)
                if self._graph.values[view.root].kind in ("scalar", "constant"):
                    continue
                if view.root in self._node_of:
                    continue
                if number == GATHERED and is_gather(self._graph, position):
                    self._gathered(position, view)
                    continue
                argument = self.argument(position, view, number)
                if view.root in self._inline:
                    self._places.append(argument.strides)
                elif argument not in self.arguments:
                    self.arguments.append(argument)
        for value in self._stored:
            self.written[value] = len(self.arguments)
            self.arguments.append(self.output(value))
        for value, position in self._node_of.items():
            if self.is_creation(position):
                self._places.append(self.natural(value).strides)

    def _in_order(self) -> list[int]:
        """The group's nodes, each behind what it takes, in the order of arguments: kernels that
        compute alike number their operands alike, whichever of them came first in the graph."""
        nodes, found = self._graph.nodes, dict[int, None]()
        for last in reversed(self._group.nodes):
            waiting = [last]
            while waiting:
                position = waiting[-1]
                if position in found:
                    waiting.pop()
                    continue
                roots = [self._views.of(value).root for value in nodes[position].args]
                takes = [self._node_of[root] for root in roots if root in self._node_of]
                missing = [p for p in takes if p not in found and p != position]
                if missing:
                    waiting += reversed(missing)
                else:
                    found[waiting.pop()] = None
        return list(found)

    def is_creation(self, position: int) -> bool:
        return self._graph.nodes[position].op.operation.traits.kind in ("creation", "random")

    def _iteration(self, position: int) -> Coordinates:
        """The coordinates at which a node takes its arguments."""
        node = self._graph.nodes[position]
        if reduction_of(node.op) is None and not is_columns(node):
            return self._group.coordinates[node.results[0]]
        source = self._views.of(node.args[0])
        known = self._group.coordinates.get(source.root)
        if known is not None:
            return known
        return tuple([None if n == 1 else a for a, n in enumerate(self._group.space)])

    def _gathered(self, position: int, view: View) -> None:
        """What a gather reads has no place of its own: all of its offset is computed."""
        whole = self.whole(view.root)
        if whole not in self.arguments:
            self.arguments.append(whole)
        self._places.append(self.beside(position, view))

    def whole(self, root: int) -> Argument:
        """The operand of a value of which elements are read at computed offsets."""
        return Argument(root, (0,) * len(self._group.space), 0)

    def beside(self, position: int, view: View) -> tuple[int, ...]:
        """Strides of what a gather reads along the loop axes that no index stands for."""
        node = self._graph.nodes[position]
        axis, places = node.op.attributes["axis"], self._iteration(position)
        count = (
            len(self._graph.values[node.args[1]].aval.shape)
            if node.op.operation.traits.access == "rows"
            else 1
        )
        strides = [0] * len(self._group.space)
        for own, (size, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
            if own != axis and size != 1:
                place = places[own if own < axis else own + count - 1]
                assert place is not None, "an axis of more than one element has loops"
                strides[place] = stride
        return tuple(strides)

    def argument(self, position: int, view: View, number: int) -> Argument:
        places = self._iteration(position)
        first = alignment(self._graph, position, number, len(view.shape), len(places))
        return argument_along(view, places[first:], len(self._group.space))

    def output(self, value: int) -> Argument:
        """Where a value is written: in memory of its own, or as a part of another one."""
        place = self._placed.get(value)
        if place is None:
            return self.natural(value)
        coordinates = self._group.coordinates[value]
        return argument_along(place, coordinates, len(self._group.space))._replace(output=True)

    def natural(self, value: int) -> Argument:
        """A value in memory of its own."""
        # A copy is written in the order of what it reads: as memory it is the same.
        node = self._graph.nodes[self._node_of[value]]
        if is_columns(node):  # a row for each block of rows: strides are those of rows
            value_in = self._graph.values[node.args[0]].aval.shape
            return Argument(value, strides_of(value_in), 0, True)
        shape = self._graph.values[value].aval.shape
        places = self._group.coordinates[value]
        if len(places) != len(shape) or node.op.operation.name == "reshape":
            shape = self._views.of(node.args[0]).shape
        strides = [0] * len(self._group.space)
        for place, stride in zip(places, strides_of(shape), strict=True):
            if place is not None:
                strides[place] = stride
        return Argument(value, tuple(strides), 0, True)

    def choose_axes(self) -> bool:
        """Finds the nest's axes; whether all that the group touches can be walked along them."""
        space, inner = self._group.space, self._group.inner
        order = [a for a in range(len(space)) if inner is None or a not in inner]
        every = [a.strides for a in self.arguments] + self._places
        # Along an axis of one element any stride will do: operands count as dense there.
        lonely = [(1,)] * len(self.arguments) + [(0,)] * len(self._places)
        outer = merged([space[a] for a in order], [[s[a] for a in order] for s in every])
        if inner is None:
            sizes = outer.sizes or (1,)
            steps = [s or alone for s, alone in zip(outer.strides, lonely, strict=True)]
            if self._turns:
                sizes, steps = turned(sizes, steps, len(self.arguments))
        else:
            within = sorted(inner)
            rows = merged([space[a] for a in within], [[s[a] for a in within] for s in every])
            if len(rows.sizes) > 1:
                return False
            sizes = outer.sizes + (rows.sizes or (1,))
            steps = [
                a + (b or alone)
                for a, b, alone in zip(outer.strides, rows.strides, lonely, strict=True)
            ]
        sums = any(is_columns(self._graph.nodes[p]) for p in self._group.nodes)
        if len(sizes) - 1 > MAX_OUTER or (sums and len(sizes) != 2):
            return False
        self.outer = len(sizes) - 1
        self.sizes = sizes
        count = len(self.arguments)
        self.strides = tuple(steps[:count])
        self.place_steps = dict(zip(self._places, steps[count:], strict=True))
        self.lanes = self._group.lanes or "inner"
        return True

    def operand(self, number: int) -> Operand:
        argument = self.arguments[number]
        stride = self.strides[number][-1 if self.lanes == "inner" else -2]
        lane = lane_of(stride)
        return Operand(self._graph.values[argument.root].aval.dtype.name, argument.output, lane)


def operands_of(
    graph: Graph, views: Views, group: Group, inline: dict[int, int], stored: Sequence[int],
    placed: Mapping[int, View] = NOWHERE, turns: bool = False,
) -> Operands | None:  # fmt: skip
    """What a group touches; None if its loops cannot be written as one nest.

    Args:
        turns: whether maps over very short rows may go along a longer axis; see `turned`.
    """
    node_of = nodes_by_result(graph, group)
    operands = Operands(graph, views, group, inline, stored, node_of, placed, turns)
    operands.collect()
    return operands if operands.choose_axes() else None


def nodes_by_result(graph: Graph, group: Group) -> dict[int, int]:
    """For each value that a group computes the position of its node."""
    return {r: p for p in group.nodes for r in graph.nodes[p].results}
