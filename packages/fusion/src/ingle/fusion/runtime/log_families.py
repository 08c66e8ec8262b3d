"""Logs that differ in their sizes alone: once a few have come, the next ones have a plan at once.

A log that comes for the first time runs operation by operation, since most such logs never come
again. Where others of its form have come, on other sizes, it is taken for one of many: a plan for
all sizes is made between the runs of the first ones, and filled in for each of the next ones.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from ingle.tensor.contract import Handle
from ingle.tensor.locks import renewed

from ..ir.graph import Graph
from ..symbolic.families import EXAMPLES
from ..symbolic.form import form_of

MOST = 256
"""Forms that are known."""
LEAST = 8
"""Operations from which on a log is worth it."""
IN_VAIN = 8
"""So many logs may have looked for a plan and found none, and as many as have found one."""

SHARE = 0.5
"""Of the time that logs ran without a plan: so long it may take to fill in plans for logs that may
never come again. What comes again has its plan in any case."""

NEVER = 1 << 62
"""A count that no other comes up to."""

Example = tuple[Graph, Sequence[Any]]
"""A log's graph, with the numbers that do not vary written in, and those that vary."""


@runtime_checkable
class SizedPlans(Protocol):
    """What runs a graph, by a plan for all sizes where there is one; see `GraphPlans`.

    Attributes:
        alike: graphs of its form, as examples for such a plan.
        in_slices: whether other plans are made bit by bit.
        fills: whether there may be one.
    """

    alike: Sequence[Example]
    in_slices: bool
    fills: bool

    def __call__(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        """Runs it."""
        ...

    def filled(self, numbers: Sequence[Any]) -> bool:
        """Whether there is one, which is filled in now."""
        ...

    def advanced(self, numbers: Sequence[Any]) -> bool:
        """Goes on with making one; whether it is there now."""
        ...

    def keep(self, numbers: Sequence[Any]) -> None:
        """Keeps one for later processes."""
        ...


class LogFamilies:
    """What is known of logs by their forms."""

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._known: OrderedDict[Any, LogFamily] = OrderedDict()

    def of(self, graph: Graph) -> LogFamily | None:
        """What is known of logs like that of a graph; None where it is too short."""
        if len(graph.nodes) < LEAST:
            return None
        skeleton = form_of(graph).skeleton
        with self._lock:
            found = self._known.setdefault(skeleton, LogFamily())
            self._known.move_to_end(skeleton)
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        return found


class LogFamily:
    """Logs of one form.

    Attributes:
        varying: which of their numbers vary from run to run; None while that is not known.
        alone: the seconds that they ran without a plan.
    """

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._waiting: list[Example] = []
        """Logs that have found no plan, as examples for the next one."""
        self._begun: tuple[SizedPlans, Sequence[Any]] | None = None
        """That plan, while it is made."""
        self._made = self._served = self._missed = 0
        self._recalled = self._unknown = 0
        self.varying: Sequence[bool] | None = None
        self.alone = self._filling = 0.0

    def differs(self, varying: Sequence[bool]) -> None:
        """Notes that other numbers vary than was known, so that graphs have other forms."""
        with self._lock:
            self.varying = list(varying)
            self._waiting, self._begun = [], None
            self._made = self._served = self._missed = 0

    @property
    def serves(self) -> bool:
        """Whether there is a plan for all sizes that is worth a look."""
        return self._made > 0 and self._missed <= IN_VAIN + self._served

    @property
    def recalls(self) -> bool:
        """Whether another process may have left plans for such logs: not where it knew none of the
        first ones, and there is a plan for all sizes here."""
        return not self.serves or self._recalled > 0 or self._unknown < EXAMPLES

    def note_recall(self, found: bool) -> None:
        """Notes whether another process has left a plan for a log."""
        self._recalled += found
        self._unknown += not found

    def planned(self, example: Example, planned: Callable[[], Any]) -> SizedPlans | None:
        """The plan of a log that is new; None if it is to run without one.

        Args:
            example: the log.
            planned: what is to run its graph.
        """
        if self.serves:
            if self._filling > self.alone * SHARE:
                return None
            start = time.perf_counter()
            made = planned()
            found = isinstance(made, SizedPlans) and made.filled(example[1])
            self._filling += time.perf_counter() - start
            if isinstance(made, SizedPlans) and found:
                self._served += 1
                return made
            self._missed += 1
        with self._lock:
            begun = self._begun or self._begin(example, planned)
        if begun is not None:
            done = True
            try:
                done = begun[0].advanced(begun[1])
            finally:
                with self._lock:
                    if done and self._begun is begun:
                        self._begun = None
                        self._made += 1
        return None

    def _begin(
        self, example: Example, planned: Callable[[], Any]
    ) -> tuple[SizedPlans, Sequence[Any]] | None:
        """Begins a plan for all sizes, if there are enough examples and the last ones were worth
        it."""
        self._waiting.append(example)
        if len(self._waiting) < EXAMPLES or self._made > 2 + self._served // 2:
            del self._waiting[: 1 - EXAMPLES]
            return None
        made = planned()
        if not isinstance(made, SizedPlans):  # a device that has none
            self._made = self._missed = NEVER
            self._waiting = []
            return None
        made.alike = tuple(self._waiting[:-1])
        self._waiting = []
        self._begun = made, example[1]
        return self._begun
