"""A plan's way to run ahead: everything but the run happens in the call, the run in the queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ingle.fusion.ir.views import View
from ingle.fusion.record.log import Inputs
from ingle.fusion.runtime.plan_codegen import DonationState, LinearPlan
from ingle.fusion.support.run_ahead import limit
from ingle.tensor.contract import Aval, Handle
from ingle.tensor.eager import ArrayHandle

from ..launch.executable import CpuSegment
from ..memory import CpuHandle, ours
from .job import Job, QueuedRun
from .queue import Queue, Room, queue

if TYPE_CHECKING:
    from ..backend import Cpu

LEAST = 1e-3
"""Seconds that a plan should take: handing it over, and waiting for it, takes a few percent of
that."""


class PendingView(ArrayHandle):
    """A view of a value that may not have been written yet; who asks for the array waits."""

    __slots__ = ("_made", "_root", "_view")

    def __init__(self, root: CpuHandle, view: View) -> None:
        self.backend = root.backend
        self.shape, self.dtype = view.shape, root.dtype
        self._root = root
        self._view = view
        self._made: Any = None

    @property
    def array(self) -> Any:
        """The array, which shares the value's memory."""
        if self._made is None:
            view, backend = self._view, self._root.backend
            aval = Aval(view.shape, self.dtype)
            made = backend.viewed(self._root, aval, view.strides, view.offset)  # type: ignore[attr-defined]
            self._made = made.array
        return self._made


class CpuAsyncPlan:
    """Runs a plan of kernels alone in the queue, if it is worth that.

    Args:
        device: whose memory it is.
        parts: the plan's.
    """

    def __init__(self, device: Cpu, parts: LinearPlan) -> None:
        self._device = device
        self._parts = parts
        self._first = parts.inputs + len(parts.constants)
        self._segments: list[tuple[CpuSegment, Sequence[int]]] = list(parts.segments)  # type: ignore[arg-type]

    def __call__(
        self, given: Sequence[Handle], scalars: Sequence[Any], free: Sequence[bool],
        landing: DonationState,
    ) -> list[Handle] | None:  # fmt: skip
        """The outputs, which hold their values later; None if it is to be run at once.

        Args:
            given, scalars: as for the plan.
            free: for each input whether it may be written over.
            landing: gets the run in the queue as its job.
        """
        if not self._worth():
            return None
        inputs: list[CpuHandle] = [self._device.in_order(h) for h in given]
        line = queue()
        if not all(map(ours, inputs)) or not line.start():
            return None
        line.make_room(max(1, limit()))
        values: list[Any] = [*inputs, *self._parts.constants, *self._made(inputs, free)]
        over = {g for v, g in self._parts.donors.items() if values[v] is inputs[g]}
        for number in over:
            inputs[number].kept = None
        job = self._job(line, values, over, scalars)
        writes = [
            (h, landing.restores and self._parts.donors.get(n) in over)
            for n, h in enumerate(values[self._first :], self._first)
        ]
        landing.outputs = out = [self._output(values[n], n, v) for n, v in self._parts.outputs]
        line.add(job, inputs, writes, landing)
        return out

    def _output(self, root: CpuHandle, number: int, view: View | None) -> Handle:
        if view is None:
            return root
        if number < self._first and root.unwritten is None:
            aval = Aval(view.shape, root.dtype)
            return self._device.viewed(root, aval, view.strides, view.offset)
        return PendingView(root, view)

    def _worth(self) -> bool:
        seconds = 0.0
        for segment, _ in self._segments:
            if segment.long:  # Ctrl-C is to end it, not a call of a while ago
                return False
            seconds += segment.seconds
        return seconds >= LEAST

    def _made(self, inputs: Sequence[CpuHandle], free: Sequence[bool]) -> list[CpuHandle]:
        found = []
        for number, aval in enumerate(self._parts.own, self._first):
            giver = self._parts.donors.get(number)
            taken = giver is not None and free[giver]
            found.append(inputs[giver] if taken else self._device.empty(aval))  # type: ignore[index]
        return found

    def _job(
        self, line: Queue, values: Sequence[CpuHandle], over: set[int], scalars: Sequence[Any]
    ) -> Job:
        """The run: checks come before the segment that writes over inputs, if one does."""
        parts = self._parts
        read = Inputs([h for n, h in enumerate(values[: parts.inputs]) if n not in over])
        for handle in read:
            if handle.owned is not None:
                handle.owned.add(read)
        room = Room(line)
        arena = room.arena(parts.arena) if parts.arena else 0
        flags = [(values[n].memory.address, text) for n, text in parts.checks]
        last = len(self._segments) - 1
        checked = last - 1 if parts.donors and flags else last
        runs = []
        for number, (segment, roots) in enumerate(self._segments):
            addresses = [arena, *[values[r].memory.address for r in roots]]
            keeps = [self._lasting(values, over, roots[n - 1]) for n in segment.keeps]
            known = keeps if any(keeps) else ()
            prepared = segment.prepared(addresses, scalars, known, room.scratch)
            runs.append(QueuedRun(prepared, flags if number == checked else ()))
        return Job(line, runs, (read, parts.constants), room)

    def _lasting(
        self, values: Sequence[CpuHandle], over: set[int], number: int
    ) -> CpuHandle | None:
        """A value that may come again as it is, and is there."""
        if number >= self._first or number in over or values[number].unwritten is not None:
            return None
        return values[number]
