"""A graph without its sizes: what stays the same when only these change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op, infer_anew, typed_key

from ..ir.graph import Graph, Node, Value
from .sizes import Size


class Form(NamedTuple):
    """A graph in two parts.

    Attributes:
        skeleton: everything but the numbers, and the shapes of what belongs to layers; hashable.
        numbers: sizes of values, constants, and sizes among the attributes of operations, in order.
            Constants are there as keys, but for those that say where a piece begins.
    """

    skeleton: Any
    numbers: tuple[Any, ...]


def form_of(graph: Graph) -> Form:
    """The form of a graph."""
    numbers: list[Any] = []
    values: list[Any] = []
    starts, layered = _starts(graph), _of_layers(graph)
    for number, (kind, (shape, dtype), data) in enumerate(graph.values):
        numbers.extend(shape)
        rank = tuple([int(n) for n in shape]) if number in layered else len(shape)
        if kind == "constant":
            numbers.append(data if number in starts else _key(data))
            data = int if type(data) is Size else type(data)
        values.append((kind, rank, dtype, data))
    nodes: list[Any] = []
    for op, args, results in graph.nodes:
        shell, inside = without_sizes(op)
        numbers.extend(inside)
        nodes.append((shell, args, results))
    fixed = tuple(graph.inputs), tuple(graph.scalars), graph.outputs, graph.donors
    return Form((tuple(values), tuple(nodes), *fixed), tuple(numbers))


SIZED = frozenset({"shape", "sizes", "size"})
"""Attributes that are sizes. Others say what is done, and along which axes."""


@lru_cache(maxsize=1 << 14)
def without_sizes(op: Op) -> tuple[Any, tuple[int, ...]]:
    """An operation's name and attributes without the sizes in these, and the sizes."""
    numbers: list[Any] = []
    shell = [
        _without_sizes(op.attributes[name], numbers)
        if name in SIZED
        else typed_key(op.attributes[name])
        for name in op.operation.statics
    ]
    return (op.operation.name, *shell), tuple(numbers)


def _key(number: Any) -> Any:
    """A constant's key; a symbol's is that of the number that it stands for."""
    return (int, number) if type(number) is Size else typed_key(number)


def _without_sizes(value: Any, numbers: list[Any]) -> Any:
    if type(value) is int or type(value) is Size:
        numbers.append(value)
        return int
    if type(value) is tuple:
        return (tuple, *[_without_sizes(x, numbers) for x in value])
    return typed_key(value)


class SymbolicGraph(Graph):
    """A graph whose sizes may be symbols, of which nobody else shall know."""

    def infer(self, op: Op, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        return infer_anew(op, avals)


def with_numbers(graph: Graph, numbers: Sequence[Any]) -> tuple[SymbolicGraph, list[int]]:
    """The graph with other numbers in it, some of which are sizes.

    Constants that vary and are no sizes become scalars.

    Returns:
        The graph; and for each of its scalars the place of its value among those of the graph,
        where the constants follow the scalars.
    """
    new, rest = SymbolicGraph(outputs=graph.outputs, donors=graph.donors), iter(numbers)
    sources: list[int] = []
    constants = len(graph.scalars)
    for number, (kind, (shape, dtype), data) in enumerate(graph.values):
        shape = tuple([next(rest) for _ in shape])
        if kind == "scalar":
            sources.append(data)
            data = len(sources) - 1
        elif kind == "constant":
            known = next(rest)
            if isinstance(known, Size):
                data = known
            elif known is VARYING:
                sources.append(constants)
                kind, data = "scalar", len(sources) - 1
            constants += 1
        if kind == "scalar":
            new.scalars.append(number)
        new.values.append(Value(kind, Aval(shape, dtype), data))
    interned: dict[Any, Op] = {}
    for op, args, results in graph.nodes:
        own = _filled(op, rest)
        new.nodes.append(Node(interned.setdefault(own.key, own), args, results))
    new.inputs = list(graph.inputs)
    return new, sources


def places_of_results(graph: Graph) -> dict[int, tuple[int, int]]:
    """Which numbers of a graph's form are sizes of results: of which value, along which axis."""
    found: dict[int, tuple[int, int]] = {}
    place = 0
    for number, (kind, (shape, _), _) in enumerate(graph.values):
        if kind == "result":
            found |= {place + axis: (number, axis) for axis in range(len(shape))}
        place += len(shape) + (kind == "constant")
    return found


def infer_results(graph: SymbolicGraph) -> None:
    """Gives results the shapes that rules say, whatever they had."""
    for op, args, results in graph.nodes:
        made = infer_anew(op, [graph.values[a].aval for a in args])
        for number, aval in zip(results, made, strict=True):
            graph.values[number] = graph.values[number]._replace(aval=aval)


VARYING = object()
"""Stands for a constant that varies and is no size."""


def _starts(graph: Graph) -> set[int]:
    """Whole numbers that say where a piece begins, and nothing else."""
    found: set[int] = set()
    others: set[int] = set(graph.outputs)
    for op, args, _ in graph.nodes:
        first = op.operation.traits.starts
        others.update(args[:first])
        found.update(() if first is None else args[first:])
    return {k for k in found - others if type(graph.values[k].data) in (int, Size)}


def _of_layers(graph: Graph) -> set[int]:
    """Values whose sizes belong to a layer. Those of several layers of a program are no sizes that
    vary, and would be taken for them: all layers have come before the second run."""
    found: set[int] = set()
    for op, args, results in graph.nodes:
        place = op.operation.traits.layer
        if place is not None:
            found.add((*args, *results)[place])
    return found


def _filled(op: Op, numbers: Iterator[Any]) -> Op:
    """The operation with other sizes among its attributes."""
    inside = [next(numbers) for _ in without_sizes(op)[1]]
    if not any(isinstance(n, Size) for n in inside):
        return op
    rest = iter(inside)
    attributes = dict(op.attributes)
    for name in op.operation.statics:
        if name in SIZED:
            attributes[name] = _refilled(attributes[name], rest)
    return Op(op.operation, attributes)


def _refilled(value: Any, numbers: Iterator[Any]) -> Any:
    if type(value) is int:
        return next(numbers)
    if type(value) is tuple:
        return tuple([_refilled(x, numbers) for x in value])
    return value
