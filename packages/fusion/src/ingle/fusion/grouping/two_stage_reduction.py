"""Sums over rows in kernels that work row by row: a first step there, a second one behind it.

The gradient of a layer norm's weight is a sum over rows of what the kernel of its input's gradient
computes anyway. Such a sum becomes two operations: `block_sums` makes a row of sums for each
`BLOCK` rows, and `totals` adds these up. Both together add in the order in which the sum alone
would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ingle.tensor.contract import Aval
from ingle.tensor.operation import OPERATIONS, Operation, Traits

from ..ir.graph import Graph, Node
from ..ir.views import Views, long_axes
from ..kernel.lowering import reduction_of
from ..kernel.nest import BLOCK

if TYPE_CHECKING:
    from .groups import Grouping

FEWEST_ROWS, FEWEST_COLUMNS = 4 * BLOCK, 16
"""Sums over fewer rows, and rows that are shorter, are better left to a kernel of their own."""


def _block_sums_rule(x: Aval, *, kept: int) -> Aval:
    first = len(x.shape) - kept
    blocks = -(-math.prod(x.shape[:first]) // BLOCK)
    return Aval((blocks, *x.shape[first:]), x.dtype)


def _totals_rule(x: Aval, *, axis: int) -> Aval:
    return Aval(x.shape[:axis] + x.shape[axis + 1 :], x.dtype)


BLOCK_SUMS = Operation(
    "block_sums",
    tensors=("x",),
    statics=("kept",),
    rule=_block_sums_rule,
    traits=Traits("reduction", family="reduce"),
)
"""The sums over each `BLOCK` rows, which all axes but the last `kept` ones count."""
TOTALS = Operation(
    "totals",
    tensors=("x",),
    statics=("axis",),
    rule=_totals_rule,
    traits=Traits("reduction", family="reduce"),
)
"""The sum of what `BLOCK_SUMS` gave."""


def is_columns(node: Node) -> bool:
    """Whether a node sums over blocks of rows."""
    return node.op.operation is BLOCK_SUMS


def kept_axes(graph: Graph, position: int) -> frozenset[int]:
    """The axes along a row of what a `block_sums` takes; those of size 1 do not count."""
    node = graph.nodes[position]
    shape = graph.values[node.args[0]].aval.shape
    first = len(shape) - node.op.attributes["kept"]
    return _from(first, shape)


def _from(first: int, shape: tuple[int, ...]) -> frozenset[int]:
    """The axes from one on; those of size 1 do not count."""
    return frozenset(a for a in range(first, len(shape)) if shape[a] != 1)


def sums_in_two_steps(graph: Graph, views: Views, grouping: Grouping) -> list[int]:
    """The positions of sums over rows whose operand a kernel computes that goes by rows.

    Args:
        graph: with composites expanded.
        views: of its values.
        grouping: of its nodes, as they are.
    """
    return [p for p in range(len(graph.nodes)) if _is_chosen(graph, views, grouping, p)]


def in_two_steps(graph: Graph, chosen: Sequence[int]) -> Graph:
    """The graph with some sums over rows in two steps."""
    sums = set(chosen)
    new, place = graph.emptied()
    for position, node in enumerate(graph.nodes):
        args = tuple([place[a] for a in node.args])
        if position in sums:
            blocks = new.node(BLOCK_SUMS.op(kept=_kept(graph, node)), args)
            made = new.node(TOTALS.op(axis=0), blocks)
            shape = graph.values[node.results[0]].aval.shape
            if new.values[made[0]].aval.shape != shape:
                made = new.node(OPERATIONS["reshape"].op(shape=shape), made)
        else:
            made = new.append(node.op, args, [graph.values[r].aval for r in node.results])
        place.update(zip(node.results, made, strict=True))
    new.outputs = tuple([place[o] for o in graph.outputs])
    return new


def _kept(graph: Graph, node: Node) -> int:
    """How many of the last axes a sum keeps."""
    count = len(graph.values[node.args[0]].aval.shape)
    axes = node.op.attributes["axis"]
    return 0 if axes is None else count - len(axes)


def _is_chosen(graph: Graph, views: Views, grouping: Grouping, position: int) -> bool:
    node = graph.nodes[position]
    if reduction_of(node.op) != "sum":
        return False
    (value,) = node.args
    shape, dtype = graph.values[value].aval
    axes = node.op.attributes["axis"]
    kept = _kept(graph, node)
    folded = len(shape) - kept
    if axes != tuple(range(folded)) or dtype.name not in ("float32", "float64"):
        return False
    rows, columns = math.prod(shape[:folded]), math.prod(shape[folded:])
    if rows < FEWEST_ROWS or columns < FEWEST_COLUMNS or shape[-1] == 1:
        return False
    group = grouping.producer(views.of(value).root)
    if group is None or group.lanes != "inner" or group.space != shape:
        return False
    seen = grouping.seen_from(group, views.of(value))
    return bool(kept) and seen == long_axes(shape) and group.inner == _from(folded, shape)
