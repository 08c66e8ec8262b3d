"""The decorator: answers every operation with a promise, and runs what is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from ingle.tensor.call_steps import CallSteps
from ingle.tensor.cell import Cell
from ingle.tensor.contract import Aval, Backend, Handle, Scalar, capability
from ingle.tensor.device import Device
from ingle.tensor.dispatch import checking
from ingle.tensor.moving import carried, received
from ingle.tensor.operation import Op, infer
from ingle.tensor.prepared import PreparedCalls
from ingle.tensor.programs import Program

from .device_group import DeviceGroup
from .ir.graph import LogEntry
from .record.log import LazyHandle, Turn, current
from .record.tracing import Tracer
from .runtime.at_once import BRIEF, READ, AtOnce, ThreadStreams
from .runtime.plan_cache import PlanCache
from .stream import LazyStream
from .support import settings


class Fusion:
    """Records what it executes and runs it on the backend below when somebody needs a value.

    Args:
        backend: which computes; with a `prepare` it gets whole graphs, else single operations. If
            it stands before the one that makes the handles, it names that one as `hardware`.
        group: the devices that this one is recorded together with, if there are several.

    >>> import ingle.tensor as it
    >>> from ingle.fusion import Fusion
    >>> with it.device("numpy"):
    ...     backend = it.zeros(2).backend
    >>> recording = Fusion(backend)
    >>> recording.device == backend.device
    True
    """

    level = 0

    def __init__(self, backend: Backend, group: DeviceGroup | None = None) -> None:
        settings.check_settings()
        self.inner = backend
        self.hardware: Backend = getattr(backend, "hardware", backend)
        self.group = group
        self.name = f"fusion({backend.name})"
        self.device: Device = backend.device
        self.planner = PlanCache(backend)
        self._threads = ThreadStreams()
        self._at_once = AtOnce(self)
        self.prepared = PreparedCalls()
        # Only what the backend below offers: where there is an `adopt`, nothing is copied.
        for name in ("adopt", "stage"):
            if capability(backend, name):
                setattr(self, name, _taking(self, getattr(backend, name)))
        if capability(backend, "begin_download"):
            self.begin_download = partial(_begin_download, backend)

    def __repr__(self) -> str:
        return f"Fusion({self.inner!r})"

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        log = current.get()
        if log is None or log.backend is not self or not log.records_next():
            if log is not None and log.takes(self) and not log.interrupted():
                return log.record_for(self, op, inputs)
            # When Python goes down there are no imports, which planning needs; finalizers compute.
            if op.operation.traits.dynamic_shape or sys.is_finalizing():
                return self.execute_now(op, inputs)
            streams = self._threads.streams
            log = streams.last
            if log is None or log.done:
                if streams.short >= READ:
                    made = self._at_once.operation(op, inputs, streams)
                    if made is not None:
                        return made
                return self.record_anew(op, inputs)
            if log.at is None:  # as `record`, by one frame less
                return log.record_steps(op, inputs)
        return log.record(op, inputs)

    def expand(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Executes an operation that is a program, of which each step is recorded as if it came by
        itself: the log is the same as where one rule after the other did that."""
        if not self.defers():
            return self.execute(op, inputs)
        program, log = op.attributes["body"], self._threads.streams.last
        if log is None or log.done:
            return self.record_anew(op, inputs, program)
        return log.record_steps(op, inputs, program)

    def record_anew(
        self, op: Op, inputs: Sequence[Handle | Scalar], steps: Program | None = None
    ) -> tuple[LazyHandle, ...]:
        """The first operation of a new stream of this thread, whose last one takes no more: it has
        run, or is in the middle of something that was interrupted."""
        last = self._threads.streams.last
        turn = Turn() if last is None else last.turn
        stream = LazyStream(self, self.planner, turn, self._threads.streams.points)
        if steps is None:
            handles = stream.record(op, inputs)
        else:
            handles = stream.record_steps(op, inputs, steps)
        # Now, so that whatever interrupts this cannot run the stream before it has begun.
        self._threads.streams.last = stream
        return handles

    def take_steps(self, steps: CallSteps, values: list[Handle | Scalar]) -> Sequence[Handle]:
        """The results of a known call, whose operations run as they come, or else are recorded."""
        streams = self._threads.streams
        log = streams.last
        if log is None or log.done:
            if streams.short >= READ and current.get() is None:
                made = self._at_once.steps(steps, values, streams)
                if made is not None:
                    return made
        elif log.at is not None and current.get() is None and not sys.is_finalizing():
            made = log.record_call(steps, values)
            if made is not None:
                return made
        for op, places in steps.steps:
            values += self.execute(op, [values[n] for n in places])
        return [values[n] for n in steps.outputs]  # type: ignore[misc]

    def goes_on_with(self, log: object) -> bool:
        """Whether this thread's next operation goes to a stream, outside of what is compiled."""
        return self._threads.streams.last is log and not sys.is_finalizing()

    def noted(self, short: bool, brief: Sequence[LogEntry] | None = None) -> None:
        """Takes notice that a stream was read: of a few operations that run one by one, or of
        more.

        Args:
            short: whether it was of a few.
            brief: the log, where it is brief enough to be taken for short when it comes again.
        """
        streams = self._threads.streams
        rest, streams.rest = streams.rest, False
        if not rest and (short or (brief is not None and brief in streams.brief)):
            streams.short, streams.counts = streams.short + 1, not short
            streams.often = streams.often or streams.short >= READ
        elif not rest and brief is not None:
            streams.brief = [*streams.brief[1 - BRIEF :], brief]
        else:
            # An agent acts, acts again, and learns: one more look tells that it acts again.
            streams.short, streams.often = READ - 1 if streams.often else 0, False
        streams.ahead = 0

    def was_read(self) -> None:
        """Takes notice that somebody has read a value."""
        self._threads.streams.ahead = 0

    def defers(self) -> bool:
        """Whether operations wait here for others: not in a function that is being compiled, and
        not when Python goes down."""
        if sys.is_finalizing():
            return False
        log = current.get()
        return log is None or not log.takes(self) or log.interrupted()

    def reuse(self, op: Op, inputs: Sequence[Handle | Scalar], place: int, owner: object) -> Handle:
        """Assigns in place, at once, where the backend below can.

        An assignment would be a copy in each plan. Arithmetic is recorded like any other: it
        costs less together with its neighbours than in place.
        """
        reuse = getattr(self.inner, "reuse", None)
        if reuse is None or op.operation.traits.kind == "elementwise" or not self.defers():
            return self.execute(op, inputs)[0]
        lowered = [x.computed() if isinstance(x, LazyHandle) else x for x in inputs]
        target = lowered[place]
        if isinstance(target, Handle) and target.owned is not None and len(target.owned) > 1:
            self._run_recorded()  # what reads the old value may only be recorded
        return self.known(reuse(op, lowered, place, owner))

    def execute_now(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[LazyHandle, ...]:
        """Runs an operation that cannot be recorded."""
        infer(op, inputs)
        lowered = [x.computed() if isinstance(x, LazyHandle) else x for x in inputs]
        return tuple([self.known(h) for h in self.inner.execute(op, lowered)])

    def move(self, handle: LazyHandle, target: Backend) -> Handle:
        """The value on another device: recorded inside a compiled function of both, else now."""
        log = current.get()
        if isinstance(log, Tracer) and handle.pending_in is log:
            return log.move(handle, target)
        # A device that copies to others by itself needs nobody to wait for the value.
        copies = getattr(self.hardware, "copy", None) is not None
        return received(handle.begun() if copies else handle.computed(), target)

    def receive(self, handle: Handle) -> LazyHandle:
        """A value of another device's hardware backend, moved here."""
        if handle.backend is self.hardware:
            return self.known(handle)
        if self.group is not None:
            found = self.group.carry(handle, self.hardware)
        else:
            found = carried(handle, self.hardware)[0]
        log = current.get()
        if isinstance(log, Tracer) and not log.interrupted():  # each recording moves it anew
            log.uploaded(found, self.inner.download(found))
        return self.known(found)

    def reduce(self, groups: Sequence[Sequence[LazyHandle]]) -> list[Handle] | None:
        """Sums of values of several devices, here, where the backend below can add them up."""
        below = getattr(self.hardware, "reduce", None)
        if below is None:
            return None
        computed = [[handle.begun() for handle in group] for group in groups]
        found: Sequence[Handle] | None
        if self.group is not None:
            found = self.group.reduce(computed, self.hardware)
        else:
            found = below(computed)
        return None if found is None else [self.known(handle) for handle in found]

    def known(self, handle: Handle) -> LazyHandle:
        """A handle of the backend below as one of this."""
        lazy = LazyHandle.__new__(LazyHandle)
        lazy.backend = self
        lazy.shape = handle.shape
        lazy.dtype = handle.dtype
        lazy.pending_in = None
        lazy.number = -1
        lazy.owned = handle.owned
        lazy.value = handle
        return lazy

    def upload(self, array: np.ndarray) -> Handle:
        return self.uploaded(self.inner.upload(array), array)

    def uploaded(self, handle: Handle, array: np.ndarray) -> Handle:
        """What the backend below made of an array, known to what is recorded."""
        log = current.get()
        if isinstance(log, Tracer) and not log.interrupted():
            log.uploaded(handle, array)
        return self.known(handle)

    def download(self, handle: Handle) -> np.ndarray:
        self._threads.streams.ahead = 0
        if isinstance(handle, LazyHandle):
            value = handle.value  # first, as in `computed`
            ready = handle.pending_in is None and isinstance(value, Handle)
            handle = value if ready else handle.computed()  # type: ignore[assignment]
        return self.inner.download(handle)

    def report(self) -> None:
        """Raises what went wrong in earlier runs in the background."""
        report = getattr(self.inner, "report", None)
        if report is not None:
            report()

    def start(self) -> None:
        """Has a device that works by itself compute everything that this thread has asked for, and
        waits for nothing. Whoever reads what depends on an operation that failed gets its error."""
        mine = self._threads.streams.last
        by_itself = getattr(self.hardware, "checks", None) is not None
        if mine is not None and by_itself and self.defers():
            mine.start()

    def flush(self, written: Collection[Cell[Any]] = ()) -> None:
        """Starts everything that this thread has asked for, which counts as a read of it.

        Args:
            written: cells that got values together; if anything fails, they get back what they
                held. What a step of training asks for is recorded whole.
        """
        if not written:
            self._threads.streams.ahead = 0
            mine = self._threads.streams.last
            if mine is not None and not mine.done:
                mine.synchronize()
                return
        self._run_recorded(written)

    def _run_recorded(self, written: Collection[Cell[Any]] = ()) -> None:
        """`flush`, for whoever reads nothing."""
        mine = self._threads.streams.last
        if mine is not None:
            mine.flush(written)

    def synchronize(self) -> None:
        self._threads.streams.ahead = 0
        mine = self._threads.streams.last
        if mine is not None and not mine.done:
            mine.synchronize()
        self.inner.synchronize()
        checks = getattr(self.hardware, "checks", None)
        if checks is not None:
            checks.report()

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        return self.inner.supports(op, avals)


checking.add(Fusion)


def _begin_download(below: Any, handle: Handle) -> None:
    """Has the backend below copy a value to the host, which is computed without waiting for it."""
    below.begin_download(handle.begun() if isinstance(handle, LazyHandle) else handle)


def _taking(fusion: Fusion, take: Callable[[np.ndarray], Handle]) -> Callable[[np.ndarray], Handle]:
    """A way of the backend below to take arrays, as one of the decorator over it."""
    return lambda array: fusion.uploaded(take(array), array)
