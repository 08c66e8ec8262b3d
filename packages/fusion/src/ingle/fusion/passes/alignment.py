"""Which axes of a result the axes of an operand run along."""

from __future__ import annotations

from ..graph import Graph

GATHERED = 0
"""Which operand of a gather is read at places that the other one names."""


def is_gather(graph: Graph, position: int) -> bool:
    """Whether a node reads its first operand at indices that its second one holds."""
    return graph.nodes[position].op.operation.traits.family == "gather"


def alignment(graph: Graph, position: int, argument: int, rank: int, count: int) -> int:
    """The axis of the result that the first axis of an operand runs along.

    Args:
        graph, position: the node.
        argument: which of its operands.
        rank: the operand's number of axes.
        count: the result's.
    """
    node = graph.nodes[position]
    if argument == 1 and node.op.operation.name == "take":
        return int(node.op.attributes["axis"])
    return count - rank
