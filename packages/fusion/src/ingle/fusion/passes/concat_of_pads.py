"""Pieces in zeros whose sum has no gap: they are put together instead of added up.

The gradient of a value that was taken apart, such as queries, keys and values of one product, is a
sum of as many arrays as there are parts, each of which is zero but for one piece.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ingle.tensor.operation import OPERATIONS

from ..ir.graph import Graph, Node
from ..ir.views import is_full

ADDITION = OPERATIONS["add"].op()
MOST_PIECES = 64
VIEWS = ("reshape", "permute_dims")
"""Through which a zero is added to a piece, so that it is where the piece is computed."""


class PaddedPiece(NamedTuple):
    """A piece in zeros.

    Attributes:
        first: where it begins along the axis along which it is not as long as the zeros.
        end: behind its last place there.
        axis: that axis.
        piece: the value.
        zero: the number around it.
    """

    first: int
    end: int
    axis: int
    piece: int
    zero: int


def with_concat_of_pads(graph: Graph) -> Graph:
    """The graph, with sums of pieces in zeros that leave no gap put together from the pieces.

    Adding zero changes one number, -0.0, which becomes 0.0: that addition stays.

    Args:
        graph: with composites expanded.
    """
    found = _Search(graph).pieces()
    return _written(graph, found) if found else graph


class _Search:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._maker = {r: node for node in graph.nodes for r in node.results}
        users = graph.users()
        self._once = {v for v, at in users.items() if len(at) == 1}.difference(graph.outputs)

    def pieces(self) -> dict[int, list[PaddedPiece]]:
        """For sums the pieces that they consist of, in order."""
        found: dict[int, list[PaddedPiece]] = {}
        for node in self._graph.nodes:
            if node.op is ADDITION:
                pieces = self._whole(self._leaves(node), node.results[0])
                if pieces:
                    found[node.results[0]] = pieces
        return found

    def _shape(self, value: int) -> tuple[int, ...]:
        return self._graph.values[value].aval.shape

    def _leaves(self, node: Node) -> list[PaddedPiece]:
        """The pieces in zeros that a tree of additions adds up; none if it adds anything else."""
        found: list[PaddedPiece] = []
        waiting = list(node.args)
        while waiting:
            value = waiting.pop()
            maker = self._maker.get(value)
            if maker is None or self._shape(value) != self._shape(node.results[0]):
                return []
            if maker.op is ADDITION and value in self._once:
                waiting.extend(maker.args)
            else:
                padded = self._padded_piece(maker)
                if padded is None:
                    return []
                found.append(padded)
            if len(found) + len(waiting) > MOST_PIECES:
                return []
        return found

    def _padded_piece(self, node: Node) -> PaddedPiece | None:
        op = node.op
        if op.operation.traits.access != "update" or any(s != 1 for s in op.attributes["steps"]):
            return None
        zeros, piece, *starts = node.args
        numbers, zero = [self._graph.values[s] for s in starts], self._number(zeros)
        if zero is None or any(n.kind != "constant" for n in numbers):
            return None
        sizes, shape = self._shape(piece), self._shape(zeros)
        axes = [a for a, (n, m) in enumerate(zip(sizes, shape, strict=True)) if n != m]
        if len(axes) != 1 or any(n.data != 0 for a, n in enumerate(numbers) if a != axes[0]):
            return None
        (axis,) = axes
        first = numbers[axis].data
        first = first + shape[axis] if first < 0 else first
        return PaddedPiece(first, first + sizes[axis], axis, piece, zero)

    def _number(self, value: int) -> int | None:
        """The constant zero that is everywhere in a value."""
        maker = self._maker.get(value)
        if maker is not None and maker.op.operation.name == "broadcast_to":
            maker = self._maker.get(maker.args[0])
        if maker is None or not is_full(maker):
            return None
        number, dtype = self._graph.values[maker.args[0]], self._graph.values[value].aval.dtype
        known = number.kind == "constant" and number.aval.dtype is dtype and not dtype.is_complex
        plain = known and number.data == 0 and math.copysign(1.0, number.data) == 1.0
        return maker.args[0] if plain else None

    def _whole(self, pieces: list[PaddedPiece], value: int) -> list[PaddedPiece]:
        """The pieces in order, if they lie side by side and fill the whole of a value."""
        ordered, at = sorted(pieces, key=lambda t: t.first), 0
        for padded in ordered:
            if padded.axis != ordered[0].axis or padded.first != at:
                return []
            at = padded.end
        return ordered if ordered and at == self._shape(value)[ordered[0].axis] else []


def _written(graph: Graph, found: dict[int, list[PaddedPiece]]) -> Graph:
    """The graph with pieces put together, without what only their sums needed."""
    maker = {r: node for node in graph.nodes for r in node.results}
    wanted, needed = set(graph.outputs), set[int]()

    def source(value: int) -> int:
        """What a piece is a view of."""
        node = maker.get(value)
        viewed = node is not None and node.op.operation.name in VIEWS
        return source(node.args[0]) if viewed and node is not None else value

    for node in reversed(graph.nodes):
        if wanted.intersection(node.results):
            needed.add(node.results[0])
            pieces = found.get(node.results[0])
            wanted.update(node.args if pieces is None else [source(t.piece) for t in pieces])
    new, place = graph.emptied()

    def moved(value: int, zero: int) -> int:
        """A piece, to which a zero is added where it is computed."""
        node = maker.get(value)
        if node is not None and node.op.operation.name in VIEWS:
            before = (moved(node.args[0], zero),)
            return new.append(node.op, before, [graph.values[value].aval])[0]
        if not graph.values[value].aval.dtype.is_floating:
            return place[value]
        return new.node(ADDITION, (place[value], place[zero]))[0]

    for node in graph.nodes:
        (value, *_), avals = node.results, [graph.values[r].aval for r in node.results]
        if value not in needed:
            continue
        pieces = found.get(value)
        if pieces is None:
            made = new.append(node.op, [place[a] for a in node.args], avals)
        else:
            parts = [moved(t.piece, t.zero) for t in pieces]
            made = new.append(OPERATIONS["concat"].op(axis=pieces[0].axis), parts, avals)
        place.update(zip(node.results, made, strict=True))
    new.outputs = tuple([place[o] for o in graph.outputs])
    return new
