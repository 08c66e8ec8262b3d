"""Consumers of a value, and whether it has to be in memory for that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.graph import Graph
from ..ir.regions import regions_of
from ..ir.views import View, Views, strides_of
from .node_class import Role


def uses_of(graph: Graph, views: Views, roles: Sequence[Role]) -> Uses:
    """The consumers of a graph's values, given the role of each node."""
    consumers: dict[int, set[Role]] = {}
    maps: dict[int, View] = {}
    parts: dict[int, list[int]] = {}
    for node, role in zip(graph.nodes, roles, strict=True):
        for value in node.args if role != "view" else ():
            view = views.of(value)
            consumers.setdefault(view.root, set()).add(role)
            if role == "map":
                maps.setdefault(view.root, view)
    outputs = frozenset([views.of(o).root for o in graph.outputs])
    spread = {
        root
        for position, role in enumerate(roles) if role == "assembly"
        for root in _spread_parts(graph, views, position)
        if consumers[root] == {"assembly"} and root not in outputs
    }  # fmt: skip
    for node, role in zip(graph.nodes, roles, strict=True) if spread else ():
        if role == "map" and spread.issuperset(node.results):
            for root in {views.of(value).root for value in node.args}:
                parts.setdefault(root, []).extend(node.results)
    spread_parts = [part for several in parts.values() if len(several) > 1 for part in several]
    return Uses(views, outputs, consumers, maps, frozenset(spread_parts))


def _spread_parts(graph: Graph, views: Views, position: int) -> list[int]:
    """The pieces of a result between whose elements others lie."""
    (result,) = graph.nodes[position].results
    shape = graph.values[result].aval.shape
    regions = regions_of(graph, views, position, View(result, shape, strides_of(shape)))
    found = () if regions is None else regions.ordered
    return [region.source.root for region in found if _step(region.target) > 1]


def _step(view: View) -> int:
    """How far neighbours of a view lie apart."""
    along = [t for n, t in zip(view.shape, view.strides, strict=True) if n != 1]
    return along[-1] if along else 1


class Uses:
    """The consumers of a graph's values, by the values' roots; made by `uses_of`.

    Args:
        views: of the graph's values.
        outputs: roots that the graph returns.
        consumers: the roles of the nodes that take each root.
        maps: how the first elementwise operation on a root sees it.
        spread: elementwise results, several of one value, that are only put between the elements
            of others.
    """

    def __init__(
        self, views: Views, outputs: frozenset[int], consumers: dict[int, set[Role]],
        maps: dict[int, View], spread: frozenset[int],
    ) -> None:  # fmt: skip
        self._views = views
        self._spread = spread
        self._outputs = outputs
        self._consumers = consumers
        self._maps = maps

    def first_map(self, root: int) -> View | None:
        """How the first elementwise operation on a value sees it."""
        return self._maps.get(root)

    def stored_besides(self, value: int, args: Iterable[int]) -> bool:
        """Whether a product's kernel would store an elementwise result for what computes it as well
        from one value in memory.

        That is a sum where what it is made of is stored anyway, and what puts several of these
        between each other's elements, where a product cannot write them.
        """
        if value in self._spread:
            return True
        if "reduce" not in self._roles(value) or self._is_needed(value, "reduce"):
            return False
        return any(self._is_needed(self._views.of(a).root) for a in args)

    def _roles(self, root: int) -> set[Role]:
        return self._consumers.get(root, set())

    def _is_needed(self, root: int, *others: Role) -> bool:
        """Whether a consumer that is no map, nor one of these, needs a value in memory."""
        return root in self._outputs or bool(self._roles(root) - {"map", *others})
