"""Values that products read twice, long apart, and that are computed again in between.

What an activation or a norm gives in half precision is read by the next product and, in the
backward pass, by the product that is the gradient of that one's weight. Products read memory, so it
would be kept from the one to the other. But what it was computed from is kept as well, for the
activation's own gradient. The kernel of this gradient has that at hand, computes the activation
again and stores it for the product behind: the memory of a value, for one more write of it.

The copy waits for what that kernel computes (`depend`), and so joins it; the product and what
follows from it come later than they were recorded. Bits are those of the value, by the same
operations on the same operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ingle.tensor.ops.elementwise.dependence import DEPEND

from ..ir.graph import Graph, Node
from ..ir.views import Views, views_of
from .legality import is_product
from .products_apart import adds_row

LEAST_BYTES = 1 << 23
"""Of a value that is worth a copy."""
WAITING = 8
"""How many times its bytes products write between two that read it, so that it waits in vain."""
MOST = 12
"""Operations of a copy."""
FEW = 64
"""A value of so many times fewer elements than another is nothing beside it."""


class LateCopy(NamedTuple):
    """A value that is computed again.

    Attributes:
        value: what it is, or was.
        source: what it is computed from.
        chain: the positions of the operations between the two, in order.
        behind: the position of the node behind which the copy is made.
        readers: the positions of the products that read it instead.
    """

    value: int
    source: int
    chain: tuple[int, ...]
    behind: int
    readers: frozenset[int]


def with_late_copies(graph: Graph, device: object) -> Graph:
    """The graph with copies of what waits for long.

    Args:
        graph: with composites expanded, of sizes that are known.
        device: one whose products are a library's (`products_apart`); graphs of others stay.
    """
    apart: Callable[[str, int], bool] | None = getattr(device, "products_apart", None)
    if apart is None:
        return graph
    found = _Finder(graph, apart).found()
    return _rewritten(graph, found) if found else graph


class _Finder:
    """Finds what is worth a copy."""

    def __init__(self, graph: Graph, apart: Callable[[str, int], bool]) -> None:
        self._graph = graph
        self._apart = apart
        self._views: Views = views_of(graph)
        self._maker = {r: p for p, node in enumerate(graph.nodes) for r in node.results}
        self._outputs = {self._views.of(o).root for o in graph.outputs}
        self._written = [0]
        self._readers: dict[int, list[int]] = {}

    def found(self) -> list[LateCopy]:
        """The copies that pay."""
        self._read()
        copies = [self._copy_of(value) for value in self._readers]
        return [copy for copy in copies if copy is not None]

    def _read(self) -> None:
        """Notes who reads which value, and how much products before each node have written."""
        for position, node in enumerate(self._graph.nodes):
            written = sum(map(self._nbytes, node.results)) if self._is_product(node) else 0
            self._written.append(self._written[-1] + written)
            if not self._is_view(node):
                for root in dict.fromkeys([self._views.of(a).root for a in node.args]):
                    self._readers.setdefault(root, []).append(position)

    def _is_product(self, node: Node) -> bool:
        return is_product(node.op)

    def _is_view(self, node: Node) -> bool:
        return any(self._views.of(r).root != r for r in node.results)

    def _nbytes(self, value: int) -> int:
        aval = self._graph.values[value].aval
        return math.prod(aval.shape) * aval.dtype.itemsize

    def _elementwise(self, value: int) -> int | None:
        """The position of the elementwise node that makes a value."""
        position = self._maker.get(value)
        if position is None:
            return None
        node = self._graph.nodes[position]
        plain = node.op.operation.traits.kind == "elementwise" and not self._is_view(node)
        return position if plain and len(node.results) == 1 else None

    def _copy_of(self, value: int) -> LateCopy | None:
        graph, readers = self._graph, self._readers[value]
        if not graph.values[value].is_half or self._nbytes(value) < LEAST_BYTES:
            return None
        if value in self._outputs or len(readers) < 2 or self._elementwise(value) is None:
            return None
        if not all(self._is_product(graph.nodes[p]) for p in readers):
            return None
        gaps = [self._written[b] - self._written[a + 1] for a, b in pairwise(readers)]
        widest = max(range(len(gaps)), key=gaps.__getitem__)
        chain = self._chain(value)
        if gaps[widest] < WAITING * self._nbytes(value) or chain is None:
            return None
        source, positions = chain
        late = frozenset(readers[widest + 1 :])
        middle = self._written[readers[widest] + 1] + gaps[widest] // 2
        behind = self._behind(source, middle, late)
        return None if behind is None else LateCopy(value, source, positions, behind, late)

    def _chain(self, value: int) -> tuple[int, tuple[int, ...]] | None:
        """What a value is computed from alone, but for what is small, and by which operations; None
        where that takes more than one value or too many operations."""
        positions: set[int] = set()
        sources: set[int] = set()
        waiting = [value]
        while waiting:
            at = waiting.pop()
            if self._is_small(at, value):
                continue
            position = self._elementwise(at)
            if self._graph.values[at].aval.shape != self._graph.values[value].aval.shape:
                return None
            if position is None or self._is_folded(at) or self._is_librarys(position):
                sources.add(at)
            elif position not in positions:
                positions.add(position)
                waiting += self._graph.nodes[position].args
        if len(sources) != 1 or not positions or len(positions) > MOST:
            return None
        return sources.pop(), tuple(sorted(positions))

    def _is_small(self, value: int, other: int) -> bool:
        """Whether a value is nothing beside another: a number, or one for each row or column."""
        sizes = [math.prod(self._graph.values[v].aval.shape) for v in (value, other)]
        return sizes[0] * FEW <= sizes[1]

    def _is_folded(self, value: int) -> bool:
        """Whether a kernel folds rows of a value, and so has it as a whole."""
        nodes = [self._graph.nodes[p] for p in self._readers.get(value, ())]
        return any(node.op.operation.traits.kind == "reduction" for node in nodes)

    def _is_librarys(self, position: int) -> bool:
        """Whether a library computes an elementwise node with a product."""
        for argument in self._graph.nodes[position].args:
            root = self._views.of(argument).root
            maker = self._maker.get(root)
            if maker is None or not self._is_product(self._graph.nodes[maker]):
                continue
            terms = self._graph.values[self._graph.nodes[maker].args[0]].aval.shape[-1]
            dtype = self._graph.values[root].aval.dtype.name
            if self._apart(dtype, terms) and adds_row(self._graph, self._views, root, position):
                return True
        return False

    def _behind(self, source: int, middle: int, late: frozenset[int]) -> int | None:
        """The first elementwise node, once products have written so much, that joins what follows
        from the source with something else, and does not need the last readers; None if there is
        none."""
        graph, shape = self._graph, self._graph.values[source].aval.shape
        own, needs = {source}, set[int]()
        for position in range(self._maker.get(source, -1) + 1, len(graph.nodes)):
            node = graph.nodes[position]
            if position in late or not needs.isdisjoint(node.args):
                needs.update(node.results)
                continue
            if self._is_view(node) or self._elementwise(node.results[0]) is None:
                continue
            large = [a for a in node.args if graph.values[a].aval.shape == shape]
            mine = [a for a in large if a in own]
            if graph.values[node.results[0]].aval.shape != shape or not mine:
                continue
            if len(mine) == len(large):
                own.add(node.results[0])
            elif self._written[position] > middle:
                return position
        return None


def _rewritten(graph: Graph, copies: Sequence[LateCopy]) -> Graph:
    """The graph with copies, whose readers come as soon as these are there."""
    behind: dict[int, list[LateCopy]] = {}
    reads: dict[int, list[LateCopy]] = {}
    for copy in copies:
        behind.setdefault(copy.behind, []).append(copy)
        for reader in copy.readers:
            reads.setdefault(reader, []).append(copy)
    new, place = graph.emptied()
    maker = {r: node for node in graph.nodes for r in node.results}
    late: dict[tuple[int, int], int] = {}
    waiting: list[int] = []

    def seen_late(copy: LateCopy, value: int) -> int | None:
        """A view of the copied value as one of the copy; None for what is no view of it."""
        known = late.get((copy.value, value))
        if known is not None or value not in maker:
            return known
        node = maker[value]
        if node.op.operation.traits.family != "movement" and node.op.operation is not DEPEND:
            return None
        source = seen_late(copy, node.args[0])
        if source is None:
            return None
        (made,) = new.node(node.op, (source, *[place[a] for a in node.args[1:]]))
        late[copy.value, value] = made
        return made

    def is_ready(position: int) -> bool:
        copied = [(copy.value, copy.value) in late for copy in reads.get(position, ())]
        return all(copied) and all(a in place for a in graph.nodes[position].args)

    def emit(position: int) -> None:
        node = graph.nodes[position]
        args = [place[a] for a in node.args]
        for copy in reads.get(position, ()):
            found = [seen_late(copy, a) for a in node.args]
            args = [a if f is None else f for a, f in zip(args, found, strict=True)]
        made = new.append(node.op, args, [graph.values[r].aval for r in node.results])
        place.update(zip(node.results, made, strict=True))
        for copy in behind.get(position, ()):
            (source,) = new.node(DEPEND.op(), (place[copy.source], made[0]))
            late[copy.value, copy.value] = _computed(graph, new, place, copy, source)

    for position in range(len(graph.nodes)):
        waiting.append(position)
        for ready in _taken(waiting, is_ready):
            emit(ready)
    assert not waiting, "what a copy is made behind needs no reader of it"
    new.outputs = tuple([place[o] for o in graph.outputs])
    return new


def _taken(waiting: list[int], is_ready: Callable[[int], bool]) -> Iterator[int]:
    """Takes what is ready out of what waits, in order, as long as there is something."""
    at = 0
    while at < len(waiting):
        if is_ready(waiting[at]):
            yield waiting.pop(at)
            at = 0
        else:
            at += 1


def _computed(
    graph: Graph, new: Graph, place: dict[int, int], copy: LateCopy, source: int
) -> int:  # fmt: skip
    """The copy of a value, computed from its source as it is seen there."""
    own = {copy.source: source}
    for position in copy.chain:
        node = graph.nodes[position]
        (made,) = new.append(
            node.op, [own.get(a, place[a]) for a in node.args],
            [graph.values[r].aval for r in node.results],
        )  # fmt: skip
        own[node.results[0]] = made
    return own[copy.value]
