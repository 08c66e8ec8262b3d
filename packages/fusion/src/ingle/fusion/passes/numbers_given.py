"""Kernels that differ in numbers alone are one kernel, which is given the numbers.

A loop of Python that was recorded turn by turn, as a schedule of noise is, has other numbers in
each turn. As constants they are part of a kernel's code: each turn has kernels of its own, and no
turn is like the next one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..ir.graph import Graph, Node, Value

FEWEST = 8
"""Different numbers in like places from which on they are given."""


class GivenNumbers(NamedTuple):
    """A graph with scalars in the place of constants.

    Attributes:
        graph: the new scalars follow its own.
        sources: for each scalar the place of its value, first among the scalars that the graph had,
            then among its constants.
    """

    graph: Graph
    sources: list[int]


def with_numbers_given(graph: Graph) -> GivenNumbers | None:
    """The graph with scalars where many different constants stand in like places; None if they do
    not.

    They are factors and terms, for which it makes no difference to the bits. What becomes another
    operation by its number stays: a factor of 1, a division by a power of two.

    Args:
        graph: with composites expanded.
    """
    found: dict[Any, dict[int, float]] = {}
    for node in graph.nodes:
        for place, key in _places(graph, node):
            number = node.args[place]
            found.setdefault(key, {})[number] = graph.values[number].data
    many = {key for key, numbers in found.items() if len({*numbers.values()}) >= FEWEST}
    return _written(graph, many) if many else None


def _places(graph: Graph, node: Node) -> Iterator[tuple[int, Any]]:
    """Operands of a node that are numbers and may be given, and in what they have to be alike."""
    laws = node.op.operation.traits.laws
    if laws.neutral is None or len(node.args) != 2:
        return
    for place, argument in enumerate(node.args):
        kind, aval, number = graph.values[argument]
        if kind != "constant" or not aval.dtype.is_floating or aval.dtype.is_complex:
            continue
        if graph.values[node.args[1 - place]].kind not in ("input", "result"):
            continue
        by_inverse = laws.by_inverse is not None and place == 1
        if number in (0, 1) or not math.isfinite(number):
            continue
        if by_inverse and abs(math.frexp(number)[0]) == 0.5:
            continue
        yield place, (node.op, place, graph.values[node.results[0]].aval)


def _written(graph: Graph, many: set[Any]) -> GivenNumbers:
    new = Graph(
        list(graph.values), [], graph.inputs, list(graph.scalars), graph.outputs, graph.donors
    )
    constants = [n for n, value in enumerate(graph.values) if value.kind == "constant"]
    order = {n: k for k, n in enumerate(constants, len(graph.scalars))}
    sources = list(range(len(graph.scalars)))
    given: dict[int, int] = {}
    for node in graph.nodes:
        args = list(node.args)
        for place, key in _places(graph, node):
            number = args[place]
            if key not in many:
                continue
            if number not in given:
                given[number] = len(new.values)
                new.values.append(Value("scalar", graph.values[number].aval, len(sources)))
                new.scalars.append(given[number])
                sources.append(order[number])
            args[place] = given[number]
        new.nodes.append(node if args == [*node.args] else node._replace(args=tuple(args)))
    return GivenNumbers(new, sources)
