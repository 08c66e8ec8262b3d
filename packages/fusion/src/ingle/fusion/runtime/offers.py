"""Offers: composites that a device computes whole, by a library or by a template of its own.

A device is asked before a composite is taken apart. What an offer takes stays one operation of the
plan and runs between its kernels; what no offer takes becomes its body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op


class Offer(Protocol):
    """One manner in which a device computes whole composites.

    Both methods get operations of any kind, and an offer says no to those that it does not know.
    What it takes depends on its arguments alone: the question comes again when the operation runs.
    """

    def takes(self, op: Op, avals: Sequence[Aval], /) -> bool:
        """Whether it computes an operation on operands of these shapes and dtypes.

        It should where that pays, beside the body and what fuses with it.
        """
        ...

    def run(self, op: Op, inputs: Sequence[Handle | Scalar], /) -> tuple[Handle, ...]:
        """Computes it, on views as they come, and returns a handle for each result.

        It may return before the device has done so, as a plan does.
        """
        ...


def taker(offers: Sequence[Offer], op: Op, avals: Sequence[Aval]) -> Offer | None:
    """The first offer that takes an operation."""
    for offer in offers:
        if offer.takes(op, avals):
            return offer
    return None
