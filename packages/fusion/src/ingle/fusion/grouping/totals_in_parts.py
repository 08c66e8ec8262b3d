"""Totals of many sums of blocks, in parts that are added up side by side.

A total takes one block after the other, so that a device waits some hundred times for an addition
where it has columns enough for a fraction of its workers. Parts of the blocks have totals of their
own, and these one more. What is added in which order follows from the number of blocks alone.
"""

from __future__ import annotations

from ingle.tensor.operation import OPERATIONS

from ..ir.graph import Graph
from .two_stage_reduction import TOTALS

MANY = 256
"""Blocks from which on parts are worth a second kernel."""
PARTS = (32, 16)
"""Blocks of a part: the first of these sizes that divides their number."""


def with_totals_in_parts(graph: Graph) -> Graph:
    """The graph, with totals of totals in place of long ones."""
    if all(_part(graph, position) is None for position in range(len(graph.nodes))):
        return graph
    new, place = graph.emptied()
    for position, node in enumerate(graph.nodes):
        args = tuple([place[a] for a in node.args])
        part = _part(graph, position)
        if part is None:
            made = new.append(node.op, args, [graph.values[r].aval for r in node.results])
        else:
            made, axis = args, node.op.attributes["axis"]
            while part is not None:
                shape = new.values[made[0]].aval.shape
                parts = (*shape[:axis], shape[axis] // part, part, *shape[axis + 1 :])
                made = new.node(OPERATIONS["reshape"].op(shape=parts), made)
                made = new.node(TOTALS.op(axis=axis + 1), made)
                part = part_of(parts[axis])
            made = new.node(node.op, made)
        place.update(zip(node.results, made, strict=True))
    new.outputs = tuple([place[o] for o in graph.outputs])
    return new


def _part(graph: Graph, position: int) -> int | None:
    node = graph.nodes[position]
    if node.op.operation is not TOTALS:
        return None
    return part_of(graph.values[node.args[0]].aval.shape[node.op.attributes["axis"]])


def part_of(blocks: int) -> int | None:
    """How many blocks each part of so many has; None where they are added up as they are."""
    if blocks < MANY:
        return None
    return next((part for part in PARTS if blocks % part == 0), None)
