"""The plans of one graph: found in memory or on disk, made at once or in time slices."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

from ingle.tensor.contract import Handle

from ..fusion import Fusion
from ..ir.graph import Graph
from ..pipeline import filled_graph
from ..support.gc_pauses import uncollected
from ..support.settings import is_logged
from .device import Ordered
from .host_ops import host_ops
from .input_layouts import Layout, as_in_memory, layout_of
from .input_layouts import laid_out as laid_out_inputs
from .plan import CompiledPlan, ScheduledPlan
from .plan_codegen import DonationState
from .plan_data import PlanData
from .plan_faults import PlanFaults
from .plan_records import stored_plans
from .planning_work import PART_OF_A_SLICE, SLICES_OF_A_FORM, PlanningWork
from .replay import Replay
from .sized_graph import SizedGraph, owning


class GraphPlans:
    """A graph as plans of kernels, made at its first run and anew where a guard fails.

    Where none can be made, or one fails while it runs, which is a fault of a pass or of a step, the
    operations run one by one from then on, and a warning says so once. What a device says by
    itself, as that no memory is left, comes out as it is.

    Args:
        device: which runs it.
        fusion: the decorator over it, for bodies of composites.
        graph: what was recorded.
        passing: whether the graph may well come once, as that of an operation on one of many
            shapes: its plans are neither kept on disk nor written out before they come again.
        products: positions of the inputs whose order of axes in memory decides bits, if known.

    Attributes:
        in_slices: whether runs go without a plan of many operations until it is made bit by bit.
        fills: whether there may be a plan for all sizes, which is filled in at once.
        alike: graphs of the same form, with numbers, as examples for such a plan.
    """

    def __init__(
        self, device: Any, fusion: Fusion, graph: Graph, *, passing: bool = False,
        products: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        self._device = device
        self._fusion = fusion
        self._graph = graph
        self._plans: list[CompiledPlan] = []
        self._passing = passing
        self.products = products
        self.in_slices = self.fills = False
        self._sizes: SizedGraph | None = None
        self._replay: Replay | None = None
        self._faults = PlanFaults(len(graph.nodes))
        self._others: dict[Layout, GraphPlans] = {}
        self._kept = None if passing else stored_plans(device, graph)
        self.alike: Sequence[tuple[Graph, Sequence[Any]]] = ()
        self._work = PlanningWork(device, fusion, graph, self._kept, passing, self)

    def __call__(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        if self._waits(numbers) or (self.products is None and not self.prepared(numbers)):
            return self._one_by_one(given, numbers)
        if self.products:
            layout = layout_of(self._device, given, self.products)
            if layout:
                inputs = as_in_memory(self._device, given, layout)
                return GraphPlans.__call__(self.laid_out(layout), inputs, numbers)
        for plan in self._plans:
            scalars = plan.host(*numbers)
            if scalars is not None:
                try:
                    return plan.run(given, scalars)
                except Exception as error:
                    if not self._faults.is_of_plan(error):
                        raise
                    return self._without(plan, error, given, numbers)
        if not self.prepared(numbers):
            return self._one_by_one(given, numbers)
        return GraphPlans.__call__(self, given, numbers)

    def replayed(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        """Runs it without a plan, one operation after the other."""
        replay = self._replay
        if replay is None:
            replay = self._replay = Replay(self._device, self._graph)
        return replay(given, numbers)

    def _one_by_one(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        """The same, for want of a plan. Where none can be made that is said, unless an operation
        fails by itself: then that is what is wrong."""
        outputs = self.replayed(given, numbers)
        self._faults.warn()
        return outputs

    def prepared(self, numbers: Sequence[Any]) -> bool:
        """Whether there is a plan for these numbers, which is made if it can be."""
        if self._faults.text:
            return any(plan.host(*numbers) is not None for plan in self._plans)
        try:
            self.serving(numbers)
        except Exception as error:
            self._faults.note_planning(error)
            return False
        return True

    def _without(
        self, plan: CompiledPlan, error: Exception, given: Sequence[Handle], numbers: Sequence[Any]
    ) -> list[Handle]:
        """The outputs of a run in which a plan failed, which is not used again; unless an operation
        fails by itself, which is no fault of the plan."""
        outputs = self.replayed(given, numbers)
        self._plans = [other for other in self._plans if other is not plan]
        self._faults.note_running(error)
        self._faults.warn()
        return outputs

    def recalled(self, numbers: Sequence[Any]) -> bool:
        """Whether there is a plan for these numbers, here or on disk."""
        served = any(plan.host(*numbers) is not None for plan in self._plans)
        return served or self._found(numbers, as_it_is=True) is not None

    @property
    def is_outdated(self) -> bool:
        """Whether a plan was recalled that would be made otherwise now, with the same bits."""
        return self._kept is not None and self._kept.outdated is not None

    def renewed_a_little(self, numbers: Sequence[Any]) -> bool:
        """Goes on with making such a plan anew, kernel by kernel; whether it is done."""
        if not self.is_outdated or not self._work.lock.acquire(blocking=False):
            return not self.is_outdated
        try:
            data = self._work.renewed()
            if data is None:
                return False
            before = [plan for plan in self._plans if plan.host(*numbers) is not None]
            self._take(data)
            self._plans = [plan for plan in self._plans if plan not in before]
            return True
        finally:
            self._work.lock.release()

    def run_donating(
        self,
        given: Sequence[Handle],
        numbers: Sequence[Any],
        donatable: Sequence[bool],
        donation: DonationState,
    ) -> list[Handle]:
        """Runs it, and writes outputs over inputs where it can; in the background where it shall.

        Args:
            given, numbers: as in a call.
            donatable: for each input whether it may be overwritten. Where it was, the output is
                the same handle.
            donation: what holds if this raises.
        """
        if not self._plans:
            outputs = self._sized(given, numbers)
            waits = outputs is None and self._waits(numbers)
            if outputs is None:
                outputs = self._sized(given, numbers)  # by a plan that is there now
            if outputs is not None:
                return outputs
            if waits:
                return self._one_by_one(given, numbers)
        if self.products:
            layout = layout_of(self._device, given, self.products)
            if layout:
                kept = dict(layout)
                donatable = [may and i not in kept for i, may in enumerate(donatable)]
                inputs = as_in_memory(self._device, given, layout)
                other = self.laid_out(layout)
                return GraphPlans.run_donating(other, inputs, numbers, donatable, donation)
        for plan in self._plans:
            scalars = plan.host(*numbers)
            if scalars is not None:
                try:
                    return plan.run_donating(given, scalars, donatable, donation)
                except Exception as error:
                    if not self._faults.is_of_plan(error, donation):
                        raise
                    return self._without(plan, error, given, numbers)
        if not self.prepared(numbers):
            return self._one_by_one(given, numbers)
        return GraphPlans.run_donating(self, given, numbers, donatable, donation)

    def _sized(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle] | None:
        """Runs it by a plan for all sizes, if one serves it and it has no plan of its own, which
        writes over what nobody needs: what comes again and again shall have one, in time."""
        sizes = self._sizes
        if sizes is None or self._plans or self._faults.text:
            return None
        if sizes.is_lasting and owning.is_due:
            with owning.taken():
                if self._owned(numbers):
                    return None
        return sizes.run(given, numbers)

    def _owned(self, numbers: Sequence[Any]) -> bool:
        """Goes on with a plan of its own for a while; whether it is there."""
        try:
            return (self.fills and self.filled(numbers)) or self.advanced(numbers, 1)
        except Exception as error:
            self._faults.note_planning(error)
            return False

    def served(self) -> bool:
        """Whether a plan for all sizes that is there runs the graph as it is."""
        if self._sizes is None and not self._plans:
            if not SizedGraph.may_serve(self._device, self._graph):
                return False
            self._sizes = SizedGraph(self._device, self._fusion, self._graph)
        return self._sizes is not None and self._sizes.found()

    @uncollected()
    def sized(self, numbers: Sequence[Any]) -> bool | None:
        """Whether a plan for all sizes runs the graph as it is, which helps to make one if not;
        None where there can be none."""
        if self.served():
            return True
        return None if self._sizes is None else self._sizes.made(numbers)

    @property
    def newest(self) -> CompiledPlan | None:
        """The plan that was made last, if there is one."""
        return self._plans[0] if self._plans else None

    def report(self) -> None:
        """Raises what went wrong in earlier runs in the background."""
        self._device.report()

    @property
    def donors(self) -> frozenset[int]:
        """Which inputs some plan can write over."""
        found = {n for plan in self._plans for n in plan.donors.values()}
        return frozenset(found).union(*[other.donors for other in self._others.values()])

    def overwritable(self, count: int) -> Collection[int]:
        """Which of so many inputs a run could write over: any, while there is no plan."""
        return self.donors if self._plans or self._others or self._faults.text else range(count)

    def ordered(self, given: Sequence[Handle]) -> list[Ordered]:
        """Inputs as kernels read them."""
        in_order = self._device.in_order
        return [in_order(h) for h in given]

    def serving(self, numbers: Sequence[Any]) -> CompiledPlan:
        """A plan that serves these numbers: one that there is, one from disk, or a new one."""
        for plan in self._plans:
            if plan.host(*numbers) is not None:
                return plan
        return self._found(numbers) or self._made(numbers)

    def plan(self, numbers: Sequence[Any]) -> ScheduledPlan:
        """A plan that serves these numbers and was made here, of which more is known."""
        for plan in [p for p in self._plans if p.host(*numbers) is not None]:
            if isinstance(plan, ScheduledPlan) and plan.is_explained:
                return plan
        made = self._work.made(numbers, self.alike)
        self._use(made)
        return made

    def _waits(self, numbers: Sequence[Any]) -> bool:
        """Whether there is no plan: it is made in slices, of which some run here, or none can be.

        A plan of one operation is made at once. Half types have other bits until there is a plan,
        so that theirs are, too.
        """
        if self._plans or not (self.in_slices or self._faults.text):
            return False
        if self._faults.text:
            return True
        if not self._work.is_sliced or self._has_halves:
            return False
        try:
            return not ((self.fills and self.filled(numbers)) or self._advanced(numbers))
        except Exception as error:
            self._faults.note_planning(error)
            return True

    @uncollected()
    def filled(self, numbers: Sequence[Any]) -> bool:
        """Whether a plan for all sizes serves the graph, which is filled in now."""
        self.fills = False
        if self._sizes is None and self.sized(numbers):
            return True
        if not self._plans:
            plan = filled_graph(self._device, self._fusion, self._graph, numbers)
            if plan is None:
                return False
            self._use_new(plan, "filled in")
        return True

    def keep(self, numbers: Sequence[Any]) -> bool:
        """Keeps the plan that serves these numbers for later processes; whether there is one."""
        for plan in self._plans:
            if plan.host(*numbers) is not None:
                if self._kept is not None:
                    self._kept.put(numbers, plan.data)
                return True
        return False

    def advanced(self, numbers: Sequence[Any], slices: float = SLICES_OF_A_FORM) -> bool:
        """Goes on with making a plan by some slices, of one that others wait for by many; returns
        whether it is there."""
        if not self._work.is_sliced:
            self.serving(numbers)
            return True
        return self._advanced(numbers, slices)

    def advanced_a_little(self, numbers: Sequence[Any]) -> bool:
        """The same by a part of a slice, between runs of other plans; nobody waits for this one, so
        that parts do not grow."""
        return self.advanced(numbers, PART_OF_A_SLICE)

    @cached_property
    def _has_halves(self) -> bool:
        return any(v.is_half for v in self._graph.values)

    def _advanced(self, numbers: Sequence[Any], slices: float = 0) -> bool:
        """Runs slices of planning, so many or what there is time for; returns whether there is a
        plan now."""
        if not self._work.lock.acquire(blocking=False):
            return False  # another thread is at it
        try:
            if self._plans or (self._work.is_new and self._found(numbers) is not None):
                return True
            plan = self._work.advanced(numbers, self.alike, slices)
            if plan is not None:
                self._use_new(plan)
            return plan is not None
        finally:
            self._work.lock.release()

    def _made(self, numbers: Sequence[Any]) -> ScheduledPlan:
        plan = self._work.made(numbers, self.alike)
        self._use_new(plan)
        return plan

    def _use_new(self, plan: ScheduledPlan, how: str = "planned") -> None:
        self._use(plan)
        _log(how, plan.schedule)
        if self.in_slices:  # of plain code, which is explained by another recording
            plan.forget_schedule()

    def _found(self, numbers: Sequence[Any], *, as_it_is: bool = False) -> CompiledPlan | None:
        """The plan that another process has made; it may be outdated if it is taken as it is."""
        data = None if self._kept is None else self._kept.get(numbers, as_it_is=as_it_is)
        return None if data is None else self._take(data)

    def _take(self, data: PlanData) -> CompiledPlan:
        operations = host_ops(self._device, self._fusion, data.steps, self._graph)
        plan = CompiledPlan(self._device, data, operations, lines=self._graph.lines)
        self._use(plan)
        _log("found a plan on disk for", len(self._graph.nodes), "operations")
        return plan

    def _use(self, plan: CompiledPlan) -> None:
        self.products = plan.data.products
        self._plans.insert(0, plan)
        self._replay, self.alike = None, ()

    def laid_out(self, layout: Layout) -> GraphPlans:
        """What runs the graph on inputs that lie otherwise."""
        found = self._others.get(layout)
        if found is None:
            graph = laid_out_inputs(self._graph, layout)
            found = self._others[layout] = type(self)(
                self._device, self._fusion, graph, passing=self._passing
            )
            found.in_slices = found.fills = self.in_slices
        return found


def _log(*parts: object) -> None:
    """Writes what was done, if that is wanted: a schedule takes long to write out."""
    if is_logged():
        sys.stderr.write(f"ingle.fusion: {' '.join(map(str, parts))}\n")
