"""Fusion: which operations become one kernel, node by node and greedily."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from ..ir.broadcast_axes import ANYWHERE, GATHERED, alignment
from ..ir.graph import Graph
from ..ir.reduction_axes import folded_axes, lanes_of, left_over
from ..ir.views import View, Views, long_axes
from ..support.time_slices import tick
from .consumers import Uses, uses_of
from .contraction_loops import loops_of, window_loops
from .group import Coordinates, Group
from .node_class import Role
from .node_places import NodePlaces
from .products_apart import StaysOut
from .running_sums import running_sums
from .topological_order import GroupOrder
from .two_stage_reduction import kept_axes

MOST_NODES = 128
"""How many operations a kernel may have: code is made of them recursively, and a compiler's time
grows faster than they do."""

MOST_READS = 56
"""How many values a kernel may read, about: each takes a register for its address."""


def grouped(
    graph: Graph, views: Views, roles: list[Role], alone: AbstractSet[int] = frozenset(),
    apart: StaysOut = lambda group, position: False,
) -> Grouping:  # fmt: skip
    """The groups of a graph's nodes.

    Args:
        graph: with composites expanded.
        views: of the graph's values.
        roles: what each node is.
        alone: positions of nodes that join no group that is there already.
        apart: which elementwise operations don't join a product's group.
    """
    grouping = Grouping(graph, views, roles, uses_of(graph, views, roles), apart)
    grouping.place_all(alone)
    return grouping


def products_alone(graph: Graph, views: Views, roles: list[Role]) -> Iterator[Group]:
    """Each product of a graph as a group of itself; the arguments are those of `grouped`."""
    grouping = Grouping(graph, views, roles, uses_of(graph, views, roles), lambda *_: True)
    for position, role in enumerate(roles):
        if role == "contraction":
            yield grouping.product(position)


class Grouping:
    """The groups of a graph's nodes; made by `grouped`.

    Args:
        graph: with composites expanded.
        views: of the graph's values.
        roles: what each node is.
        uses: the consumers of its values.
        apart: see `grouped`.

    Attributes:
        groups: in an order in which they can run.
        places: where nodes stand in their loops.
    """

    def __init__(
        self, graph: Graph, views: Views, roles: list[Role], uses: Uses, apart: StaysOut
    ) -> None:
        self.groups: list[Group] = []
        self.places = NodePlaces(graph, views, roles)
        self._graph = graph
        self._views = views
        self._roles = roles
        self._group_of: dict[int, Group] = {}
        self._order = GroupOrder()
        self._uses = uses
        self._apart = apart
        self._running = running_sums(graph, views, roles)
        self._value_readers: dict[int, list[int]] | None = None
        self._alone: AbstractSet[int] = frozenset()

    def place_all(self, alone: AbstractSet[int]) -> None:
        """Puts each node into a group, greedily, in order.

        Args:
            alone: positions of nodes that join no group that is there already.
        """
        self._alone = alone
        for position, role in enumerate(self._roles):
            tick("grouping", 3)
            self._place(position, role, position in alone)
        self.groups = self._order.runnable()

    def producer(self, value: int) -> Group | None:
        """The group that computes a root value, if one does."""
        return self._group_of.get(value)

    def needs(self, group: Group) -> Iterable[Group]:
        """The direct dependencies of a group."""
        return self._order.needs(group)

    def apart(self, groups: Iterable[Group]) -> list[Group]:
        """Those of some groups that have no direct dependency, either way, on one before them."""
        found: dict[Group, None] = {}
        for group in groups:
            if not self._order.touches(group, found):
                found[group] = None
        return list(found)

    def _place(self, position: int, role: Role, alone: bool) -> None:
        node = self._graph.nodes[position]
        if role in ("inline", "view"):
            return
        if role == "copy":
            self.places.written[node.results[0]] = self.places.map_shape(position)
        if not alone and role in ("map", "copy", "gather") and self._join_map(position):
            return
        if not alone and role == "reduce" and self._join_reduction(position):
            return
        if not alone and role == "reduce" and self._join_reader(position):
            return
        if not alone and role == "columns" and self._join_columns(position):
            return
        group = self._new(position, role)
        for value in node.results:
            self._group_of[value] = group

    def _new(self, position: int, role: Role) -> Group:
        node = self._graph.nodes[position]
        if role in ("host", "assembly"):
            group = Group(role, [position])
        elif role == "contraction":
            group = self.product(position)
        elif role == "reduce":
            space = self.places.shape(node.args[0])
            axes = folded_axes(node.op, len(space))
            inner = frozenset(a for a in axes if space[a] != 1)
            group = Group("nest", [position], space, inner, lanes_of(space, axes))
            self._note_reduction(group, position, long_axes(space))
        elif role == "columns":
            space = self.places.shape(node.args[0])
            group = Group("nest", [position], space, kept_axes(self._graph, position), "inner")
        else:
            space = self.places.map_shape(position)
            group = Group("nest", [position], space)
            group.coordinates[node.results[0]] = long_axes(space)
        group.reads = len(node.args)
        self._order.add(group, self._before(position, self._sources(position)))
        return group

    def product(self, position: int) -> Group:
        """A group around a matrix product, on the axes that its reader has in place of its rows."""
        (value,) = self._graph.nodes[position].results
        windows = window_loops(self._graph.nodes[position].op, self.places.shape(value))
        space, rows, columns = windows or loops_of(
            self.places.shape(value), self._uses.first_map(value)
        )
        group = Group("contraction", [position], space, rows=rows, columns=columns)
        self.places.written[value] = space
        group.coordinates[value] = long_axes(group.space)
        return group

    def _note_reduction(self, group: Group, position: int, source: Coordinates) -> None:
        node = self._graph.nodes[position]
        group.coordinates[node.results[0]] = left_over(node.op, source)

    def _sources(self, position: int) -> dict[Group, list[int]]:
        """The groups that compute what a node takes, with those of its arguments."""
        found: dict[Group, list[int]] = {}
        for value in self._graph.nodes[position].args:
            group = self._group_of.get(self._views.of(value).root)
            if group is not None:
                found.setdefault(group, []).append(value)
        return found

    def _join_map(self, position: int) -> bool:
        sources = self._sources(position)
        before = self._before(position, sources)
        # A product first, whose result then need not be written; else what has the loops of the
        # result, which of a single row a vector has as well; else what was begun last.
        shape = self.places.map_shape(position)
        best = sorted(
            sources,
            key=lambda g: (g.kind != "contraction", g.space != shape, -self._order.number(g)),
        )
        for group in best:
            if not self._may_join(group, position, sources[group]):
                continue
            places = self.places.fitting(group, position, sources[group])
            reads = self._read_besides(group, position)
            full = len(group.nodes) >= MOST_NODES or group.reads + reads > MOST_READS
            if full or places is None or not self._order.reachable(group, before):
                continue
            node = self._graph.nodes[position]
            group.nodes.append(position)
            group.reads += reads
            group.coordinates[node.results[0]] = places
            self._group_of[node.results[0]] = group
            self._order.depend(group, before)
            for other in sources:
                if other is not group:
                    self._merge(group, other, position)
            return True
        return self._join_what_it_waits_for(position, before)

    def _may_join(self, group: Group, position: int, args: list[int]) -> bool:
        """Whether a group that computes some of a map's arguments is one that takes maps up."""
        if position in self._running and not self._running.isdisjoint(group.nodes):
            return False
        if group.kind != "contraction":
            return group.kind != "host"
        (value,) = self._graph.nodes[position].results
        role = self._roles[position]
        return not (
            role == "gather"
            or self._uses.stored_besides(value, args)
            or (role == "map" and self._apart(group, position))
        )

    def _join_what_it_waits_for(self, position: int, before: dict[Group, None]) -> bool:
        """Puts a map of what lies in memory where something else is computed at the same places,
        for which it waits anyway."""
        node, shape = self._graph.nodes[position], self.places.map_shape(position)
        roots = [root for value in node.args for root in self._views.after(value)]
        if self._roles[position] != "map" or len(node.results) > 1:
            return False
        for group in dict.fromkeys([g for r in roots if (g := self._group_of.get(r)) is not None]):
            full = len(group.nodes) >= MOST_NODES or group.reads + len(node.args) > MOST_READS
            if full or group.kind != "nest" or group.space != shape:
                continue
            if not self._order.reachable(group, before):
                continue
            group.nodes.append(position)
            group.reads += len(node.args)
            group.coordinates[node.results[0]] = long_axes(shape)
            self._group_of[node.results[0]] = group
            self._order.depend(group, before)
            return True
        return False

    def _read_besides(self, group: Group, position: int) -> int:
        """How many arguments of a node a group does not compute."""
        found = [
            self._group_of.get(self._views.of(v).root) for v in self._graph.nodes[position].args
        ]
        return len(found) - found.count(group)

    def _before(self, position: int, sources: Iterable[Group]) -> dict[Group, None]:
        """The groups that run before a node: those it reads from, and those it waits for."""
        found = dict.fromkeys(sources)
        for value in self._graph.nodes[position].args:
            for root in self._views.after(value):
                group = self._group_of.get(root)
                if group is not None:
                    found[group] = None
        return found

    def _join_reduction(self, position: int) -> bool:
        node = self._graph.nodes[position]
        sources = self._sources(position)
        if len(sources) != 1 or len(self._before(position, sources)) != 1:
            return False
        group = next(iter(sources))
        if group.kind != "nest" or len(group.nodes) >= MOST_NODES:
            return False
        source = self.places.seen_from(group, self._views.of(node.args[0]))
        if source is None or ANYWHERE in source:
            return False
        if {s for s in source if s is not None} != {a for a, n in enumerate(group.space) if n != 1}:
            return False
        folded = folded_axes(node.op, len(source))
        axes = [s for a in folded if (s := source[a]) is not None]
        inner, lanes = frozenset(axes), lanes_of(self.places.shape(node.args[0]), folded)
        if not inner or group.inner not in (None, inner) or group.lanes not in (None, lanes):
            return False
        if axes != sorted(axes):
            return False  # it would be summed in another order than its own
        group.inner, group.lanes = inner, lanes
        group.nodes.append(position)
        self._note_reduction(group, position, source)
        self._group_of[node.results[0]] = group
        return True

    def _join_reader(self, position: int) -> bool:
        """A reduction of what lies in memory goes where another one reads it in the same loops."""
        node = self._graph.nodes[position]
        view = self._views.of(node.args[0])
        before = self._before(position, self._sources(position))
        folded = folded_axes(node.op, len(view.shape))
        inner = frozenset(a for a in folded if view.shape[a] != 1)
        for group in self._readers_at(view.root, view):
            full = len(group.nodes) >= MOST_NODES or group.reads >= MOST_READS
            if full or not self._alone.isdisjoint(group.nodes):
                continue
            if group.inner != inner or group.lanes != lanes_of(view.shape, folded):
                continue
            if not self._order.reachable(group, before):
                continue
            group.nodes.append(position)
            self._note_reduction(group, position, long_axes(view.shape))
            self._group_of[node.results[0]] = group
            self._order.depend(group, before)
            return True
        return False

    def _join_columns(self, position: int) -> bool:
        """Sums over rows go where rows are folded, if that computes what is summed."""
        (value,) = self._graph.nodes[position].args
        before = self._before(position, self._sources(position))
        inner = kept_axes(self._graph, position)
        for group in self.groups_at(value):
            full = len(group.nodes) >= MOST_NODES or group.reads >= MOST_READS
            if full or not self._order.reachable(group, before):
                continue
            if group.inner not in (None, inner) or group.lanes not in (None, "inner"):
                continue
            group.inner, group.lanes = inner, "inner"
            group.nodes.append(position)
            self._group_of[self._graph.nodes[position].results[0]] = group
            self._order.depend(group, before)
            return True
        return False

    def groups_at(self, value: int) -> list[Group]:
        """The groups that compute a value where their loops stand, or read it there; else those
        that read there what a product's or another group computes beside it, which will hardly be
        stored for them."""
        view, shape = self._views.of(value), self.places.shape(value)
        maker = self._group_of.get(view.root)
        if (
            maker is None
            or maker.space != shape
            or self.places.seen_from(maker, view) != long_axes(shape)
        ):
            return self._readers_at(view.root, view)
        if maker.kind == "nest" and maker.inner is not None:
            return [maker]
        found = dict.fromkeys([maker] if maker.kind == "nest" else [])
        found.update(dict.fromkeys(self._readers_at(view.root, view)))
        for beside, places in maker.coordinates.items():
            if places == long_axes(shape) and self.places.shape(beside) == shape:
                found.update(dict.fromkeys(self._readers_at(beside, self._views.of(beside))))
        return list(found)

    def _readers_at(self, root: int, view: View) -> list[Group]:
        """The groups that read a value under a view where their loops stand."""
        found: dict[Group, None] = {}
        places = long_axes(view.shape)
        for position in self._readers().get(root, ()):
            node = self._graph.nodes[position]
            group = self._group_of.get(node.results[0])
            if group is None or group.kind != "nest" or group.space != view.shape:
                continue
            folds = self._roles[position] == "reduce"
            made = left_over(node.op, places) if folds else places
            own = group.coordinates.get(node.results[0])
            if own == made and any(self._views.of(a) == view for a in node.args):
                found[group] = None
        return list(found)

    def _readers(self) -> dict[int, list[int]]:
        """The positions of elementwise operations and reductions that take each value, under
        whatever view."""
        if self._value_readers is None:
            found: dict[int, list[int]] = {}
            for position, node in enumerate(self._graph.nodes):
                for value in node.args if self._roles[position] in ("map", "reduce") else ():
                    found.setdefault(self._views.of(value).root, []).append(position)
            self._value_readers = found
        return self._value_readers

    def _merge(self, group: Group, other: Group, position: int) -> None:
        """Makes one group of two that meet in a node, if nothing runs between them."""
        if other.kind != "nest" or group.kind == "host" or self._order.connected(group, other):
            return
        # What stands alone begins its own group. Of two such groups each may have reduced it by
        # then; but no kernel holds a reduction that stands alone beside others.
        alone = [p for p in other.nodes if p in self._alone]
        if alone and (group.kind == "contraction" or self._alone.isdisjoint(group.nodes)):
            return
        if any(self._roles[p] != "map" for p in alone):
            return
        if len(group.nodes) + len(other.nodes) > MOST_NODES:
            return
        if group.reads + other.reads > MOST_READS:
            return
        gathers = any(self._roles[p] == "gather" for p in other.nodes)
        if group.kind == "contraction" and (other.inner is not None or gathers):
            return
        if position in self._running:
            return
        both = other.inner is not None and group.inner is not None
        if both and (other.inner, other.lanes) != (group.inner, group.lanes):
            return
        if group.space != other.space or self._through_memory(group, other, position):
            return
        if group.kind == "contraction" and not self.places.all_along_rows(group, other):
            return
        node = self._graph.nodes[position]
        own = group.coordinates[node.results[0]]
        for argument, value in enumerate(node.args):
            view = self._views.of(value)
            if self._group_of.get(view.root) is other:
                seen = self.places.seen_from(other, view)
                if seen is None or (argument == GATHERED and self._roles[position] == "gather"):
                    return
                first = alignment(self._graph, position, argument, len(seen), len(own))
                along = own[first : first + len(seen)]
                if any(s not in (None, ANYWHERE, t) for s, t in zip(seen, along, strict=True)):
                    return
        self._absorb(group, other)

    def _through_memory(self, group: Group, other: Group, position: int) -> bool:
        """Whether one of the two reads what the other computes, except in the node they meet in.

        It stands in another group because it reads at other places than where it is computed.
        """
        both = {group: other, other: group}
        for mine, theirs in both.items():
            for p in mine.nodes:
                roots = [self._views.of(v).root for v in self._graph.nodes[p].args]
                if p != position and any(self._group_of.get(r) is theirs for r in roots):
                    return True
        return False

    def _absorb(self, group: Group, other: Group) -> None:
        group.nodes = sorted(group.nodes + other.nodes)
        group.coordinates.update(other.coordinates)
        group.reads += other.reads
        if group.inner is None:
            group.inner, group.lanes = other.inner, other.lanes
        for position in other.nodes:
            for value in self._graph.nodes[position].results:
                self._group_of[value] = group
        self._order.absorb(group, other)
