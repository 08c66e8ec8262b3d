"""An operation on operands of certain shapes, which runs as a plan of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ingle.fusion.device import CompiledPlan, Graph, GraphPlans
from ingle.tensor.blocks import call_holding
from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.late_imports import late
from ingle.tensor.operation import Op

from ..memory import SMALL, maker, place_in_order, place_of
from .laid_out_calls import LaidOutCalls

if TYPE_CHECKING:
    from .any_size import OperationCalls
    from .direct_call import DirectCall


class PlannedOperation:
    """Runs an operation by its plan.

    Args:
        device: the backend.
        op: the operation.
        graph: it alone.
        executable: the graph's plans.
        note: is told after each run what the plans have come to.
        calls: shall know of the graph, if given.

    Attributes:
        direct: runs the newest plan straight, if it is one short kernel.
    """

    direct: DirectCall | None = None
    _laid_out: LaidOutCalls | None = None

    def __init__(
        self, device: Any, op: Op, graph: Graph, executable: GraphPlans,
        note: Callable[[GraphPlans], None], calls: OperationCalls | None,
    ) -> None:  # fmt: skip
        self._device = device
        self._graph = graph
        self._executable = executable
        self._note = note
        self._unknown = [] if calls is None else [calls]
        self._tried: CompiledPlan | None = None
        results = [graph.values[n].aval for n in graph.outputs]
        self._large = any(math.prod(a.shape) * a.dtype.itemsize > SMALL for a in results)

    @property
    def ready(self) -> DirectCall | None:
        """What runs it with nothing looked up, if anything does."""
        return (
            self._straight if self._laid_out is not None and self._laid_out.calls else self.direct
        )

    def _straight(self, op: Op, inputs: Sequence[Handle | Scalar]) -> list[Handle] | None:
        found = None if self.direct is None else self.direct(op, inputs)
        if found is None and self._laid_out is not None:
            return self._laid_out(op, inputs)
        return found

    def __call__(self, op: Op, inputs: Sequence[Handle | Scalar]) -> list[Handle]:
        found = self._straight(op, inputs)
        if found is not None:
            return found
        executable = self._executable
        handles = [x for x in inputs if isinstance(x, Handle)]
        values = [x.value for x in inputs if type(x) is Scalar]
        if self._large:
            outputs = call_holding(maker, op.operation.name, executable, handles, values)
        else:
            outputs = executable(handles, values)
        self._note(executable)
        waiting, self._unknown = self._unknown, []
        for each in waiting:
            each.note(executable, self._graph, handles, values)
        newest = executable.newest
        if newest is not self._tried:
            self._tried = newest
            # The bits of a product are those of its operands' layouts, which have plans.
            place = place_of if executable.products else place_in_order
            make = late("ingle_cpu.eager.direct_call").direct_call
            self.direct = None if newest is None else make(self._device, newest, place)
        if executable.products and not values and not self._large:
            if self._laid_out is None:
                self._laid_out = LaidOutCalls(self._device)
            self._laid_out.note(executable, inputs)
        return outputs
