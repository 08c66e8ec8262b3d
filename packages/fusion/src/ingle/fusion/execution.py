"""Plans that run: kernels in native segments, and the backend's own operations in between."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ingle.tensor.contract import Aval, Handle
from ingle.tensor.dtypes import uint8
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Op

from .ahead import setting
from .donation import donors
from .fusion import Fusion
from .graph import Graph
from .host_steps import HostSteps, viewed
from .kernel_device import Argument, KernelDevice, Later, Launch, Ordered, Segment
from .own_kernels import registrations
from .passes.expand import Expanded
from .passes.kinds import generates, is_product
from .passes.rounding import is_exact
from .passes.rows import with_split_rows
from .passes.simplify import simplify
from .passes.tiling import with_tiles
from .passes.views import View
from .planning import Scheduler
from .schedule import Call, HostStep, Outline, arguments_of, laid_out, whole
from .straight import Landing, Parts, Run, straight
from .symbolic.families import families_of
from .symbolic.outlines import Outlined


def generated(device: KernelDevice) -> Callable[[Op, Sequence[Aval]], bool]:
    """Whether kernels are generated for an operation on this device."""
    known = generates(device.contracts)
    return lambda op, avals: not device.owns(op, avals) and known(op, avals)


def written_out(device: KernelDevice) -> Callable[[Op, Sequence[Aval]], bool]:
    """Whether a matrix product becomes a nest of products and a sum on this device."""

    def asked(op: Op, avals: Sequence[Aval]) -> bool:
        return device.spreads_products and is_product(op) and not device.contracts(avals)

    return asked


class KernelExecutable:
    """A graph as plans of kernels, made at its first run and anew where a guard fails.

    Args:
        device: which runs it.
        fusion: the decorator over it, for bodies of composites.
        graph: what was recorded.
    """

    def __init__(self, device: Any, fusion: Fusion, graph: Graph) -> None:
        self._device = device
        self._fusion = fusion
        self._graph = graph
        self._plans: list[Plan] = []

    def __call__(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        for plan in self._plans:
            scalars = plan.host(*numbers)
            if scalars is not None:
                return plan.run(given, scalars)
        plan = self.plan(numbers)
        return plan.run(given, plan.host(*numbers))

    def over(
        self,
        given: Sequence[Handle],
        numbers: Sequence[Any],
        free: Sequence[bool],
        landing: Landing,
    ) -> list[Handle]:
        """Runs it, and writes outputs over inputs where it can; in the background where it shall.

        Args:
            given, numbers: as in a call.
            free: for each input whether it may be written over. Where it was, the output is the
                same handle.
            landing: what holds if this raises.
        """
        for plan in self._plans:
            scalars = plan.host(*numbers)
            if scalars is not None:
                if setting.plans and plan.later is not None:
                    outputs = plan.later(given, scalars, free, landing)
                    if outputs is not None:
                        return outputs
                if plan.donors:
                    return plan.run(given, scalars, free, landing)
                return plan.run(given, scalars)
        self.plan(numbers)
        return self.over(given, numbers, free, landing)

    def report(self) -> None:
        """Raises what went wrong in earlier runs in the background."""
        self._device.report()

    @property
    def donors(self) -> frozenset[int]:
        """Which inputs some plan can write over."""
        return frozenset([n for plan in self._plans for n in plan.donors.values()])

    def ordered(self, given: Sequence[Handle]) -> list[Ordered]:
        """Inputs as kernels read them."""
        in_order = self._device.in_order
        return [in_order(h) for h in given]

    def plan(self, numbers: Sequence[Any]) -> Plan:
        """The plan that serves these numbers, made if there is none."""
        for plan in self._plans:
            if plan.host(*numbers) is not None:
                return plan
        made = Plan(self._device, self._fusion, self._graph, numbers)
        self._plans.insert(0, made)
        if "fusion" in os.environ.get("INGLE_LOG", ""):
            sys.stderr.write(f"ingle.fusion: {made.schedule}\n")
        return made


class Plan:
    """A schedule with its kernels compiled.

    Attributes:
        host: computes the scalars of the schedule's graph from those of the recorded one.
        schedule: what runs.
        donors: for values that may lie in an input's memory, by the number that the run knows them
            by, that input's position.
        run: runs it on inputs, which it never writes, and scalars, and returns the outputs.
    """

    run: Run

    def __init__(
        self, device: KernelDevice, fusion: Fusion, graph: Graph, examples: Sequence[Any]
    ) -> None:
        self._device = device
        known = generated(device)
        expanded = Expanded(
            graph, examples, fusion, known, device.supports, written_out(device), device.owns
        )
        self.host = expanded.host
        self._generated = known
        self._texts = expanded.checks
        self._constants = [device.in_order(h) for h in expanded.constants]
        pairs = graph.donors if device.writes_over else ()
        outlined = self._outlined(expanded.graph, pairs)
        if outlined.sources is not None:
            self.host = outlined.host(expanded.host)
        self.schedule = laid_out(outlined.outline)
        flags = self.schedule.graph.outputs[len(graph.outputs) :]
        found = donors(self.schedule, pairs, flags)
        if found.taken and found.start:
            (calls,) = self.schedule.steps
            assert isinstance(calls, list)
            self.schedule.steps = [calls[: found.start], calls[found.start :]]
        self._build()
        self.donors = {self._numbers[value]: given for value, given in found.taken.items()}
        self._parts = parts = self._straight()
        self.run = self._in_steps if parts is None else straight(device, parts)

    def _outlined(self, graph: Graph, pairs: tuple[tuple[int, int], ...]) -> Outlined:
        """Which kernels compute the graph, in which order."""

        def planned(graph: Graph) -> Outline:
            work = with_split_rows(with_tiles(simplify(graph)))
            return Scheduler(work, self._generated, pairs).outline()

        surroundings = pairs, is_exact(), registrations()
        return families_of(self._device).outlined(graph, surroundings, planned)

    @cached_property
    def later(self) -> Later | None:
        """Runs it in the background; see `KernelDevice.later`."""
        return None if self._parts is None else self._device.later(self._parts)

    def _build(self) -> None:
        schedule = self.schedule
        graph = schedule.graph
        dtypes = [graph.values[s].aval.dtype.name for s in graph.scalars]
        place = {s: i for i, s in enumerate(graph.scalars)}
        self._steps: list[tuple[Segment, list[int]] | HostStep] = []
        self._numbers = {n: i for i, n in enumerate((*graph.inputs, *schedule.own))}
        for step in schedule.steps:
            if isinstance(step, HostStep):
                self._steps.append(step)
                for value in graph.nodes[step.position].results:
                    self._numbers[value] = len(self._numbers)
                continue
            roots: dict[int, int] = {}
            launches = [self._launch(call, roots, place) for call in step]
            segment = self._device.segment(launches, 1 + len(roots), dtypes)
            self._steps.append((segment, [self._numbers[r] for r in roots]))
        outputs = [self._output(o) for o in graph.outputs]
        count = len(outputs) - len(self._texts)
        self._outputs = outputs[:count]
        self._checks = [
            (number, text) for (number, _), text in zip(outputs[count:], self._texts, strict=True)
        ]
        self._own = [graph.values[v].aval for v in schedule.own]
        self._by_host = HostSteps(self._device, schedule, self._numbers, self._generated)

    def _straight(self) -> Parts | None:
        """What there is to run in a plan without steps of the backend's own."""
        segments = [s for s in self._steps if not isinstance(s, HostStep)]
        if len(segments) < len(self._steps):
            return None
        return Parts(
            inputs=len(self.schedule.graph.inputs) - len(self._constants),
            constants=self._constants, own=self._own, arena=self.schedule.arena, segments=segments,
            checks=self._checks, outputs=self._outputs, donors=self.donors,
        )  # fmt: skip

    def _launch(self, call: Call, roots: dict[int, int], place: dict[int, int]) -> Launch:
        pointers = []
        for argument in arguments_of(call):
            size = self.schedule.graph.values[argument.root].aval.dtype.itemsize
            offset = argument.offset * size
            inside = self.schedule.offsets.get(argument.root)
            if inside is not None:
                pointers.append(Argument(0, inside + offset))
            else:
                buffer = roots.setdefault(argument.root, len(roots) + 1)
                pointers.append(Argument(buffer, offset))
        nodes = self.schedule.graph.nodes
        names = " ".join([nodes[p].op.operation.name for p in call.nodes])
        return Launch(call, tuple(pointers), tuple([place[s] for s in call.scalars]), names)

    def _output(self, value: int) -> tuple[int, View | None]:
        """The number of an output's root, and the view of it if it is not the same memory."""
        view = self.schedule.views.of(value)
        shape = self.schedule.graph.values[view.root].aval.shape
        return self._numbers[view.root], None if whole(view, shape) else view

    def _in_steps(self, given: Sequence[Handle], scalars: Any) -> list[Handle]:
        device = self._device
        known = self._memory([device.in_order(h) for h in given])
        # Not the thread's arena: the backend's own operations may run plans, which use that.
        within = device.empty(Aval((self.schedule.arena,), uint8))
        arena = within.address
        for step in self._steps:
            if type(step) is tuple:
                segment, roots = step
                keeps = self._lasting(segment, roots, known)
                segment([arena, *[known[r].address for r in roots]], scalars, keeps=keeps)
            else:
                self._by_host.run(step, known, scalars)  # type: ignore[arg-type]
        for number, text in self._checks:
            if device.flag(known[number]):
                raise OutOfRangeError(text)
        return [
            known[n] if view is None else viewed(device, known[n], view)
            for n, view in self._outputs
        ]

    def _lasting(
        self, segment: Segment, roots: Sequence[int], known: Sequence[Ordered]
    ) -> list[Ordered | None]:
        """The handles that a segment may keep something of: those of inputs."""
        count = len(self.schedule.graph.inputs)
        numbers = [roots[buffer - 1] for buffer in segment.keeps]
        return [known[n] if n < count else None for n in numbers]

    def _memory(self, given: Sequence[Ordered]) -> list[Ordered]:
        """The values that lie outside of the arena: inputs, then what the plan makes."""
        empty = self._device.empty
        return [*given, *self._constants, *[empty(aval) for aval in self._own]]

    def profile(
        self, given: Sequence[Ordered], numbers: Sequence[Any], runs: int
    ) -> dict[int, float]:
        """Seconds of each call, by its number in the schedule; the backend's own take the rest."""
        scalars: Any = self.host(*numbers)
        known = self._memory(given)
        within = self._device.empty(Aval((self.schedule.arena,), uint8))
        arena = within.address
        times: dict[int, float] = {}
        place = 0
        for step in self._steps:
            if isinstance(step, HostStep):
                start = time.perf_counter()
                self._by_host.run(step, known, scalars)
                times[place] = time.perf_counter() - start
                place += 1
            else:
                segment, roots = step
                buffers = [arena, *[known[r].address for r in roots]]
                keeps = self._lasting(segment, roots, known)
                for seconds in segment.profile(buffers, scalars, runs, keeps):
                    times[place] = seconds
                    place += 1
        return times

    def sources(self) -> list[str]:
        """The code of the kernels."""
        found: dict[str, None] = {}
        for step in self._steps:
            if not isinstance(step, HostStep):
                found.update(dict.fromkeys(step[0].sources()))
        return list(found)
