"""Elementwise operations on operands of one shape: one kernel and one table for all shapes.

A plan is made for its shapes, which takes as long as a hundred operations on few elements. Code
that meets a new shape each time would do little else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ingle.fusion.execution import KernelExecutable, Plan
from ingle.fusion.fusion import Fusion
from ingle.fusion.graph import Graph
from ingle.fusion.kernel.nest import is_flat
from ingle.fusion.launching import bits_of_number
from ingle.fusion.passes.nests import NestCall
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op

from .assembly import WORTH, kernel_of
from .layout import UNITS
from .segments import QUICK
from .table import Entry, Table

SAMPLE = 1000
"""Elements of the plan that the kernel is taken from."""


class FlatCall:
    """An operation on tensors of one shape, whichever it is, and numbers.

    Args:
        device: the backend.
        plan: of the operation on `SAMPLE` elements.
        call: its kernel.
    """

    def __init__(self, device: Any, plan: Plan, call: NestCall) -> None:
        graph = plan.schedule.graph
        places = {root: i for i, root in enumerate((*graph.inputs, *graph.outputs))}
        self._device = device
        self._host = plan.host
        self._dtype = graph.values[graph.outputs[0]].aval.dtype
        self._scalars = [
            (graph.scalars.index(s), graph.values[s].aval.dtype.name) for s in call.scalars
        ]
        strides = [s for strides in call.strides for s in strides]
        self._first = 1 + len(strides)
        code = kernel_of(call.nest)
        self._table = Table(
            [Entry(code.addresses[0], 0, 0, SAMPLE, WORTH)],
            [places[a.root] for a in call.arguments], [0] * len(call.arguments), len(places),
            [SAMPLE, *strides, *[0] * len(call.scalars)], code=[code],
        )  # fmt: skip
        self._idle = [self._table]

    def __call__(self, inputs: Sequence[Handle | Scalar]) -> list[Handle] | None:
        """Runs it; None if the numbers need another kernel."""
        scalars = self._host(*[x.value for x in inputs if isinstance(x, Scalar)])
        if scalars is None:
            return None
        handles = [self._device.in_order(x) for x in inputs if isinstance(x, Handle)]
        result = self._device.empty(Aval(handles[0].shape, self._dtype))
        size = math.prod(result.shape)
        try:
            table = self._idle.pop()
        except IndexError:  # other threads use all there are
            table = self._table.copy()
        table.bases[:] = [h.address for h in (*handles, result)]
        table.args[0] = table.entries[0, UNITS] = size
        for place, (number, dtype) in enumerate(self._scalars, self._first):
            table.args[place] = bits_of_number(scalars[number], dtype)
        table.run(release=size >= WORTH * QUICK)
        self._idle.append(table)
        return [result]


def flat_call(
    device: Any, fusion: Fusion, op: Op, inputs: Sequence[Handle | Scalar]
) -> FlatCall | None:
    """An operation for all shapes; None where it takes more than one kernel over flat memory."""
    graph, numbers = Graph(), [x.value for x in inputs if isinstance(x, Scalar)]
    args = [
        graph.scalar(x.dtype) if isinstance(x, Scalar) else graph.input(Aval((SAMPLE,), x.dtype))
        for x in inputs
    ]
    graph.outputs = graph.node(op, args)
    plan = KernelExecutable(device, fusion, graph).plan(numbers)
    call, planned = _only(plan.schedule.steps), plan.schedule.graph
    if call is None or len(planned.outputs) != 1:
        return None
    known = {*planned.inputs, *planned.outputs}
    return (
        FlatCall(device, plan, call) if known.issuperset(a.root for a in call.arguments) else None
    )


def _only(steps: Sequence[Any]) -> NestCall | None:
    """The kernel of a plan, if it is one over flat memory."""
    calls = steps[0] if len(steps) == 1 and isinstance(steps[0], list) else ()
    only = calls[0] if len(calls) == 1 else None
    flat = isinstance(only, NestCall) and is_flat(only.nest) and not only.fixed
    return only if flat else None
