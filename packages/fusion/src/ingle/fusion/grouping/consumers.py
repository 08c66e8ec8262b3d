"""Consumers of a value, and whether it has to be in memory for that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.graph import Graph
from ..ir.views import View, Views
from .node_class import Role


def uses_of(graph: Graph, views: Views, roles: Sequence[Role]) -> Uses:
    """The consumers of a graph's values, given the role of each node."""
    consumers: dict[int, set[Role]] = {}
    maps: dict[int, View] = {}
    for node, role in zip(graph.nodes, roles, strict=True):
        for value in node.args if role != "view" else ():
            view = views.of(value)
            consumers.setdefault(view.root, set()).add(role)
            if role == "map":
                maps.setdefault(view.root, view)
    outputs = frozenset([views.of(o).root for o in graph.outputs])
    return Uses(views, outputs, consumers, maps)


class Uses:
    """The consumers of a graph's values, by the values' roots; made by `uses_of`.

    Args:
        views: of the graph's values.
        outputs: roots that the graph returns.
        consumers: the roles of the nodes that take each root.
        maps: how the first elementwise operation on a root sees it.
    """

    def __init__(
        self, views: Views, outputs: frozenset[int], consumers: dict[int, set[Role]],
        maps: dict[int, View],
    ) -> None:  # fmt: skip
        self._views = views
        self._outputs = outputs
        self._consumers = consumers
        self._maps = maps

    def first_map(self, root: int) -> View | None:
        """How the first elementwise operation on a value sees it."""
        return self._maps.get(root)

    def stored_twice(self, value: int, args: Iterable[int]) -> bool:
        """Whether an elementwise result would be stored beside what it is made of, for a sum.

        The kernel of the sum computes it: its operands are in memory anyway.
        """
        if "reduce" not in self._roles(value) or self._is_needed(value, "reduce"):
            return False
        return any(self._is_needed(self._views.of(a).root) for a in args)

    def _roles(self, root: int) -> set[Role]:
        return self._consumers.get(root, set())

    def _is_needed(self, root: int, *others: Role) -> bool:
        """Whether a consumer that is no map, nor one of these, needs a value in memory."""
        return root in self._outputs or bool(self._roles(root) - {"map", *others})
