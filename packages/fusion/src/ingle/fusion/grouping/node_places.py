"""Where the nodes of a group stand in its loops."""

from __future__ import annotations

from ..ir.broadcast_axes import ANYWHERE, GATHERED, alignment, axes_seen
from ..ir.graph import Graph
from ..ir.split_axes import strides_along
from ..ir.views import View, Views
from .contraction_loops import column_stride, keeps_rows, row_stride
from .group import Coordinates, Group
from .node_class import Role


class NodePlaces:
    """Where the nodes of groups stand in their loops, and where others would.

    Args:
        graph: with composites expanded.
        views: of the graph's values.
        roles: what each node is.

    Attributes:
        written: the shape of a value's coordinates, where that is not its own: what a copy writes
            has the order, and so the axes, of what it reads; a product's rows have the axes that
            its readers see in their place.
    """

    def __init__(self, graph: Graph, views: Views, roles: list[Role]) -> None:
        self.written: dict[int, tuple[int, ...]] = {}
        self._graph = graph
        self._views = views
        self._roles = roles

    def shape(self, value: int) -> tuple[int, ...]:
        """A value's own shape."""
        return self._graph.values[value].aval.shape

    def map_shape(self, position: int) -> tuple[int, ...]:
        """Where the loops of a map run: a copy runs along the view that it reads."""
        node = self._graph.nodes[position]
        if self._roles[position] == "copy":
            return self._views.of(node.args[0]).shape
        return self.shape(node.results[0])

    def walked(self, value: int) -> tuple[int, ...]:
        """The shape that a value's coordinates belong to: in memory it may have other axes."""
        return self.written.get(value) or self.shape(value)

    def seen_from(self, group: Group, view: View) -> Coordinates | None:
        """Coordinates of a view of a value that the group computes.

        None where the view needs other places than the one where the loop stands. An axis along
        which the view repeats has `ANYWHERE`.
        """
        own = group.coordinates.get(view.root)
        if own is None:
            return None
        axes = axes_seen(view, self.walked(view.root))
        if axes is None:
            return None
        return tuple([a if a is None or a == ANYWHERE else own[a] for a in axes])

    def fitting(self, group: Group, position: int, args: list[int]) -> Coordinates | None:
        """Where a map would stand in a group that computes some of its arguments; None if it would
        need other places than those where the loops stand."""
        shape = self.map_shape(position)
        places: list[int | None] = [None] * len(shape)
        for argument, taken in enumerate(self._graph.nodes[position].args):
            if taken not in args:
                continue
            seen = self.seen_from(group, self._views.of(taken))
            if seen is None or (argument == GATHERED and self._roles[position] == "gather"):
                return None
            first = alignment(self._graph, position, argument, len(seen), len(shape))
            for axis, place in enumerate(seen, first):
                if place is None or place == ANYWHERE or shape[axis] == 1:
                    continue
                if places[axis] not in (None, place):
                    return None
                places[axis] = place
        found = self._completed(group, shape, places)
        if found is None or not self._along_rows(group, group, position, found):
            return None
        return found

    def all_along_rows(self, group: Group, own: Group) -> bool:
        """Whether all nodes of a group that would join a product, which then writes them, can be
        walked along the product's rows and columns."""
        nodes = self._graph.nodes
        places = {p: own.coordinates[nodes[p].results[0]] for p in own.nodes}
        return all(
            keeps_rows(group, [a for a in at if a is not None])
            and self._along_rows(group, own, p, at)
            for p, at in places.items()
        )

    def _along_rows(self, group: Group, own: Group, position: int, places: Coordinates) -> bool:
        """Whether what a node of a group reads can be walked along a product's rows as one, and
        along its columns."""
        several = group.rows[1:] or group.columns[1:]
        for number, value in enumerate(self._graph.nodes[position].args if several else ()):
            view = self._views.of(value)
            if view.root in own.coordinates:
                continue
            first = alignment(self._graph, position, number, len(view.shape), len(places))
            strides = strides_along(view, places[first:], len(group.space))
            if row_stride(group, strides) is None or column_stride(group, strides) is None:
                return False
        return True

    def _completed(
        self, group: Group, shape: tuple[int, ...], places: list[int | None]
    ) -> Coordinates | None:
        """Coordinates in which each axis that no argument has is a free loop axis of its size.

        None where there is no such axis, or a loop would be left without one.
        """
        free = [a for a in range(len(group.space)) if a not in places and group.space[a] != 1]
        for axis, size in enumerate(shape):
            if size == 1 or places[axis] is not None:
                continue
            found = next((a for a in free if group.space[a] == size), None)
            if found is None:
                return None
            free.remove(found)
            places[axis] = found
        known = [p for p in places if p is not None]
        if len(set(known)) != len(known):
            return None
        if group.kind == "contraction" and not keeps_rows(group, known):
            return None
        if group.inner is None and any(
            n != 1 and a not in known for a, n in enumerate(group.space)
        ):
            return None
        if group.inner is not None and group.inner.isdisjoint(known):
            outer = {a for a, n in enumerate(group.space) if n != 1} - group.inner
            if set(known) != outer:
                return None
        elif group.inner is not None and len(known) != sum(n != 1 for n in group.space):
            return None
        return tuple(places)
