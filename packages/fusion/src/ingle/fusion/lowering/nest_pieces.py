"""Where a group falls apart whose loops cannot be written as one nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..grouping.group import Group
from ..grouping.two_stage_reduction import is_columns
from ..ir.graph import Graph
from ..ir.views import View, Views
from ..kernel.lowering import reduction_of
from .operands import nodes_by_result, operands_of


def pieces_of(
    graph: Graph, views: Views, group: Group, inline: dict[int, int], stored: Sequence[int],
    placed: Mapping[int, View],
) -> list[int]:  # fmt: skip
    """The first nodes of the pieces of a group, in each of which as many nodes follow each other as
    can share their loops.

    What can be walked along some loops can be without its last node. So the end of a piece is found
    by doubling its length, and then by halves: most are short, and to look at the whole group for
    each of its nodes takes longer than all other passes.
    """

    def fits(first: int, end: int) -> bool:
        part = _part(graph, group, group.nodes[first:end])
        made = nodes_by_result(graph, part)
        kept = [v for v in stored if v in made]
        return operands_of(graph, views, part, inline, kept, placed) is not None

    count, found, first = len(group.nodes), list[int](), 0
    while first < count:
        found.append(group.nodes[first])
        step = 1  # a node alone is a piece in any case
        while first + step < count and fits(first, min(first + 2 * step, count)):
            step *= 2
        end, fails = min(first + step, count), min(first + 2 * step, count + 1)
        while fails - end > 1:
            middle = (end + fails) // 2
            if fits(first, middle):
                end = middle
            else:
                fails = middle
        first = end
    return found


def _part(graph: Graph, group: Group, nodes: list[int]) -> Group:
    """A group of some nodes of another one, on its loops; they read there what others compute."""
    chosen = [graph.nodes[p] for p in nodes]
    if any(reduction_of(node.op) is not None or is_columns(node) for node in chosen):
        return Group("nest", nodes, group.space, group.inner, group.lanes, group.coordinates)
    return Group("nest", nodes, group.space, coordinates=group.coordinates)
