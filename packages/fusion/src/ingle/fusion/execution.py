"""Plans that run: kernels in native segments, and the backend's own operations in between."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any
from weakref import finalize

from ingle.tensor.contract import Aval, Handle
from ingle.tensor.dtypes import uint8
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.locks import renewed
from ingle.tensor.operation import Op

from .ahead import setting
from .donation import donors
from .fusion import Fusion
from .graph import Graph
from .host_steps import HostSteps, viewed
from .kernel.code import HALVES
from .kernel_device import KernelDevice, Later, Ordered, Segment
from .layouts import Layout, as_in_memory, layout_of, read_by_products
from .layouts import laid_out as laid_out_inputs
from .own_kernels import registrations
from .pace import Slices, Watch
from .passes.expand import Expanded
from .passes.kinds import generates, is_product
from .passes.rows import with_split_rows
from .passes.simplify import simplify
from .passes.tiling import with_tiles
from .plan_records import kept_plans
from .planning import Scheduler
from .plans import Replay
from .recipes import Kernels, Recipe, recipe_of
from .schedule import Outline, Schedule, laid_out
from .straight import Landing, Run, straight
from .symbolic.families import families_of
from .wishes import is_exact, is_logged, is_sliced


def generated(device: KernelDevice) -> Callable[[Op, Sequence[Aval]], bool]:
    """Whether kernels are generated for an operation on this device."""
    known = generates(device.contracts)
    return lambda op, avals: not device.owns(op, avals) and known(op, avals)


def written_out(device: KernelDevice) -> Callable[[Op, Sequence[Aval]], bool]:
    """Whether a matrix product becomes a nest of products and a sum on this device."""

    def asked(op: Op, avals: Sequence[Aval]) -> bool:
        return device.spreads_products and is_product(op) and not device.contracts(avals)

    return asked


SLICED = 32
"""Operations from which on a plan is made in slices."""
SLICE, LEAST_SLICE, LATER = 5, 1000, 2
"""Steps of passes in a slice: so many for each operation, which take less than a run without a
plan, but not too few; and as many again for so many slices before it, so that there is an end."""


class KernelExecutable:
    """A graph as plans of kernels, made at its first run and anew where a guard fails.

    Args:
        device: which runs it.
        fusion: the decorator over it, for bodies of composites.
        graph: what was recorded.
        passing: whether the graph may well come once, as that of an operation on one of many
            shapes: its plans are neither kept on disk nor written out before they come again.
        products: positions of the inputs whose order of axes in memory decides bits, if known.

    Attributes:
        in_slices: whether runs go without a plan of many operations until it is made bit by bit.
    """

    def __init__(
        self, device: Any, fusion: Fusion, graph: Graph, *, passing: bool = False,
        products: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        self._device = device
        self._fusion = fusion
        self._graph = graph
        self._plans: list[Plan] = []
        self._passing = passing
        self.products = products
        self.in_slices = False
        self._others: dict[Layout, KernelExecutable] = {}
        self._kept = None if passing else kept_plans(device, graph)
        self._slices: Slices[MadePlan] | None = None
        self._slicing = renewed(self, "_slicing")

    def __call__(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        if self._waits(numbers):
            return Replay(self._device, self._graph)(given, numbers)
        if self.products is None:
            self.serving(numbers)
        if self.products:
            layout = layout_of(self._device, given, self.products)
            if layout:
                return self._for(layout)(as_in_memory(self._device, given, layout), numbers)
        for plan in self._plans:
            scalars = plan.host(*numbers)
            if scalars is not None:
                return plan.run(given, scalars)
        plan = self.serving(numbers)
        return plan.run(given, plan.host(*numbers))

    def recalled(self, numbers: Sequence[Any]) -> bool:
        """Whether there is a plan for these numbers, here or on disk."""
        served = any(plan.host(*numbers) is not None for plan in self._plans)
        return served or self._found(numbers) is not None

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
        if self._waits(numbers):
            return Replay(self._device, self._graph)(given, numbers)
        if self.products:
            layout = layout_of(self._device, given, self.products)
            if layout:
                kept = dict(layout)
                free = [may and i not in kept for i, may in enumerate(free)]
                inputs = as_in_memory(self._device, given, layout)
                return self._for(layout).over(inputs, numbers, free, landing)
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
        self.serving(numbers)
        return self.over(given, numbers, free, landing)

    def report(self) -> None:
        """Raises what went wrong in earlier runs in the background."""
        self._device.report()

    @property
    def donors(self) -> frozenset[int]:
        """Which inputs some plan can write over."""
        found = {n for plan in self._plans for n in plan.donors.values()}
        return frozenset(found).union(*[other.donors for other in self._others.values()])

    def ordered(self, given: Sequence[Handle]) -> list[Ordered]:
        """Inputs as kernels read them."""
        in_order = self._device.in_order
        return [in_order(h) for h in given]

    def serving(self, numbers: Sequence[Any]) -> Plan:
        """A plan that serves these numbers: one that there is, one from disk, or a new one."""
        for plan in self._plans:
            if plan.host(*numbers) is not None:
                return plan
        return self._found(numbers) or self._made(numbers)

    def plan(self, numbers: Sequence[Any]) -> MadePlan:
        """A plan that serves these numbers and was made here, of which more is known."""
        for plan in self._plans:
            if isinstance(plan, MadePlan) and plan.host(*numbers) is not None:
                return plan
        return self._made(numbers)

    def _waits(self, numbers: Sequence[Any]) -> bool:
        """Whether there is no plan yet and it is made bit by bit, which goes on a bit here.

        A plan of few operations is made at once. Half types have other bits until there is a plan,
        so that theirs are, too.
        """
        few = not self.in_slices or bool(self._plans) or len(self._graph.nodes) < SLICED
        return not (few or not is_sliced() or _has_halves(self._graph) or self._advanced(numbers))

    def _advanced(self, numbers: Sequence[Any]) -> bool:
        """Goes on with the first plan; whether there is one now."""
        if not self._slicing.acquire(blocking=False):
            return False  # another thread is at it
        try:
            if self._plans or (self._slices is None and self._found(numbers) is not None):
                return True
            if self._slices is None or self._slices.lost:
                work = partial(
                    made, self._device, self._fusion, self._graph, tuple(numbers), self._passing
                )  # fmt: skip
                self._slices = Slices(work)
                finalize(self, self._slices.cancel).atexit = False
            try:
                least = max(SLICE * len(self._graph.nodes), LEAST_SLICE)
                plan = self._slices.advance(least * (1 + self._slices.count / LATER))
            except BaseException:
                self._slices = None
                raise
            if plan is not None:
                self._slices = None
                self._keep(plan, numbers)
            return plan is not None
        finally:
            self._slicing.release()

    def _made(self, numbers: Sequence[Any]) -> MadePlan:
        with Watch(len(self._graph.nodes)).watched():
            plan = made(self._device, self._fusion, self._graph, numbers, self._passing)
        self._keep(plan, numbers)
        return plan

    def _keep(self, plan: MadePlan, numbers: Sequence[Any]) -> None:
        self._use(plan)
        _log(f"planned {plan.schedule}")
        if self._kept is not None:
            self._kept.put(numbers, plan.recipe)

    def _found(self, numbers: Sequence[Any]) -> Plan | None:
        """The plan that another process has made."""
        recipe = None if self._kept is None else self._kept.get(numbers)
        if recipe is None:
            return None
        plan = Plan(self._device, self._fusion, recipe)
        self._use(plan)
        _log(f"found a plan on disk for {len(self._graph.nodes)} operations")
        return plan

    def _use(self, plan: Plan) -> None:
        self.products = plan.recipe.products
        self._plans.insert(0, plan)

    def _for(self, layout: Layout) -> KernelExecutable:
        """What runs the graph on inputs that lie otherwise."""
        found = self._others.get(layout)
        if found is None:
            graph = laid_out_inputs(self._graph, layout)
            found = self._others[layout] = KernelExecutable(
                self._device, self._fusion, graph, passing=self._passing
            )
            found.in_slices = self.in_slices
        return found


def _has_halves(graph: Graph) -> bool:
    return any(value.aval.dtype.name in HALVES for value in graph.values)


def _log(text: str) -> None:
    if is_logged():
        sys.stderr.write(f"ingle.fusion: {text}\n")


class Plan:
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
        self, device: KernelDevice, fusion: Fusion, recipe: Recipe, passing: bool = False
    ) -> None:
        self._device = device
        self.recipe = recipe
        self.host = recipe.host.function()
        self.donors = recipe.donors
        self._by_host = HostSteps(device, fusion, recipe.steps, generated(device))
        self.parts = parts = recipe.parts()
        self._begun = False
        if parts is None:
            self.run = self._in_steps
        else:
            self.run = self._first_run if passing else straight(device, parts)

    @cached_property
    def later(self) -> Later | None:
        """Runs it in the background; see `KernelDevice.later`."""
        return None if self.parts is None else self._device.later(self.parts)

    def _first_run(self, given: Sequence[Handle], scalars: Any, *over: Any) -> list[Handle]:
        """Writing a plan out takes as long as some runs of it: what comes once is spared that."""
        if not self._begun and not over:
            self._begun = True
            return self._in_steps(given, scalars)
        assert self.parts is not None
        self.run = straight(self._device, self.parts)
        return self.run(given, scalars, *over)

    def _in_steps(self, given: Sequence[Handle], scalars: Any) -> list[Handle]:
        device = self._device
        known = self._memory([device.in_order(h) for h in given])
        # Not the thread's arena: the backend's own operations may run plans, which use that.
        within = device.empty(Aval((self.recipe.arena,), uint8))
        arena = within.address
        for step in self.recipe.steps:
            if isinstance(step, Kernels):
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
            if isinstance(step, Kernels):
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
            if isinstance(step, Kernels):
                found.update(dict.fromkeys(step.segment.sources()))
        return list(found)


class MadePlan(Plan):
    """A plan that was made in this process.

    Attributes:
        schedule: which kernels compute the graph, and where in memory.
    """

    def __init__(
        self, device: KernelDevice, fusion: Fusion, recipe: Recipe, schedule: Schedule,
        passing: bool,
    ) -> None:  # fmt: skip
        super().__init__(device, fusion, recipe, passing)
        self.schedule = schedule


def made(
    device: KernelDevice, fusion: Fusion, graph: Graph, examples: Sequence[Any], passing: bool
) -> MadePlan:
    """The plan of a graph, for numbers like some examples; `passing` as in `KernelExecutable`."""
    known = generated(device)
    expanded = Expanded(
        graph, examples, fusion, known, device.supports, written_out(device), device.owns
    )
    host = expanded.host
    pairs = graph.donors if device.writes_over else ()

    def planned(graph: Graph) -> Outline:
        work = with_split_rows(with_tiles(simplify(graph)))
        return Scheduler(work, known, pairs).outline()

    surroundings = pairs, is_exact(), registrations()
    outlined = families_of(device).outlined(expanded.graph, surroundings, planned)
    if outlined.sources is not None:
        host = host.taking(outlined.sources, outlined.constants)
    schedule = laid_out(outlined.outline)
    flags = schedule.graph.outputs[len(graph.outputs) :]
    found = donors(schedule, pairs, flags)
    if found.taken and found.start:
        (calls,) = schedule.steps
        assert isinstance(calls, list)
        schedule.steps = [calls[: found.start], calls[found.start :]]
    constants = [device.in_order(h) for h in expanded.constants]
    products = tuple([i for i in read_by_products(expanded.graph) if i < len(graph.inputs)])
    recipe = recipe_of(device, schedule, host, constants, expanded.checks, found.taken, products)
    return MadePlan(device, fusion, recipe, schedule, passing)
