"""Which launches a device may take as one: neighbours of one small kernel whose memory is apart.

An optimizer has a kernel for each of its parameters, which takes less time than its launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..kernel.code import SIZES
from ..lowering.nests import NestCall
from ..lowering.one_nest import end_of_run
from ..schedule.whole_calls import WholeCall
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


def spans_of(
    call: NestCall | WholeCall, places: Sequence[BufferOffset] = ()
) -> tuple[TouchedBytes, ...]:
    """What a call touches of each of its operands.

    Args:
        places: where these are. Of one whose rows begin at computed places all of its buffer
            counts, or all memory where the buffer's size is not said.
    """
    if isinstance(call, WholeCall):
        return spans_of_whole(call)
    found = []
    for k, (operand, strides) in enumerate(zip(call.nest.operands, call.strides, strict=True)):
        if operand.row_base is not None:
            place = places[k] if places else BufferOffset(0, 0)
            first, last = -place.offset, place.nbytes - place.offset
            if not place.nbytes:
                first, last = -_FAR, _FAR
            found.append(TouchedBytes(first, last, operand.output))
            continue
        size = SIZES[operand.dtype]
        found.append(TouchedBytes(*bytes_of(call.sizes, strides, size), operand.output))
    return tuple(found)


def spans_of_whole(call: WholeCall) -> tuple[TouchedBytes, ...]:
    """What an operation that the device computes whole touches of its operands and results."""
    given = [a for a, number in zip(call.avals, call.numbers, strict=True) if number is None]
    return tuple([
        TouchedBytes(
            *bytes_of(aval.shape, argument.strides, aval.dtype.itemsize), argument.output
        )
        for aval, argument in zip((*given, *call.results), call.arguments, strict=True)
    ])  # fmt: skip


def bytes_of(sizes: Sequence[int], strides: Sequence[int], size: int) -> tuple[int, int]:
    """The first byte from its place on of what lies so, and the one behind the last; of elements
    of so many bytes.

    >>> bytes_of((2, 3), (-8, 1), 4)
    (-32, 12)
    """
    if 0 in sizes:
        return 0, 0
    ends = [(n - 1) * step for n, step in zip(sizes, strides, strict=True)]
    return size * sum(min(e, 0) for e in ends), size * (sum(max(e, 0) for e in ends) + 1)


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
    """Whether launches of nests, or of whole operations, meet nowhere in the plan's buffers; they
    may share memory still, when it runs."""
    places = [[p.buffer * _FAR + p.offset for p in launch.pointers] for launch in launches]
    calls = [(x.call, x.pointers) for x in launches if isinstance(x.call, NestCall | WholeCall)]
    return apart(places, [spans_of(call, own) for call, own in calls])


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
