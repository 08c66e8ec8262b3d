"""Matrices of half types whose rows are made longer, so that each begins at a multiple of 16 bytes.

A library's fast products want rows that begin so. Where they do not, such as rows of 50,257 logits,
a device would copy a product's operands into longer rows, and its result out of them, each time.
Here the values themselves get longer rows: what computes a matrix writes it into the longer one
beside zeros, a product makes the longer matrix, and whatever else reads it sees a part of that,
by strides. What is added to a row that is summed over is zero in both operands, so that no sum
changes its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import DType, int64
from ingle.tensor.operation import OPERATIONS

from ..ir.graph import Graph, Node
from ..kernel.code import HALVES

LINE = 8
"""Elements of a half type in 16 bytes."""
FEWEST_ALIGNED = 256
"""Rows, columns and terms from which on longer rows save more time than they take."""
MATMUL, PERMUTE = OPERATIONS["matmul"], OPERATIONS["permute_dims"]


def with_aligned_rows(graph: Graph) -> Graph:
    """The graph with longer rows in its large products; itself if they all begin well.

    Args:
        graph: with composites expanded, of sizes that are known.
    """
    if not any(_is_large(graph, node) for node in graph.nodes):
        return graph
    longer = _LongerRows(graph).found()
    return _Writer(graph, longer).written() if longer.products else graph


class _Longer(NamedTuple):
    """What gets longer.

    Attributes:
        axes: of each matrix that is computed or given, those that do.
        products: for the position of each product of such matrices those of its sizes m, n, k.
    """

    axes: dict[int, set[int]]
    products: dict[int, frozenset[str]]


class _Seen(NamedTuple):
    """A matrix as another one with its axes in an order.

    Attributes:
        root: the number of the other one.
        axes: the axis of `root` that each of its axes is.
    """

    root: int
    axes: tuple[int, ...]


def _is_large(graph: Graph, node: Node) -> bool:
    """Whether a node is a product of half types whose sizes are not all multiples of a line."""
    if node.op.operation is not MATMUL:
        return False
    a, b = (graph.values[v].aval for v in node.args)
    if a.dtype.name not in HALVES or min(len(a.shape), len(b.shape)) < 2:
        return False
    sizes = *a.shape[-2:], b.shape[-1]
    return min(sizes) >= FEWEST_ALIGNED and any(size % LINE for size in sizes)


def _seen(maker: dict[int, Node], value: int, rank: int) -> _Seen:
    axes = tuple(range(rank))
    while (node := maker.get(value)) is not None and node.op.operation is PERMUTE:
        order = node.op.attributes["axes"]
        axes, value = tuple([order[a] for a in axes]), node.args[0]
    return _Seen(value, axes)


class _LongerRows:
    """Looks for what gets longer."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._maker = {r: node for node in graph.nodes for r in node.results}
        self._kept = set(graph.outputs)

    def found(self) -> _Longer:
        longer = _Longer({}, {})
        for position, node in enumerate(self._graph.nodes):
            if _is_large(self._graph, node):
                self._product(position, node, longer)
        return longer

    def _product(self, position: int, node: Node, longer: _Longer) -> None:
        a, b = [self._matrix(v) for v in node.args]
        if a.root in self._kept or b.root in self._kept or node.results[0] in self._kept:
            return  # what a caller is given has rows of its own length
        m, k = [self._size(a, axis) for axis in (-2, -1)]
        n = self._size(b, -1)
        along = {"k": (a, -1), "m": (a, -2)}
        # The rows of what is stored are those of the last axis.
        last_of_a = next((s for s, (x, axis) in along.items() if self._is_last(x, axis)), "")
        last_of_b = next((s for s, axis in (("k", -2), ("n", -1)) if self._is_last(b, axis)), "")
        sizes = {"m": m, "n": n, "k": k}
        taken = {s for s in (last_of_a, last_of_b, "n") if s and sizes[s] % LINE}
        if not taken:
            return
        for x, axis, size in ((a, -2, "m"), (a, -1, "k"), (b, -2, "k"), (b, -1, "n")):
            if size in taken:
                longer.axes.setdefault(x.root, set()).add(x.axes[axis])
        longer.products[position] = frozenset(taken)

    def _matrix(self, value: int) -> _Seen:
        return _seen(self._maker, value, len(self._graph.values[value].aval.shape))

    def _size(self, x: _Seen, axis: int) -> int:
        return self._graph.values[x.root].aval.shape[x.axes[axis]]

    def _is_last(self, x: _Seen, axis: int) -> bool:
        return x.axes[axis] == len(x.axes) - 1


