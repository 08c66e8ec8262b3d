"""Plans that run ahead: everything but the run happens in the call, the run in the queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ingle.fusion.device import DonationState, Inputs, LinearPlan, View, run_ahead_limit
from ingle.tensor.contract import Aval, Handle
from ingle.tensor.eager import ArrayHandle

from ..launch.executable import CpuExecutable
from ..memory import CpuHandle, ours
from .job import Job, QueuedRun
from .queue import Queue, Room, queue

if TYPE_CHECKING:
    from ..backend import Cpu

LEAST = 1e-3
"""Seconds that a plan should take: handing it over, and waiting for it, takes a few percent of
that."""


class PendingView(ArrayHandle):
    """A view of a value that may not have been written yet; a read of the array waits."""

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

    def __init__(self, device: Cpu, linear: LinearPlan) -> None:
        self._device = device
        self._linear = linear
        self._first = linear.inputs + len(linear.constants)
        self._executables: list[tuple[CpuExecutable, Sequence[int]]] = list(linear.executables)  # type: ignore[arg-type]

    def __call__(
        self, given: Sequence[Handle], scalars: Sequence[Any], donatable: Sequence[bool],
        donation: DonationState,
    ) -> list[Handle] | None:  # fmt: skip
        """The outputs, which hold their values later; None if it is to be run at once.

        Args:
            given, scalars: as for the plan.
            donatable: for each input whether it may be written over.
            donation: gets the run in the queue as its job.
        """
        if not self._worth():
            return None
        inputs: list[CpuHandle] = [self._device.in_order(h) for h in given]
        line = queue()
        if not all(map(ours, inputs)) or not line.start():
            return None
        line.make_room(max(1, run_ahead_limit()))
        values: list[Any] = [*inputs, *self._linear.constants, *self._made(inputs, donatable)]
        donated = {g for v, g in self._linear.donors.items() if values[v] is inputs[g]}
        for number in donated:
            inputs[number].prepacked = None
        job = self._job(line, values, donated, scalars)
        writes = [
            (h, donation.restores and self._linear.donors.get(n) in donated)
            for n, h in enumerate(values[self._first :], self._first)
        ]
        donation.outputs = out = [self._output(values[n], n, v) for n, v in self._linear.outputs]
        line.add(job, inputs, writes, donation)
        return out

    def _output(self, root: CpuHandle, number: int, view: View | None) -> Handle:
        if view is None:
            return root
        if number < self._first and root.pending is None:
            aval = Aval(view.shape, root.dtype)
            return self._device.viewed(root, aval, view.strides, view.offset)
        return PendingView(root, view)

    def _worth(self) -> bool:
        seconds = 0.0
        for executable, _ in self._executables:
            if executable.long:  # Ctrl-C is to end it, not a call of a while ago
                return False
            seconds += executable.seconds
        return seconds >= LEAST

    def _made(self, inputs: Sequence[CpuHandle], donatable: Sequence[bool]) -> list[CpuHandle]:
        found = []
        for number, aval in enumerate(self._linear.own, self._first):
            giver = self._linear.donors.get(number)
            taken = giver is not None and donatable[giver]
            found.append(inputs[giver] if taken else self._device.empty(aval))  # type: ignore[index]
        return found

    def _job(
        self,
        line: Queue,
        values: Sequence[CpuHandle],
        donated: set[int],
        scalars: Sequence[Any],
    ) -> Job:
        """The run: checks come before the executable that writes over inputs, if one does."""
        linear = self._linear
        read = Inputs([h for n, h in enumerate(values[: linear.inputs]) if n not in donated])
        for handle in read:
            if handle.owned is not None:
                handle.owned.add(read)
        room = Room(line)
        arena = room.arena(linear.arena) if linear.arena else 0
        flags = [(values[n].memory.address, text) for n, text in linear.checks]
        last = len(self._executables) - 1
        checked = last - 1 if linear.donors and flags else last
        runs = []
        for number, (executable, roots) in enumerate(self._executables):
            addresses = [arena, *[values[r].memory.address for r in roots]]
            prepacks = [self._lasting(values, donated, roots[n - 1]) for n in executable.prepacks]
            known = prepacks if any(prepacks) else ()
            prepared = executable.prepared(addresses, scalars, known, room.scratch)
            runs.append(QueuedRun(prepared, flags if number == checked else ()))
        return Job(line, runs, (read, linear.constants), room)

    def _lasting(
        self, values: Sequence[CpuHandle], donated: set[int], number: int
    ) -> CpuHandle | None:
        """A value that may come again as it is, and is there."""
        if number >= self._first or number in donated or values[number].pending is not None:
            return None
        return values[number]
