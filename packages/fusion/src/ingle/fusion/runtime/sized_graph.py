"""Logs on sizes that have not come before: run by a plan for all sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ingle.tensor.contract import Handle

from ..ir.graph import Graph
from ..ir.views import views_of
from ..pipeline import any_size_plan
from ..record.ambient_state import ambient
from ..schedule.schedule import Call, HostStep, KernelSequence
from ..schedule.whole_calls import whole_calls
from ..support.settings import is_exact, is_sliced
from ..symbolic.form import form_of
from .any_size_plan import SizedCall
from .custom_kernels import registrations
from .sized_calls import SizedCalls, sized_calls_of

if TYPE_CHECKING:
    from ..fusion import Fusion

AT_ONCE, MOST_NODES = 32, 512
"""Operations of a graph up to which its plan for all sizes is made at once, and up to which there
is one."""
MOST_AGAIN = 128
"""Likewise where there are plans for other sizes of the form: those that come now are a case of
their own for each operation as well, so that a run without a plan makes as many."""
STEPS = 24
"""Of planning in a slice of such a plan, for each operation."""
MOST_BYTES = 1 << 24
"""Of outputs, up to which it does not matter that such a run writes over none of its inputs."""
RUNS = 32
"""How often such a plan runs a graph, until it has one of its own: to make one takes as long as
some runs, and gains no more than a few percent of one."""


class SizedGraph:
    """A graph of certain sizes, which a plan for all sizes runs a few times.

    Args:
        call: what runs it.
    """

    def __init__(self, call: SizedCall) -> None:
        self._call: SizedCall | None = call
        self._left = RUNS

    @staticmethod
    def may_serve(device: Any, graph: Graph) -> bool:
        """Whether there may be such a plan for a graph: not where operations are part of it that
        the device computes itself, outside of executables."""
        if len(graph.nodes) > MOST_NODES or not hasattr(device, "sized_plan"):
            return False
        outputs = [graph.values[o].aval for o in graph.outputs]
        if sum([math.prod(a.shape) * a.dtype.itemsize for a in outputs]) > MOST_BYTES:
            return False
        whole: list[Call | HostStep] = [
            HostStep(position)
            for position, (op, args, _) in enumerate(graph.nodes)
            if device.takes_whole(op, [graph.values[a].aval for a in args])
        ]
        if not whole:
            return True
        takes = getattr(device, "launches_whole", None)
        made = whole_calls(KernelSequence(graph, views_of(graph), whole, {}))
        return takes is not None and all(map(takes, made.values()))

    @classmethod
    def of(
        cls, device: Any, fusion: Fusion, graph: Graph, numbers: Sequence[Any]
    ) -> SizedGraph | None:
        """A graph that `may_serve` says it of on its numbers; None where no such plan serves it,
        or it is not worth while.

        One that no plan for all sizes serves becomes an example of such a plan, which may serve it.
        """
        calls, sizes = _calls(device, graph)
        call = calls.call(sizes, "a plan", graph.lines)
        if call is None:
            most = MOST_AGAIN if calls.serves else AT_ONCE
            sliced = len(graph.nodes) > most and is_sliced()
            steps = STEPS * len(graph.nodes) if sliced else 0
            calls.note(graph, numbers, partial(any_size_plan, device, fusion), steps)
            call = calls.call(sizes, "a plan", graph.lines)  # it may be there now
        return None if call is None else cls(call)

    @staticmethod
    def gave_up(device: Any, graph: Graph) -> bool:
        """Whether no such plan could be made of examples like a graph."""
        calls, _ = _calls(device, graph)
        return calls.gave_up

    def run(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle] | None:
        """Runs it; None once it has run a few times, or if it takes a plan of its own."""
        if self._left <= 0 or self._call is None:
            self._call = None
            return None
        self._left -= 1
        return self._call(given, numbers)


def _calls(device: Any, graph: Graph) -> tuple[SizedCalls, tuple[Any, ...]]:
    """How graphs like one run, and the numbers of that one."""
    form = form_of(graph)
    surroundings = is_exact(), registrations(), ambient()
    return sized_calls_of(device, form.skeleton, surroundings), form.numbers
