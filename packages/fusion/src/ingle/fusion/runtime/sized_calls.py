"""Graphs of one form on sizes that are new at each call: by one plan for all of these.

The first sizes have plans of their own, which are examples. From then on what runs is filled in for
the sizes at hand, as `any_size_plan.py` says. Graphs whose other sizes are others, as products with
another weight, have a plan of theirs. It takes a device that runs such a plan: one with
`sized_plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import chain, compress
from typing import Any
from weakref import WeakKeyDictionary

from ingle.tensor.locks import renewed

from ..ir.graph import Graph
from ..support.source_location import Line
from ..support.time_slices import TimeSlices
from ..symbolic.families import EXAMPLES, Families
from ..symbolic.form import form_of
from ..symbolic.samples import Samples
from .any_size_plan import AnySizePlan, SizedCall
from .sized_records import StoredSizedPlans

MOST_PLANS = 64
"""Plans for all sizes: sizes may grow out of where each is a case of its own, and a program may
have many weights."""
UNSERVED = 8
"""So many plans are made at once, and one more for every two sizes that they served: what serves
nobody takes longer than plans for each size."""
TRIES = 6
"""After so many plans that could not be made, graphs are left to plans for each size. Behind each
of them twice as many examples are waited for: the last ones may have been cases of their own."""
FAILURES = 2
"""So many of them say that there may never be one: a first one is mostly of sizes such as 1 and 2,
which are numbers of the code as well."""

Sample = tuple[Graph, Sequence[Any]]
"""A graph, with its scalars in some run."""

Maker = Callable[[Sequence[Sample]], "AnySizePlan | None"]
"""Makes the plan for all sizes of some graphs of a form, if there can be one."""


class _PlanOfExamples:
    """A plan for all sizes, and which graphs are asked whether it serves them.

    Args:
        plan: whose examples had some numbers in common.
        examples: the numbers of these.
    """

    def __init__(self, plan: AnySizePlan, examples: Sequence[tuple[Any, ...]]) -> None:
        self.plan = plan
        self._fixed = bytes([len({*column}) == 1 for column in zip(*examples, strict=True)])
        self._common = tuple(compress(examples[-1], self._fixed))

    def may_serve(self, numbers: Sequence[Any]) -> bool:
        """Whether a graph with these numbers has those that the examples have in common."""
        return tuple(compress(numbers, self._fixed)) == self._common


class SizedCalls:
    """How graphs of one form run.

    Args:
        least: how many graphs are examples enough.

    Attributes:
        stored: the plans that outlive the process, where there are such.
    """

    def __init__(self, least: int = EXAMPLES) -> None:
        self._least = least
        self.stored: StoredSizedPlans | None = None
        self._lock = renewed(self, "_lock")
        self._begun: TimeSlices[tuple[AnySizePlan | None]] | None = None
        self._samples = Samples[Sample]()
        self._examples: list[tuple[Any, ...]] = []
        self._plans: list[_PlanOfExamples] = []
        self._made = self._served = self._failed = self._waiting = 0

    @property
    def serves(self) -> bool:
        """Whether there is a plan for all sizes."""
        return bool(self._plans)

    @property
    def varies(self) -> bool:
        """Whether there is one, or will be one with the next sizes."""
        return self.serves or (self._least < EXAMPLES and not self.gave_up)

    @property
    def gave_up(self) -> bool:
        """Whether plans for all sizes could not be made, or those that were serve nobody."""
        return (not self._plans and self._failed >= min(FAILURES, TRIES)) or self._serves_nobody

    @property
    def _serves_nobody(self) -> bool:
        return self._made > UNSERVED + self._served // 2

    def note(
        self, graph: Graph, numbers: Sequence[Any], make: Maker, steps: float = 0
    ) -> None:  # fmt: skip
        """Takes notice of a graph that has a plan of its own; of the third one for all sizes is
        made.

        Args:
            graph: on sizes that no plan for all sizes serves.
            numbers: its scalars in some run.
            make: makes plans for all sizes.
            steps: of planning to take each time, if it is made in slices.
        """
        if not self._lock.acquire(blocking=False):
            return  # another thread is at it
        try:
            if self._begun is not None and not self._begun.lost:
                self._go_on(self._begun, steps)
            elif samples := self._due(graph, numbers):
                work = partial(_made, make, samples)
                if not steps:
                    self._keep(*work())
                    return
                self._begun = TimeSlices(work)
                self._begun.end_with(self)
                self._go_on(self._begun, steps)
        finally:
            self._lock.release()

    def _due(self, graph: Graph, numbers: Sequence[Any]) -> tuple[Sample, ...]:
        """The examples that are to be made a plan of, of which a graph is the last one, if any."""
        if self._failed >= TRIES or self._serves_nobody:
            return ()
        self._waiting -= 1
        if self._waiting >= EXAMPLES:
            return ()
        sample, sizes = (graph, numbers), form_of(graph).numbers
        alike = self._samples.alike(sizes, sample, len(graph.nodes), self._least)
        if not alike or self._waiting > 0:
            return ()
        self._examples = [known for known, _ in alike]
        return tuple([sample for _, sample in alike])

    def _go_on(self, begun: TimeSlices[tuple[AnySizePlan | None]], steps: float) -> None:
        """Goes on with a plan in the making."""
        try:
            made = begun.advance(steps)
        except BaseException:
            if begun.failed:  # else it was interrupted here, and goes on next time
                self._begun = None
                self._keep(None)
            raise
        if made is not None:
            self._begun = None
            self._keep(*made)

    def _keep(self, plan: AnySizePlan | None) -> None:
        if plan is None:
            self._failed += 1
            self._waiting = 1 << self._failed
        else:
            self._made += 1
            self._failed = 0
            self._use(_PlanOfExamples(plan, self._examples))
            if self.stored is not None:
                self.stored.put(plan)

    def _use(self, plan: _PlanOfExamples) -> None:
        self._plans = [plan, *self._plans[: MOST_PLANS - 1]]

    def call(
        self, numbers: Sequence[Any], made_by: str, lines: Sequence[Line] = ()
    ) -> SizedCall | None:
        """What runs a graph with these numbers; see `form_of`. None if there has to be a plan."""
        for kept in chain(self._plans, self._recalled()):
            call = kept.plan.call(numbers, made_by, lines) if kept.may_serve(numbers) else None
            if call is not None:
                self._served += 1
                return call
        return None

    def _recalled(self) -> Iterator[_PlanOfExamples]:
        """Takes up the plans that other processes have made, one after the other."""
        while self.stored is not None and not self.stored.all_read:
            with self._lock:
                plan = self.stored.next()
                if plan is None:
                    return
                recalled = _PlanOfExamples(plan, [()])
                self._use(recalled)
            yield recalled


def _made(make: Maker, samples: Sequence[Sample]) -> tuple[AnySizePlan | None]:
    return (make(samples),)


_of: WeakKeyDictionary[Any, Families[SizedCalls]] = WeakKeyDictionary()


def sized_calls_of(device: Any, skeleton: Any, surroundings: Hashable) -> SizedCalls:
    """How graphs of a form run on a device.

    Args:
        device: which runs them.
        skeleton: of the form.
        surroundings: what else plans depend on.
    """
    return _of.setdefault(device, Families(SizedCalls)).family_of(skeleton, surroundings)
