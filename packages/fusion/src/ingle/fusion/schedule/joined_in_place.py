"""Pieces that are written where they are joined, though they are read elsewhere, too.

A state that each step of a loop stacks is read by the next step before all of it is there. A
grouping of operations cannot say that such a value lies within one that is made of it. Calls can:
they know memory, not values. So this looks at calls that copy all of a value into a part of another
one which nothing else writes. The value gets its memory there from the start, whatever reads it,
and the copy goes.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..grouping.two_stage_reduction import is_columns
from ..ir.graph import Graph
from ..lowering.nests import NestCall
from ..lowering.operands import Argument
from .schedule import Call, HostStep, KernelSequence, arguments_of, of_values


class Copy(NamedTuple):
    """All elements of a value as consecutive ones of another.

    Attributes:
        source, target: the values.
        offset: where they begin there.
    """

    source: int
    target: int
    offset: int


def joined_in_place(sequence: KernelSequence) -> KernelSequence:
    """The calls without copies of what can be written into its place at once.

    Args:
        sequence: whose sizes are numbers.
    """
    graph = sequence.graph
    copies = {
        number: copy
        for number, call in enumerate(sequence.calls)
        if (copy := _copy_of(graph, call)) is not None
    }
    if not copies:
        return sequence
    bound = bound_values(sequence)
    alone = _writes_alone(sequence.calls, {copy.target for copy in copies.values()})
    places: dict[int, Copy] = {}
    gone: set[int] = set()
    for number, copy in copies.items():
        if copy.source not in bound and copy.source not in places and number in alone:
            places[copy.source] = copy
            gone.add(number)
    calls = [
        call if isinstance(call, HostStep) else _moved(call, places)
        for number, call in enumerate(sequence.calls)
        if number not in gone
    ]
    return sequence._replace(calls=calls)


def _copy_of(graph: Graph, call: Call | HostStep) -> Copy | None:
    """What a call copies, if it is a part of a join and does nothing else."""
    if not isinstance(call, NestCall) or len(call.arguments) != 2 or len(call.nodes) != 1:
        return None
    if graph.nodes[call.nodes[0]].op.operation.traits.access != "join":
        return None
    source, target = call.arguments
    if call.strides != ((1,), (1,)) or source.offset or source.output or not target.output:
        return None
    before, after = (graph.values[a.root].aval for a in (source, target))
    if call.sizes != (math.prod(before.shape),) or before.dtype != after.dtype:
        return None
    return Copy(source.root, target.root, target.offset)


def bound_values(sequence: KernelSequence, whole: Container[int] = ()) -> set[int]:
    """Values that need memory of their own: what is given, what leaves the plan or meets the
    backend's own operations, and sums whose kernels write whole blocks of rows.

    Args:
        whole: positions of the backend's own operations that executables do.
    """
    graph, views = sequence.graph, sequence.views
    found = {n for n, value in enumerate(graph.values) if value.kind != "result"}
    found.update([views.of(o).root for o in graph.outputs])
    for call in sequence.calls:
        if isinstance(call, HostStep) and call.position not in whole:
            node = graph.nodes[call.position]
            found.update(node.results, [views.of(a).root for a in node.args])
    for node in graph.nodes:
        if is_columns(node):
            found.update(node.results)
    return found


def _writes_alone(calls: Sequence[Call | HostStep], roots: set[int]) -> set[int]:
    """The numbers of calls whose places in some values no other call writes."""
    written: dict[int, list[tuple[int, int, int]]] = {}
    for number, call in enumerate(calls):
        if not isinstance(call, HostStep):
            for root, first, last in _written(call):
                if root in roots:
                    written.setdefault(root, []).append((first, last, number))
    meeting: set[int] = set()
    for spans in written.values():
        spans.sort()
        reach, who = -1, -1
        for first, last, number in spans:
            if first <= reach:
                meeting.update((number, who))
            if last > reach:
                reach, who = last, number
    return set(range(len(calls))) - meeting


def _written(call: Call) -> Iterator[tuple[int, int, int]]:
    """The values that a call writes, with the first and the last element."""
    nest = isinstance(call, NestCall)
    sizes = call.sizes if nest else (*call.batch, *call.sizes[:2])  # type: ignore[union-attr]
    for k, argument in enumerate(arguments_of(call)):
        if argument.output:
            strides = call.strides[k] if nest else argument.strides  # type: ignore[union-attr]
            steps = [(n - 1) * s for n, s in zip(sizes, strides, strict=True)]
            first = argument.offset + sum([min(s, 0) for s in steps])
            yield argument.root, first, argument.offset + sum([max(s, 0) for s in steps])


def _moved(call: Call, places: Mapping[int, Copy]) -> Call:
    """A call that finds values where they are now."""
    if not any(a.root in places for a in arguments_of(call)):
        return call
    arguments = [_argument(a, places) for a in arguments_of(call)]
    return of_values(call, arguments, call.scalars, call.nodes)


def _argument(argument: Argument, places: Mapping[int, Copy]) -> Argument:
    while (place := places.get(argument.root)) is not None:
        argument = argument._replace(root=place.target, offset=argument.offset + place.offset)
    return argument
