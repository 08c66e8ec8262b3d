"""Steps of a plan that the backend does by itself, between kernels."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.tensor.blocks import holding
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import call_staged
from ingle.tensor.dtypes import DType
from ingle.tensor.operation import Op
from ingle.tensor.ops.creation.filled import FULL

from ..grouping.legality import Legality, is_product
from ..ir.graph import Graph
from ..ir.views import View
from ..schedule.schedule import HostStep, Schedule, whole
from ..support.source_location import Line
from .loops import LoopPlan, is_loop, loop_plan
from .pending_checks import call_at, within_plan

if TYPE_CHECKING:
    from ..fusion import Fusion
    from .device import KernelDevice, Ordered


class TensorArgument(NamedTuple):
    """A tensor that an operation takes: the number of a value, and what view of it if not all."""

    number: int
    view: View | None


class NumberArgument(NamedTuple):
    """A number that an operation takes.

    Attributes:
        dtype: of the number.
        constant: it, or None.
        scalar: its place among the plan's scalars, if it is no constant.
        shape: of the tensor that is filled with it; None for the number itself.
    """

    dtype: DType
    constant: Any
    scalar: int
    shape: tuple[int, ...] | None


class HostCall(NamedTuple):
    """An operation that the backend runs.

    Attributes:
        op: the operation.
        args: what it takes.
        avals: what is known of the operands.
        results: how many of its results are values of the plan, the next ones by number.
    """

    op: Op
    args: tuple[TensorArgument | NumberArgument, ...]
    avals: tuple[Aval, ...]
    results: int


def host_call(schedule: Schedule, step: HostStep, numbers: Mapping[int, int]) -> HostCall:
    """A step of a schedule; `numbers` are those by which the plan's run knows values."""
    graph = schedule.graph
    node = graph.nodes[step.position]
    args: list[TensorArgument | NumberArgument] = []
    for value in node.args:
        view = schedule.views.of(value)
        root = graph.values[view.root]
        if root.kind in ("constant", "scalar"):
            shape = None if value == view.root else view.shape
            constant = root.kind == "constant"
            args.append(
                NumberArgument(root.aval.dtype, root.data, -1, shape)
                if constant
                else NumberArgument(root.aval.dtype, None, root.data, shape)
            )
        else:
            part = None if whole(view, root.aval.shape) else view
            args.append(TensorArgument(numbers[view.root], part))
    avals = tuple([graph.values[a].aval for a in node.args])
    return HostCall(node.op, tuple(args), avals, len(node.results))


def host_ops(device: KernelDevice, fusion: Fusion, steps: Iterable[Any], graph: Graph) -> HostOps:
    """What runs the host calls among a plan's steps; programs of loops are planned here.

    Args:
        device: the backend.
        fusion: the decorator over it, for what is planned again.
        steps: of the plan.
        graph: what was recorded.
    """
    calls = [step for step in steps if isinstance(step, HostCall)]
    legality = Legality(device)
    lines = {id(call): _line_of(graph, call.op) for call in calls}
    loops = {
        id(call): loop_plan(device, fusion, call.op, _operands(call), lines[id(call)])
        for call in calls
        if is_loop(call.op)
    }
    generated = {id(c) for c in calls if legality.generates(c.op, c.avals)}
    return HostOps(device, loops, generated, lines)


class HostOps:
    """Runs host calls; made by `host_ops`.

    Args:
        device: the backend.
        loops: plans of the calls that are loops, by the `id` of the call.
        generated: the `id` of each call of which a kernel could be generated.
        lines: of the user's code, by the `id` of the call that it asked for, if it is known.
    """

    def __init__(
        self, device: KernelDevice, loops: Mapping[int, LoopPlan], generated: Container[int],
        lines: Mapping[int, Line | None],
    ) -> None:  # fmt: skip
        self._device = device
        self._loops = loops
        self._generated = generated
        self._lines = lines

    def run(self, call: HostCall, known: list[Ordered], scalars: Sequence[Any]) -> None:
        """Runs one, and appends its results to the values that are known.

        Args:
            call: one of the plan's steps.
            known: values by number.
            scalars: the plan's.
        """
        device = self._device
        inputs = [self._input(arg, known, scalars) for arg in call.args]
        loop = self._loops.get(id(call))
        if loop is not None:
            known.extend(map(device.in_order, loop.run(inputs)))
            return
        run = device.execute_native
        kernels = id(call) in self._generated
        if is_product(call.op) or kernels:
            # How a library orders the sums depends on strides: alone it is given dense operands.
            dense: list[Handle | Scalar] = [
                device.in_order(x) if isinstance(x, Handle) else x for x in inputs
            ]
            if kernels and any(x is not y for x, y in zip(inputs, dense, strict=True)):
                run = device.execute  # the strides of its operands were no nest
            inputs = dense
        line = self._lines[id(call)]
        with holding(within_plan, True):  # who runs the plan waits for its checks
            staged: Any = partial(call_staged, device, run)  # type: ignore[arg-type, call-arg]
            results = call_at(line, device, staged, call.op, inputs)
        known.extend([device.in_order(h) for h in results[: call.results]])

    def _input(
        self, arg: TensorArgument | NumberArgument, known: Sequence[Ordered], scalars: Sequence[Any]
    ) -> Handle | Scalar:
        if isinstance(arg, TensorArgument):
            handle = known[arg.number]
            return handle if arg.view is None else viewed(self._device, handle, arg.view)
        number = arg.constant if arg.scalar < 0 else scalars[arg.scalar]
        scalar = Scalar(number, arg.dtype)
        if arg.shape is None:
            return scalar
        filled = FULL.op(shape=arg.shape, dtype=scalar.dtype)
        return self._device.execute_native(filled, [scalar])[0]


def _line_of(graph: Graph, op: Op) -> Line | None:
    """The line of the user's code that asked for an operation, if it is one."""
    lines = {line for node, line in zip(graph.nodes, graph.lines, strict=False) if node.op == op}
    return lines.pop() if len(lines) == 1 else None


def _operands(call: HostCall) -> list[Aval | Scalar]:
    """What is known of the inputs of an operation before it runs."""
    return [
        Scalar(arg.constant, arg.dtype)
        if isinstance(arg, NumberArgument) and arg.scalar < 0 and arg.shape is None
        else aval
        for arg, aval in zip(call.args, call.avals, strict=True)
    ]


def viewed(device: KernelDevice, handle: Handle, view: View) -> Handle:
    """A view of a value."""
    return device.viewed(handle, Aval(view.shape, handle.dtype), view.strides, view.offset)
