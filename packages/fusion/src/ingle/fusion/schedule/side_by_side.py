"""Small kernels at the end of a plan, those of one nest side by side, for devices that join them.

A training step has a few small kernels for each of its weights: the sum of a bias's gradient, an
update. Each takes less time than its launch, and they stand behind the kernels that made their
operands. Nothing else waits for them, so they may all come last: those of one nest one after the
other, where a device takes neighbours in one launch. Their operands stay in memory until then.
"""

from __future__ import annotations

import math
from collections.abc import Container

from ..kernel.joining import is_for_many
from ..kernel.nest import Nest
from ..lowering.nests import NestCall
from .schedule import MOST_BYTES, Call, HostStep, KernelSequence
from .touched_values import TouchedValues, touched_values


def side_by_side(sequence: KernelSequence, early: Container[int] = ()) -> KernelSequence:
    """The calls with those that only others like them wait for at the end, by their nests.

    Args:
        sequence: whose order is legal.
        early: values that something outside of the calls waits for.
    """
    late = _late(sequence, early)
    if len(late) < 2:
        return sequence
    calls, level = sequence.calls, _levels(sequence, late)
    first: dict[Nest, int] = {}
    for number in sorted(late):
        call = calls[number]
        assert isinstance(call, NestCall)
        first.setdefault(call.nest, number)

    def place(number: int) -> tuple[int, int, int]:
        if number not in late:
            return -1, 0, number
        call = calls[number]
        assert isinstance(call, NestCall)
        return level[number], first[call.nest], number

    order = sorted(range(len(calls)), key=place)
    return sequence._replace(calls=[calls[n] for n in order])


def _late(sequence: KernelSequence, early: Container[int]) -> set[int]:
    """The numbers of small calls that no call but such ones waits for: none reads or writes what
    they write, or writes what they read."""
    staying = TouchedValues(set(), set())
    found: set[int] = set()
    for number in reversed(range(len(sequence.calls))):
        call = sequence.calls[number]
        own = touched_values(sequence, call)
        waited_for = staying.meets(own) or any(r in early for r in own.written)
        if _is_small(sequence, call) and not waited_for:
            found.add(number)
        else:
            staying.update(own)
    return found


def _is_small(sequence: KernelSequence, call: Call | HostStep) -> bool:
    if not isinstance(call, NestCall) or not is_for_many(call.nest):
        return False
    avals = [sequence.graph.values[a.root].aval for a in call.arguments]
    return all(math.prod(a.shape) * a.dtype.itemsize <= MOST_BYTES for a in avals)


def _levels(sequence: KernelSequence, late: set[int]) -> dict[int, int]:
    """How many of the late calls have to run one after the other before each of them: those that
    write what it reads, or read or write what it writes."""
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    found: dict[int, int] = {}
    for number in sorted(late):
        own = touched_values(sequence, sequence.calls[number])
        before = [written.get(root, -1) for root in (*own.read, *own.written)]
        before += [read.get(root, -1) for root in own.written]
        found[number] = level = 1 + max(before, default=-1)
        for roots, levels in ((own.read, read), (own.written, written)):
            levels.update({root: max(level, levels.get(root, -1)) for root in roots})
    return found
