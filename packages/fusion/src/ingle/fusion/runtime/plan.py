"""Plans that run: kernels in native segments, and the backend's own operations in between."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ingle.tensor.contract import Aval, Handle
from ingle.tensor.dtypes import uint8
from ingle.tensor.errors import OutOfRangeError

from ..fusion import Fusion
from ..schedule.schedule import Schedule
from .device import AsyncPlan, KernelDevice, Ordered, Segment
from .host_ops import HostOps, viewed
from .legality import generated
from .plan_codegen import Run, plan_function
from .plan_data import KernelRun, PlanData


class CompiledPlan:
    """A recipe with its kernels ready to run.

    Attributes:
        recipe: what runs.
        host: computes the scalars of the recipe from those of the recorded graph.
        donors: for values that may lie in an input's memory, by the number that the run knows them
            by, that input's position.
        run: runs it on inputs, which it never writes, and scalars, and returns the outputs.
        parts: its kernels, if it is kernels alone.
    """

    run: Run

    def __init__(
        self, device: KernelDevice, fusion: Fusion, recipe: PlanData, passing: bool = False
    ) -> None:
        self._device = device
        self.recipe = recipe
        self.host = recipe.host.function()
        self.donors = recipe.donors
        self._by_host = HostOps(device, fusion, recipe.steps, generated(device))
        self.parts = parts = recipe.parts()
        self._begun = False
        if parts is None:
            self.run = self._in_steps
        else:
            self.run = self._first_run if passing else plan_function(device, parts)

    @cached_property
    def later(self) -> AsyncPlan | None:
        """Runs it in the background; see `KernelDevice.later`."""
        return None if self.parts is None else self._device.later(self.parts)

    def _first_run(self, given: Sequence[Handle], scalars: Any, *over: Any) -> list[Handle]:
        """Writing a plan out takes as long as some runs of it: what comes once is spared that."""
        if not self._begun and not over:
            self._begun = True
            return self._in_steps(given, scalars)
        assert self.parts is not None
        self.run = plan_function(self._device, self.parts)
        return self.run(given, scalars, *over)

    def _in_steps(self, given: Sequence[Handle], scalars: Any) -> list[Handle]:
        device = self._device
        known = self._memory([device.in_order(h) for h in given])
        # Not the thread's arena: the backend's own operations may run plans, which use that.
        within = device.empty(Aval((self.recipe.arena,), uint8))
        arena = within.address
        for step in self.recipe.steps:
            if isinstance(step, KernelRun):
                segment, roots = step
                keeps = self._lasting(segment, roots, known)
                segment([arena, *[known[r].address for r in roots]], scalars, keeps=keeps)
            else:
                self._by_host.run(step, known, scalars)
        for number, text in self.recipe.checks:
            if device.flag(known[number]):
                raise OutOfRangeError(text)
        return [
            known[n] if view is None else viewed(device, known[n], view)
            for n, view in self.recipe.outputs
        ]

    def _lasting(
        self, segment: Segment, roots: Sequence[int], known: Sequence[Ordered]
    ) -> list[Ordered | None]:
        """The handles that a segment may keep something of: those of inputs and constants."""
        count = self.recipe.inputs + len(self.recipe.constants)
        numbers = [roots[buffer - 1] for buffer in segment.keeps]
        return [known[n] if n < count else None for n in numbers]

    def _memory(self, given: Sequence[Ordered]) -> list[Ordered]:
        """The values that lie outside of the arena: inputs, then what the plan makes."""
        empty = self._device.empty
        return [*given, *self.recipe.constants, *[empty(aval) for aval in self.recipe.own]]

    def profile(
        self, given: Sequence[Ordered], numbers: Sequence[Any], runs: int
    ) -> dict[int, float]:
        """Seconds of each call, by its number in the schedule; the backend's own take the rest."""
        scalars: Any = self.host(*numbers)
        known = self._memory(given)
        within = self._device.empty(Aval((self.recipe.arena,), uint8))
        arena = within.address
        times: dict[int, float] = {}
        place = 0
        for step in self.recipe.steps:
            if isinstance(step, KernelRun):
                segment, roots = step
                buffers = [arena, *[known[r].address for r in roots]]
                keeps = self._lasting(segment, roots, known)
                for seconds in segment.profile(buffers, scalars, runs, keeps):
                    times[place] = seconds
                    place += 1
            else:
                start = time.perf_counter()
                self._by_host.run(step, known, scalars)
                times[place] = time.perf_counter() - start
                place += 1
        return times

    def sources(self) -> list[str]:
        """The code of the kernels."""
        found: dict[str, None] = {}
        for step in self.recipe.steps:
            if isinstance(step, KernelRun):
                found.update(dict.fromkeys(step.segment.sources()))
        return list(found)


class ScheduledPlan(CompiledPlan):
    """A plan that was made in this process.

    Attributes:
        schedule: which kernels compute the graph, and where in memory.
    """

    def __init__(
        self, device: KernelDevice, fusion: Fusion, recipe: PlanData, schedule: Schedule,
        passing: bool,
    ) -> None:  # fmt: skip
        super().__init__(device, fusion, recipe, passing)
        self.schedule = schedule
