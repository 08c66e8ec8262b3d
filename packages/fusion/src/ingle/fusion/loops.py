"""Loops of a plan: a program that is planned once and runs for each slice of its inputs.

A few steps are unrolled into one plan, so that kernels fuse across them and the loop's own work is
shared by all of them. Where that plan is kernels alone, a run of it is a call of its segments with
other addresses: slices are read where they lie, what is stacked is written into its place, and a
carry that the plan may write over stays where it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import staged_on
from ingle.tensor.dispatch import execute_body
from ingle.tensor.dtypes import uint8
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Loop, Op
from ingle.tensor.ops.creation import FULL
from ingle.tensor.ops.joining import CONCAT

from .graph import Graph, read_log
from .passes.expand import MOST_STEPS
from .passes.views import View, strides_of
from .staging import Staging

if TYPE_CHECKING:
    from .fusion import Fusion
    from .kernel_device import KernelDevice, Ordered
    from .straight import Parts

UNROLLED = MOST_STEPS // 4
"""Operations in one plan: enough to hide the loop's own work, few enough to be planned soon."""


def is_loop(op: Op) -> bool:
    """Whether an operation repeats a program, at least once."""
    return op.operation.loop is not None and op.operation.loop(op).length > 0


class LoopPlan:
    """Runs an operation that is a loop.

    Args:
        device: which runs it.
        fusion: the decorator over it.
        op: the operation, with at least one step.
        inputs: its inputs, or numbers that are the same in all runs.
    """

    def __init__(
        self, device: KernelDevice, fusion: Fusion, op: Op, inputs: Sequence[Aval | Scalar]
    ) -> None:
        assert op.operation.loop is not None
        self._device = device
        self._loop = loop = op.operation.loop(op)
        self._tensors = [i for i, x in enumerate(inputs) if not isinstance(x, Scalar)]
        steps = _steps_at_once(loop)
        self._chunks = [_Chunk(device, fusion, loop, inputs, steps)] * (loop.length // steps)
        if rest := loop.length % steps:
            self._chunks.append(_Chunk(device, fusion, loop, inputs, rest))

    def run(self, inputs: Sequence[Handle | Scalar]) -> Sequence[Handle]:
        """The outputs of the operation."""
        device = self._device
        given = [device.in_order(self._tensor(inputs[i])) for i in self._tensors]
        rows = _Rows(self._loop)
        if all(chunk.places is not None for chunk in self._chunks):
            return _run_by_address(device, self._loop, self._chunks, given, rows)
        return _run_by_handle(device, self._loop, self._chunks, given, rows)

    def _tensor(self, x: Handle | Scalar) -> Handle:
        if isinstance(x, Handle):
            return x
        return self._device.execute_native(FULL.op(shape=(), dtype=x.dtype), [x])[0]


def _steps_at_once(loop: Loop) -> int:
    """How many steps are unrolled: if it can be, a divisor of their number."""
    most = max(1, min(loop.length, UNROLLED // max(1, loop.size)))
    even = [n for n in range(most, most // 2, -1) if loop.length % n == 0]
    return even[0] if even else most


class _Rows:
    """Which slices come next."""

    def __init__(self, loop: Loop) -> None:
        self._reverse = loop.reverse
        self._row = loop.length if loop.reverse else 0

    def next(self, count: int) -> int:
        """The first of the next ones."""
        if self._reverse:
            self._row -= count
            return self._row
        self._row += count
        return self._row - count


class _Place(NamedTuple):
    """Where an output lies: the number of a value of the plan, and how many bytes into it."""

    number: int
    offset: int
    whole: bool


class _Places(NamedTuple):
    """Where a plan's values lie from one run to the next.

    Attributes:
        carries, stacked: of the outputs.
        kept: carries that are written where they were read, by the number of the new value.
        free: what else the plan makes; each in two places, since the next run reads what this one
            wrote.
    """

    carries: Sequence[_Place]
    stacked: Sequence[_Place]
    kept: dict[int, int]
    free: Sequence[int]


class _Chunk:
    """Some steps of a loop as a plan.

    Attributes:
        steps: how many.
        outputs: what is known of its outputs.
        plan: what runs them.
        parts: its kernels, if it is kernels alone.
        places: where its values lie; None if it runs by handles.
    """

    def __init__(
        self, device: KernelDevice, fusion: Fusion, loop: Loop, inputs: Sequence[Aval | Scalar],
        steps: int,
    ) -> None:  # fmt: skip
        from .execution import KernelExecutable

        self.steps = steps
        graph = _graph(fusion, loop, inputs, steps)
        graph.donors = tuple(((i,), (i,)) for i in range(loop.carries))
        self.outputs = [graph.values[o].aval for o in graph.outputs]
        self.plan = KernelExecutable(device, fusion, graph).serving(())
        self.scalars: Any = self.plan.host()
        self.parts = self.plan.parts
        self.places = None if self.parts is None else _places(self.parts, loop)


def _graph(fusion: Fusion, loop: Loop, inputs: Sequence[Aval | Scalar], steps: int) -> Graph:
    """The operations of some steps."""
    staging = Staging(fusion)
    given: list[Handle | Scalar] = []
    for place, x in enumerate(inputs):
        if isinstance(x, Scalar):
            given.append(x)
            continue
        sliced = loop.carries <= place < loop.carries + loop.sequences
        given.append(staging.input(Aval((steps, *x.shape[1:]), x.dtype) if sliced else x))
    with staging.active(), staged_on(fusion):
        results = execute_body(loop.of_length(steps), given, fusion.device)
    graph = read_log(staging.written, [h.number for h in results])  # type: ignore[attr-defined]
    for handle in staging.living():
        handle.recorder = None
    return graph


def _places(parts: Parts, loop: Loop) -> _Places | None:
    """Where values can lie; None where an output is elsewhere than in memory of its own."""
    first = parts.inputs + len(parts.constants)
    found: list[_Place] = []
    for number, view in parts.outputs:
        if first <= number:
            aval = parts.own[number - first]
            place = _place(number, aval, view)
            if place is None:
                return None
        elif view is None and number == len(found) < loop.carries:
            place = _Place(number, 0, True)  # a carry that no step changes
        else:
            return None
        found.append(place)
    carries, stacked = found[: loop.carries], found[loop.carries :]
    numbers = [place.number for place in stacked]
    if len(set(numbers)) < len(numbers) or not all(place.whole for place in stacked):
        return None
    own = range(first, first + len(parts.own))
    kept = {
        number: given
        for number, given in parts.donors.items()
        if number not in numbers and carries[given] == _Place(number, 0, True)
    }
    return _Places(carries, stacked, kept, [n for n in own if n not in numbers and n not in kept])


def _place(number: int, aval: Aval, view: View | None) -> _Place | None:
    if view is None:
        return _Place(number, 0, True)
    if not view.contiguous:
        return None
    whole = math.prod(view.shape) == math.prod(aval.shape)
    return _Place(number, view.offset * aval.dtype.itemsize, whole)


def _run_by_address(
    device: KernelDevice, loop: Loop, chunks: Sequence[_Chunk], given: Sequence[Ordered],
    rows: _Rows,
) -> list[Handle]:  # fmt: skip
    """Runs chunks whose plans are kernels alone."""
    count, last = loop.carries, loop.carries + loop.sequences
    where = [handle.address for handle in given]
    strides = [_row_bytes(handle) for handle in given[count:last]]
    carried: list[tuple[Ordered, int]] = [(handle, 0) for handle in given[:count]]
    made = [device.empty(aval) for aval in _stacked_avals(chunks[0], loop)]
    steps = [_row_bytes(handle) for handle in made]
    memory: dict[_Chunk, _Memory] = {}
    for turn, chunk in enumerate(chunks):
        parts, places = chunk.parts, chunk.places
        assert parts is not None
        assert places is not None
        own = memory.get(chunk)
        if own is None:
            own = memory[chunk] = _Memory(device, parts, places, given, count)
        row = rows.next(chunk.steps)
        at = own.at
        for number, (handle, offset) in enumerate(carried):
            at[number] = handle.address + offset
        for number, stride in enumerate(strides, count):
            at[number] = where[number] + row * stride
        holders = own.turn(turn, carried)
        for place, stride, handle in zip(places.stacked, steps, made, strict=True):
            at[place.number] = handle.address + row * stride
        for segment, roots, keeps in own.segments:
            segment((own.arena, *[at[r] for r in roots]), chunk.scalars, keeps=keeps)
        for number, text in parts.checks:
            if device.flag(holders[number]):
                raise OutOfRangeError(text)
        for place, handle in zip(places.stacked, made, strict=True):
            holders[place.number] = handle
        carried = [
            carried[i] if place.number < parts.inputs
            else (holders[place.number], at[place.number] - holders[place.number].address
                  + place.offset)
            for i, place in enumerate(places.carries)
        ]  # fmt: skip
    avals = [Aval(handle.shape, handle.dtype) for handle in given[:count]]
    return [
        *[_shown(device, h, o, aval) for (h, o), aval in zip(carried, avals, strict=True)],
        *made,
    ]


class _Memory:
    """What the runs of one chunk share.

    Attributes:
        at: the address of each value of the plan, by number.
        segments: each with the numbers of its buffers, and the handles that it may keep.
    """

    def __init__(
        self, device: KernelDevice, parts: Parts, places: _Places, given: Sequence[Ordered],
        carries: int,
    ) -> None:  # fmt: skip
        self._device = device
        self._parts = parts
        self._places = places
        self._first = first = parts.inputs + len(parts.constants)
        known = [*given, *parts.constants]
        self.at = [h.address for h in known] + [0] * len(parts.own)
        self._holders: list[Any] = [*known, *[None] * len(parts.own)]
        self._pairs: dict[int, list[Ordered]] = {}
        # The plan writes there while nobody else may.
        self._within = device.empty(Aval((parts.arena,), uint8)) if parts.arena else None
        self.arena = self._within.address if self._within is not None else 0
        lasting = range(carries, first)
        self.segments = [
            (s, roots, [known[n] if n in lasting else None
                        for n in (roots[buffer - 1] for buffer in s.keeps)])
            for s, roots in parts.segments
        ]  # fmt: skip
        self._mine: dict[int, Ordered] = {}

    def turn(self, turn: int, carried: Sequence[tuple[Ordered, int]]) -> list[Any]:
        """Says where this run's values lie; returns the handles of them all."""
        for number in self._places.free:
            pair = self._pairs.get(number)
            if pair is None or len(pair) < 2:
                pair = self._pairs.setdefault(number, [])
                pair.append(self._empty(number))
            self._lies(number, pair[turn % len(pair)])
        for number, place in self._places.kept.items():
            mine = self._mine.get(number)
            if mine is None or carried[place][0] is not mine:
                mine = self._mine[number] = self._empty(number)
            self._lies(number, mine)
        return self._holders

    def _lies(self, number: int, handle: Ordered) -> None:
        self.at[number] = handle.address
        self._holders[number] = handle

    def _empty(self, number: int) -> Ordered:
        return self._device.empty(self._parts.own[number - self._first])


def _row_bytes(handle: Handle) -> int:
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
    device: KernelDevice, loop: Loop, chunks: Sequence[_Chunk], given: Sequence[Ordered],
    rows: _Rows,
) -> list[Handle]:  # fmt: skip
    """Runs chunks with operations of the backend's own in between."""
    count, last = loop.carries, loop.carries + loop.sequences
    carried: list[Handle] = list(given[:count])
    pieces: list[list[Handle]] = []
    for chunk in chunks:
        row = rows.next(chunk.steps)
        slices = [_slice(device, handle, row, chunk.steps) for handle in given[count:last]]
        outputs = chunk.plan.run([*carried, *slices, *given[last:]], chunk.scalars)
        carried = outputs[:count]
        pieces.append(outputs[count:])
    if loop.reverse:
        pieces.reverse()
    columns = list(zip(*pieces, strict=True))
    concat = CONCAT.op(axis=0)
    with staged_on(device):  # type: ignore[arg-type]
        return [*carried, *[device.execute(concat, column)[0] for column in columns]]


def _slice(device: KernelDevice, handle: Ordered, row: int, count: int) -> Handle:
    shape = (count, *handle.shape[1:])
    strides = strides_of(shape)
    return device.viewed(handle, Aval(shape, handle.dtype), strides, row * math.prod(shape[1:]))
