"""Products by codes within plans, and by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ingle.fusion.device import WholeCall
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer

from ..matmul.entries_call import EntriesCall, Located, located, located_in_order
from ..matmul.plan import Contraction
from .launches import codes_entries
from .problem import CodesProblem, problem_of

MOST = 1024
"""Calls that are kept."""


def launches(call: WholeCall) -> bool:
    """Whether executables compute an operation, on operands that lie so."""
    return _problem(call) is not None


def entries_of(call: WholeCall) -> Contraction:
    """The entries of an operation within a plan."""
    problem = _problem(call)
    assert problem is not None, "launches() has seen it"
    return codes_entries(problem)


def _problem(call: WholeCall) -> CodesProblem | None:
    if not _is_zero(call.numbers[-1]):
        return None
    return problem_of(call.op, call.avals, call.named_strides)


def _is_zero(zero: Scalar | int | None) -> bool:
    """Whether a zero point is a tensor, or the number 0, which changes nothing."""
    return zero is None or (isinstance(zero, Scalar) and zero.value == 0)


class CodesCalls:
    """Products by codes by themselves, by how their operands lie.

    Args:
        device: the backend.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._known: dict[Any, EntriesCall | None] = {}

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...] | None:
        """Computes it; None where operands are not what the template takes."""
        zero = inputs[-1]
        if isinstance(zero, Scalar) and not _is_zero(zero):
            return None
        for place in (located, located_in_order):
            operands = {
                name: place(self._device, x)
                for name, x in zip(op.operation.tensors, inputs, strict=True)
                if isinstance(x, Handle)
            }
            call = self._call(op, inputs, operands)
            if call is not None:
                return call([x.address for x in operands.values()])
        return None

    def _call(
        self, op: Op, inputs: Sequence[Handle | Scalar], operands: Mapping[str, Located]
    ) -> EntriesCall | None:
        strides = {name: x.strides for name, x in operands.items()}
        avals = [Aval(x.shape, x.dtype) for x in inputs]
        key = op, *avals, *strides.items()
        if key not in self._known:
            if len(self._known) > MOST:
                self._known.clear()
            problem = problem_of(op, avals, strides)
            self._known[key] = None if problem is None else EntriesCall(
                self._device, codes_entries(problem), len(operands), infer(op, inputs),
                problem.products,
            )  # fmt: skip
        return self._known[key]