class _Writer:
    """Writes the graph anew."""

    def __init__(self, graph: Graph, longer: _Longer) -> None:
        self._old = graph
        self._longer = longer
        self._maker = {r: node for node in graph.nodes for r in node.results}
        self._new, self._place = graph.emptied()
        self._first = self._new.constant(0, int64)
        self._zeros: dict[DType, int] = {}
        self._made: dict[int, int] = {}
        """Where the longer one of a matrix is."""

    def written(self) -> Graph:
        for value in self._old.inputs:
            self._lengthen(value)
        for position, node in enumerate(self._old.nodes):
            taken = self._longer.products.get(position)
            if taken is None:
                avals = [self._old.values[r].aval for r in node.results]
                made = self._new.append(node.op, [self._place[a] for a in node.args], avals)
            else:
                made = (self._product(node, taken),)
            self._place.update(zip(node.results, made, strict=True))
            for value in node.results:
                self._lengthen(value)
        self._new.outputs = tuple([self._place[o] for o in self._old.outputs])
        return self._new

    def _product(self, node: Node, taken: frozenset[str]) -> int:
        """A product of longer matrices, as far as its result is asked for."""
        a, b = node.args
        operands = (
            self._operand(a, [axis for s, axis in (("m", -2), ("k", -1)) if s in taken]),
            self._operand(b, [axis for s, axis in (("k", -2), ("n", -1)) if s in taken]),
        )
        (made,) = self._new.node(node.op, operands)
        return self._part(made, self._old.values[node.results[0]].aval.shape)

    def _operand(self, value: int, axes: Iterable[int]) -> int:
        """A matrix that is longer along these of its axes, and no others."""
        shape = self._old.values[value].aval.shape
        seen = _seen(self._maker, value, len(shape))
        longer = {seen.axes[axis] for axis in axes}
        if not longer:
            return self._place[value]
        whole = self._old.values[seen.root].aval.shape
        sizes = [aligned_size(n) if axis in longer else n for axis, n in enumerate(whole)]
        found = self._part(self._made[seen.root], sizes)
        if seen.axes == tuple(range(len(shape))):
            return found
        return self._new.node(PERMUTE.op(axes=seen.axes), (found,))[0]

    def _lengthen(self, value: int) -> None:
        """Writes a matrix into a longer one, of which whoever else reads it sees a part."""
        axes = self._longer.axes.get(value)
        if not axes:
            return
        aval = self._old.values[value].aval
        shape = tuple([aligned_size(n) if axis in axes else n for axis, n in enumerate(aval.shape)])
        zeros = self._new.node(
            OPERATIONS["full"].op(shape=shape, dtype=aval.dtype), (self._zero(aval),)
        )
        steps = (1,) * len(shape)
        args = *zeros, self._place[value], *[self._first] * len(shape)
        (made,) = self._new.node(OPERATIONS["slice_update"].op(steps=steps), args)
        self._made[value] = made
        self._place[value] = self._part(made, aval.shape)

    def _part(self, value: int, shape: Sequence[int]) -> int:
        """The first elements along each axis."""
        own = self._new.values[value].aval.shape
        if own == tuple(shape):
            return value
        op = OPERATIONS["slice"].op(sizes=tuple(shape), steps=(1,) * len(own))
        return self._new.node(op, (value, *[self._first] * len(own)))[0]

    def _zero(self, aval: Aval) -> int:
        if aval.dtype not in self._zeros:
            self._zeros[aval.dtype] = self._new.constant(0, aval.dtype)
        return self._zeros[aval.dtype]


def aligned_size(size: int) -> int:
    """A length of rows that begin at multiples of a line."""
    return -(-size // LINE) * LINE
