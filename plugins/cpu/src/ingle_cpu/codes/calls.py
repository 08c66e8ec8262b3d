"""Products by codes within plans, and by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ingle.fusion.device import WholeCall
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer

from ..matmul.entries_call import EntriesCall
from ..matmul.plan import Contraction
from ..matmul.template_calls import TemplateCalls
from .launches import codes_entries
from .problem import CodesProblem, problem_of


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
        self._calls = TemplateCalls(device, self._made)

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...] | None:
        """Computes it; None where operands are not what the template takes."""
        zero = inputs[-1]
        if isinstance(zero, Scalar) and not _is_zero(zero):
            return None
        found = self._calls.find(op, inputs)
        return None if found is None else found.call(found.addresses)

    def _made(
        self, op: Op, inputs: Sequence[Handle | Scalar], strides: Mapping[str, tuple[int, ...]]
    ) -> EntriesCall | None:
        problem = problem_of(op, [Aval(x.shape, x.dtype) for x in inputs], strides)
        if problem is None:
            return None
        made = codes_entries(problem)
        return EntriesCall(self._device, made, len(strides), infer(op, inputs), problem.products)
