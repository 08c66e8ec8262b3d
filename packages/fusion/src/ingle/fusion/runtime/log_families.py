"""Logs that differ in their sizes alone: once a few have come, the next ones have a plan at once.

A log that comes for the first time runs operation by operation, since most logs that come once
never come again. A program whose sizes keep changing, as one that generates text does, would run
so for ever. But its logs have one form, and are a family. The first of a family are examples; from
these a plan for all sizes is made, a slice of it between two runs; it is then filled in for each
log of the family that comes for the first time.

`PlanCache` asks a `LogFamily` for the plan of what is new. A family knows nothing of how plans are
made: `SizedPlans` says what it asks of `GraphPlans`.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from ingle.tensor.contract import Handle
from ingle.tensor.interruptions import is_from_outside
from ingle.tensor.locks import renewed
from ingle.tensor.operation import typed_key

from ..ir.graph import Graph
from ..symbolic.families import EXAMPLES
from ..symbolic.form import form_of

MOST_FAMILIES = 256
"""Families that are known; of more those go that were asked for longest ago."""
LEAST_NODES, LEAST_FILLED = 3, 8
"""Operations from which on a log is worth a plan for all sizes that runs it as it is, and one that
is filled in."""
IN_VAIN = 8
"""A family's plans are filled in as long as no more logs than so many, and those that a plan
served, have found none that holds for their sizes."""
DEAREST = 2.0
"""A plan is filled in for a log that may never come again while that takes, on average, at most so
many times as long as a run without one. What does come again has its plan in any case."""

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

    def served(self) -> bool:
        """Whether a plan for all sizes that is there runs it as it is."""
        ...

    def sized(self, numbers: Sequence[Any]) -> bool | None:
        """The same, which helps to make one if not; None where there can be none."""
        ...

    def __call__(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        """Runs it."""
        ...

    def filled(self, numbers: Sequence[Any]) -> bool:
        """Whether there is one, which is filled in now."""
        ...

    def advanced(self, numbers: Sequence[Any], slices: float = ...) -> bool:
        """Goes on with making one by some slices; whether it is there now."""
        ...

    def advanced_a_little(self, numbers: Sequence[Any]) -> bool:
        """The same by a part of a slice."""
        ...

    def keep(self, numbers: Sequence[Any]) -> bool:
        """Keeps the graph's own plan for later processes; whether there is one."""
        ...


class LogFamilies:
    """The families of a device's logs, by their forms."""

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._known: OrderedDict[Any, LogFamily] = OrderedDict()

    def of(self, graph: Graph) -> LogFamily | None:
        """The family of a log with this graph; None where it is too short."""
        if len(graph.nodes) < LEAST_NODES:
            return None
        skeleton = form_of(graph).skeleton
        with self._lock:
            found = self._known.setdefault(skeleton, LogFamily())
            self._known.move_to_end(skeleton)
            while len(self._known) > MOST_FAMILIES:
                self._known.popitem(last=False)
        return found


class Durations:
    """How long something took each time; only the average is kept."""

    def __init__(self) -> None:
        self._count, self._seconds = 0, 0.0

    @property
    def average(self) -> float:
        """Seconds; 0 where it has not happened."""
        return self._seconds / max(self._count, 1)

    @contextmanager
    def measured(self) -> Generator[None, None, None]:
        """Adds how long a block takes."""
        start = time.perf_counter()
        yield
        self._seconds += time.perf_counter() - start
        self._count += 1


class _Begun:
    """A plan for all sizes in the making.

    Args:
        plans: which make it.
        numbers: those that vary, in the log that it is begun with.
    """

    def __init__(self, plans: SizedPlans, numbers: Sequence[Any]) -> None:
        self.plans = plans
        self.numbers = numbers

    def advanced(self) -> bool:
        """Goes on with it; whether it is there now."""
        return self.plans.advanced(self.numbers)


