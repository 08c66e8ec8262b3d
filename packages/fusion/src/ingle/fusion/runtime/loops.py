"""Loops of a plan: a program that is planned once and runs for each slice of its inputs.

A few steps are unrolled into one plan, so that kernels fuse across them. Where that plan is kernels
alone, all its runs are one native call by addresses; see `loop_memory.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.device import call_staged, staged_on
from ingle.tensor.dispatch import execute_body
from ingle.tensor.operation import Loop, Op
from ingle.tensor.ops.creation.filled import FULL
from ingle.tensor.ops.movement.joining import CONCAT

from ..ir.graph import Graph, read_log
from ..ir.views import strides_of
from ..record.tracing import Tracer
from ..support.source_location import Line
from .loop_memory import AddressedPlan, address_layout, loop_memory, loop_places

if TYPE_CHECKING:
    from ..fusion import Fusion
    from .device import KernelDevice, Ordered
    from .plan import CompiledPlan

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
    device: KernelDevice, fusion: Fusion, op: Op, inputs: Sequence[Aval | Scalar],
    line: Line | None = None,
) -> LoopPlan:  # fmt: skip
    """The plan of an operation that is a loop.

    Args:
        device: which runs it.
        fusion: the decorator over it.
        op: the operation, with at least one step.
        inputs: its inputs, or numbers that are the same in all runs.
        line: of the user's code that asked for it, if it is known.
    """
    assert op.operation.loop is not None
    loop = op.operation.loop(op)
    steps = _steps_at_once(loop)
    turns, rest = divmod(loop.length, steps)
    chunks = [(_planned_chunk(device, fusion, loop, inputs, steps, line), turns)]
    if rest:
        chunks.append((_planned_chunk(device, fusion, loop, inputs, rest, line), 1))
    tensors = [i for i, x in enumerate(inputs) if not isinstance(x, Scalar)]
    return LoopPlan(device, loop, tensors, chunks)


def loop_by_pieces(
    device: KernelDevice, fusion: Fusion, op: Op, inputs: Sequence[Aval], known: dict[Any, Chunk]
) -> LoopPlan:  # fmt: skip
    """The plan of a loop that consists of plans of some steps and of one step, which serve loops of
    any length.

    Args:
        device: which runs it.
        fusion: the decorator over it.
        op: the operation, with at least one step.
        inputs: its inputs.
        known: plans of earlier loops; those that are made here are added.
    """
    assert op.operation.loop is not None
    loop = op.operation.loop(op)
    some = max(1, UNROLLED // max(1, loop.size))
    turns, rest = divmod(loop.length, some)
    chunks = []
    for steps, often in ((some, turns), (1, rest)):
        if often:
            key = loop.of_length(steps), *_sliced(loop, inputs, steps)
            if key not in known:
                known[key] = _planned_chunk(device, fusion, loop, inputs, steps, None)
            chunks.append((known[key], often))
    return LoopPlan(device, loop, range(len(inputs)), chunks)


def has_pieces(op: Op) -> bool:
    """Whether an operation is a loop of more steps than such a plan of some."""
    if op.operation.loop is None:
        return False
    loop = op.operation.loop(op)
    return loop.length * loop.size > UNROLLED


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
        chunks: Sequence[tuple[Chunk, int]],
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
        if all(chunk.addressed is not None for chunk, _ in self._chunks):
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
    """The slices of a loop's sequences, in the order of its steps."""

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


class Chunk(NamedTuple):
    """Some steps of a loop as a plan.

    Attributes:
        steps: how many.
        outputs: what is known of its outputs.
        plan: what runs them.
        scalars: the plan's.
        addressed: how it runs by addresses; None if it runs by handles.
    """

    steps: int
    outputs: Sequence[Aval]
    plan: CompiledPlan
    scalars: Any
    addressed: AddressedPlan | None


def _planned_chunk(
    device: KernelDevice, fusion: Fusion, loop: Loop, inputs: Sequence[Aval | Scalar], steps: int,
    line: Line | None,
) -> Chunk:  # fmt: skip
    """The plan of some steps."""
    graph = _graph(fusion, loop, inputs, steps)
    graph.lines = () if line is None else [line] * len(graph.nodes)
    graph.donors = tuple(((i,), (i,)) for i in range(loop.carries))
    outputs = [graph.values[o].aval for o in graph.outputs]
    plan = device.prepare(graph).serving(())
    scalars: Any = plan.host()
    linear = plan.linear_plan
    places = None if linear is None else loop_places(linear, loop)
    addressed: AddressedPlan | None = None
    if linear is not None and places is not None:
        given = [graph.values[n].aval for n in graph.inputs]
        layout = address_layout(linear, places, loop, given, outputs)
        addressed = AddressedPlan(linear, scalars, places, layout)
    return Chunk(steps, outputs, plan, scalars, addressed)


def _graph(fusion: Fusion, loop: Loop, inputs: Sequence[Aval | Scalar], steps: int) -> Graph:
    """The operations of some steps."""
    tracer = Tracer(fusion)
    given: list[Handle | Scalar] = [
        x if isinstance(x, Scalar) else tracer.input(x) for x in _sliced(loop, inputs, steps)
    ]
    with tracer.active(), staged_on(fusion):
        results = execute_body(loop.of_length(steps), given, fusion.device)
    graph = read_log(tracer.written, [h.number for h in results])  # type: ignore[attr-defined]
    for handle in tracer.living():
        handle.pending_in = None
    return graph


def _sliced(
    loop: Loop, inputs: Sequence[Aval | Scalar], steps: int
) -> list[Aval | Scalar]:  # fmt: skip
    """The inputs of some steps."""
    found = list(inputs)
    for place in range(loop.carries, loop.carries + loop.sequences):
        x = found[place]
        if not isinstance(x, Scalar):
            found[place] = Aval((steps, *x.shape[1:]), x.dtype)
    return found


def _run_by_address(
    device: KernelDevice, loop: Loop, chunks: Sequence[tuple[Chunk, int]],
    given: Sequence[Ordered], rows: _Rows,
) -> list[Handle]:  # fmt: skip
    """Runs chunks whose plans are kernels alone."""
    carried: list[tuple[Ordered, int]] = [(handle, 0) for handle in given[: loop.carries]]
    made = [device.empty(aval) for aval in _stacked_avals(chunks[0][0], loop)]
    for chunk, turns in chunks:
        assert chunk.addressed is not None
        memory = loop_memory(device, chunk.addressed, given, made)
        for begun in range(0, turns, MOST_TURNS):
            some = min(MOST_TURNS, turns - begun)
            carried = memory.run(some, rows.next(chunk.steps, some), carried)
    avals = [Aval(handle.shape, handle.dtype) for handle in given[: loop.carries]]
    return [
        *[_shown(device, h, o, aval) for (h, o), aval in zip(carried, avals, strict=True)],
        *made,
    ]


def _stacked_avals(chunk: Chunk, loop: Loop) -> list[Aval]:
    """What the loop stacks: as many rows as it has steps."""
    avals = chunk.outputs[loop.carries :]
    return [Aval((loop.length, *a.shape[1:]), a.dtype) for a in avals]


def _shown(device: KernelDevice, handle: Ordered, offset: int, aval: Aval) -> Handle:
    """A carry behind the last step."""
    if offset == 0 and handle.shape == aval.shape:
        return handle
    start = offset // aval.dtype.itemsize
    return device.in_order(device.viewed(handle, aval, strides_of(aval.shape), start))


def _run_by_handle(
    device: KernelDevice, loop: Loop, chunks: Sequence[tuple[Chunk, int]],
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
