"""What a plan runs, step by step: all that is left of a schedule once kernels are ready."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ingle.tensor.contract import Aval

from ..ir.scalar_program import ScalarProgram
from ..ir.views import View
from ..kernel.code import bits_of
from ..lowering.operands import Argument
from ..schedule.schedule import Call, HostStep, Schedule, arguments_of, whole
from ..schedule.whole_calls import WholeCall
from ..support.source_location import Line
from .bare_calls import BareCalls
from .device import BufferOffset, Launch
from .host_ops import HostCall, host_call
from .plan_codegen import LinearPlan

if TYPE_CHECKING:
    from .device import KernelDevice, NativeExecutable, Ordered


class KernelRun(NamedTuple):
    """Kernels that run one after the other.

    Attributes:
        executable: runs them.
        roots: the numbers of the values that are its buffers, behind the arena.
    """

    executable: NativeExecutable
    roots: tuple[int, ...]


class Check(NamedTuple):
    """What may have gone wrong in a run.

    Attributes:
        flag: the number of the value that says so.
        text: what is wrong then.
        node: which node of the recorded graph has failed.
    """

    flag: int
    text: str
    node: int

    def located(self, lines: Sequence[Line]) -> str:
        """The text with the line of the user's code, if those of the graph's nodes are known."""
        return f"{self.text}, at {lines[self.node]}" if lines else self.text


class PlanData(NamedTuple):
    """What a plan runs. Values are known by number: inputs, constants, then `own`, then what the
    backend's own operations give, in the order of the steps.

    Attributes:
        inputs: how many there are.
        host: computes the scalars from those of the recorded graph.
        scalars: their dtypes.
        constants: values that are part of the plan.
        own: what the plan makes.
        arena: how many bytes of memory the kernels share.
        steps: what runs.
        outputs: numbers of values, and where the output is a view of one, that view.
        checks: what may go wrong.
        donors: for values of `own` that may lie in an input's memory, by number, that input.
        products: positions of the inputs whose order of axes in memory decides bits.
    """

    inputs: int
    host: ScalarProgram
    scalars: tuple[str, ...]
    constants: Sequence[Ordered]
    own: Sequence[Aval]
    arena: int
    steps: Sequence[KernelRun | HostCall]
    outputs: Sequence[tuple[int, View | None]]
    checks: Sequence[Check]
    donors: Mapping[int, int]
    products: tuple[int, ...]

    def linear_plan(self, checks: Sequence[tuple[int, str]]) -> LinearPlan | None:
        """What there is to run without steps of the backend's own; None where there are some.

        Args:
            checks: numbers of flags, and what to say where one is set.
        """
        executables = [s for s in self.steps if isinstance(s, KernelRun)]
        if len(executables) < len(self.steps):
            return None
        return LinearPlan(
            inputs=self.inputs, constants=self.constants, own=self.own, arena=self.arena,
            executables=executables, checks=checks, outputs=self.outputs, donors=self.donors,
        )  # fmt: skip


def plan_data_of(
    device: KernelDevice, schedule: Schedule, host: ScalarProgram, constants: Sequence[Ordered],
    checks: Sequence[tuple[str, int]], taken: Mapping[int, int], products: tuple[int, ...],
) -> PlanData:  # fmt: skip
    """What a schedule comes to on a device, which compiles its kernels.

    Args:
        device: which runs it.
        schedule: whose last outputs are flags, one for each check.
        host: computes the scalars.
        constants: the last of the schedule's inputs.
        checks: what is wrong where a flag is set, and which node has failed.
        taken: values that may lie in an input's memory, with that input.
        products: see `PlanData`.
    """
    graph = schedule.graph
    scalars = tuple([graph.values[s].aval.dtype.name for s in graph.scalars])
    numbers = {n: i for i, n in enumerate((*graph.inputs, *schedule.own))}
    steps: list[KernelRun | HostCall] = []
    done = 0
    for step in schedule.steps:
        if isinstance(step, HostStep):
            done += 1
            steps.append(host_call(schedule, step, numbers))
            for value in graph.nodes[step.position].results:
                numbers[value] = len(numbers)
            continue
        launches, roots = kernel_run(schedule, step, numbers, done)
        launches = [_with_fixed_numbers(x, host, scalars) for x in launches]
        done += len(step)
        steps.append(KernelRun(device.executable(launches, 1 + len(roots), scalars), roots))
    outputs = outputs_of(schedule, numbers)
    count = len(outputs) - len(checks)
    return PlanData(
        inputs=len(graph.inputs) - len(constants), host=host, scalars=scalars, constants=constants,
        own=[graph.values[v].aval for v in schedule.own], arena=schedule.arena, steps=steps,
        outputs=outputs[:count],
        checks=[Check(n, *check) for (n, _), check in zip(outputs[count:], checks, strict=True)],
        donors={numbers[value]: given for value, given in taken.items()}, products=products,
    )  # fmt: skip


def _with_fixed_numbers(launch: Launch, host: ScalarProgram, dtypes: Sequence[str]) -> Launch:
    """A launch that knows which of its scalars are the same in each run."""
    results = [host.results[s] for s in launch.scalars]
    if not any(isinstance(r, tuple) for r in results):
        return launch
    fixed = [
        bits_of(r[0], dtypes[s]) if isinstance(r, tuple) else None
        for r, s in zip(results, launch.scalars, strict=True)
    ]
    return launch._replace(fixed=tuple(fixed))


def kernel_run(
    schedule: Schedule, calls: Sequence[Call | WholeCall], numbers: Mapping[int, int],
    first: int = 0,
) -> tuple[list[Launch], tuple[int, ...]]:  # fmt: skip
    """The launches of kernels that run one after the other, and the roots of their buffers.

    Args:
        schedule: the plan's.
        calls: the kernels.
        numbers: those by which the plan's run knows values.
        first: the number of the first call among all of the schedule's.
    """
    bare, place = BareCalls(), {s: i for i, s in enumerate(schedule.graph.scalars)}
    roots: dict[int, int] = {}
    launches = []
    for at, call in enumerate(calls, first):
        pointers = tuple([_pointer(schedule, a, roots) for a in arguments_of(call)])
        scalars = tuple([place[s] for s in call.scalars])
        names = " ".join([schedule.graph.nodes[p].op.operation.name for p in call.nodes])
        workspace = schedule.workspaces.get(at)
        launches.append(Launch(bare.of(call), pointers, scalars, names, workspace))
    return launches, tuple([numbers[r] for r in roots])


def outputs_of(
    schedule: Schedule, numbers: Mapping[int, int]
) -> list[tuple[int, View | None]]:  # fmt: skip
    """A plan's outputs: numbers of values, and where the output is a view of one, that view."""
    return [_output(schedule, o, numbers) for o in schedule.graph.outputs]


def _pointer(schedule: Schedule, argument: Argument, roots: dict[int, int]) -> BufferOffset:
    """Where an operand lies: in the arena, or in the buffer of its root, which `roots` collects."""
    root = argument.root
    aval = schedule.graph.values[root].aval
    offset = argument.offset * aval.dtype.itemsize
    inside = schedule.offsets.get(root)
    if inside is not None:
        return BufferOffset(0, inside + offset)
    nbytes = math.prod(aval.shape) * aval.dtype.itemsize
    return BufferOffset(roots.setdefault(root, len(roots) + 1), offset, nbytes)


def _output(
    schedule: Schedule, value: int, numbers: Mapping[int, int]
) -> tuple[int, View | None]:  # fmt: skip
    """The number of an output's root, and the view of it if it is not the same memory."""
    view = schedule.views.of(value)
    shape = schedule.graph.values[view.root].aval.shape
    return numbers[view.root], None if whole(view, shape) else view
