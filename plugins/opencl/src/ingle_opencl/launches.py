"""Kernels of a plan in the device's queue, one after the other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ingle.fusion.device import Launch
from ingle.fusion.device.executables import bits_of_number, compiled
from ingle.fusion.device.kernels import ContractionCall, NestCall, epilogue_of, layout, units

from .matmul import NAME as PRODUCT
from .matmul import (
    PACK,
    pack_source,
    pack_table,
    problem_of,
    product_source,
    product_table,
    tile_for,
)

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
    """

    kernel: Any
    pointers: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, int], ...]
    given: np.ndarray
    items: tuple[int, ...]
    source: Any
    group: tuple[int, ...] | None = None


class Enqueued:
    """Kernels that are put into the queue one after the other."""

    prepacks: tuple[int, ...] = ()
    renewed = False
    long = False

    def __init__(
        self, backend: OpenCLBackend, launches: Sequence[Launch], scalars: Sequence[str]
    ) -> None:
        self._backend = backend
        self._dtypes = list(scalars)
        table: list[int] = []
        self._scratch = 0
        self._steps = [step for launch in launches for step in self._steps_of(launch, table)]
        self._table = backend.table(table)
        self._read = sorted({number for step in self._steps for _, number in step.scalars})

    def _steps_of(self, launch: Launch, table: list[int]) -> list[Step]:
        if isinstance(launch.call, NestCall):
            return [self._nest(launch, launch.call, table)]
        return self._product(launch, launch.call, table)

    def _nest(self, launch: Launch, call: NestCall, table: list[int]) -> Step:
        nest, sizes = call.nest, call.sizes
        start = len(table)
        table += [*sizes, *[s for strides in call.strides for s in strides]]
        assert len(table) - start == layout(nest).scalar(0)
        work = self._backend.work_of(nest, sizes)
        operands, count = len(nest.operands), len(nest.scalars)
        given = np.zeros(operands + count + 4, np.int64)
        fixed = len(launch.scalars)
        given[operands + fixed : operands + count] = call.fixed
        given[operands + count :] = (start, 0, units(nest, sizes), work.grain)
        return Step(
            compiled(self._backend, launch, nest),
            tuple([(p.buffer, p.offset) for p in launch.pointers]),
            tuple([(operands + n, s) for n, s in enumerate(launch.scalars)]),
            given, (work.items,), nest, work.group,
        )  # fmt: skip

    def _product(self, launch: Launch, call: ContractionCall, table: list[int]) -> list[Step]:
        """Packs A and B into scratch memory, and multiplies."""
        tile = tile_for(call.dtype, self._backend.limits.register)
        problem = problem_of(call, tile)
        if not problem.products or not problem.m or not problem.n:
            return []
        self._scratch = max(self._scratch, problem.a_bytes + problem.b_bytes, 1)
        panels = ((SCRATCH, 0), (SCRATCH, problem.a_bytes))
        *a_batch, a_row, a_along = call.a.strides
        *b_batch, b_along, b_column = call.b.strides
        steps = []
        for number, (count, width, repeats, strides) in enumerate((
            (problem.m, tile.rows, problem.a_repeats, (*a_batch, a_row, a_along)),
            (problem.n, tile.columns, problem.b_repeats, (*b_batch, b_column, b_along)),
        )):  # fmt: skip
            start = len(table)
            slices, length = self._backend.slices_of(problem.k)
            table += pack_table(call.batch, count, problem.k, length, strides)
            source = pack_source(call.dtype, width)
            place = launch.pointers[number]
            items = (-(-count // width), slices, 1 if repeats else problem.products)
            steps.append(Step(
                compiled(self._backend, launch, source, PACK),
                ((place.buffer, place.offset), panels[number]),
                (), np.array([0, 0, start], np.int64), items, source,
            ))  # fmt: skip
        start = len(table)
        table += product_table(problem, call)
        source = product_source(call.dtype, tile, epilogue_of(call), len(call.batch) + 1)
        operands, count = len(launch.pointers), len(launch.scalars)
        steps.append(Step(
            compiled(self._backend, launch, source, PRODUCT),
            (*panels, *[(p.buffer, p.offset) for p in launch.pointers[2:]]),
            tuple([(operands + n, s) for n, s in enumerate(launch.scalars)]),
            np.array([*[0] * (operands + count), start], np.int64),
            (problem.a_panels, problem.b_panels, problem.products), source,
        ))  # fmt: skip
        return steps

    def __call__(
        self, addresses: Sequence[int], scalars: Sequence[Any], donation: Any = None, *,
        prepacks: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        """Puts them into the queue, for buffers at these addresses."""
        numbers = self._numbers(scalars)
        # In a queue in order whoever gets this memory next writes it after these kernels.
        scratch = self._backend.allocate(self._scratch) if self._scratch else None
        buffers = (*addresses, 0 if scratch is None else scratch.address)
        for step in self._steps:
            self._enqueue(step, buffers, numbers)

    def _numbers(self, scalars: Sequence[Any]) -> dict[int, int]:
        return {n: bits_of_number(scalars[n], self._dtypes[n]) for n in self._read}

    def _enqueue(self, step: Step, addresses: Sequence[int], numbers: Mapping[int, int]) -> None:
        given = step.given.copy()
        for place, number in step.scalars:
            given[place] = numbers[number]
        pointers = [addresses[buffer] + offset for buffer, offset in step.pointers]
        self._backend.enqueue(step.kernel, pointers, self._table, given, step.items, step.group)

    def profile(
        self, addresses: Sequence[int], scalars: Sequence[Any], runs: int,
        prepacks: Sequence[Any] = (),
    ) -> Sequence[float]:  # fmt: skip
        """Seconds of each launch, the mean of some runs."""
        numbers = self._numbers(scalars)
        scratch = self._backend.allocate(max(self._scratch, 1))
        addresses = (*addresses, scratch.address)
        seconds = []
        for step in self._steps:
            self._backend.synchronize()
            start = time.perf_counter()
            for _ in range(runs):
                self._enqueue(step, addresses, numbers)
            self._backend.synchronize()
            seconds.append((time.perf_counter() - start) / runs)
        return seconds

    def sources(self) -> Sequence[str]:
        """The kernels' source code."""
        return [
            step.source if isinstance(step.source, str) else self._backend.source(step.source)
            for step in self._steps
        ]
