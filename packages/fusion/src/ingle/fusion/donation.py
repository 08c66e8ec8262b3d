"""Which outputs of a plan may be written into the memory of an input: new state over the old."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .kernel.code import Code
from .passes.contractions import ContractionCall
from .passes.nests import NestCall
from .passes.operands import Argument
from .schedule import HostStep, Schedule, whole

Step = NestCall | ContractionCall


class Donors(NamedTuple):
    """What a plan may do in place.

    Attributes:
        start: the number of the call from which on it does. Before that everything is known that
            could make the run fail.
        taken: for each output that may lie in an input's memory, by the number of the value, the
            position of the input.
    """

    start: int
    taken: dict[int, int]


NONE = Donors(0, {})


def donors(
    schedule: Schedule, pairs: Sequence[tuple[int, int]], flags: Sequence[int]
) -> Donors:  # fmt: skip
    """The pairs of an input and an output that may share memory.

    Args:
        schedule: the plan's.
        pairs: positions of inputs and of outputs; of several for one of them the first holds.
        flags: values that say after a run whether it has failed.
    """
    calls: list[Step] = []
    for step in schedule.steps:
        if isinstance(step, HostStep):
            return NONE
        calls.extend(step)
    graph, views = schedule.graph, schedule.views
    makers: dict[int, int] = {}  # the first of those that write a value
    for number, call in enumerate(calls):
        for root, argument, _ in _operands(call):
            if argument.output:
                makers.setdefault(root, number)
    start = max([makers.get(views.of(f).root, len(calls)) for f in flags], default=-1) + 1
    last = {r: at for at, call in enumerate(calls) for r, a, _ in _operands(call) if not a.output}
    gone = {views.of(o).root for o in graph.outputs}
    taken: dict[int, int] = {}
    for given, made in pairs:
        source, output = graph.inputs[given], graph.outputs[made]
        root = views.of(output).root
        if source in gone or root in taken or root not in schedule.own:
            continue
        if graph.values[source].aval != graph.values[root].aval:
            continue
        at = makers.get(root, -1)
        if at < start or last.get(source, -1) > at:
            continue
        whole_output = whole(views.of(output), graph.values[root].aval.shape)
        if whole_output and _in_place(calls[at], source, root):
            taken[root] = given
            gone.add(source)
    return Donors(start, taken)


def _operands(call: Step) -> Iterator[tuple[int, Argument, tuple[int, ...]]]:
    """Each operand's root, itself, and its strides along the axes of the call."""
    if isinstance(call, NestCall):
        for argument, strides in zip(call.arguments, call.strides, strict=True):
            yield argument.root, argument, strides
        return
    for argument in (call.a, call.b, *call.operands):
        yield argument.root, argument, argument.strides


def _in_place(call: Step, source: int, made: int) -> bool:
    """Whether a call may write a value where it reads another: each place after it was read."""
    operands = list(_operands(call))
    writes = [k for k, (root, _, _) in enumerate(operands) if root == made]
    if len(writes) > 1:
        return False
    (write,) = writes
    target = operands[write][1].offset, operands[write][2]
    reads = [k for k, (root, _, _) in enumerate(operands) if root == source]
    if any((operands[k][1].offset, operands[k][2]) != target for k in reads):
        return False
    if isinstance(call, ContractionCall):
        return not any(k < 2 for k in reads) and not _loads(call.code, [k - 2 for k in reads], True)
    written = False
    for stage in call.nest.stages:
        if _loads(stage.code, reads, gathered=not written):
            return False
        written = written or any(k == write for k, _ in stage.stores)
    return True


def _loads(code: Code, operands: Sequence[int], gathered: bool) -> bool:
    """Whether code reads any of some operands; with `gathered`, at other places than its own."""
    return any(
        i.value in operands and (i.name == "gather" or (i.name == "load" and not gathered))
        for i in code
    )
