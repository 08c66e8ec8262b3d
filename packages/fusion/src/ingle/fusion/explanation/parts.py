"""Plans for several devices, part by part: the kernels of each, and the memory between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ingle.tensor.contract import Handle

from ..device_group import PartedPlan, PlannedPart
from ..ir.views import views_of
from ..runtime.graph_plans import GraphPlans
from ..schedule.rates import rates_of
from .buffers import Buffer, Buffers
from .steps import Step, alone, steps_of


class Explained(NamedTuple):
    """What is known of all parts.

    Attributes:
        steps: what runs.
        arena: bytes of memory between kernels.
        sources: the kernels' code, if it was asked for.
        buffers: the memory that kernels read and write.
    """

    steps: tuple[Step, ...]
    arena: int
    sources: tuple[str, ...]
    buffers: tuple[Buffer, ...]


def explained_parts(
    plan: PartedPlan, given: Sequence[Handle], numbers: Sequence[Any],
    roles: Mapping[int, tuple[str, bool]], runs: int, source: bool,
) -> Explained:  # fmt: skip
    """The steps of a plan for several devices.

    Args:
        plan: of a graph.
        given, numbers: what it runs on.
        roles: those of the graph's values, with whether they are written.
        runs: how often to run each kernel to measure it; 0 measures nothing.
        source: whether to add the code of the kernels.
    """
    steps: list[Step] = []
    found: list[Buffer] = []
    sources: list[str] = []
    arena = 0
    known: dict[int, int] = {}
    named = {plan.root(value): role for value, role in roles.items()}
    for part in plan.explained(given, numbers, bool(runs)):
        executable, times = part.executable, dict[int, float]()
        if isinstance(executable, GraphPlans):
            made = executable.plan(part.numbers)
            schedule = made.schedule
            memory = Buffers(schedule.graph, schedule.views, found)
            if runs:
                times = made.profile(executable.ordered(part.given), part.numbers, runs)
            sources += made.sources() if source else ()
            arena += schedule.arena
            _name(memory, part, named, known)
            own = steps_of(schedule, memory, times)
        else:
            memory = Buffers(part.graph, views_of(part.graph), found)
            _name(memory, part, named, known)
            own = [alone("host", memory, n) for n in range(len(part.graph.nodes))]
        _note(memory, part, known)
        rates = rates_of(part.backend)
        steps += [replace(step, rates=rates, device=part.device) for step in own]
    return Explained(tuple(steps), arena, tuple(sources), tuple(found))


def _name(
    memory: Buffers, part: PlannedPart, named: Mapping[int, tuple[str, bool]],
    known: Mapping[int, int],
) -> None:  # fmt: skip
    """Says what the values are that a part takes and gives, and which memory has a number."""
    sides = (memory.graph.inputs, part.inputs), (memory.graph.outputs, part.results)
    for own, whole in sides:
        for value, number in zip(own, whole, strict=False):
            memory.tell(value, *named.get(number, ("between", False)))
    for value, number in zip(memory.graph.inputs, part.inputs, strict=False):
        if number in known:
            memory.is_same(value, known[number])


def _note(memory: Buffers, part: PlannedPart, known: dict[int, int]) -> None:
    """Notes the numbers of the memory that other parts may read."""
    sides = (memory.graph.inputs, part.inputs), (memory.graph.outputs, part.results)
    for own, whole in sides:
        for value, number in zip(own, whole, strict=False):
            place = memory.number_of(value)
            if place is not None:
                known.setdefault(number, place)
