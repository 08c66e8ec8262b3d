"""Which launches a device may take as one: neighbours of one small kernel whose memory is apart.

An optimizer has a kernel for each of its parameters, which takes less time than its launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..kernel.code import SIZES
from ..lowering.nests import NestCall
from ..lowering.one_nest import end_of_run
from .device import BufferOffset, Launch

_FAR = 1 << 62
"""Between two buffers whose addresses are not known yet."""


class TouchedBytes(NamedTuple):
    """What a launch touches of an operand.

    Attributes:
        first, last: bytes from its place; `last` is behind the last one.
        written: whether it is an output.
    """

    first: int
    last: int
    written: bool


def spans_of(call: NestCall, places: Sequence[BufferOffset] = ()) -> tuple[TouchedBytes, ...]:
    """What a call touches of each of its operands.

    Args:
        places: where these are. Of one whose rows begin at computed places all of its buffer
            counts, or all memory where the buffer's size is not said.
    """
    found = []
    for k, (operand, strides) in enumerate(zip(call.nest.operands, call.strides, strict=True)):
        if operand.row_base is not None:
            place = places[k] if places else BufferOffset(0, 0)
            first, last = -place.offset, place.nbytes - place.offset
            if not place.nbytes:
                first, last = -_FAR, _FAR
            found.append(TouchedBytes(first, last, operand.output))
            continue
        ends = [(n - 1) * s for n, s in zip(call.sizes, strides, strict=True)]
        size = SIZES[operand.dtype]
        first, last = sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends) + 1
        found.append(TouchedBytes(first * size, last * size, operand.output))
    return tuple(found)


def apart(places: Sequence[Sequence[int]], spans: Sequence[Sequence[TouchedBytes]]) -> bool:
    """Whether no launch writes where another one reads or writes.

    Args:
        places: the address of each operand of each launch.
        spans: what it touches.
    """
    touched = sorted(
        (place + span.first, place + span.last, number, span.written)
        for number, (own, of) in enumerate(zip(places, spans, strict=True))
        for place, span in zip(own, of, strict=True)
    )
    end, owner, several, written = -1, -1, False, False
    for first, last, number, writes in touched:
        if first >= end:  # nothing before reaches here
            end, owner, several, written = last, number, False, writes
            continue
        end = max(end, last)
        several, written = several or number != owner, written or writes
        if several and written:
            return False
    return True


def apart_in_plan(launches: Sequence[Launch]) -> bool:
    """Whether launches of nests meet nowhere in the plan's buffers; they may share memory still,
    when it runs."""
    places = [[p.buffer * _FAR + p.offset for p in launch.pointers] for launch in launches]
    nests = [(x.call, x.pointers) for x in launches if isinstance(x.call, NestCall)]
    return apart(places, [spans_of(call, own) for call, own in nests])


def neighbours(launches: Sequence[Launch], first: int, most: int) -> int:
    """Behind the last of the launches from `first` on that run the nest of the first one and meet
    none of the others.

    Args:
        most: so many at most.
    """
    run = first + end_of_run([launch.call for launch in launches[first : first + most]], 0)
    end = first + 1
    while end < run and apart_in_plan(launches[first : end + 1]):
        end += 1
    return end
