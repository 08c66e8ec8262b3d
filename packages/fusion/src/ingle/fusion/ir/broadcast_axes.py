"""Which axes of a result the axes of an operand run along."""

from __future__ import annotations

from collections.abc import Sequence

from .graph import Graph
from .views import View

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
    if argument == 1 and node.op.operation.traits.access == "rows":
        return int(node.op.attributes["axis"])
    return count - rank


ANYWHERE = -1
"""In place of an axis: the view repeats, so that any place along a loop will do."""


def axes_seen(view: View, shape: Sequence[int]) -> tuple[int | None, ...] | None:
    """For each axis of a view the axis of a value of that shape that it is.

    None stands for an axis of size 1. The answer is None where the view is not every element of
    the value with its axes in some order.
    """
    if view.offset:
        return None
    natural = {}
    step = 1
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] != 1:
            natural[step, shape[axis]] = axis
        step *= shape[axis]
    found: list[int | None] = []
    for size, stride in zip(view.shape, view.strides, strict=True):
        if size == 1:
            found.append(None)
        elif stride == 0:
            found.append(ANYWHERE)
        else:
            own = natural.pop((stride, size), None)
            if own is None:
                return None
            found.append(own)
    return None if natural else tuple(found)
