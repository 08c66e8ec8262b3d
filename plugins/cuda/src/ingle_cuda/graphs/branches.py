"""Which steps of a graph may run side by side, and in which stream each is captured.

Small kernels leave most of a GPU idle, and much of a step of training waits for little: the
gradient of a layer's weights, and its update, for the gradient of the layer's result alone. So a
step waits for those before it whose memory it meets, where one of the two writes, and for no
others; memory that several values share keeps them in order.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ingle.fusion.device import Launch, WholeCall, arguments_of
from ingle.fusion.device.executables import bytes_of, spans_of, spans_of_whole
from ingle.fusion.device.kernels import SIZES, ContractionCall, NestCall

from .joined import JoinedStep
from .library_steps import LibraryStep
from .step_builder import ARENA, SCRATCH, KernelStep, Step

if TYPE_CHECKING:
    from ..backend import CudaBackend

AnyStep = Step | JoinedStep
STREAMS = 3
"""In which steps are captured."""
_FAR = 1 << 62
"""Behind all memory of a GPU."""
_MOST_BYTES = 8 << 20
"""That steps touch in the mean: larger ones fill a GPU."""
_LONGEST = 0.75
"""The longest chain of steps that wait for each other, in all steps: where it is longer, kernels of
one stream that begin while the one before them ends gain more."""
_A_WAIT = 0.25
"""What it costs to wait for a step of another stream, in steps."""


class Touch(NamedTuple):
    """What a launch touches of an operand.

    Attributes:
        buffer: the number of a plan's buffer.
        first, last: bytes of it; `last` is behind the last one.
        written: whether it is an output.
        early: whether it is read before the launch waits for those in front of it.
    """

    buffer: int
    first: int
    last: int
    written: bool
    early: bool = False


class Branch(NamedTuple):
    """Where a step is captured.

    Attributes:
        stream: its number.
        waits: the numbers of steps of other streams that it waits for.
    """

    stream: int
    waits: tuple[int, ...]


def touches_of(launch: Launch, early: Container[int] = ()) -> tuple[Touch, ...]:
    """What a launch touches of a plan's buffers.

    Args:
        early: operands that its kernel reads before it waits.
    """
    found = []
    for number, (place, span, argument) in enumerate(
        zip(launch.pointers, _spans(launch), arguments_of(launch.call), strict=True)
    ):
        if span is None:  # anywhere
            first, last = (0, place.nbytes) if place.buffer != ARENA else (-_FAR, _FAR)
        else:
            first, last = place.offset + span[0], place.offset + span[1]
        found.append(Touch(place.buffer, first, last, argument.output, number in early))
    return tuple(found)


def _spans(launch: Launch) -> Iterator[tuple[int, int] | None]:
    """The bytes from its place on that a launch touches of each operand; None where nobody knows
    before it runs."""
    call = launch.call
    if isinstance(call, NestCall):
        gathered = {i.value for s in call.nest.stages for i in s.code if i.name == "gather"}
        pairs = zip(call.nest.operands, spans_of(call), strict=True)
        for number, (operand, bytes_) in enumerate(pairs):
            known = operand.row_base is None and number not in gathered
            yield (bytes_.first, bytes_.last) if known and not call.nest.scattered else None
    elif isinstance(call, ContractionCall):
        m, n, k = call.sizes
        gathered = {i.value for i in call.code if i.name == "gather"}
        if call.windows is None:
            yield bytes_of((*call.batch, m, k), call.a.strides, SIZES[call.dtype])
            yield bytes_of((*call.batch, k, n), call.b.strides, SIZES[call.b_dtype])
        else:
            yield from (None, None)
        for number, (argument, dtype) in enumerate(zip(call.operands, call.dtypes, strict=True)):
            span = bytes_of((*call.batch, m, n), argument.strides, SIZES[dtype])
            yield None if number in gathered else span
    else:
        assert isinstance(call, WholeCall)
        yield from [(bytes_.first, bytes_.last) for bytes_ in spans_of_whole(call)]


def footprints_of(
    launches: Sequence[Launch], parts: Sequence[Sequence[Step]], runs: Sequence[AnyStep]
) -> Footprints:
    """What the steps of a plan touch.

    Args:
        launches, parts: the launches of the plan, and the steps of each.
        runs: the steps as they run.
    """
    of_step = {
        id(step): touches_of(launch, step.early if isinstance(step, KernelStep) else ())
        for launch, part in zip(launches, parts, strict=True)
        for step in part
    }
    touches = [
        [touch for one in _members(step) for touch in (*of_step[id(one)], *_workspace(one))]
        for step in runs
    ]
    return Footprints(touches, [_uses_scratch(step) for step in runs])


class Footprints:
    """What each step of a plan touches; made by `footprints_of`.

    Args:
        touches: of a plan's buffers.
        shares: whether it uses the scratch memory that all share.
    """

    def __init__(self, touches: Sequence[Sequence[Touch]], shares: Sequence[bool]) -> None:
        self._touches = touches
        self._shares = shares

    def may_overlap(self, buffers: Sequence[int]) -> list[bool]:
        """Which steps may begin while those in front of them run: what they read before they wait
        none of these writes."""
        found: list[bool] = []
        written: set[tuple[int, int]] = set()
        for touches in self._touches:
            places = [(buffers[t.buffer] + t.first, buffers[t.buffer] + t.last, t) for t in touches]
            early = [(first, last) for first, last, touch in places if touch.early]
            found.append(not any(a < d and c < b for a, b in early for c, d in written))
            written.update((first, last) for first, last, touch in places if touch.written)
        return found

    def branches(self, buffers: Sequence[int], scratch: int) -> list[Branch] | None:
        """In which stream each step is captured; None where one is enough.

        Args:
            buffers: addresses of the plan's buffers, and of those that stand behind.
            scratch: bytes of scratch memory.
        """
        touched = []
        for touches, shares in zip(self._touches, self._shares, strict=True):
            here = [
                (buffers[t.buffer] + t.first, buffers[t.buffer] + t.last, t.written)
                for t in touches
            ]
            if shares:
                here.append((buffers[SCRATCH], buffers[SCRATCH] + scratch, True))
            touched.append(here)
        if _known_bytes(touched) > _MOST_BYTES * len(touched):
            return None
        needs = dependencies(touched)
        if _longest_chain(needs) > _LONGEST * len(needs):
            return None
        return in_streams(needs, STREAMS)


def _members(step: AnyStep) -> Sequence[Step]:
    return step.steps if isinstance(step, JoinedStep) else (step,)


def _workspace(step: Step) -> tuple[Touch, ...]:
    """Where in the arena a library works."""
    if not isinstance(step, LibraryStep) or step.workspace is None:
        return ()
    return (Touch(ARENA, step.workspace, step.workspace + step.plan.nbytes, True),)


def _uses_scratch(step: AnyStep) -> bool:
    places: list[tuple[int, int]] = []
    for one in _members(step):
        if isinstance(one, LibraryStep):
            if one.workspace is None:
                return True
        else:
            places += one.pointers if isinstance(one, KernelStep) else (one.a, one.b, one.out)
    return any(buffer == SCRATCH for buffer, _ in places)


def dependencies(touched: Sequence[Sequence[tuple[int, int, bool]]]) -> list[list[int]]:
    """For each step those before it that it may not overtake.

    Args:
        touched: of each step what it touches: the first byte, the one behind the last, and whether
            it is written.

    >>> dependencies([[(0, 8, True)], [(8, 16, True)], [(4, 12, False)], [(0, 4, False)]])
    [[], [], [0, 1], [0]]
    """
    count = sum(map(len, touched))
    first, last, owner = (np.zeros(count, np.int64) for _ in range(3))
    written = np.zeros(count, np.bool_)
    found, end = [], 0
    for number, own in enumerate(touched):
        before: set[int] = set()
        for begin, behind, writes in own:
            meets = (first[:end] < behind) & (begin < last[:end])
            if not writes:
                meets &= written[:end]
            before.update(owner[:end][meets].tolist())
        found.append(sorted(before))
        for begin, behind, writes in own:
            first[end], last[end], owner[end], written[end] = begin, behind, number, writes
            end += 1
    return found


def _known_bytes(touched: Sequence[Sequence[tuple[int, int, bool]]]) -> int:
    """Bytes that steps touch, without those of which nobody knows where they are: a lookup reads
    few of all that it may."""
    sizes = [last - first for here in touched for first, last, _ in here]
    return sum([min(size, _MOST_BYTES * 8) for size in sizes if size < _FAR])


def _longest_chain(needs: Sequence[Sequence[int]]) -> int:
    """How many steps wait for one another, at most."""
    found: list[int] = []
    for before in needs:
        found.append(1 + max([found[n] for n in before], default=0))
    return max(found, default=0)


def in_streams(needs: Sequence[Sequence[int]], streams: int) -> list[Branch]:
    """Puts each step where it can begin first, as if all took as long.

    Args:
        needs: for each step those that it waits for.
        streams: how many there are.

    >>> [branch.stream for branch in in_streams([[], [0], [0], [1, 2]], 2)]
    [0, 0, 1, 0]
    """
    ends = [0.0] * len(needs)
    of_step: list[int] = []
    free = [0.0] * streams
    # For each stream the last step of every stream that has ended before what comes next.
    known = [[-1] * streams for _ in range(streams)]
    at_end: list[list[int]] = []
    found: list[Branch] = []
    for number, before in enumerate(needs):
        ready = max([ends[n] for n in before], default=0.0)
        best: tuple[float, int] = (math.inf, 0)
        for stream in range(streams):
            waits = {of_step[n] for n in before if n > known[stream][of_step[n]]} - {stream}
            best = min(best, (max(ready, free[stream]) + _A_WAIT * len(waits), stream))
        start, stream = best
        own = known[stream]
        latest: dict[int, int] = {}
        for n in before:
            if of_step[n] != stream and n > own[of_step[n]]:
                latest[of_step[n]] = max(n, latest.get(of_step[n], -1))
        for n in latest.values():
            own[:] = map(max, own, at_end[n])
        # What another of them has waited for need not be waited for again.
        waits_for = sorted(
            n for n in latest.values()
            if not any(at_end[m][of_step[n]] >= n for m in latest.values() if m != n)
        )  # fmt: skip
        own[stream] = number
        of_step.append(stream)
        at_end.append([*own])
        ends[number] = free[stream] = start + 1
        found.append(Branch(stream, tuple(waits_for)))
    return found


def several_streams(
    backend: CudaBackend, first: Any, branches: Sequence[Branch]
) -> SeveralStreams:  # fmt: skip
    """Streams that begin where one does that is captured.

    Args:
        backend: of the GPU.
        first: the stream that is captured.
        branches: where each step goes.
    """
    count = 1 + max(branch.stream for branch in branches)
    streams = [first, *backend.streams_beside(count - 1)]
    start = backend.event()
    start.record(first)
    for stream in streams[1:]:
        stream.wait_event(start)
    return SeveralStreams(backend, streams, branches)


class SeveralStreams:
    """Streams beside one that is captured, all of which become one graph; made by
    `several_streams`.

    Args:
        backend: of the GPU.
        streams: the one that is captured, and the others.
        branches: where each step goes.
    """

    def __init__(
        self, backend: CudaBackend, streams: Sequence[Any], branches: Sequence[Branch]
    ) -> None:
        self._backend = backend
        self._branches = branches
        self._streams = streams
        self._awaited = {n for branch in branches for n in branch.waits}
        self._reached: dict[int, Any] = {}

    def before(self, number: int) -> Any:
        """The stream of a step, which waits there for others."""
        branch = self._branches[number]
        stream = self._streams[branch.stream]
        for awaited in branch.waits:
            stream.wait_event(self._reached[awaited])
        return stream

    def after(self, number: int) -> None:
        """Notes that a step is in its stream."""
        if number in self._awaited:
            self._reached[number] = self._event(self._branches[number].stream)

    def join(self) -> None:
        """Has the first stream wait for the others."""
        for number in range(1, len(self._streams)):
            self._streams[0].wait_event(self._event(number))

    def _event(self, number: int) -> Any:
        event = self._backend.event()
        event.record(self._streams[number])
        return event
