"""How a kernel would compute a value by itself that another one stores for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ingle.tensor.operation import Op

from ..grouping.group import Coordinates, Group
from ..grouping.groups import MOST_NODES, Grouping
from ..grouping.node_class import Role
from ..grouping.two_stage_reduction import is_columns
from ..ir.broadcast_axes import GATHERED, alignment
from ..ir.graph import Graph, Node
from ..ir.views import View, Views, long_axes, strides_of
from ..kernel.code import HALVES
from ..kernel.lowering import reduction_of
from ..lowering.operands import Argument, argument_along, bytes_along
from .liveness import Liveness
from .rates import PER_BYTE, Rates

ROUNDED_LIKE = 2
"""Plain operations that rounding to a half type is like, as if the value were stored."""
MOST_AGAIN = 12
"""How many operations a value may take to compute again."""
FEW = 8
"""A value of so many times fewer elements than another is stored rather than that one."""


@dataclass(slots=True)
class Again:
    """How a group would compute a value by itself.

    Attributes:
        group: the reader.
        places: coordinates of all values that it would compute.
        nodes: positions of the operations.
        reads: what it would read in addition.
        more: values that would have to be stored for that.
        cost: what this takes more than reading the value, operations as what could be moved
            meanwhile: `PER_BYTE` is a byte.
    """

    group: Group
    places: dict[int, Coordinates] = field(default_factory=dict)
    nodes: list[int] = field(default_factory=list)
    reads: list[Argument] = field(default_factory=list)
    more: dict[int, None] = field(default_factory=dict)
    cost: int = 0


class Recomputation:
    """Finds ways to compute values again.

    Args:
        graph, views, roles, inline, grouping: the plan as it stands.
        liveness: what its groups store and read.
        until: for inputs that may be written over, the first group that may do so.
        rates: what operations cost.

    Attributes:
        repeats_what_is_dear: whether functions that take a polynomial may be computed again.
    """

    def __init__(
        self, graph: Graph, views: Views, roles: Sequence[Role], inline: Mapping[int, int],
        grouping: Grouping, liveness: Liveness, until: Mapping[int, int], rates: Rates,
    ) -> None:  # fmt: skip
        self._graph = graph
        self._views = views
        self._roles = roles
        self._inline = inline
        self._grouping = grouping
        self._liveness = liveness
        self._until = until
        self._costs = {"cheap": rates.plain, "root": rates.root}
        self._widening = rates.plain if rates.widening is None else rates.widening
        self.repeats_what_is_dear = rates.dear is not None
        if rates.dear is not None:
            self._costs["expensive"] = rates.dear
        self._maker = {r: p for p, node in enumerate(graph.nodes) for r in node.results}

    def repeats(self, op: Op) -> bool:
        """Whether an operation may be computed again."""
        traits = op.operation.traits
        return traits.kind == "elementwise" and traits.cost in self._costs

    def dear(self, group: Group, positions: Sequence[int]) -> int:
        """What the functions that take a polynomial among a group's nodes cost."""
        nodes, found = self._graph.nodes, 0
        for op, value in [(nodes[p].op, nodes[p].results[0]) for p in positions]:
            if op.operation.traits.cost == "expensive" and self.repeats(op):
                places = group.coordinates.get(value, ())
                found += self._costs["expensive"] * self._times(group, places)
        return found

    def way(self, value: int, group: Group) -> Again | None:
        """How a reader would compute a value by itself; None where it has to be in memory."""
        uses = self._liveness.readers[value][group]
        places: Coordinates | None = None
        for position, number in uses:
            if not self._in_register(position, number):
                return None
            view = self._views.of(self._graph.nodes[position].args[number])
            found = self._under(view, self._along(group, position, number))
            if found is None or places not in (None, found):
                return None
            long = {a for a, n in enumerate(group.space) if n != 1}
            if self._folds(position) and long.difference(found):
                return None
            places = found
        assert places is not None
        way = Again(group)
        if not self._visit(value, places, way):
            return None
        if len(group.nodes) + len(way.nodes) > MOST_NODES:
            return None
        now = {self.argument(group, p, n) for p, n in uses}
        known = self._reads(group)
        way.reads = [read for read in dict.fromkeys(way.reads) if read not in known]
        way.cost += PER_BYTE * sum([self._bytes(group, r) for r in way.reads])
        way.cost -= PER_BYTE * sum([self._bytes(group, r) for r in now])
        return way

    def _in_register(self, position: int, number: int) -> bool:
        """Whether an operation takes its operand at the place where the loops stand."""
        role = self._roles[position]
        if role in ("contraction", "assembly", "host"):
            return False
        return role != "gather" or number != GATHERED

    def _folds(self, position: int) -> bool:
        """Whether a node is a reduction, which takes its operand at every place."""
        node = self._graph.nodes[position]
        return reduction_of(node.op) is not None or is_columns(node)

    def _along(self, group: Group, position: int, number: int) -> Coordinates:
        """The loops that the axes of an operand run along."""
        node = self._graph.nodes[position]
        if self._folds(position):
            places = long_axes(group.space)
        else:
            places = group.coordinates[node.results[0]]
        rank = len(self._views.of(node.args[number]).shape)
        return places[alignment(self._graph, position, number, rank, len(places)) :]

    def _under(self, view: View, along: Coordinates) -> Coordinates | None:
        """Coordinates of a root of which the loops see a view; None if not its every place."""
        shape = self._graph.values[view.root].aval.shape
        axes = {(s, n): a for a, (n, s) in enumerate(zip(shape, strides_of(shape), strict=True))}
        places: list[int | None] = [None] * len(shape)
        for size, stride, place in zip(view.shape, view.strides, along, strict=False):
            if size != 1 and stride:
                axis = axes.get((stride, size))
                if axis is None or places[axis] is not None:
                    return None
                places[axis] = place
        covered = all(n == 1 or p is not None for n, p in zip(shape, places, strict=True))
        return tuple(places) if covered and not view.offset else None

    def _visit(self, value: int, places: Coordinates, way: Again) -> bool:
        """Adds what it takes to compute a value, as far back as to what is in memory."""
        known = way.places.get(value, way.group.coordinates.get(value))
        if known is not None:
            return known == places and self._roles[self._maker[value]] != "copy"
        position = self._maker.get(value)
        if position is None or len(way.nodes) == MOST_AGAIN:
            return False
        node = self._graph.nodes[position]
        if self._roles[position] != "map" or not self.repeats(node.op):
            return False
        traits = node.op.operation.traits
        cost = self._widening if self._widens(node) else self._costs[traits.cost or ""]
        way.places[value] = places
        way.nodes.append(position)
        if len(way.nodes) == 1 and self._graph.values[value].is_half:
            cost += ROUNDED_LIKE * self._costs["cheap"]
        way.cost += cost * self._times(way.group, places)
        return all(self._operand(position, number, places, way) for number in range(len(node.args)))

    def _widens(self, node: Node) -> bool:
        """Whether a node makes a float32 of a half."""
        graph = self._graph
        if not node.op.operation.traits.laws.converts or not graph.values[node.args[0]].is_half:
            return False
        return graph.values[node.results[0]].aval.dtype.name == "float32"

    def _operand(self, position: int, number: int, places: Coordinates, way: Again) -> bool:
        """Finds an operand of what is computed again: a number, in a register, or in memory."""
        view = self._views.of(self._graph.nodes[position].args[number])
        root, graph = view.root, self._graph
        if graph.values[root].kind in ("constant", "scalar"):
            return True
        if root in self._inline:
            inline = graph.nodes[self._inline[root]].op.operation
            return way.group.kind == "nest" and inline.traits.cost != "expensive"
        first = alignment(graph, position, number, len(view.shape), len(places))
        along = places[first:]
        if root not in way.group.coordinates and root not in way.places:
            read = argument_along(view, along, len(way.group.space))
            if self._readable(read, way.group):
                way.reads.append(read)
                return True
            if self._worth_storing(root, position, way):
                way.more[root] = None
                way.reads.append(read)
                return True
        under = self._under(view, along)
        return under is not None and self._visit(root, under, way)

    def _readable(self, read: Argument, group: Group) -> bool:
        """Whether a group finds a value in memory, and does not keep it from being overwritten."""
        if not self._liveness.in_memory(read.root):
            return False
        at = self._until.get(read.root)
        return at is None or self._liveness.place[group] < at or read in self._reads(group)

    def _worth_storing(self, root: int, position: int, way: Again) -> bool:
        """Whether a value is so small that to store it in place of what follows is nothing."""
        maker, nodes = self._grouping.producer(root), self._graph.nodes
        if maker is not self._grouping.producer(nodes[way.nodes[0]].results[0]):
            return False
        aval = self._graph.values[root].aval
        if maker is None or maker.kind != "nest" or aval.dtype.name in HALVES:
            return False
        made = self._maker[root] in maker.nodes and root in maker.coordinates
        count = math.prod(self._graph.values[nodes[position].results[0]].aval.shape)
        return made and math.prod(aval.shape) * FEW <= count

    def _times(self, group: Group, places: Coordinates) -> int:
        """How often a group computes what has these coordinates."""
        if group.inner is None:
            return math.prod(group.space)
        if group.inner.isdisjoint([p for p in places if p is not None]):
            return math.prod([n for a, n in enumerate(group.space) if a not in group.inner])
        stored = [group.coordinates.get(v, ()) for v in self._liveness.stored[group]]
        again = any(not group.inner.isdisjoint(c) for c in stored) and any(
            self._roles[p] == "reduce" for p in group.nodes
        )
        return (1 + again) * math.prod(group.space)

    def argument(self, group: Group, position: int, number: int) -> Argument:
        """What an operation of a group reads as one of its operands."""
        view = self._views.of(self._graph.nodes[position].args[number])
        return argument_along(view, self._along(group, position, number), len(group.space))

    def _reads(self, group: Group) -> set[Argument]:
        """What a group reads from memory where its loops stand."""
        return {
            self.argument(group, position, number)
            for uses in self._liveness.reads[group].values()
            for position, number in uses
            if self._in_register(position, number)
        }

    def _bytes(self, group: Group, read: Argument) -> int:
        return bytes_along(self._graph, read.root, group.space, read.strides)
