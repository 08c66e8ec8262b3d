"""Sums of folds that grow term by term, as the gradient of what each turn of a loop takes does.

All terms could be one kernel. It would read what each turn has left, so that this is kept until the
last one; it would be another kernel for each number of turns; and no turn would be planned like the
next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Graph
from ..ir.views import Views
from ..passes.concat_of_pads import ADDITION
from .node_class import Role

FEWEST = 4
"""Additions in a row from which on a sum is one that grows."""


def running_sums(graph: Graph, views: Views, roles: Sequence[Role]) -> frozenset[int]:
    """The positions of the additions that such sums consist of, in graphs that take pieces: the
    terms of other sums are better read in one kernel.

    Args:
        graph: with composites expanded.
        views: of its values.
        roles: what each node is.
    """
    if all(node.op.operation.traits.starts is None for node in graph.nodes):
        return frozenset()
    folded: set[int] = set()
    """Folds, what they are put into, and what is computed of nothing else."""
    length: dict[int, int] = {}
    """Of the sum that ends in an addition, by its result."""
    following: dict[int, int] = {}
    for node, role in zip(graph.nodes, roles, strict=True):
        if role in ("reduce", "columns", "assembly"):
            folded.update(node.results)
        if role != "map":
            continue
        roots = {views.of(a).root for a in node.args}
        terms = {root for root in roots if graph.values[root].kind != "constant"}
        if terms and terms <= folded:
            folded.update(node.results)
            if node.op is ADDITION:
                (result,) = node.results
                before = [root for root in terms if root in length]
                length[result] = 1 + max([length[root] for root in before], default=0)
                following.update(dict.fromkeys(before, result))
    for result in reversed(length):
        if result in following:
            length[result] = length[following[result]]
    return frozenset(
        [
            position
            for position, node in enumerate(graph.nodes)
            if length.get(node.results[0] if node.results else -1, 0) >= FEWEST
        ]
    )
