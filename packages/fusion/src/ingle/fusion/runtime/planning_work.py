"""The planning of one graph: at once, or in time slices between runs that go without a plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

from ingle.tensor.locks import renewed
from ingle.tensor.operation import Op
from ingle.tensor.programs import Program

from ..fusion import Fusion
from ..ir.graph import Graph
from ..pipeline import compile_graph
from ..support.settings import is_sliced
from ..support.time_slices import TimeSlices, WaitNotice, beside, slices_left
from .plan import ScheduledPlan
from .plan_data import PlanData
from .plan_records import StoredPlans

SLICED = 2
"""Operations from which on a plan is made in slices: also kernels of few of them take as long to
compile as dozens of runs without a plan."""
SLICE, LEAST_SLICE, LATER = 3, 64, 24
"""Steps of planning in a slice: so many for each operation, which take less than a run without a
plan, but not too few; and as many again for so many slices before it, so that there is an end."""
AHEAD = 32
"""Operations from which on what all plans need is compiled beside one that is made at once."""
SLICES_OF_A_FORM = 4
"""So many at once for a plan that others wait for: operations run on new shapes meanwhile, which
takes longer."""
PART_OF_A_SLICE = 0.125
"""So much at once of a plan for later processes: a slice takes several runs of a plan's time."""
SLICES_OF_A_PIECE = 4
"""So many slices at once are there at most for one of the pieces in which a log runs."""

Examples = Sequence[tuple[Graph, Sequence[Any]]]
"""Graphs, each with its numbers in some run."""


class PlanningWork:
    """The planning of one graph.

    Args:
        device: which runs it.
        fusion: the decorator over it, for bodies of composites.
        graph: what was recorded.
        kept: where plans are kept on disk, if they are.
        passing: whether the graph may well come once.
        owner: who asks for plans: what is half done ends with it.

    Attributes:
        lock: of slices, which one thread at a time goes on with.
    """

    def __init__(
        self, device: Any, fusion: Fusion, graph: Graph, kept: StoredPlans | None, passing: bool,
        owner: object,
    ) -> None:  # fmt: skip
        self._given = kept, device, fusion, graph
        self._kept = kept
        self._graph = graph
        self._passing = passing
        self._owner = owner
        self._slices: TimeSlices[ScheduledPlan] | None = None
        self._renewal: TimeSlices[PlanData] | None = None
        self.lock = renewed(self, "lock")

    @property
    def is_sliced(self) -> bool:
        """Whether a plan is made in slices."""
        return is_sliced() and self._parts >= SLICED

    @property
    def is_new(self) -> bool:
        """Whether no slice has run yet."""
        return self._slices is None

    @cached_property
    def _parts(self) -> int:
        return parts_of(self._graph)

    def made(self, numbers: Sequence[Any], alike: Examples) -> ScheduledPlan:
        """A new plan.

        Args:
            numbers: the graph's, in a run.
            alike: graphs of the same form, as examples for a plan for all sizes.
        """
        with WaitNotice(len(self._graph.nodes)).watched():
            return planned(*self._given, numbers, self._passing, alike)

    def advanced(
        self, numbers: Sequence[Any], alike: Examples, slices: float
    ) -> ScheduledPlan | None:  # fmt: skip
        """Runs slices, so many or what there is time for; the plan if it is done now.

        The caller has the lock.

        Args:
            numbers, alike: as `made` takes them, for the first slice.
            slices: 0 for what there is time for.
        """
        slices = slices or _slices_in_time()
        if not slices:
            return None
        if self._slices is None or self._slices.lost:
            work = partial(planned, *self._given, tuple(numbers), self._passing, alike)
            self._slices = TimeSlices(work)
            self._slices.end_with(self._owner)
        try:
            steps = slices * max(SLICE * self._parts, LEAST_SLICE)
            if slices >= 1:
                steps *= 1 + self._slices.count / LATER
            plan = self._slices.advance(steps)
        except BaseException:
            if self._slices.failed:  # else it was interrupted here, and goes on next time
                self._slices = None
            raise
        if plan is not None:
            self._slices = None
        return plan

    def renewed(self) -> PlanData | None:
        """Goes on with making a plan from disk anew that is outdated, by a kernel; the plan if it
        is done now. The caller has the lock."""
        assert self._kept is not None
        if self._renewal is None or self._renewal.lost:
            self._renewal = TimeSlices(self._kept.renewed)
            self._renewal.end_with(self._owner)
        data = self._renewal.advance(1)
        if data is not None:
            self._renewal = None
        return data


def _slices_in_time() -> int:
    """How many slices there is time for; they are taken."""
    left = slices_left.get()
    if left is None:
        return 1
    slices = min(left[0], SLICES_OF_A_PIECE)
    left[0] -= slices
    return slices


def planned(
    kept: StoredPlans | None, device: Any, fusion: Fusion, graph: Graph, numbers: Sequence[Any],
    passing: bool, alike: Examples = (),
) -> ScheduledPlan:  # fmt: skip
    """A new plan, which is kept on disk, too."""
    if beside() and parts_of(graph) >= AHEAD:
        device.begin_planning(graph)
    plan = compile_graph(device, fusion, graph, numbers, passing, alike)
    if kept is not None:
        kept.put(numbers, plan.data)
    return plan


def parts_of(graph: Graph) -> int:
    """How many operations it has, where those of many parts count as these."""
    return sum([_parts(node.op) for node in graph.nodes])


def _parts(op: Op) -> int:
    if not op.operation.traits.inlined:
        return 1
    programs = [v for v in op.attributes.values() if isinstance(v, Program)]
    return sum([_parts(step.op) for program in programs for step in program.steps])
