"""Operations that run as they come, where all before them were read after a few: recording them
would take longer."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ingle.tensor.call_steps import CallSteps
from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.interruptions import is_from_outside
from ingle.tensor.operation import Op, infer

from ..ir.graph import LogEntry
from ..kernel.code import HALVES
from ..record.log import LazyHandle
from ..record.points import Points
from ..stream import LONG, SHORT, SMALL, TINY, LazyStream
from .ready_calls import Call, Key, ReadyCalls, key_of, keys_of

if TYPE_CHECKING:
    from ..fusion import Fusion

READ = 8
"""After so many streams in turn that were short and read, the next one is taken to be, too."""
FEW, AHEAD = SHORT - 1, LONG // 2
"""So many operations may run as they come before one of them is read, of any size and of very few
elements that are no half types: as many as a short stream has."""


BRIEF = 4
"""So many logs that may count as short are kept for comparison."""


class Streams:
    """The streams of one thread, one after the other under one lock.

    Attributes:
        last: the newest one.
        short: how many streams in turn were a few operations each, whose values were read.
        ahead: how many operations ran at once since a value was read.
        brief: the logs of the last streams that count as short when they come again.
        often: whether `READ` streams in turn were short, since one that was not.
        counts: whether the last one that was short only counts as short.
        points: what has come again, call by call.
        rest: whether the next one is the rest of more operations than run at once.
    """

    __slots__ = ("ahead", "brief", "counts", "last", "often", "points", "rest", "short")

    def __init__(self) -> None:
        self.last: LazyStream | None = None
        self.brief: list[Sequence[LogEntry]] = []
        self.points = Points()
        self.short = self.ahead = 0
        self.often = self.rest = self.counts = False


class ThreadStreams(threading.local):
    """The streams of each thread, as one object: to look that up takes as long as a call does."""

    def __init__(self) -> None:
        self.streams = Streams()


class Ready(NamedTuple):
    """An operation of a known call.

    Attributes:
        op: the operation.
        places: which values it takes; None where it takes all, and the call returns its result.
        call: what runs it.
        key: by which that was found.
    """

    op: Op
    places: tuple[int, ...] | None
    call: Call
    key: Key


class AtOnce:
    """Runs operations as they come, by calls that are ready.

    Args:
        fusion: whose handles the results get.

    Attributes:
        calls: what is ready.
    """

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion
        self.calls = ReadyCalls(fusion.inner)

    def operation(
        self, op: Op, inputs: Sequence[Handle | Scalar], streams: Streams
    ) -> tuple[LazyHandle, ...] | None:
        """An operation that makes few elements; None where that does not go."""
        calls, key = self.calls, key_of(op, inputs)
        call = calls.known.get(key)
        many, small = streams.ahead >= FEW, call is not None or _is_small(op, inputs)
        ends = many and _ends(streams, inputs)
        alone = not small or (call is None and calls.has_none(key))
        if alone and (many or streams.counts):
            streams.often, ends = False, True  # by itself it takes longer than in a plan
        if ends or (call is None and op.operation.traits.inlined):
            streams.short = streams.ahead = 0
            streams.rest = True
            return None
        if not small:
            return None
        lowered = _lowered(inputs)
        if lowered is None:
            return None
        try:
            found = None if call is None else call(op, lowered)
            if found is None:
                found = calls.run(op, lowered, key)
        except Exception as error:  # a read of it raises that
            if is_from_outside(error):
                raise
            streams.short = 0
            return None
        streams.ahead += 1
        known = self._fusion.known
        if len(found) == 1:
            return (known(found[0]),)
        return tuple([known(handle) for handle in found])

    def steps(
        self, steps: CallSteps, values: Sequence[Handle | Scalar], streams: Streams
    ) -> Sequence[LazyHandle] | None:
        """The operations of a known call, if each of them has a call that is ready; else None. What
        is between them gets no handle of its own."""
        # When Python goes down there are no imports, which what is not known by now may need.
        if (streams.ahead >= FEW and _ends(streams, values)) or sys.is_finalizing():
            return None
        version, ready = steps.ready
        if version is not self.calls.version and version is not self.calls.newest:
            ready = self._made_ready(steps, values)
        found: Sequence[Handle | Scalar] | None = _lowered(values) if ready else None
        if found is None:
            return None
        try:
            if len(ready) == 1 and ready[0].places is None:  # as most are
                op, _, call, key = ready[0]
                found = call(op, found) or self.calls.run(op, found, key)
            else:
                found = self._one_after_the_other(steps, ready, found)
        except Exception as error:  # a read of it raises that
            if is_from_outside(error):
                raise
            streams.short = 0
            return None
        streams.ahead += 1
        known = self._fusion.known
        if len(found) == 1:
            return (known(found[0]),)  # type: ignore[arg-type]
        return [known(x) for x in found]  # type: ignore[arg-type]

    def _made_ready(self, steps: CallSteps, values: Sequence[Handle | Scalar]) -> tuple[Ready, ...]:
        """The operations of a call with the calls that are ready for them; nothing where one of
        them has none."""
        version, newest, known = self.calls.version, self.calls.newest, self.calls.known
        found = [
            Ready(op, places, call, key)
            for (op, places), key in zip(steps.steps, keys_of(steps, values), strict=True)
            if (call := known.get(key)) is not None
        ]
        complete = len(found) == len(steps.steps)
        ready = _joined(found, len(values), steps.outputs) if complete else ()
        steps.ready = version if complete else newest, ready
        return ready

    def _one_after_the_other(
        self, steps: CallSteps, ready: Sequence[Ready], values: Sequence[Handle | Scalar]
    ) -> Sequence[Handle | Scalar]:
        """What a known call of several operations returns."""
        values = [*values]
        for op, places, call, key in ready:
            inputs = [values[n] for n in places]  # type: ignore[union-attr]
            values += call(op, inputs) or self.calls.run(op, inputs, key)
        return [values[n] for n in steps.outputs]


def _joined(found: Sequence[Ready], count: int, outputs: Sequence[int]) -> tuple[Ready, ...]:
    """One call for all, where there is one, or each is a view of what the one before it made.

    Args:
        found: the operations.
        count: how many values there are before the first one.
        outputs: which values are returned.
    """
    first, *rest = found
    last = count + len(rest)
    chain = [r.places for r in rest] == [(n,) for n in range(count, last)]
    if not chain or first.places != tuple(range(count)) or tuple(outputs) != (last,):
        return tuple(found)
    call = first.call
    if rest:
        join = getattr(call, "followed_by", None)
        if join is None or any(type(r.call) is not type(call) for r in rest):
            return tuple(found)
        call = join([r.op for r in rest], [r.call for r in rest])
    return (Ready(first.op, None, call, first.key),)


def _lowered(inputs: Sequence[Handle | Scalar]) -> list[Handle | Scalar] | None:
    """Handles of the backend below, and scalars; None where something is only recorded."""
    lowered: list[Handle | Scalar] = []
    for x in inputs:
        if type(x) is LazyHandle:
            value = x.value  # first, as in `computed`
            if x.pending_in is not None or not isinstance(value, Handle):
                return None
            x = value
        lowered.append(x)
    return lowered


def _ends(streams: Streams, inputs: Sequence[Handle | Scalar]) -> bool:
    """Whether so many operations ran as they came that this one is recorded."""
    if streams.ahead >= AHEAD:
        return True
    return any(math.prod(x.shape) > TINY or x.dtype.name in HALVES for x in inputs)


def _is_small(op: Op, inputs: Sequence[Handle | Scalar]) -> bool:
    """Whether an operation makes few elements, of few or in one pass: with many, it is to share
    that pass with what comes next."""
    if any([math.prod(a.shape) > SMALL for a in infer(op, inputs)]):  # noqa: C419 (faster)
        return False
    return all(math.prod(x.shape) <= SMALL or _condenses(op, x) for x in inputs)


def _condenses(op: Op, x: Handle | Scalar) -> bool:
    """Whether an operation that makes few elements does so in one pass over a large operand, as a
    sum or a row times a matrix does: neighbours to share it with would save nothing.

    A view would hold the operand; half types have other bits in a plan than one by one.
    """
    return op.operation.traits.family != "movement" and not (
        x.dtype.is_floating and x.dtype.itemsize < 4
    )