class LogFamily:
    """Logs of one form, and the plans for all their sizes.

    A plan for all sizes holds for those that answer the questions of its passes alike, which may
    be those between two powers of two. A log that none of them holds for becomes an example, too,
    so that a family may have several plans after a while.

    Attributes:
        varying: which numbers of the logs vary from run to run; None while that is not known.
        alone: runs without a plan.
    """

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._examples: list[Example] = []
        self._begun: _Begun | None = None
        self._made = self._served = self._missed = self._sized = 0
        self._recalled = self._unknown = 0
        self._filling = Durations()
        self._impossible = False
        self._numbers: list[Any] = []
        self.alone = Durations()
        self.varying: Sequence[bool] | None = None

    def differs(self, varying: Sequence[bool]) -> None:
        """Notes that other numbers vary than was known, so that graphs have other forms."""
        with self._lock:
            self.varying = list(varying)
            self._examples, self._begun = [], None
            self._made = self._served = self._missed = 0

    def note_numbers(self, numbers: Sequence[Any]) -> None:
        """Notes the numbers of a log: those that vary between sizes do so from run to run. Whole
        ones may be sizes themselves."""
        keys = [None if type(n) is int else typed_key(n) for n in numbers]
        before, self._numbers = self._numbers, keys
        known = self.varying or [False] * len(keys)
        if len(before) == len(keys):
            varying = [v or a != b for v, a, b in zip(known, before, keys, strict=True)]
            if varying != list(known):
                self.differs(varying)

    @property
    def is_sized(self) -> bool:
        """Whether a plan for all sizes has run logs as they are, so that the next one may be asked
        before the disk is."""
        return self._sized > 0

    @property
    def serves(self) -> bool:
        """Whether there is a plan for all sizes that is worth a look."""
        return self.is_sized or self._fills

    @property
    def _fills(self) -> bool:
        """Whether there is one that is filled in, as plans of their own."""
        return self._made > 0 and self._missed <= IN_VAIN + self._served

    @property
    def recalls(self) -> bool:
        """Whether another process may have left plans for such logs: not where it knew none of the
        first ones. What comes again is looked for in any case."""
        return self._recalled > 0 or self._unknown < EXAMPLES

    def note_recall(self, found: bool) -> None:
        """Notes whether another process has left a plan for a log."""
        self._recalled += found
        self._unknown += not found

    def prepared(self, prepare: Callable[[], Any]) -> SizedPlans | None:
        """What runs the graph of a log that is new; None on a device that has no such plans.

        Args:
            prepare: makes it.
        """
        plans = None if self._impossible else prepare()
        if isinstance(plans, SizedPlans):
            return plans
        self._impossible = True
        return None

    def served(self, plans: SizedPlans) -> bool:
        """Whether a plan for all sizes that is there runs a log that is new."""
        found = plans.served()
        self._sized += found
        return found

    def planned(self, example: Example, plans: SizedPlans) -> SizedPlans | None:
        """The plan of a log that is new; None if it is to run without one.

        Args:
            example: the log.
            plans: what is to run its graph.
        """
        serves = plans.sized(example[1])
        if serves is not None:
            self._sized += serves
            return plans if serves else None
        if len(example[0].nodes) < LEAST_FILLED:
            return None
        if self._fills:
            if self._filling.average > DEAREST * self.alone.average:
                return None
            with self._filling.measured():
                found = plans.filled(example[1])
            self._served += found
            self._missed += not found
            if found:
                return plans
        self._go_on(example, plans)
        return None

    def _go_on(self, example: Example, plans: SizedPlans) -> None:
        """Goes on with the plan that is being made, or begins one; the log is an example."""
        with self._lock:
            begun = self._begun or self._begin(example, plans)
        if begun is None:
            return
        done = False  # where it is interrupted
        try:
            done = begun.advanced()
        except Exception as error:
            done = not is_from_outside(error)  # what cannot be made is not tried again
            raise
        finally:
            with self._lock:
                if done and self._begun is begun:
                    self._begun = None
                    self._made += 1

    def _begin(self, example: Example, plans: SizedPlans) -> _Begun | None:
        """Begins a plan for all sizes, if there are examples enough and those that were made before
        have served."""
        self._examples.append(example)
        if len(self._examples) < EXAMPLES or self._made > 2 + self._served // 2:
            del self._examples[: 1 - EXAMPLES]
            return None
        plans.alike, self._examples = tuple(self._examples[:-1]), []
        self._begun = _Begun(plans, example[1])
        return self._begun
