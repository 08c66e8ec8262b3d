"""What a sum down columns adds up is computed on the axes of the sum's pieces.

A device with many workers sums blocks of rows first (`grouping.split_sums`), for which rows are
split: `(batch, time, features)` becomes `(blocks, BLOCK, features)`. What is summed is then on
other axes than the sum, and would go through memory in between. So cheap operations whose result
nobody else needs are done on the axes of the sum; what they take is the same memory, seen with
other axes. The gradient of a layer norm's weight, a sum of products, reads the factors alone.
"""

from __future__ import annotations

import math

from ingle.tensor.operation import OPERATIONS

from ..ir.graph import Graph, Node
from ..kernel.lowering import reduction_of

CHEAP = frozenset({"cheap", "root"})
MOST = 4
"""Operations before a sum that are done on its axes."""


def with_sums_in_pieces(graph: Graph) -> Graph:
    """The graph, with operations before sums of pieces done on the axes of these.

    Args:
        graph: with composites expanded.
    """
    users = graph.users()
    maker = {r: node for node in graph.nodes for r in node.results}
    moved: dict[int, int] = {}
    for node in graph.nodes:
        if reduction_of(node.op) == "sum":
            reshaped = maker.get(node.args[0])
            if reshaped is not None and _splits_rows(graph, reshaped):
                for value in _before(graph, reshaped, users, maker):
                    moved[value] = reshaped.results[0]
    return _OnPieces(graph, moved, maker).run() if moved else graph


def _shape(graph: Graph, value: int) -> tuple[int, ...]:
    return graph.values[value].aval.shape


def _splits_rows(graph: Graph, node: Node) -> bool:
    """Whether a node is a reshape of rows, of however many axes, into blocks of rows."""
    if node.op.operation.name != "reshape":
        return False
    before, after = _shape(graph, node.args[0]), _shape(graph, node.results[0])
    return len(before) > 1 and len(after) == 3 and before[-1] == after[-1] and 0 not in before


def _before(
    graph: Graph, reshaped: Node, users: dict[int, list[int]], maker: dict[int, Node]
) -> list[int]:
    """The values before a reshape that are computed for it alone, by operations that can be done
    behind it."""
    found: list[int] = []
    shape, waiting = _shape(graph, reshaped.args[0]), [reshaped.args[0]]
    while waiting and len(found) < MOST:
        value = waiting.pop()
        node = maker.get(value)
        if node is None or _shape(graph, value) != shape or value in graph.outputs:
            continue
        traits = node.op.operation.traits
        if traits.kind != "elementwise" or traits.cost not in CHEAP or len(users[value]) > 1:
            continue
        if all(_seen(_shape(graph, a), shape) for a in node.args):
            found.append(value)
            waiting += node.args
    return found


def _seen(operand: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an operand has all rows of a shape, or none, and all columns or one."""
    lead = operand[:-1]
    if math.prod(lead) == 1:
        return not operand or operand[-1] in (1, shape[-1])
    return lead == shape[:-1] and operand[-1] in (1, shape[-1])


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
                self._place[value] = self._computed(node.args[0], _shape(self._graph, value))
                continue
            args = [self._place[a] for a in node.args]
            avals = [self._graph.values[r].aval for r in node.results]
            made = self._new.append(node.op, args, avals)
            self._place.update(zip(node.results, made, strict=True))
        self._new.outputs = tuple([self._place[o] for o in self._graph.outputs])
        return self._new

    def _computed(self, value: int, axes: tuple[int, ...]) -> int:
        """A value with other axes in place of its rows."""
        if value not in self._moved:
            return self._seen_with(value, axes)
        node = self._maker[value]
        args = [self._computed(a, axes) for a in node.args]
        return self._new.node(node.op, args)[0]

    def _seen_with(self, value: int, axes: tuple[int, ...]) -> int:
        node = self._maker.get(value)
        if node is not None and _widens(self._graph, node):
            return self._new.node(node.op, [self._seen_with(node.args[0], axes)])[0]
        place, shape = self._place[value], _shape(self._graph, value)
        if math.prod(shape[:-1]) == 1:
            return place if len(shape) <= 3 else self._reshaped(place, shape[-1:])
        return self._reshaped(place, (*axes[:2], shape[-1]))

    def _reshaped(self, value: int, shape: tuple[int, ...]) -> int:
        return self._new.node(OPERATIONS["reshape"].op(shape=shape), (value,))[0]
