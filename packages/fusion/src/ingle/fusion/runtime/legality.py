"""What a device runs as generated kernels: asked of an operation on operands of some kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op

from ..grouping.legality import generates, is_product
from .device import KernelDevice


def generated(device: KernelDevice) -> Callable[[Op, Sequence[Aval]], bool]:
    """Whether kernels are generated for an operation on this device."""
    known = generates(device.contracts)
    return lambda op, avals: not device.owns(op, avals) and known(op, avals)


def written_out(device: KernelDevice) -> Callable[[Op, Sequence[Aval]], bool]:
    """Whether a matrix product becomes a nest of products and a sum on this device."""

    def asked(op: Op, avals: Sequence[Aval]) -> bool:
        return device.spreads_products and is_product(op) and not device.contracts(avals)

    return asked
