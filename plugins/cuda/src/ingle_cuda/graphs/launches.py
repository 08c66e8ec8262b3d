"""Kernels of a plan in the device's stream; from the second run on the same memory on, as one
graph.

What changes between two runs of a graph, the scalars, lies in memory of the device, where its first
kernel or one in front of it writes them.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.fusion.device import DonationState, Launch

from ..driver.errors import told
from .branches import AnyStep, Branch, Footprints, footprints_of, several_streams
from .buffer_uses import BufferUse, buffer_uses
from .joined import JoinedStep, with_joined
from .library_steps import LibraryStep, ShiftedInputs
from .scalar_table import ScalarTable
from .step_builder import SCRATCH, KernelStep, ProductStep, Step, StepBuilder
from .wandering_inputs import WanderingInputs

if TYPE_CHECKING:
    from ..backend import CudaBackend

_WORTH_A_GRAPH = 3
"""Launches from which on a graph takes less time than they do; one of a library is as many."""
_WORTH_OVERLAP = 100
"""Launches from which on it pays to begin each while the one before it ends: a graph of few takes
longer to launch so than it gains."""
_WORTH_BRANCHES, _MOST_BRANCHED = 8, 1024
"""Launches of a graph of several streams: fewer take longer to launch so than they gain, and to
find out what meets what among more takes longer than they do."""
_GRAPHS = 8
"""Graphs that are kept of an executable, one for each memory that it runs on."""
_SEEN = 64


def executable(
    backend: CudaBackend, launches: Sequence[Launch], scalars: Sequence[str]
) -> Executable:
    """The launches of a plan, whose kernels are compiled.

    Args:
        backend: of the GPU.
        launches: in order.
        scalars: the dtypes of the plan's scalars.
    """
    uses = buffer_uses(launches)
    builder = StepBuilder(backend, uses)
    parts = [builder.steps_of(launch) for launch in launches]
    runs: list[AnyStep] = [step for part in parts for step in part]
    if backend.joins:
        runs = with_joined(backend, launches, parts)
    return Executable(
        backend, parts, runs, scalars, builder.scratch, uses,
        footprints_of(launches, parts, runs),
    )  # fmt: skip


class _Captured(NamedTuple):
    """A graph.

    Attributes:
        launch: puts it into a stream.
        takes_numbers: whether it takes its scalars from the host's memory.
    """

    launch: Callable[[Any], None]
    takes_numbers: bool


class Executable:
    """The steps of a plan, at any addresses; made by `executable`.

    Args:
        backend: of the GPU.
        parts: the steps of each launch.
        runs: the steps as they run, several of them joined perhaps.
        scalars: the dtypes of the plan's scalars.
        scratch: bytes of scratch memory.
        uses: how the steps use each buffer.
        footprints: what they touch.
    """

    prepacks: tuple[int, ...] = ()
    renewed = False
    profiles_whole = False
    long = False
    gates = True
    """Its launch waits for checks itself, when all else is done."""

    def __init__(
        self, backend: CudaBackend, parts: Sequence[list[Step]], runs: Sequence[AnyStep],
        scalars: Sequence[str], scratch: int, uses: Mapping[int, BufferUse],
        footprints: Footprints,
    ) -> None:  # fmt: skip
        self._backend = backend
        self._scratch = scratch
        self._footprints = footprints
        self._parts = parts
        self._steps = [step for part in parts for step in part]
        self._runs = runs
        kernels = [s for s in self._steps if isinstance(s, KernelStep)]
        self._numbers = ScalarTable(backend, kernels, scalars)
        self._shifted = ShiftedInputs(uses)
        self._wandering = WanderingInputs(backend, uses)
        library = sum([isinstance(step, LibraryStep) for step in self._steps])
        self._multiplies = any(isinstance(step, ProductStep) for step in self._steps)
        self._is_long = len(self._steps) + library * _WORTH_A_GRAPH >= _WORTH_A_GRAPH
        self._overlaps = backend.overlaps and len(runs) >= _WORTH_OVERLAP
        self._told = told(backend.device, "a plan was run")
        self._graphs: OrderedDict[tuple[int, ...], _Captured] = OrderedDict()
        self._seen: OrderedDict[tuple[int, ...], None] = OrderedDict()

    # Running -----------------------------------------------------------------------------------

    def __call__(
        self, addresses: Sequence[int], scalars: Sequence[Any],
        donation: DonationState | None = None, *, prepacks: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        """Puts them into the stream, for buffers at these addresses."""
        backend = self._backend
        gate = None if donation is None else donation.gate
        backend.enter()
        with backend.lock, self._told:
            scratch = backend.scratch(self._scratch) if self._scratch else 0
            buffers, held = self._shifted.straightened(backend, (*addresses, scratch))
            graph = self._graph(buffers, whole=donation is not None)
            if graph is None:
                numbers = self._numbers.bits(scalars)
                if gate is not None:
                    gate()
                stream = backend.stream
                for step in self._runs:
                    if type(step) is KernelStep and not step.copies:  # as most are; see `_put`
                        given = _argument(step, buffers, numbers, 0)
                        backend.enqueue(step.kernel, given, step.blocks, step.threads, stream)
                    else:
                        self._put(step, buffers, numbers, stream)
                del held
                return
            bits = None
            if graph.takes_numbers:
                bits = self._numbers.ready(scalars)
            else:
                self._numbers.write(scalars)
            self._wandering.copy(buffers)
            launch, stream = graph.launch, backend.stream
            if gate is not None:
                gate()
            try:
                if bits is not None:  # behind the gate the graph's last run has taken its own
                    self._numbers.hand_over(bits)
                if donation is not None:
                    # Python looks for signals after calls: none is handled before the next ends.
                    donation.done = True
                launch(stream)
            except BaseException:
                self._numbers.doubt()
                raise
            del held

    def _graph(self, buffers: tuple[int, ...], whole: bool) -> _Captured | None:
        """The graph for this memory, if it was seen before.

        Args:
            whole: whether the launches may not be interrupted, since they write over inputs.
        """
        if not whole and not (self._is_long and self._backend.graphs):
            return None
        own, buffers = buffers, self._wandering.settled(buffers)
        found = self._graphs.get(buffers)
        if found is not None:
            self._graphs.move_to_end(buffers)
            self._wandering.met()
            return found
        if self._backend.graphs and self._wandering.missed(buffers):
            buffers = self._wandering.settled(own)
        if buffers not in self._seen and not whole:
            self._seen[buffers] = None
            if len(self._seen) > _SEEN:
                self._seen.popitem(last=False)
            return None
        table = self._numbers.address
        # Of many launches the first ones wait for a kernel longer than the host takes to launch it.
        takes = len(self._runs) < _WORTH_OVERLAP and self._numbers.is_taken(whole)
        stream, branches = self._backend.capturing(self._multiplies), self._branches(buffers)
        try:
            stream.begin_capture(1)  # of this thread alone
            self._capture(buffers, stream, branches, table, takes)
        except BaseException:
            # Without an end, this thread could neither capture nor allocate any more; what the
            # end itself says of an incomplete graph is nothing new.
            with suppress(RuntimeError):
                stream.end_capture()
            self._backend.forget_streams_beside()
            raise
        graph = _Captured(stream.end_capture().launch, takes)
        self._graphs[buffers] = graph
        if len(self._graphs) > _GRAPHS:
            self._graphs.popitem(last=False)
        return graph

    def _branches(self, buffers: tuple[int, ...]) -> list[Branch] | None:
        """In which streams steps are captured, which are opened; None if one is enough."""
        if not (self._backend.branches and _WORTH_BRANCHES <= len(self._runs) <= _MOST_BRANCHED):
            return None
        found = self._footprints.branches(buffers, self._scratch)
        if found is not None:
            self._backend.streams_beside(max(branch.stream for branch in found))
            self._backend.stream_aside()
        return found

    def _taken_aside(self, stream: Any) -> Any:
        """Has the graph that is captured take its numbers beside the first steps, which read none
        of those that change; the event behind that."""
        start, taken = self._backend.event(), self._backend.event()
        aside = self._backend.stream_aside()
        start.record(stream)
        aside.wait_event(start)
        self._numbers.take(aside)
        taken.record(aside)
        return taken

    def _capture(
        self, buffers: tuple[int, ...], stream: Any, branches: Sequence[Branch] | None, at: int,
        takes: bool,
    ) -> None:  # fmt: skip
        """Puts all steps into a stream that is captured, and into others beside it where several
        may run at a time; scalars lie from `at` on.

        Args:
            takes: whether the graph takes these from the host's memory.
        """
        taken = None
        if takes and branches is not None:
            taken = self._taken_aside(stream)
        elif takes:
            self._numbers.take(stream)
        overlap = [branches is None and self._overlaps] * len(self._runs)
        if overlap[0]:
            overlap = self._footprints.may_overlap(buffers)
        several = None if branches is None else several_streams(self._backend, stream, branches)
        waited: set[int] = set()
        for number, step in enumerate(self._runs):
            into = stream if several is None else several.before(number)
            waits = taken is not None and into.ptr not in waited and _reads_scalars(step)
            if waits:
                into.wait_event(taken)
                waited.add(into.ptr)
            at = self._put(step, buffers, None, into, at, overlap[number] and not waits)
            if several is not None:
                several.after(number)
        if several is not None:
            several.join()
        if taken is not None:  # whether or not a step has waited for them
            stream.wait_event(taken)

    def _put(
        self, step: AnyStep, buffers: Sequence[int], numbers: dict[int, int] | None,
        stream: Any, table: int = 0, overlaps: bool = True,
    ) -> int:  # fmt: skip
        """Puts a step into a stream.

        Args:
            numbers: the plan's scalars; None where kernels read them at `table`.
            overlaps: whether it may begin while the step before it ends.

        Returns:
            Where the next step's scalars lie.
        """
        overlap = numbers is None and self._overlaps and overlaps
        if isinstance(step, JoinedStep):
            if any(one.is_idle(buffers) for one in step.steps) or not step.is_apart(buffers):
                for one in step.steps:
                    early = overlaps and not one.early
                    table = self._put(one, buffers, numbers, stream, table, early)
                return table
            given = []
            for one in step.members:
                given.append(_argument(one, buffers, numbers, table))
                table += 8 * one.numbers[1]
            whole, blocks = step.together(given)
            threads = step.members[0].threads
            self._backend.enqueue(step.kernel, whole, blocks, threads, stream, overlap)
            return table
        if isinstance(step, LibraryStep):
            step.put(buffers, buffers[SCRATCH], stream)
            return table
        if isinstance(step, ProductStep):
            a, b, out = (buffers[n] + offset for n, offset in (step.a, step.b, step.out))
            added = None if step.added is None else buffers[step.added[0]] + step.added[1]
            libraries = self._backend.products
            libraries.multiply(step.product, stream, a, b, out, step.row, step.steps, added)
            return table
        if not step.is_idle(buffers):
            argument = _argument(step, buffers, numbers, table)
            self._backend.enqueue(step.kernel, argument, step.blocks, step.threads, stream, overlap)
        return table + 8 * step.numbers[1]

    def profile(
        self, addresses: Sequence[int], scalars: Sequence[Any], runs: int,
        prepacks: Sequence[Any] = (),
    ) -> Sequence[float]:  # fmt: skip
        """Seconds of each launch, the mean of some runs."""
        backend, seconds = self._backend, []
        backend.enter()
        with backend.lock, told(backend.device, "a plan was profiled"):
            numbers = self._numbers.bits(scalars)
            buffers = (*addresses, backend.scratch(self._scratch) if self._scratch else 0)
            for part in self._parts:
                backend.synchronize()
                start = time.perf_counter()
                for _ in range(runs):
                    for step in part:
                        self._put(step, buffers, numbers, backend.stream)
                backend.synchronize()
                seconds.append((time.perf_counter() - start) / runs)
        return seconds

    def sources(self) -> Sequence[str]:
        """The kernels' source code."""
        return [
            f"/* cuBLAS{'' if s.added is None else 'Lt'}: {s.product} */"
            if isinstance(s, ProductStep)
            else f"/* cuDNN: {s.op.operation.name} */" if isinstance(s, LibraryStep)
            else s.source if isinstance(s.source, str) else self._backend.source(s.source)
            for s in self._steps
        ]  # fmt: skip


def _reads_scalars(step: AnyStep) -> bool:
    """Whether kernels read scalars of the plan, not only numbers that never change."""
    if isinstance(step, JoinedStep):
        return any(map(_reads_scalars, step.steps))
    return isinstance(step, KernelStep) and any(number >= 0 for number in step.scalars)


def _argument(
    step: KernelStep, buffers: Sequence[int], numbers: dict[int, int] | None, table: int
) -> Any:
    """What a kernel is given: addresses, where its scalars lie, and numbers. It is the step's own,
    which whoever launches the kernel copies."""
    given = step.given
    for k, (buffer, offset) in enumerate(step.pointers):
        given[k] = buffers[buffer] + offset
    place, count = step.numbers
    if count:
        given[max(len(step.pointers), 1)] = table if numbers is None else 0
    if numbers is not None:
        for n, number in enumerate(step.scalars):
            if number >= 0:
                given[place + n] = numbers[number]
    return given
