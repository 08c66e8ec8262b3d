"""Nothing is computed that nobody needs, that is there already, or that changes nothing."""

from __future__ import annotations

from ..ir.graph import Graph
from ..support.time_slices import tick
from .algebra import Algebra, Work


def simplify(graph: Graph) -> Graph:
    """The same outputs from as few nodes as dead code, algebra and common subexpressions allow.

    Operations are pure, random ones included (their place in the stream is an argument), so equal
    operations on equal values are one. Inputs and scalars all stay, in their order.
    """
    needed = _needed(graph)
    new, place = graph.emptied()
    algebra = Algebra(new)
    seen: dict[Work, tuple[int, ...]] = {}
    for position, node in enumerate(graph.nodes):
        tick("simplifying", 2)
        if not needed[position]:
            continue
        args = tuple([place[a] for a in node.args])
        work = algebra.cheaper(node.op, args)
        same = algebra.unchanged(*work, graph.values[node.results[0]].aval.shape)
        if same is not None:
            place[node.results[0]] = same
            continue
        if work not in seen:
            seen[work] = new.append(*work, [graph.values[r].aval for r in node.results])
        place.update(zip(node.results, seen[work], strict=True))
    new.outputs = tuple([place[o] for o in graph.outputs])
    new.nodes = [node for node, kept in zip(new.nodes, _needed(new), strict=True) if kept]
    return new


def _needed(graph: Graph) -> list[bool]:
    wanted = set(graph.outputs)
    needed = [False] * len(graph.nodes)
    for position in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[position]
        if wanted.intersection(node.results):
            needed[position] = True
            wanted.update(node.args)
    return needed
