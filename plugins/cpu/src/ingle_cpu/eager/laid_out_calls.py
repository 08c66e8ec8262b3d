"""Straight calls of products whose operands lie in memory in another order of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ingle.fusion.device import GraphPlans, layout_of
from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.late_imports import late
from ingle.tensor.operation import Op

from ..memory import CpuHandle

if TYPE_CHECKING:
    from .direct_call import DirectCall

MOST = 16
"""So many ways to lie of one operation's operands have calls."""


class LaidOutCalls:
    """The calls of an operation, by how its operands lie.

    Such operands have plans of their own (see `input_layouts`); to find one by the order of axes
    takes longer than small products do, by the strides alone it does not.

    Attributes:
        calls: those that there are.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self.calls: dict[tuple[Any, ...], DirectCall] = {}

    def __call__(self, op: Op, inputs: Sequence[Handle | Scalar]) -> list[Handle] | None:
        """Runs the operation; None where operands lie as none did before."""
        call = self.calls.get(_strides(inputs))
        return None if call is None else call(op, inputs)

    def note(self, plans: GraphPlans, inputs: Sequence[Handle | Scalar]) -> None:
        """Remembers the plan that has run for operands that lie so, if a call of it can be made."""
        handles, key = [x for x in inputs if isinstance(x, Handle)], _strides(inputs)
        if len(handles) != len(inputs) or key in self.calls or len(self.calls) >= MOST:
            return
        orders = dict(layout_of(self._device, handles, plans.products or ()))
        if not orders or not all(_is_dense(x, orders.get(i)) for i, x in enumerate(handles)):
            return
        plan = plans.laid_out(tuple(orders.items())).newest
        make = late("ingle_cpu.eager.direct_call").direct_call
        call = None if plan is None else make(self._device, plan, _place)
        if call is not None:
            self.calls[key] = call


def _strides(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """How operands lie; those at an address of their own in C order."""
    return tuple([None if type(x) is CpuHandle else x.array.strides for x in inputs])


def _is_dense(handle: Any, axes: tuple[int, ...] | None) -> bool:
    """Whether the elements lie one behind the other in the order of these axes."""
    if type(handle) is CpuHandle:
        return True
    array = handle.array if axes is None else handle.array.transpose(axes)
    return bool(array.flags.c_contiguous)


def _place(handle: Any) -> Any:
    """Where the first element is, as a launcher takes it, of what lies as it was noted."""
    return handle.array.__array_struct__
