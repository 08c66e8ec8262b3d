"""Graphs of one form on sizes that are new at each call: by one plan for all of these.

The first sizes have plans of their own, which are examples. From then on what runs is filled in for
the sizes at hand, as `any_size_plan.py` says. It takes a device that runs such a plan: one with
`sized_plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from ingle.tensor.contract import Handle

from ..ir.graph import Graph
from ..support.source_location import Line
from ..symbolic.families import EXAMPLES, Families
from .any_size_plan import AnySizePlan, SizedRun

MOST_PLANS = 4
"""Plans for all sizes: sizes may grow out of where each is a case of its own."""
TRIES = 3
"""After so many plans that could not be made, graphs are left to plans for each size."""

Sample = tuple[Graph, Sequence[Any]]
"""A graph, with its scalars in some run."""

Maker = Callable[[Sequence[Sample]], "AnySizePlan | None"]
"""Makes the plan for all sizes of some graphs of a form, if there can be one."""

SizedCall = Callable[[Sequence[Handle], Sequence[Any]], "list[Handle] | None"]
"""A graph of certain sizes: runs on tensors and numbers; None if these take a plan."""


class SizedPlan(Protocol):
    """A plan for all sizes that a device can run."""

    def call(self, run: SizedRun, made_by: str, lines: Sequence[Line]) -> SizedCall | None:
        """What runs it for certain sizes; None if it takes so long that it shall be a plan.

        Args:
            run: what these sizes come to.
            made_by: what large results are made by, for messages.
            lines: of the user's code, for each node of the graph, if they are known.
        """
        ...


class SizedCalls:
    """How graphs of one form run.

    Args:
        device: which runs them.
        make: makes plans.
    """

    def __init__(
        self,
        device: Any,
        make: Callable[[Sequence[tuple[Graph, Sequence[Any]]]], AnySizePlan | None],
    ) -> None:
        self._device = device
        self._make = make
        self._samples: list[Sample] = []
        self._plans: list[tuple[AnySizePlan, SizedPlan]] = []
        self._failed = 0

    @property
    def serves(self) -> bool:
        """Whether there is a plan for all sizes."""
        return bool(self._plans)

    def note(self, graph: Graph, numbers: Sequence[Any]) -> None:
        """Takes notice of a graph that has a plan of its own; of the third one for all sizes is
        made."""
        if self._failed >= TRIES or len(self._plans) >= MOST_PLANS:
            return
        self._samples.append((graph, numbers))
        if len(self._samples) < EXAMPLES:
            return
        samples, self._samples = self._samples, []
        plan = self._make(samples)
        if plan is None:
            self._failed += 1
        else:
            self._plans = [(plan, self._device.sized_plan(plan)), *self._plans]

    def call(
        self, numbers: Sequence[Any], made_by: str, lines: Sequence[Line] = ()
    ) -> SizedCall | None:
        """What runs a graph with these numbers; see `form_of`. None if there has to be a plan."""
        for plan, sized in self._plans:
            run = plan.at(numbers)
            if run is not None:
                return sized.call(run, made_by, lines)
        return None


_of: WeakKeyDictionary[Any, Families[SizedCalls]] = WeakKeyDictionary()


def sized_calls_of(device: Any, make: Maker, skeleton: Any, surroundings: Hashable) -> SizedCalls:
    """How graphs of a form run on a device.

    Args:
        device, make: see `SizedCalls`.
        skeleton: of the form.
        surroundings: what else plans depend on.
    """
    families = _of.get(device)
    if families is None:
        families = _of.setdefault(device, Families(lambda: SizedCalls(device, make)))
    return families.family_of(skeleton, surroundings)
