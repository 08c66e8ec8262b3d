"""Steps of a plan that the backend does by itself, between kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import staged_on
from ingle.tensor.operation import Op
from ingle.tensor.ops.creation import FULL

from .passes.expand import avals_of
from .passes.kinds import is_product
from .passes.views import View
from .schedule import HostStep, Schedule, whole

if TYPE_CHECKING:
    from .kernel_device import KernelDevice, Ordered


class HostSteps:
    """Runs them.

    Args:
        device: the backend.
        schedule: of the plan.
        numbers: by which the plan's run knows values.
        generated: whether kernels are generated for an operation.
    """

    def __init__(
        self, device: KernelDevice, schedule: Schedule, numbers: Mapping[int, int],
        generated: Callable[[Op, Sequence[Aval]], bool],
    ) -> None:  # fmt: skip
        self._device = device
        self._schedule = schedule
        self._numbers = numbers
        self._generated = generated

    def run(self, step: HostStep, known: list[Ordered], scalars: Sequence[Any]) -> None:
        """Runs one, and appends its results to the values that are known."""
        node = self._schedule.graph.nodes[step.position]
        inputs = [self._input(v, known, scalars) for v in node.args]
        run = self._device.execute_native
        kernels = self._generated(node.op, avals_of(inputs))
        if is_product(node.op) or kernels:
            # How a library orders the sums depends on strides: alone it is given dense operands.
            dense: list[Handle | Scalar] = [
                self._device.in_order(x) if isinstance(x, Handle) else x for x in inputs
            ]
            if kernels and any(x is not y for x, y in zip(inputs, dense, strict=True)):
                run = self._device.execute  # the strides of its operands were no nest
            inputs = dense
        with staged_on(self._device):  # type: ignore[arg-type]
            results = run(node.op, inputs)
        known.extend([self._device.in_order(h) for h in results[: len(node.results)]])

    def _input(self, value: int, known: list[Ordered], scalars: Sequence[Any]) -> Handle | Scalar:
        view = self._schedule.views.of(value)
        root = self._schedule.graph.values[view.root]
        if root.kind in ("constant", "scalar"):
            number = root.data if root.kind == "constant" else scalars[root.data]
            scalar = Scalar(number, root.aval.dtype)
            if value == view.root:
                return scalar
            return self._device.execute_native(
                FULL.op(shape=view.shape, dtype=scalar.dtype), [scalar]
            )[0]
        handle = known[self._numbers[view.root]]
        return handle if whole(view, root.aval.shape) else viewed(self._device, handle, view)


def viewed(device: KernelDevice, handle: Handle, view: View) -> Handle:
    """A view of a value."""
    return device.viewed(handle, Aval(view.shape, handle.dtype), view.strides, view.offset)
