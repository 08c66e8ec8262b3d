"""Which outputs of a plan may be written into the memory of an input: new state over the old."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..ir.graph import Donors
from ..lowering.contraction import ContractionCall
from ..lowering.nests import NestCall
from ..lowering.operands import Argument
from .in_place import in_place
from .schedule import Call, HostStep, Schedule, arguments_of, whole
from .successors import Successors
from .whole_calls import WholeCall

Step = NestCall | ContractionCall | WholeCall


class Donations(NamedTuple):
    """What a plan may do in place.

    Attributes:
        start: the number of the call from which on it does, among those behind all operations that
            the backend runs itself. Before that everything is known that could make the run fail.
        taken: for each output that may lie in an input's memory, by the number of the value, the
            position of the input.
    """

    start: int
    taken: dict[int, int]


NONE = Donations(0, {})
_FEW = 8
"""Kernels that take a device no longer than it takes the host to launch them by themselves."""
_OF_A_PRODUCT = 3
"""Kernels that a product, or what a library computes, counts as."""
_SMALL = 24
"""Calls of a step that a device runs in less time than the host takes to launch it; where they are
large, the wait for their checks is small beside them."""


def cut(
    schedule: Schedule, donations: Donations, flags: Sequence[int], *, waits: bool
) -> list[list[Call | WholeCall] | HostStep]:
    """The steps of a schedule, where the last calls are those that may write over inputs.

    Args:
        schedule: the plan's.
        donations: what it may do in place.
        flags: values that say whether the run has failed.
        waits: whether the run waits for them before it goes on. Else the last calls begin at the
            first that writes over something, and other calls end where the flags are known, so that
            the device has something to do while these are waited for; a few calls between the two
            go with the last, and all of a small step.
    """
    if not schedule.steps or isinstance(schedule.steps[-1], HostStep):
        return schedule.steps
    *before, calls = schedule.steps
    assert isinstance(calls, list)
    places: set[int] = set()
    if waits:
        places = {donations.start} if donations.taken else set()
    else:
        views = schedule.views
        made = {views.of(flag).root for flag in flags}
        known = [n for n, call in enumerate(calls, 1) if made & _written(call)]
        over = [n for n, call in enumerate(calls) if donations.taken.keys() & _written(call)]
        behind, first = max(known, default=0), min(over, default=len(calls))
        between = [isinstance(call, NestCall) or _OF_A_PRODUCT for call in calls[behind:first]]
        together = sum(between) <= _FEW or len(calls) - behind <= _SMALL
        places = {behind} if behind and together else {behind, first}
    ends = [0, *sorted(places - {0, len(calls)}), len(calls)]
    return [*before, *[calls[a:b] for a, b in pairwise(ends)]]


def _written(call: Step) -> set[int]:
    return {argument.root for argument in _arguments(call) if argument.output}


def donors(
    schedule: Schedule, pairs: Donors, flags: Sequence[int]
) -> Donations:  # fmt: skip
    """The inputs and outputs that may share memory.

    Args:
        schedule: the plan's.
        pairs: what may be tried; of several inputs for an output the one that it is the new value
            of, or else the first that can.
        flags: values that say after a run whether it has failed.
    """
    # What the backend runs itself may fail, and give views of inputs: what is behind all of it may
    # write over them, unless it finds a view.
    calls: list[Step | HostStep] = []
    for step in schedule.steps:
        calls.extend([step] if isinstance(step, HostStep) else step)
    if not calls or isinstance(calls[-1], HostStep):
        return NONE
    begin = 1 + max([n for n, call in enumerate(calls) if isinstance(call, HostStep)], default=-1)
    graph, views = schedule.graph, schedule.views
    makers: dict[int, int] = {}  # the first of those that write a value
    by_library: set[int] = set()
    last: dict[int, int] = {}  # the last of those that read it
    for number, call in enumerate(calls):
        for argument in _arguments(call):
            if not argument.output:
                last[argument.root] = number
                continue
            makers.setdefault(argument.root, number)
            if isinstance(call, WholeCall):  # in an order of its own, and where that can begin
                by_library.add(argument.root)
    known = [makers.get(views.of(f).root, len(calls)) + 1 for f in flags]
    start = max([begin, *known])
    gone = {views.of(o).root for o in graph.outputs}
    taken: dict[int, int] = {}
    own = frozenset(schedule.own)
    successors = Successors(graph)
    for given, made in pairs:
        sources = [graph.inputs[i] for i in given]
        waiting = _Waiting([FOREVER if s in gone else last.get(s, -1) for s in sources])
        roots: list[int] = []
        for output in [graph.outputs[o] for o in made]:
            root = views.of(output).root
            at, aval = makers.get(root, -1), graph.values[root].aval
            if root not in own or at < start or graph.values[output].aval != aval:
                continue
            if root not in by_library and whole(views.of(output), aval.shape):
                roots.append(root)
        near = {}
        if len(given) > 1:
            places = {source: number for number, source in enumerate(sources)}
            near = {new: places[source] for source, new in successors.of(sources, roots).items()}
        for root in sorted(dict.fromkeys(roots), key=lambda root: root not in near):
            if root in taken:
                continue
            at = makers[root]
            call = calls[at]
            assert not isinstance(call, (HostStep, WholeCall))
            for number in waiting.until(at, near.get(root)):
                if in_place(call, sources[number], root):
                    taken[root] = given[number]
                    gone.add(sources[number])
                    waiting.give(number)
                    break
    return Donations(start - begin, taken)


FOREVER = 1 << 62
"""No step is as late."""


class _Waiting:
    """Inputs by the last step that reads them, in a tree of which each node holds the earliest."""

    def __init__(self, last: Sequence[int]) -> None:
        self._first = 1 << max(len(last) - 1, 0).bit_length()
        self._least = [FOREVER] * self._first + [*last] + [FOREVER] * (self._first - len(last))
        for node in range(self._first - 1, 0, -1):
            self._least[node] = min(self._least[2 * node], self._least[2 * node + 1])

    def until(self, step: int, first: int | None = None) -> Iterator[int]:
        """Those that no later step reads, in order; one of them may come first."""
        if first is not None and self._least[self._first + first] <= step:
            yield first
        nodes = [1]
        while nodes:
            node = nodes.pop()
            if self._least[node] > step:
                continue
            if node >= self._first:
                yield node - self._first
            else:
                nodes += (2 * node + 1, 2 * node)

    def give(self, number: int) -> None:
        """Takes an input out, whose memory has been given to an output."""
        node = self._first + number
        self._least[node] = FOREVER
        while node > 1:
            node //= 2
            self._least[node] = min(self._least[2 * node], self._least[2 * node + 1])


def _arguments(call: Step | HostStep) -> Sequence[Argument]:
    """Those of a kernel; a host's operation comes before all that writes over something."""
    return () if isinstance(call, HostStep) else arguments_of(call)
