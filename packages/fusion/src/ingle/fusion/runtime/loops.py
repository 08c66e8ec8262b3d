"""Loops of a plan: a program that is planned once and runs for each slice of its inputs.

A few steps are unrolled into one plan, so that kernels fuse across them. Where that plan is kernels
alone, all its runs are one native call with a row of addresses for each of them: slices are read
where they lie, what is stacked is written into its place, and a carry that the plan may write over
stays where it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.device import call_staged, staged_on
from ingle.tensor.dispatch import execute_body
from ingle.tensor.dtypes import uint8
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Loop, Op
from ingle.tensor.ops.creation.filled import FULL
from ingle.tensor.ops.movement.joining import CONCAT

from ..ir.graph import Graph, read_log
from ..ir.views import View, strides_of
from ..record.tracing import Tracer
from .device import Turns

if TYPE_CHECKING:
    from ..fusion import Fusion
    from .device import KernelDevice, Ordered
    from .plan import CompiledPlan
    from .plan_codegen import LinearPlan

UNROLLED = 192
"""Operations in one plan: enough to hide the loop's own work, few enough to be planned soon."""
FEWER = 4
"""By which factor fewer steps may be unrolled so that no other plan is needed for the rest."""
MOST_TURNS = 1024
"""Runs of a plan in one native call, an even number: their addresses take memory, too."""


def is_loop(op: Op) -> bool:
    """Whether an operation repeats a program, at least once."""
    return op.operation.loop is not None and op.operation.loop(op).length > 0


def loop_plan(
    device: KernelDevice, fusion: Fusion, op: Op, inputs: Sequence[Aval | Scalar]
) -> LoopPlan:
    """The plan of an operation that is a loop.

    Args:
        device: which runs it.
        fusion: the decorator over it.
        op: the operation, with at least one step.
        inputs: its inputs, or numbers that are the same in all runs.
    """
    assert op.operation.loop is not None
    loop = op.operation.loop(op)
    steps = _steps_at_once(loop)
    turns, rest = divmod(loop.length, steps)
    chunks = [(_planned_chunk(device, fusion, loop, inputs, steps), turns)]
    if rest:
        chunks.append((_planned_chunk(device, fusion, loop, inputs, rest), 1))
    tensors = [i for i, x in enumerate(inputs) if not isinstance(x, Scalar)]
    return LoopPlan(device, loop, tensors, chunks)


class LoopPlan:
    """Runs an operation that is a loop; made by `loop_plan`.

    Args:
        device: which runs it.
        loop: what it does.
        tensors: positions of the inputs that are no numbers.
        chunks: plans of some steps, each with how often it runs.
    """

    def __init__(
        self, device: KernelDevice, loop: Loop, tensors: Sequence[int],
        chunks: Sequence[tuple[_Chunk, int]],
    ) -> None:  # fmt: skip
        self._device = device
        self._loop = loop
        self._tensors = tensors
        self._chunks = chunks

    def run(self, inputs: Sequence[Handle | Scalar]) -> Sequence[Handle]:
        """The outputs of the operation."""
        device = self._device
        given = [device.in_order(self._tensor(inputs[i])) for i in self._tensors]
        rows = _Rows(self._loop)
        if all(chunk.places is not None for chunk, _ in self._chunks):
            return _run_by_address(device, self._loop, self._chunks, given, rows)
        return _run_by_handle(device, self._loop, self._chunks, given, rows)

    def _tensor(self, x: Handle | Scalar) -> Handle:
        if isinstance(x, Handle):
            return x
        return self._device.execute_native(FULL.op(shape=(), dtype=x.dtype), [x])[0]


