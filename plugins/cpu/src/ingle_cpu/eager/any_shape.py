"""Elementwise operations on operands of one shape: one kernel and one table for all shapes.

A plan is made for its shapes, which takes as long as a hundred operations on few elements. Code
that meets a new shape each time would do little else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ingle.fusion.device import CompiledPlan, Fusion, Graph, GraphPlans, KernelRun, Launch
from ingle.fusion.device.kernels import NestCall, is_flat
from ingle.tensor.contract import Aval, Handle, Scalar, Shape
from ingle.tensor.operation import Op

from ..launch.executable import QUICK, CpuExecutable, packer
from ..launch.table_builder import WORTH, kernel_of
from ..memory import place_in_order, small_size
from ..threads.abi import UNITS
from ..threads.launcher import HAS_LOCK
from ..threads.table import IdleTables, Table, kernel_table
from .direct_call import DirectCall, call_of_tensors, call_with_numbers

SAMPLE = 1000
"""Elements of the plan that the kernel is taken from."""


class AnyShapeCall:
    """An operation on tensors of one shape, whichever it is, and numbers.

    Args:
        device: the backend.
        plan: of the operation on `SAMPLE` elements.
        launch: its kernel.
        values: the numbers of the kernel's operands: inputs, and the output behind them.
    """

    def __init__(
        self, device: Any, plan: CompiledPlan, launch: Launch, values: Sequence[int]
    ) -> None:
        call, data = launch.call, plan.data
        assert isinstance(call, NestCall)
        self._device = device
        self._host = plan.host
        self._dtype = data.own[0].dtype
        self._scalars = [(n, packer(data.scalars[n])) for n in launch.scalars]
        strides = [s for strides in call.strides for s in strides]
        self._first = 1 + len(strides)
        code = kernel_of(call.nest)
        args = [SAMPLE, *strides, *[0] * len(launch.scalars)]
        table = kernel_table(code, values, data.inputs + 1, args, units=SAMPLE, grain=WORTH)
        self._tables = IdleTables(table)

    def __call__(self, op: Op, inputs: Sequence[Handle | Scalar]) -> list[Handle] | None:
        """Runs it; None if the numbers need another kernel."""
        scalars = self._host(*[x.value for x in inputs if isinstance(x, Scalar)])
        if scalars is None:
            return None
        handles = [self._device.in_order(x) for x in inputs if isinstance(x, Handle)]
        shape = max([h.shape for h in handles], key=len)
        result = self._device.empty(Aval(shape, self._dtype))
        size = math.prod(result.shape)
        table = self._tables.taken()
        table.bases[:] = [h.address for h in (*handles, result)]
        table.args[0] = table.entries[0, UNITS] = size
        self._patch(table, scalars)
        table.run(release=size >= WORTH * QUICK)
        self._tables.idle.append(table)
        return [result]

    def direct(self, shape: Shape) -> DirectCall | None:
        """The call for one shape; None if its result is not small."""
        aval, count = Aval(shape, self._dtype), math.prod(shape)
        size = small_size(aval)
        if size is None or count >= WORTH * QUICK:
            return None
        table = self._tables.table.copy()
        table.args[0] = table.entries[0, UNITS] = count
        if self._scalars or not HAS_LOCK:
            tables = IdleTables(table)
            return call_with_numbers(
                self._device, aval, size, tables, self._host, self._patch, place_in_order
            )
        return call_of_tensors(self._device, aval, size, table, place_in_order)

    def _patch(self, table: Table, scalars: Sequence[Any]) -> None:
        start = 8 * self._first
        for number, pack in self._scalars:
            table.arg_bytes[start : start + 8] = pack(scalars[number])
            start += 8


def any_shape_call(
    device: Any, fusion: Fusion, op: Op, inputs: Sequence[Handle | Scalar]
) -> AnyShapeCall | None:
    """An operation for all shapes; None where it takes more than one kernel, or strides."""
    graph, numbers = Graph(), [x.value for x in inputs if isinstance(x, Scalar)]
    args = [
        graph.scalar(x.dtype) if isinstance(x, Scalar) else graph.input(Aval((SAMPLE,), x.dtype))
        for x in inputs
    ]
    graph.outputs = graph.node(op, args)
    plan = GraphPlans(device, fusion, graph).serving(numbers)
    data = plan.data
    only = data.steps[0] if len(data.steps) == 1 else None
    if not isinstance(only, KernelRun) or data.constants or data.checks:
        return None
    assert isinstance(only.executable, CpuExecutable)
    launch = _only(only.executable.launches())
    if launch is None or list(data.outputs) != [(data.inputs, None)]:
        return None
    if any(pointer.buffer == 0 or pointer.offset for pointer in launch.pointers):
        return None
    return AnyShapeCall(device, plan, launch, [only.roots[p.buffer - 1] for p in launch.pointers])


def _only(launches: Sequence[Launch]) -> Launch | None:
    """The kernel of a plan, if it is one over one contiguous run of memory."""
    call = launches[0].call if len(launches) == 1 else None
    flat = isinstance(call, NestCall) and is_flat(call.nest) and not call.fixed
    return launches[0] if flat else None
