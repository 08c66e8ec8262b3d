"""Small kernels of one nest one behind the other, for devices that join them.

What is read by several products that share their vector, the queries, keys and values of a layer
say, is on few multiprocessors at a time if each product has a launch of its own. A call comes
forward to an earlier one of its nest if it waits for nothing that stands between; so does an
operation that a device computes whole to one that reads the same.
"""

from __future__ import annotations

import math
from collections.abc import Container, Hashable

from ingle.tensor.operation import Operation

from ..kernel.code import SIZES
from ..kernel.joining import joins
from ..lowering.nests import NestCall
from .schedule import Call, HostStep, KernelSequence
from .touched_values import TouchedValues, touched_values

_FAR = 16
"""Calls that one comes forward over at most: what it makes is in memory for so long."""
_MOST_BYTES = 1 << 18
"""Of what it writes."""


def with_neighbours(
    sequence: KernelSequence, operations: Container[Operation] = ()
) -> KernelSequence:
    """The calls with small ones of one nest next to each other, where they may be.

    Args:
        sequence: whose order is legal.
        operations: those of the device's own whose launches it joins, too.
    """
    calls = sequence.calls
    all_touched = [touched_values(sequence, call) for call in calls]
    kinds = [_joined_kind(sequence, call, operations) for call in calls]
    left = dict.fromkeys(range(len(calls)))
    order: list[int] = []
    for first in range(len(calls)):
        if first not in left:
            continue
        del left[first]
        order.append(first)
        kind = kinds[first]
        if kind is None:
            continue
        passed = TouchedValues(set(), set())
        passed.update(all_touched[first])
        for number in range(first + 1, min(first + 1 + _FAR, len(calls))):
            if isinstance(calls[number], HostStep) and kinds[number] is None:
                break
            if number not in left:
                continue
            if kinds[number] == kind and not passed.meets(all_touched[number]):
                del left[number]
                order.append(number)
            passed.update(all_touched[number])
    return sequence._replace(calls=[calls[n] for n in order])


def _joined_kind(
    sequence: KernelSequence, call: Call | HostStep, operations: Container[Operation]
) -> Hashable:
    """What calls have in common that may be joined: a nest, or an operation and what it reads
    first; None of any other call."""
    if isinstance(call, HostStep):
        graph, node = sequence.graph, sequence.graph.nodes[call.position]
        avals = [graph.values[r].aval for r in node.results]
        large = any(math.prod(a.shape) * a.dtype.itemsize > _MOST_BYTES for a in avals)
        if large or node.op.operation not in operations:
            return None
        return node.op, sequence.views.of(node.args[0])
    if not isinstance(call, NestCall) or not joins(call.nest):
        return None
    made = [k for k, operand in enumerate(call.nest.operands) if operand.output]
    return call.nest if all(_bytes(call, k) <= _MOST_BYTES for k in made) else None


def _bytes(call: NestCall, k: int) -> int:
    """What a call writes of an operand."""
    sizes = [size for size, step in zip(call.sizes, call.strides[k], strict=True) if step]
    return math.prod(sizes) * SIZES[call.nest.operands[k].dtype]
