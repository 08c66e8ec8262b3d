"""Operations whose sizes are new at each call: kernels without a plan for each size.

A program that meets a new length at each step would plan each operation anew for each length. But
from the third length on the plans of an operation are one for all lengths, in which sizes are
symbols. So there is no other plan: what it comes to for the sizes at hand is computed and run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ingle.fusion.device import (
    Fusion, Graph, any_size_plan, is_exact, registrations,
)
from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.late_imports import late
from ingle.tensor.operation import Op, infer

if TYPE_CHECKING:
    from .sized_call import SizedCall, SizedPlan

EXAMPLES = 3
"""Sizes of an operation that have plans of their own, of which one for all sizes is made."""
MOST_PLANS = 4
"""Plans for all sizes: sizes may grow out of where each is a case of its own."""
TRIES = 3
"""After so many plans that could not be made, an operation is left to plans for each size."""
SIZES = frozenset({"shape", "sizes", "size"})
"""Attributes of an operation that are sizes themselves."""


def form_of(op: Op, inputs: Sequence[Handle | Scalar]) -> Any:
    """The operation and its operands without their sizes; None where sizes are attributes."""
    if not SIZES.isdisjoint(op.attributes):
        return None
    ranks = [(len(x.shape), x.dtype, type(x) is Scalar) for x in inputs]
    return (op, *ranks, is_exact(), registrations())


class SizedCalls:
    """How an operation on operands of some ranks and dtypes runs, whatever their sizes.

    Args:
        device: the backend.
        fusion: the decorator over it.
    """

    def __init__(self, device: Any, fusion: Fusion) -> None:
        self._device = device
        self._fusion = fusion
        self._samples: list[tuple[Graph, Sequence[Any]]] = []
        self._plans: list[SizedPlan] = []
        self._failed = 0

    @property
    def wanted(self) -> bool:
        """Whether it wants to know of graphs that have plans of their own."""
        return self._failed < TRIES and len(self._plans) < MOST_PLANS

    def note(self, graph: Graph, numbers: Sequence[Any]) -> None:
        """Takes notice of the graph of the operation for sizes that it does not serve."""
        if not self.wanted:
            return
        self._samples.append((graph, numbers))
        if len(self._samples) < EXAMPLES:
            return
        samples, self._samples = self._samples, []
        plan = any_size_plan(self._device, self._fusion, samples)
        if plan is None:
            self._failed += 1
        else:
            self._plans = [late("ingle_cpu.eager.sized_call").SizedPlan(plan), *self._plans]

    def call(self, op: Op, inputs: Sequence[Handle | Scalar]) -> SizedCall | None:
        """How it runs on operands like these; None if there has to be a plan."""
        if not self._plans:
            return None
        numbers = [n for x in (*inputs, *infer(op, inputs)) for n in x.shape]
        for served in self._plans:
            run = served.plan.at(numbers)
            if run is not None:
                return served.call(self._device, op, run)
        return None
