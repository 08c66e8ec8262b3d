"""Graphs of one form on sizes that are new at each call: by one plan for all of these.

The first sizes have plans of their own, which are examples. From then on what runs is filled in for
the sizes at hand, as `any_size_plan.py` says. It takes a device that runs such a plan: one with
`sized_plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from ingle.tensor.locks import renewed

from ..ir.graph import Graph
from ..support.source_location import Line
from ..support.time_slices import TimeSlices
from ..symbolic.families import EXAMPLES, Families
from .any_size_plan import AnySizePlan, SizedCall

MOST_PLANS = 8
"""Plans for all sizes: sizes may grow out of where each is a case of its own."""
TRIES = 6
"""After so many plans that could not be made, graphs are left to plans for each size. Behind each
of them twice as many examples are waited for: the last ones may have been cases of their own."""

Sample = tuple[Graph, Sequence[Any]]
"""A graph, with its scalars in some run."""

Maker = Callable[[Sequence[Sample]], "AnySizePlan | None"]
"""Makes the plan for all sizes of some graphs of a form, if there can be one."""


class SizedCalls:
    """How graphs of one form run."""

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._begun: TimeSlices[tuple[AnySizePlan | None]] | None = None
        self._samples: list[Sample] = []
        self._plans: list[AnySizePlan] = []
        self._failed = self._waiting = 0

    @property
    def serves(self) -> bool:
        """Whether there is a plan for all sizes."""
        return bool(self._plans)

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
            elif self._is_due(graph, numbers):
                work = partial(_made, make, tuple(self._samples))
                if not steps:
                    self._keep(*work())
                    return
                self._begun = TimeSlices(work)
                self._begun.end_with(self)
                self._go_on(self._begun, steps)
        finally:
            self._lock.release()

    def _is_due(self, graph: Graph, numbers: Sequence[Any]) -> bool:
        """Whether the last examples are to be made a plan of, of which a graph is one."""
        if self._failed >= TRIES or len(self._plans) >= MOST_PLANS:
            return False
        # Later ones show with two of the first what varies.
        self._samples = [*self._samples[1 - EXAMPLES :], (graph, numbers)]
        self._waiting -= 1
        return len(self._samples) == EXAMPLES and self._waiting <= 0

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
            self._plans = [plan, *self._plans]

    def call(
        self, numbers: Sequence[Any], made_by: str, lines: Sequence[Line] = ()
    ) -> SizedCall | None:
        """What runs a graph with these numbers; see `form_of`. None if there has to be a plan."""
        for plan in self._plans:
            call = plan.call(numbers, made_by, lines)
            if call is not None:
                return call
        return None


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
