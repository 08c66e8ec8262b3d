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
from ..support.share_of_time import ShareOfTime
from ..symbolic.form import form_of
from .any_size_plan import SizedCall
from .custom_kernels import registrations
from .sized_calls import sized_calls_of
from .sized_records import stored_sized_plans

if TYPE_CHECKING:
    from ..fusion import Fusion

AT_ONCE, MOST_NODES = 12, 512
"""Operations of a graph up to which its plan for all sizes is made at once, and up to which there
is one."""
STEPS, STEPS_AGAIN = 24, 8
"""Of planning in a slice of such a plan, for each operation; the second number where there are
plans for other sizes, which those of images are many cases of."""
MOST_BYTES = 1 << 24
"""Of outputs, up to which it does not matter that such a run writes over none of its inputs."""
RUNS = 256
"""How often such a plan runs a graph, until that is worth one of its own: to make one takes as long
as some runs, and gains no more than a few percent of one."""
OWNING = 0.1
"""The part of the time at most in which such plans are made: a program that comes to many sizes
again and again would make one for each of them at once."""
owning = ShareOfTime(OWNING)
"""That time."""


class SizedGraph:
    """A graph of certain sizes, which a plan for all sizes may run a few times.

    Args:
        device: which runs it.
        fusion: the decorator over it, for bodies of composites.
        graph: one that `may_serve` says it of.
    """

    def __init__(self, device: Any, fusion: Fusion, graph: Graph) -> None:
        self._device = device
        self._fusion = fusion
        self._graph = graph
        form = form_of(graph)
        surroundings = is_exact(), registrations(), ambient()
        self._calls = sized_calls_of(device, form.skeleton, surroundings)
        if self._calls.stored is None:
            self._calls.stored = stored_sized_plans(device, graph)
        self._sizes = form.numbers
        self._call: SizedCall | None = None
        self._left = RUNS

    @staticmethod
    def may_serve(device: Any, graph: Graph) -> bool:
        """Whether a plan for all sizes may run a graph: it is none of many operations, or of large
        results."""
        if len(graph.nodes) > MOST_NODES or not hasattr(device, "sized_plan"):
            return False
        outputs = [graph.values[o].aval for o in graph.outputs]
        return sum([math.prod(a.shape) * a.dtype.itemsize for a in outputs]) <= MOST_BYTES

    @property
    def is_lasting(self) -> bool:
        """Whether it has come so often that it is worth a plan of its own."""
        return self._left <= 0

    def found(self) -> bool:
        """Whether a plan for all sizes is there that serves it."""
        self._call = self._call or self._calls.call(self._sizes, "a plan", self._graph.lines)
        return self._call is not None

    def made(self, numbers: Sequence[Any]) -> bool | None:
        """Makes a graph that no plan serves an example of one; whether that is there now, and
        serves it. None if there can be none."""
        graph, calls = self._graph, self._calls
        if not self._may_be_made():
            return None
        sliced = len(graph.nodes) > AT_ONCE and is_sliced()
        steps = (STEPS_AGAIN if calls.serves else STEPS) * len(graph.nodes) if sliced else 0
        calls.note(graph, numbers, partial(any_size_plan, self._device, self._fusion), steps)
        return True if self.found() else None if calls.gave_up else False

    def _may_be_made(self) -> bool:
        """Whether no operations are part of it that the device computes itself, outside of
        executables."""
        device, graph = self._device, self._graph
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

    def run(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle] | None:
        """Runs it; None if it takes a plan of its own."""
        if self._call is None:
            return None
        self._left -= 1
        return self._call(given, numbers)
