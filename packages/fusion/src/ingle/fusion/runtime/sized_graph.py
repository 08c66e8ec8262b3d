"""Logs on sizes that have not come before: run by a plan for all sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ingle.tensor.contract import Handle

from ..ir.graph import Graph
from ..pipeline import any_size_plan
from ..record.ambient_state import ambient
from ..support.settings import is_exact, is_sliced
from ..symbolic.form import form_of
from .any_size_plan import SizedCall
from .custom_kernels import registrations
from .sized_calls import sized_calls_of

if TYPE_CHECKING:
    from ..fusion import Fusion

AT_ONCE, MOST_NODES = 32, 512
"""Operations of a graph up to which its plan for all sizes is made at once, and up to which there
is one."""
STEPS = 8
"""Of planning in a slice of such a plan, for each operation."""
MOST_BYTES = 1 << 24
"""Of outputs, up to which it does not matter that such a run writes over none of its inputs."""


class SizedGraph:
    """A graph of certain sizes, which a plan for all sizes runs once.

    Args:
        call: what runs it.
    """

    def __init__(self, call: SizedCall) -> None:
        self._call: SizedCall | None = call

    @staticmethod
    def may_serve(device: Any, graph: Graph) -> bool:
        """Whether there may be such a plan for a graph: not where the device's own operations are
        part of it."""
        if len(graph.nodes) > MOST_NODES or not hasattr(device, "sized_plan"):
            return False
        outputs = [graph.values[o].aval for o in graph.outputs]
        if sum([math.prod(a.shape) * a.dtype.itemsize for a in outputs]) > MOST_BYTES:
            return False
        return not any(
            device.takes_whole(op, [graph.values[a].aval for a in args])
            for op, args, _ in graph.nodes
        )

    @classmethod
    def of(
        cls, device: Any, fusion: Fusion, graph: Graph, numbers: Sequence[Any]
    ) -> SizedGraph | None:
        """A graph on its numbers; None where no such plan serves it, or it is not worth while.

        One that no plan for all sizes serves becomes an example of such a plan.
        """
        if not cls.may_serve(device, graph):
            return None
        form = form_of(graph)
        surroundings = is_exact(), registrations(), ambient()
        calls = sized_calls_of(device, form.skeleton, surroundings)
        call = calls.call(form.numbers, "a plan", graph.lines)
        if call is not None:
            return cls(call)
        sliced = len(graph.nodes) > AT_ONCE and is_sliced()
        steps = STEPS * len(graph.nodes) if sliced else 0
        calls.note(graph, numbers, partial(any_size_plan, device, fusion), steps)
        return None

    def run_once(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle] | None:
        """Runs it; None the next time, or if it takes a plan of its own."""
        call, self._call = self._call, None
        return None if call is None else call(given, numbers)
