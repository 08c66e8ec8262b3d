"""Steps of an executable: launches with compiled kernels, all but addresses and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ingle.fusion.device import Launch
from ingle.fusion.device.executables import TouchedBytes, compiled, neighbours, spans_of
from ingle.fusion.device.kernels import (
    ContractionCall,
    Nest,
    NestCall,
    epilogue_of,
    layout,
    units,
)
from ingle.fusion.device.opencl import Work

from .many import MANY, at_once, many_source
from .matmul import NAME as PRODUCT
from .matmul import (
    PACK,
    Problem,
    Tile,
    pack_source,
    pack_table,
    problem_of,
    product_source,
    product_table,
)
from .shared_tiles import shared_items, shared_source, shared_table
from .window_pack import window_pack_source, window_table

if TYPE_CHECKING:
    from .backend import OpenCLBackend

SCRATCH = -1
"""The number of the buffer behind those of the plan."""


class Step(NamedTuple):
    """A launch with all but addresses and numbers.

    Attributes:
        kernel: compiled.
        pointers: (buffer, offset in bytes) for each operand.
        scalars: (place among the kernel's scalars, number of the plan's scalar) for each.
        given: int64 behind the buffers, with zeros where addresses and scalars go.
        items: how many work items there are along each axis of the range.
        source: of the kernel, for people.
        group: work items of a group, where the kernel depends on it.
        first: the first work item along the last axis.
    """

    kernel: Any
    pointers: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, int], ...]
    given: np.ndarray
    items: tuple[int, ...]
    source: Any
    group: tuple[int, ...] | None = None
    first: int = 0


class Many(NamedTuple):
    """Launches of one kernel on several operands, as one launch.

    Attributes:
        steps: what it is in the place of.
        together: all of them.
        spans: what each of the steps touches of its operands.
    """

    steps: tuple[Step, ...]
    together: Step
    spans: tuple[tuple[TouchedBytes, ...], ...]


class StepBuilder:
    """Makes the steps of launches, in order.

    Args:
        backend: compiles kernels.
        tile: of all products; if not given, what the device's measurements say.

    Attributes:
        table: numbers that the steps' kernels read.
        scratch: bytes of scratch memory that the steps share.
    """

    def __init__(self, backend: OpenCLBackend, tile: Tile | None = None) -> None:
        self._backend = backend
        self._tile = tile
        self.table: list[int] = []
        self.scratch = 0

    def steps_of(self, launch: Launch) -> list[Step]:
        """The steps of a launch; none if it computes nothing."""
        if isinstance(launch.call, NestCall):
            return self._scatter(launch, launch.call) or [self._nest(launch, launch.call)]
        assert isinstance(launch.call, ContractionCall), "it launches no offers"
        return self._product(launch, launch.call)

    def _nest(self, launch: Launch, call: NestCall) -> Step:
        nest, sizes, numbers = call.nest, call.sizes, _numbers(call)
        assert len(numbers) == layout(nest).scalar(0)
        own = self._backend.for_launch(nest, numbers)
        source, work = own or (nest, self._backend.work_of(nest, sizes))
        taken = work.items // work.group[0] if own and work.group else units(nest, sizes)
        pointers = tuple([(p.buffer, p.offset) for p in launch.pointers])
        return self._step(launch, source, pointers, numbers, call, taken, work)

    def _scatter(self, launch: Launch, call: NestCall) -> list[Step]:
        """The kernels of a scatter whose updates are sorted; none where the nest's own does it."""
        steps = []
        pointers = [(p.buffer, p.offset) for p in launch.pointers]
        for one in self._backend.scatter(call.nest, _numbers(call)):
            places = (*pointers[: one.own], *[(SCRATCH, at) for at in one.lists])
            work = Work(one.units * max(one.group, 1), 1, (one.group,) if one.group else None)
            taker = call if one.scalars else None
            steps.append(
                self._step(launch, one.source, places, one.numbers, taker, one.units, work)
            )
            self.scratch = max(self.scratch, one.scratch)
        return steps

    def _step(
        self, launch: Launch, source: Nest | str, pointers: tuple[tuple[int, int], ...],
        numbers: Sequence[int], call: NestCall | None, taken: int, work: Work,
    ) -> Step:  # fmt: skip
        """A kernel that takes numbers from the table, and the scalars of a call, if any."""
        start = len(self.table)
        self.table += numbers
        scalars = () if call is None else launch.scalars
        values = [*[0] * len(scalars), *(() if call is None else call.fixed)]
        given = [*[0] * len(pointers), *values, start, 0, taken, work.grain]
        return Step(
            compiled(self._backend, launch, source), pointers,
            tuple([(len(pointers) + n, s) for n, s in enumerate(scalars)]),
            np.array(given, np.int64), (work.items,), source, work.group,
        )  # fmt: skip

    def with_many(
        self, launches: Sequence[Launch], parts: Sequence[list[Step]]
    ) -> list[Step | Many]:
        """The steps, neighbours of one flat kernel together: an optimizer has one for each of its
        parameters."""
        found: list[Step | Many] = []
        at = 0
        while at < len(launches):
            call = launches[at].call
            most = 1
            if isinstance(call, NestCall):
                most = at_once(call.nest, self._backend.limits.parameters)
            end = neighbours(launches, at, most)
            others = range(at + 1, end)
            end = next((n for n in others if not _same_numbers(launches[at], launches[n])), end)
            if end - at == 1:
                found += parts[at]
            else:
                found.append(self._many(launches[at:end], [*parts[at:end]]))
            at = end
        return found

    def _many(self, launches: Sequence[Launch], parts: Sequence[list[Step]]) -> Many:
        calls = [launch.call for launch in launches if isinstance(launch.call, NestCall)]
        nest, steps = calls[0].nest, tuple([step for (step,) in parts])
        source = many_source(nest, len(steps))
        operands, count = len(nest.operands) * len(steps), len(nest.scalars)
        start = len(self.table)
        last = len(nest.operands) + count
        ends = list(accumulate([int(step.given[last + 2]) for step in steps]))
        self.table += [
            number
            for step, end in zip(steps, ends, strict=True)
            for number in (int(step.given[last]), end)
        ]
        given = np.zeros(operands + count + 1, np.int64)
        given[operands : operands + count] = steps[0].given[len(nest.operands) : last]
        given[-1] = start
        together = Step(
            compiled(self._backend, launches[0], source, MANY),
            tuple([pointer for step in steps for pointer in step.pointers]),
            tuple([(operands + n, s) for n, s in enumerate(launches[0].scalars)]),
            given,
            (ends[-1],),
            source,
        )
        return Many(steps, together, tuple([spans_of(call) for call in calls]))

    def _product(self, launch: Launch, call: ContractionCall) -> list[Step]:
        """Packs A and B into scratch memory, and multiplies; or multiplies as they lie."""
        tile = self._tile or self._backend.tiles.tile_of(call)
        if tile.side:
            return self._shared(launch, call, tile)
        problem = problem_of(call, tile)
        if not problem.products or not problem.m or not problem.n:
            return []
        self.scratch = max(self.scratch, problem.a_bytes + problem.b_bytes, 1)
        steps = [self._pack_a(launch, call, problem)]
        start = len(self.table)
        slices, length = self._backend.slices_of(problem.k)
        if call.windows is None:
            *batch, along, column = call.b.strides
            self.table += pack_table(
                call.batch, problem.n, problem.k, length, (*batch, column, along)
            )
            source = pack_source(call.dtype, tile.columns)
        else:
            self.table += window_table(call, call.windows, length)
            source = window_pack_source(
                call.dtype, tile.columns, len(call.windows.kernel), call.windows.over_places
            )
        place, panels = launch.pointers[1], (SCRATCH, problem.a_bytes)
        pack = Step(
            compiled(self._backend, launch, source, PACK),
            ((place.buffer, place.offset), panels), (), np.array([0, 0, start], np.int64),
            (problem.b_panels, slices, 1), source,
        )  # fmt: skip
        start = len(self.table)
        self.table += product_table(problem, call)
        source = product_source(call.dtype, tile, epilogue_of(call), len(call.batch) + 1)
        operands, count = len(launch.pointers), len(launch.scalars)
        multiply = Step(
            compiled(self._backend, launch, source, PRODUCT),
            ((SCRATCH, 0), panels, *[(p.buffer, p.offset) for p in launch.pointers[2:]]),
            tuple([(operands + n, s) for n, s in enumerate(launch.scalars)]),
            np.array([*[0] * (operands + count), start], np.int64),
            (problem.a_panels, problem.b_panels, 1), source,
        )  # fmt: skip
        for first in range(0, problem.products, problem.at_once):
            some = min(problem.at_once, problem.products - first)
            steps.append(_from(pack, first, 1 if problem.b_repeats else some))
            steps.append(_from(multiply, first, some))
        return steps

    def _shared(self, launch: Launch, call: ContractionCall, tile: Tile) -> list[Step]:
        """Multiplies A and B as they lie."""
        count = math.prod(call.batch)
        if not count or not call.sizes[0] or not call.sizes[1]:
            return []
        start = len(self.table)
        self.table += shared_table(tile, call)
        source = shared_source(call.dtype, tile, epilogue_of(call), len(call.batch) + 1)
        operands = len(launch.pointers)
        given = np.array([*[0] * (operands + len(launch.scalars)), start], np.int64)
        return [
            Step(
                compiled(self._backend, launch, source, PRODUCT),
                tuple([(p.buffer, p.offset) for p in launch.pointers]),
                tuple([(operands + n, s) for n, s in enumerate(launch.scalars)]),
                given, shared_items(tile, call, count), source, (tile.side, tile.side, 1),
            )
        ]  # fmt: skip

    def _pack_a(self, launch: Launch, call: ContractionCall, problem: Problem) -> Step:
        *batch, row, along = call.a.strides
        start = len(self.table)
        slices, length = self._backend.slices_of(problem.k)
        several = call.windows is not None and call.windows.turns > 1
        turn = (call.sizes[2], call.windows.a_turn) if call.windows is not None else None
        self.table += pack_table(
            call.batch, problem.m, problem.k, length, (*batch, row, along), turn
        )
        source = pack_source(call.dtype, problem.tile.rows, several)
        place = launch.pointers[0]
        return Step(
            compiled(self._backend, launch, source, PACK),
            ((place.buffer, place.offset), (SCRATCH, 0)), (), np.array([0, 0, start], np.int64),
            (problem.a_panels, slices, 1 if problem.a_repeats else problem.products), source,
        )  # fmt: skip


def _numbers(call: NestCall) -> list[int]:
    """Sizes and strides, as `layout` says."""
    return [*call.sizes, *[s for strides in call.strides for s in strides]]


def _same_numbers(launch: Launch, other: Launch) -> bool:
    """Whether two launches of one nest take the same numbers."""
    a, b = launch.call, other.call
    assert isinstance(a, NestCall)
    assert isinstance(b, NestCall)
    return launch.scalars == other.scalars and a.fixed == b.fixed


def _from(step: Step, first: int, count: int) -> Step:
    """A step for some of the products of a batch."""
    return step._replace(first=first, items=(*step.items[:-1], count))
