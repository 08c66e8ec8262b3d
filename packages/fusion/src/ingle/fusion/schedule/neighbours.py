"""Calls of one kernel next to each other, for devices that launch neighbours as one.

The products of one vector by several matrices, as those of attention, are calls of one kernel with
others in between that read their results. A call moves up to the last one of its kernel, if nothing
on the way touches what it touches. Small ones do alone: there a launch takes longer than its
kernel, and memory is not held for long that a later order would have given back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..lowering.nests import NestCall
from .schedule import Call, HostStep, KernelSequence, touched

_FARTHEST = 24
"""Calls over which one moves."""
_MOST_BYTES = 1 << 18
"""Of what a call writes."""


def with_neighbours(sequence: KernelSequence) -> KernelSequence:
    """The calls in an order in which more of them are neighbours of one kernel.

    Args:
        sequence: whose order is legal.
    """
    graph, views, calls, _ = sequence
    order: list[int] = []
    operands = [touched(graph, views, call) for call in calls]
    for number, call in enumerate(calls):
        place = len(order)
        if isinstance(call, NestCall) and _is_small(sequence, operands[number]):
            place = _place(calls, operands, order, number)
        order.insert(place, number)
    if order == sorted(order):
        return sequence
    return sequence._replace(calls=[calls[n] for n in order])


def _is_small(sequence: KernelSequence, operands: Sequence[tuple[int, bool]]) -> bool:
    written = 0
    for root, made in operands:
        shape, dtype = sequence.graph.values[root].aval
        written += math.prod(shape) * dtype.itemsize if made else 0
    return bool(written <= _MOST_BYTES)


def _place(
    calls: Sequence[Call | HostStep], operands: Sequence[Sequence[tuple[int, bool]]],
    order: Sequence[int], number: int,
) -> int:  # fmt: skip
    """Where in an order a call is to stand: behind another one of its kernel, or at the end."""
    call, own = calls[number], operands[number]
    assert isinstance(call, NestCall)
    reads = {root for root, made in own if not made}
    writes = {root for root, made in own if made}
    for place in range(len(order), max(len(order) - _FARTHEST, 0), -1):
        other = calls[order[place - 1]]
        if not isinstance(other, NestCall):
            break
        there = operands[order[place - 1]]
        if any(root in writes or (made and root in reads) for root, made in there):
            break
        if other.nest == call.nest:
            return place
    return len(order)
