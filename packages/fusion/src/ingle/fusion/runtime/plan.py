"""Plans that run: kernels in native executables, and the backend's own operations in between."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from typing import Any

from ingle.tensor.contract import Aval, Handle
from ingle.tensor.dtypes import uint8
from ingle.tensor.errors import OutOfRangeError

from ..schedule.schedule import Schedule
from ..support.refcounts import exclusive
from ..support.run_ahead import setting
from ..support.source_location import Line
from .device import AsyncPlan, KernelDevice, NativeExecutable, Ordered
from .host_ops import HostOps, viewed
from .pending_checks import checks_of
from .plan_codegen import DonationState, Run, flags_known, plan_function, settled
from .plan_data import KernelRun, PlanData


def _checks_at(data: PlanData, checks: Sequence[tuple[int, str]]) -> int:
    """Behind how many steps the flags are read: where all are known, or behind the last step that
    writes over nothing."""
    steps = [(s, s.roots if isinstance(s, KernelRun) else ()) for s in data.steps]
    own = data.inputs + len(data.constants) + len(data.own)
    if any(number >= own for number, _ in checks):
        return len(data.steps) - bool(data.donors)
    return flags_known(steps, checks)


class CompiledPlan:
    """Plan data with its kernels ready to run.

    Args:
        device: which runs them.
        data: what runs.
        host_ops: the operations that have no kernels.
        passing: whether it may well run once.
        lines: of the user's code, which errors name: one for each node of the recorded graph.

    Attributes:
        data: what runs.
        host: computes the scalars of the plan data from those of the recorded graph.
        donors: for values that may lie in an input's memory, by the number that the run knows them
            by, that input's position.
        run: runs it on inputs, which it never writes, and scalars, and returns the outputs.
        parts: its kernels, if it is kernels alone.
    """

    run: Run

    def __init__(
        self, device: KernelDevice, data: PlanData, host_ops: HostOps, passing: bool = False,
        lines: Sequence[Line] = (),
    ) -> None:  # fmt: skip
        self._device = device
        self.data = data
        self.host = data.host.function()
        self.donors = data.donors
        self._by_host = host_ops
        self._checks = [(check.flag, check.located(lines)) for check in data.checks]
        self.linear_plan = linear = data.linear_plan(self._checks)
        self._begun = False
        self._flags_known = _checks_at(data, self._checks) if checks_of(device) is not None else -1
        if linear is None:
            self.run = self._in_steps
        else:
            self.run = self._first_run if passing else plan_function(device, linear)

    @cached_property
    def async_plan(self) -> AsyncPlan | None:
        """Runs it in the background; see `KernelDevice.async_plan`."""
        return None if self.linear_plan is None else self._device.async_plan(self.linear_plan)

    def run_donating(
        self, given: Sequence[Handle], scalars: Any, donatable: Sequence[bool],
        donation: DonationState,
    ) -> list[Handle]:  # fmt: skip
        """Runs it, in the background where it shall, and writes over inputs that may be."""
        if setting.plans and self.async_plan is not None:
            outputs = self.async_plan(given, scalars, donatable, donation)
            if outputs is not None:
                return outputs
        if self.donors:
            return self.run(given, scalars, donatable, donation)
        return self.run(given, scalars)

    def _first_run(self, given: Sequence[Handle], scalars: Any, *donated: Any) -> list[Handle]:
        """A first run in steps: the plan's function takes as long to generate as some runs take."""
        if not self._begun:
            self._begun = True
            return self._in_steps(given, scalars, *donated)
        assert self.linear_plan is not None
        self.run = plan_function(self._device, self.linear_plan)
        return self.run(given, scalars, *donated)

    def _in_steps(
        self, given: Sequence[Handle], scalars: Any, donatable: Sequence[bool] = (),
        donation: DonationState | None = None,
    ) -> list[Handle]:  # fmt: skip
        device, data = self._device, self.data
        known = self._memory([device.in_order(h) for h in given], data.donors)
        # Not the thread's arena: the backend's own operations may run plans, which use that.
        within = device.empty(Aval((data.arena,), uint8))
        first, last = data.steps, None
        if data.donors:
            *first, last = data.steps
        line = checks_of(device)
        failures, before = (0, None) if line is None else (line.failures, line.last)
        for place, step in enumerate(first, 1):
            if isinstance(step, KernelRun):
                self._launched(step, known, within.address, scalars)
            else:
                self._by_host.run(step, known, scalars)
            if place == self._flags_known and line is not None:
                line.begin([known[n] for n, _ in self._checks], [t for _, t in self._checks], ())
        if line is None:
            for number, text in self._checks:
                if device.flag(known[number]):
                    raise OutOfRangeError(text)
        elif line.last not in (None, before):
            # What was made before the checks began, these or those of a loop, depends on them, too.
            for handle in known[data.inputs + len(data.constants) :]:
                if handle is not None:
                    handle.check = line.last  # type: ignore[attr-defined]
        givers: set[int] = set()
        if last is not None:
            assert isinstance(last, KernelRun)
            givers = self._land(known, () if last.executable.long else donatable)
        out = [
            known[n] if view is None else viewed(device, known[n], view) for n, view in data.outputs
        ]
        if last is not None:  # which may write over inputs: everything else is done before
            if line is not None:
                settled(last.executable, line, failures, donation)
            if donation is not None:
                donation.outputs = out
            self._launched(last, known, within.address, scalars, donation, givers)
        return out

    def _land(self, known: list[Ordered], donatable: Sequence[bool]) -> set[int]:
        """Finds memory for the values that may lie in an input's, and returns these inputs.

        What the backend's own operations gave may be inputs or views of them, which only now shows.
        """
        data = self.data
        made = known[data.inputs + len(data.constants) + len(data.own) :]
        givers = set()
        for number, giver in data.donors.items():
            handle = known[giver]
            mine = donatable and donatable[giver] and exclusive(handle)
            if mine and not any(handle is other for other in made):
                handle.prepacked = None
                known[number] = handle
                givers.add(giver)
            else:
                aval = data.own[number - data.inputs - len(data.constants)]
                known[number] = self._device.empty(aval)
        return givers

    def _launched(
        self, step: KernelRun, known: Sequence[Ordered], arena: int, scalars: Any,
        donation: DonationState | None = None, givers: Container[int] = (),
    ) -> None:  # fmt: skip
        """Runs kernels; of what is written over nothing is kept."""
        executable, roots = step
        prepacks = self._lasting(executable, roots, known, givers)
        places = [arena, *[known[r].address for r in roots]]
        if donation is None:
            executable(places, scalars, prepacks=prepacks)
        else:
            executable(places, scalars, donation, prepacks=prepacks)

    def _lasting(
        self, executable: NativeExecutable, roots: Sequence[int], known: Sequence[Ordered],
        givers: Container[int] = (),
    ) -> list[Ordered | None]:  # fmt: skip
        """The handles that an executable may keep something of: those of inputs and constants."""
        count = self.data.inputs + len(self.data.constants)
        numbers = [roots[buffer - 1] for buffer in executable.prepacks]
        return [known[n] if n < count and n not in givers else None for n in numbers]

    def _memory(self, given: Sequence[Ordered], later: Container[int] = ()) -> list[Ordered]:
        """The values that lie outside of the arena: inputs, then what the plan makes, where those
        whose memory is found later stand for nothing."""
        empty = self._device.empty
        known: list[Any] = [*given, *self.data.constants]
        for number, aval in enumerate(self.data.own, len(known)):
            known.append(None if number in later else empty(aval))
        return known

    def profile(
        self, given: Sequence[Ordered], numbers: Sequence[Any], runs: int
    ) -> dict[int, float]:
        """Seconds of each call, by its number in the schedule; the backend's own take the rest."""
        scalars: Any = self.host(*numbers)
        known = self._memory(given)
        within = self._device.empty(Aval((self.data.arena,), uint8))
        arena = within.address
        runners = [s.executable for s in self.data.steps if isinstance(s, KernelRun)]
        whole = all(runner.profiles_whole for runner in runners)
        # A step writes over what it has read: the steps before it must run again, too.
        rounds, each = (runs, 1) if whole else (1, runs)
        times: dict[int, float] = {}
        for _ in range(rounds):
            for place, seconds in enumerate(self._profiled(known, arena, scalars, each)):
                times[place] = min(seconds, times.get(place, seconds))
        return times

    def _profiled(
        self, known: list[Ordered], arena: int, scalars: Any, runs: int
    ) -> Iterator[float]:
        """Seconds of each call, the mean of some runs of it; it leaves what a run leaves."""
        for step in self.data.steps:
            if isinstance(step, KernelRun):
                executable, roots = step
                buffers = [arena, *[known[r].address for r in roots]]
                prepacks = self._lasting(executable, roots, known)
                yield from executable.profile(buffers, scalars, runs, prepacks)
            else:
                start = time.perf_counter()
                self._by_host.run(step, known, scalars)
                yield time.perf_counter() - start

    def sources(self) -> list[str]:
        """The code of the kernels."""
        found: dict[str, None] = {}
        for step in self.data.steps:
            if isinstance(step, KernelRun):
                found.update(dict.fromkeys(step.executable.sources()))
        return list(found)


class ScheduledPlan(CompiledPlan):
    """A plan that was made in this process, of which more is known."""

    def __init__(
        self, device: KernelDevice, data: PlanData, host_ops: HostOps, schedule: Schedule,
        passing: bool, lines: Sequence[Line],
    ) -> None:  # fmt: skip
        super().__init__(device, data, host_ops, passing, lines)
        self._schedule: Schedule | None = schedule

    @property
    def schedule(self) -> Schedule:
        """Which kernels compute the graph, and where in memory."""
        assert self._schedule is not None, "nobody explains it"
        return self._schedule

    @property
    def is_explained(self) -> bool:
        """Whether the schedule is still there."""
        return self._schedule is not None

    def forget_schedule(self) -> None:
        """Nobody will ask for it: it is as many objects as all else of a plan, which the collector
        goes through."""
        self._schedule = None