def _steps_at_once(loop: Loop) -> int:
    """How many steps are unrolled: a divisor of their number, unless that is much fewer."""
    most = max(1, min(loop.length, UNROLLED // max(1, loop.size)))
    even = [n for n in range(most, most // FEWER, -1) if loop.length % n == 0]
    return even[0] if even else most


class _Rows:
    """Which slices come next."""

    def __init__(self, loop: Loop) -> None:
        self._reverse = loop.reverse
        self._row = loop.length if loop.reverse else 0

    def next(self, count: int, turns: int = 1) -> tuple[int, int]:
        """For some turns of as many slices each the first slice of the first turn, and how many
        slices the next one is away from it."""
        away = -count if self._reverse else count
        first = self._row - count if self._reverse else self._row
        self._row += away * turns
        return first, away


class _OutputPlace(NamedTuple):
    """Where an output lies: the number of a value of the plan, and how many bytes into it."""

    number: int
    offset: int
    whole: bool


class _Places(NamedTuple):
    """Where a plan's values lie from one run to the next.

    Attributes:
        carries, stacked: of the outputs.
        twice: numbers of carries in two places, since a run reads what the one before it wrote.
        once: of what else the plan makes. Some of these are carries, too, which are written where
            they were read.
    """

    carries: Sequence[_OutputPlace]
    stacked: Sequence[_OutputPlace]
    twice: Sequence[int]
    once: Sequence[int]


class _Chunk(NamedTuple):
    """Some steps of a loop as a plan.

    Attributes:
        steps: how many.
        outputs: what is known of its outputs.
        plan: what runs them.
        scalars: the plan's.
        linear_plan: its kernels, if it is kernels alone.
        places: where its values lie; None if it runs by handles.
        layout: which addresses that makes, if it does not.
    """

    steps: int
    outputs: Sequence[Aval]
    plan: CompiledPlan
    scalars: Any
    linear_plan: LinearPlan | None
    places: _Places | None
    layout: _AddressLayout | None


def _planned_chunk(
    device: KernelDevice, fusion: Fusion, loop: Loop, inputs: Sequence[Aval | Scalar], steps: int
) -> _Chunk:
    """The plan of some steps."""
    graph = _graph(fusion, loop, inputs, steps)
    graph.donors = tuple(((i,), (i,)) for i in range(loop.carries))
    outputs = [graph.values[o].aval for o in graph.outputs]
    plan = device.prepare(graph).serving(())
    linear = plan.linear_plan
    places = None if linear is None else _places(linear, loop)
    layout: _AddressLayout | None = None
    if linear is not None and places is not None:
        given = [graph.values[n].aval for n in graph.inputs]
        layout = _AddressLayout(linear, places, loop, given, outputs)
    return _Chunk(steps, outputs, plan, plan.host(), linear, places, layout)


def _graph(fusion: Fusion, loop: Loop, inputs: Sequence[Aval | Scalar], steps: int) -> Graph:
    """The operations of some steps."""
    tracer = Tracer(fusion)
    given: list[Handle | Scalar] = []
    for place, x in enumerate(inputs):
        if isinstance(x, Scalar):
            given.append(x)
            continue
        sliced = loop.carries <= place < loop.carries + loop.sequences
        given.append(tracer.input(Aval((steps, *x.shape[1:]), x.dtype) if sliced else x))
    with tracer.active(), staged_on(fusion):
        results = execute_body(loop.of_length(steps), given, fusion.device)
    graph = read_log(tracer.written, [h.number for h in results])  # type: ignore[attr-defined]
    for handle in tracer.living():
        handle.pending_in = None
    return graph


def _places(linear: LinearPlan, loop: Loop) -> _Places | None:
    """Where values can lie; None where an output is elsewhere than in memory of its own."""
    first = linear.inputs + len(linear.constants)
    found: list[_OutputPlace] = []
    for number, view in linear.outputs:
        if first <= number:
            aval = linear.own[number - first]
            place = _place(number, aval, view)
            if place is None:
                return None
        elif view is None and number == len(found) < loop.carries:
            place = _OutputPlace(number, 0, True)  # a carry that no step changes
        else:
            return None
        found.append(place)
    carries, stacked = found[: loop.carries], found[loop.carries :]
    numbers = [place.number for place in stacked]
    if len(set(numbers)) < len(numbers) or not all(place.whole for place in stacked):
        return None
    # The next run would find what it wrote over in another carry of the same value.
    alone = {n for n, count in Counter([c.number for c in carries]).items() if count == 1}
    over = {n for n, given in linear.donors.items() if carries[given] == _OutputPlace(n, 0, True)}
    kept = over & alone
    flags = {n for n, _ in linear.checks}
    own = [n for n in range(first, first + len(linear.own)) if n not in (*numbers, *flags)]
    twice = {place.number for place in carries} - kept
    return _Places(
        carries, stacked, [n for n in own if n in twice], [n for n in own if n not in twice]
    )


def _place(number: int, aval: Aval, view: View | None) -> _OutputPlace | None:
    if view is None:
        return _OutputPlace(number, 0, True)
    if not view.contiguous:
        return None
    whole = math.prod(view.shape) == math.prod(aval.shape)
    return _OutputPlace(number, view.offset * aval.dtype.itemsize, whole)


def _run_by_address(
    device: KernelDevice, loop: Loop, chunks: Sequence[tuple[_Chunk, int]],
    given: Sequence[Ordered], rows: _Rows,
) -> list[Handle]:  # fmt: skip
    """Runs chunks whose plans are kernels alone."""
    carried: list[tuple[Ordered, int]] = [(handle, 0) for handle in given[: loop.carries]]
    made = [device.empty(aval) for aval in _stacked_avals(chunks[0][0], loop)]
    for chunk, turns in chunks:
        memory = _Memory(device, chunk, given, made)
        for begun in range(0, turns, MOST_TURNS):
            some = min(MOST_TURNS, turns - begun)
            carried = memory.run(some, rows.next(chunk.steps, some), carried)
    avals = [Aval(handle.shape, handle.dtype) for handle in given[: loop.carries]]
    return [
        *[_shown(device, h, o, aval) for (h, o), aval in zip(carried, avals, strict=True)],
        *made,
    ]


class _AddressLayout:
    """The part of the addresses of a chunk's values that is the same in all its runs.

    Attributes:
        first: the number of the first value that the plan makes.
        strides: of each value, by number, how far it moves from one slice to the next; 0 for the
            last one, which is the memory that the kernels share.
        flags: numbers of the values that say that an index is out of range.
        executables: each with the numbers of its buffers, and those of what it may keep, or None.
    """

    def __init__(
        self, linear: LinearPlan, places: _Places, loop: Loop, given: Sequence[Aval],
        outputs: Sequence[Aval],
    ) -> None:  # fmt: skip
        self.first = first = linear.inputs + len(linear.constants)
        self.strides = np.zeros(first + len(linear.own) + 1, np.int64)
        for number in range(loop.carries, loop.carries + loop.sequences):
            self.strides[number] = _row_bytes(given[number])
        # The plan may make them in another shape, such as without the axis of a single step.
        for place, aval in zip(places.stacked, outputs[loop.carries :], strict=True):
            self.strides[place.number] = _row_bytes(aval)
        self.flags = sorted({n for n, _ in linear.checks if n >= first})
        shared = loop.carries + loop.sequences  # what comes from there on is the same in all turns
        self.executables = [
            (s, np.array((-1, *roots)), [
                n if shared <= n < first else None
                for n in (roots[buffer - 1] for buffer in s.prepacks)
            ])
            for s, roots in linear.executables
        ]  # fmt: skip


class _Memory:
    """Where the values of a chunk lie in each of its turns.

    Addresses are a table with a row for each turn and a column for each value, by number.
    """

    def __init__(
        self, device: KernelDevice, chunk: _Chunk, given: Sequence[Ordered],
        made: Sequence[Ordered],
    ) -> None:  # fmt: skip
        assert chunk.linear_plan is not None
        assert chunk.places is not None
        assert chunk.layout is not None
        self._device = device
        self._scalars = chunk.scalars
        self._linear = linear = chunk.linear_plan
        self._places = places = chunk.places
        self._layout = chunk.layout
        self._known = [*given, *linear.constants]
        numbers = [place.number for place in places.stacked]
        self._holders: dict[int, Ordered] = dict(zip(numbers, made, strict=True))
        self._holders |= {number: self._empty(number) for number in (*places.twice, *places.once)}
        self._seconds = {number: self._empty(number) for number in places.twice}
        # The plan writes there while nobody else may.
        self._within = device.empty(Aval((linear.arena,), uint8)) if linear.arena else None
        self._start = np.zeros(len(self._layout.strides), np.int64)
        self._start[: self._layout.first] = [handle.address for handle in self._known]
        for number, handle in self._holders.items():
            self._start[number] = handle.address
        if self._within is not None:
            self._start[-1] = self._within.address

    def run(
        self, turns: int, rows: tuple[int, int], carried: Sequence[tuple[Ordered, int]]
    ) -> list[tuple[Ordered, int]]:
        """Runs the chunk some times.

        Args:
            turns: how often.
            rows: the first slice of the first turn, and how many the next turn's is away from it.
            carried: the handles that the carries lie in, and how many bytes into them.

        Returns:
            The carries behind the last turn.

        Raises:
            OutOfRangeError: an index is out of range in some turn.
        """
        device, linear, layout = self._device, self._linear, self._layout
        first, away = rows
        at = np.arange(first, first + away * turns, away)[:, None] * layout.strides
        at += self._start
        for number, handle in self._seconds.items():
            at[1::2, number] = handle.address
        for number, place in enumerate(self._places.carries):
            if place.number >= linear.inputs:
                at[1:, number] = at[:-1, place.number] + place.offset
        at[0, : len(carried)] = [handle.address + offset for handle, offset in carried]
        flags = [self._flag(number, at) for number in layout.flags]
        runs = [
            Turns(
                s, np.ascontiguousarray(at[:, roots]),
                [None if n is None else self._known[n] for n in prepacks],
            )
            for s, roots, prepacks in layout.executables
        ]  # fmt: skip
        if runs:  # none where all carries stay as they are
            device.run_turns(runs, self._scalars)
        for number, text in linear.checks:
            if self._raised(number, flags):
                raise OutOfRangeError(text)
        return [
            self._after(carry, place, at[-1], turns)
            for carry, place in zip(carried, self._places.carries, strict=True)
        ]

    def _flag(self, number: int, at: np.ndarray) -> Ordered:
        """Memory for a flag of each turn."""
        aval = self._linear.own[number - self._layout.first]
        made = self._device.empty(Aval((len(at), *aval.shape), aval.dtype))
        at[:, number] = made.address + np.arange(len(at)) * _row_bytes(made)
        return made

    def _raised(self, number: int, flags: Sequence[Ordered]) -> bool:
        if number < self._layout.first:
            return self._device.flag(self._known[number])
        return True in self._device.download(flags[self._layout.flags.index(number)])

    def _after(
        self, carry: tuple[Ordered, int], place: _OutputPlace, at: np.ndarray, turns: int
    ) -> tuple[Ordered, int]:
        number = place.number
        if number < self._linear.inputs:
            return carry
        other = self._seconds.get(number)
        handle = self._holders[number] if other is None or turns % 2 else other
        return handle, int(at[number]) - handle.address + place.offset

    def _empty(self, number: int) -> Ordered:
        return self._device.empty(self._linear.own[number - self._layout.first])


def _row_bytes(handle: Handle | Aval) -> int:
    return math.prod(handle.shape[1:]) * handle.dtype.itemsize


def _stacked_avals(chunk: _Chunk, loop: Loop) -> list[Aval]:
    """What the loop stacks: as many rows as it has steps."""
    avals = chunk.outputs[loop.carries : loop.carries + len(chunk.places.stacked)]  # type: ignore[union-attr]
    return [Aval((loop.length, *a.shape[1:]), a.dtype) for a in avals]


def _shown(device: KernelDevice, handle: Ordered, offset: int, aval: Aval) -> Handle:
    """A carry behind the last step."""
    if offset == 0 and handle.shape == aval.shape:
        return handle
    start = offset // aval.dtype.itemsize
    return device.in_order(device.viewed(handle, aval, strides_of(aval.shape), start))


def _run_by_handle(
    device: KernelDevice, loop: Loop, chunks: Sequence[tuple[_Chunk, int]],
    given: Sequence[Ordered], rows: _Rows,
) -> list[Handle]:  # fmt: skip
    """Runs chunks with operations of the backend's own in between."""
    count, last = loop.carries, loop.carries + loop.sequences
    carried: list[Handle] = list(given[:count])
    pieces: list[list[Handle]] = []
    for chunk in [chunk for chunk, turns in chunks for _ in range(turns)]:
        row, _ = rows.next(chunk.steps)
        slices = [_slice(device, handle, row, chunk.steps) for handle in given[count:last]]
        outputs = chunk.plan.run([*carried, *slices, *given[last:]], chunk.scalars)
        carried = outputs[:count]
        pieces.append(outputs[count:])
    if loop.reverse:
        pieces.reverse()
    columns = list(zip(*pieces, strict=True))
    concat = CONCAT.op(axis=0)
    below: Backend = device  # type: ignore[assignment]
    stacked = [call_staged(below, device.execute, concat, column)[0] for column in columns]
    return [*carried, *stacked]


def _slice(device: KernelDevice, handle: Ordered, row: int, count: int) -> Handle:
    shape = (count, *handle.shape[1:])
    strides = strides_of(shape)
    return device.viewed(handle, Aval(shape, handle.dtype), strides, row * math.prod(shape[1:]))
