"""Kernels of a plan in the device's queue, one after the other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ingle.fusion.device import Launch
from ingle.fusion.device.executables import apart, bits_of_number

from .matmul import Tile
from .step_builder import Many, Step, StepBuilder

if TYPE_CHECKING:
    from .backend import OpenCLBackend


def enqueued(
    backend: OpenCLBackend, launches: Sequence[Launch], scalars: Sequence[str],
    tile: Tile | None = None,
) -> Enqueued:  # fmt: skip
    """The launches of a plan, whose kernels are compiled.

    Args:
        backend: of the device.
        launches: in order.
        scalars: the dtypes of the plan's scalars.
        tile: of all products; if not given, what the device's measurements say.
    """
    builder = StepBuilder(backend, tile)
    parts = [builder.steps_of(launch) for launch in launches]
    runs: list[Step | Many] = [step for part in parts for step in part]
    if backend.wide:
        runs = builder.with_many(launches, parts)
    table = backend.table(builder.table)
    return Enqueued(backend, parts, runs, scalars, table, builder.scratch)


class Enqueued:
    """Kernels that are put into the queue one after the other; made by `enqueued`.

    Args:
        backend: of the device.
        parts: the steps of each launch.
        runs: the steps as they run, several of them together perhaps.
        scalars: the dtypes of the plan's scalars.
        table: numbers that kernels read.
        scratch: bytes of scratch memory.
    """

    prepacks: tuple[int, ...] = ()
    renewed = False
    profiles_whole = False
    long = False

    def __init__(
        self, backend: OpenCLBackend, parts: Sequence[list[Step]], runs: Sequence[Step | Many],
        scalars: Sequence[str], table: Any, scratch: int,
    ) -> None:  # fmt: skip
        self._backend = backend
        self._dtypes = list(scalars)
        self._parts = parts
        self._steps = [step for part in parts for step in part]
        self._runs = runs
        self._table = table
        self._scratch = scratch
        self._read = sorted({number for step in self._steps for _, number in step.scalars})

    def __call__(
        self, addresses: Sequence[int], scalars: Sequence[Any], donation: Any = None, *,
        prepacks: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        """Puts them into the queue, for buffers at these addresses."""
        numbers = self._numbers(scalars)
        # In a queue in order whoever gets this memory next writes it after these kernels.
        scratch = self._backend.allocate(self._scratch) if self._scratch else None
        buffers = (*addresses, 0 if scratch is None else scratch.address)
        for step in self._runs:
            if not isinstance(step, Many):
                self._enqueue(step, buffers, numbers)
            elif _apart(step, buffers):
                self._enqueue(step.together, buffers, numbers)
            else:
                for one in step.steps:
                    self._enqueue(one, buffers, numbers)

    def _numbers(self, scalars: Sequence[Any]) -> dict[int, int]:
        return {n: bits_of_number(scalars[n], self._dtypes[n]) for n in self._read}

    def _enqueue(self, step: Step, addresses: Sequence[int], numbers: Mapping[int, int]) -> None:
        given = step.given.copy()
        for place, number in step.scalars:
            given[place] = numbers[number]
        pointers = [addresses[buffer] + offset for buffer, offset in step.pointers]
        self._backend.enqueue(
            step.kernel, pointers, self._table, given, step.items, step.group, step.first
        )

    def profile(
        self, addresses: Sequence[int], scalars: Sequence[Any], runs: int,
        prepacks: Sequence[Any] = (),
    ) -> Sequence[float]:  # fmt: skip
        """Seconds of each launch, the mean of some runs."""
        numbers = self._numbers(scalars)
        scratch = self._backend.allocate(max(self._scratch, 1))
        addresses = (*addresses, scratch.address)
        seconds = []
        for part in self._parts:
            self._backend.synchronize()
            start = time.perf_counter()
            for _ in range(runs):
                for step in part:
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


def _apart(many: Many, addresses: Sequence[int]) -> bool:
    """Whether none of the steps writes what another one reads or writes: memory is given to the
    next value as soon as its last reader is in the queue, be it the step before."""
    places = [
        [addresses[buffer] + offset for buffer, offset in step.pointers] for step in many.steps
    ]
    return apart(places, many.spans)
