"""What reductions in pieces fold is computed on the axes of these.

A device with many workers reduces pieces first (`split_sums` and `split_reductions` in `grouping`),
for which axes are split: down columns `(batch, time, features)` becomes
`(blocks, BLOCK, features)`, and a whole matrix a row of pieces. What is folded is then on other
axes than the reduction, and would go through memory in between. So operations whose result nobody
else needs are done on the axes of the pieces; what they take is the same memory, seen with other
axes. The gradient of a layer norm's weight, a sum of products, reads the factors alone, and so does
a norm of all elements.
"""

from __future__ import annotations

import math

from ingle.tensor.operation import OPERATIONS

from ..ir.graph import Graph, Node
from ..ir.reduction_axes import folded_axes
from ..kernel.lowering import reduction_of

CHEAP = frozenset({"cheap", "root"})
MOST = 4
"""Operations before a reduction down columns that are done on its axes."""
MOST_ALONG = 16
"""The same along pieces, where each thread has many elements."""


def with_sums_in_pieces(graph: Graph) -> Graph:
    """The graph, with operations before reductions of pieces done on the axes of these.

    Args:
        graph: with composites expanded.
    """
    users = graph.users()
    maker = {r: node for node in graph.nodes for r in node.results}
    moved: dict[int, int] = {}
    for node in graph.nodes:
        if reduction_of(node.op) is not None:
            reshaped = maker.get(node.args[0])
            if reshaped is not None and _splits(graph, reshaped, node):
                for value in _before(graph, reshaped, users, maker):
                    moved[value] = reshaped.results[0]
    return _OnPieces(graph, moved, maker).run() if moved else graph


def _shape(graph: Graph, value: int) -> tuple[int, ...]:
    return graph.values[value].aval.shape


def _splits(graph: Graph, node: Node, reduction: Node) -> bool:
    """Whether a node is a reshape, of however many axes, into pieces that a reduction folds: into
    blocks of rows, or rows of pieces, or of blocks that are summed lane by lane."""
    if node.op.operation.name != "reshape":
        return False
    before, after = _shape(graph, node.args[0]), _shape(graph, node.results[0])
    if not before or len(after) not in (3, 4) or 0 in before:
        return False
    return folded_axes(reduction.op, len(after)) == (1 if _keeps_columns(before, after) else 2,)


def _keeps_columns(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    return len(before) > 1 and len(after) == 3 and before[-1] == after[-1]


def _before(
    graph: Graph, reshaped: Node, users: dict[int, list[int]], maker: dict[int, Node]
) -> list[int]:
    """The values before a reshape that are computed for it alone, by operations that can be done
    behind it."""
    found: list[int] = []
    shape, waiting = _shape(graph, reshaped.args[0]), [reshaped.args[0]]
    after = _shape(graph, reshaped.results[0])
    down = _keeps_columns(shape, after)
    while waiting and len(found) < (MOST if down else MOST_ALONG):
        value = waiting.pop()
        node = maker.get(value)
        if node is None or _shape(graph, value) != shape or value in graph.outputs:
            continue
        traits = node.op.operation.traits
        if traits.kind != "elementwise" or len(users[value]) > 1:
            continue
        if down and traits.cost not in CHEAP:
            continue
        if all(_seen(_shape(graph, a), shape, after) is not None for a in node.args):
            found.append(value)
            waiting += node.args
    return found


def _seen(
    operand: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The axes by which an operand of what has some axes is one of the same with others; None of
    an operand that has only some of the rows, or of the columns."""
    if math.prod(operand) == 1:
        return operand if len(operand) <= len(after) else ()
    if _keeps_columns(before, after):
        lead = operand[:-1]
        if operand[-1] not in (1, after[-1]):
            return None
        if math.prod(lead) == 1:
            return operand if len(operand) <= len(after) else operand[-1:]
        return (*after[:2], operand[-1]) if lead == before[:-1] else None
    if operand == before:
        return after
    if len(before) == 2 and before[0] == after[0]:
        if operand == (before[0], 1):
            return (before[0], *[1] * (len(after) - 1))
        if operand in (before[1:], (1, before[1])):
            return (1, *after[1:])
    return None


def _widens(graph: Graph, node: Node) -> bool:
    """Whether a node widens halves, which readers do: these are what lies in memory."""
    return node.op.operation.traits.laws.converts and graph.values[node.args[0]].is_half


class _OnPieces:
    """Writes a graph anew.

    Args:
        moved: for values that are computed on other axes the value that has these.
        maker: the node of each value.
    """

    def __init__(self, graph: Graph, moved: dict[int, int], maker: dict[int, Node]) -> None:
        self._graph, self._moved, self._maker = graph, moved, maker
        self._new, self._place = graph.emptied()

    def run(self) -> Graph:
        """The new graph."""
        for node in self._graph.nodes:
            value = node.results[0]
            if value in self._moved:
                continue
            if node.args and node.args[0] in self._moved and node.op.operation.name == "reshape":
                before, after = (_shape(self._graph, v) for v in (node.args[0], value))
                self._place[value] = self._computed(node.args[0], before, after)
                continue
            args = [self._place[a] for a in node.args]
            avals = [self._graph.values[r].aval for r in node.results]
            made = self._new.append(node.op, args, avals)
            self._place.update(zip(node.results, made, strict=True))
        self._new.outputs = tuple([self._place[o] for o in self._graph.outputs])
        return self._new

    def _computed(self, value: int, before: tuple[int, ...], after: tuple[int, ...]) -> int:
        """A value with other axes in place of those before."""
        if value not in self._moved:
            return self._seen_with(value, before, after)
        node = self._maker[value]
        args = [self._computed(a, before, after) for a in node.args]
        return self._new.node(node.op, args)[0]

    def _seen_with(self, value: int, before: tuple[int, ...], after: tuple[int, ...]) -> int:
        node = self._maker.get(value)
        if node is not None and _widens(self._graph, node):
            narrow = self._seen_with(node.args[0], before, after)
            return self._new.node(node.op, [narrow])[0]
        shape = _shape(self._graph, value)
        seen = _seen(shape, before, after)
        place = self._place[value]
        return place if seen is None or seen == shape else self._reshaped(place, seen)

    def _reshaped(self, value: int, shape: tuple[int, ...]) -> int:
        return self._new.node(OPERATIONS["reshape"].op(shape=shape), (value,))[0]
