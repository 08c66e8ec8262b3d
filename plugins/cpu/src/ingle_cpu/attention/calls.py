"""Attention within plans, and by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ingle.fusion.device import WholeCall
from ingle.fusion.device.executables import bits_of_number
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer

from ..matmul.entries_call import EntriesCall, located
from ..matmul.plan import Contraction
from ..matmul.template_calls import TemplateCalls
from ..matmul.tile import compute_dtype
from ..threads.pool import thread_pool
from .launches import SCALE_AT, attention_entries
from .problem import AttentionProblem, problem_of


def launches(call: WholeCall) -> bool:
    """Whether executables compute an operation, on operands that lie so."""
    return _problem(call) is not None


def entries_of(call: WholeCall) -> Contraction:
    """The entries of an operation within a plan, whose scale is the first argument of the last."""
    problem = _problem(call)
    assert problem is not None, "launches() has seen it"
    scale = call.named_numbers["scale"]
    bits = _bits(scale.value, problem) if isinstance(scale, Scalar) else 0
    return attention_entries(problem, bits, thread_pool().threads)


def _problem(call: WholeCall) -> AttentionProblem | None:
    given = call.named_numbers
    if "scale" not in given:
        return None
    mask, scale = given["mask"], given["scale"]
    if scale is None or isinstance(mask, int) or (mask is not None and mask.value is not True):
        return None
    if (
        isinstance(scale, int)
        and compute_dtype(call.avals[0].dtype.name) != call.avals[0].dtype.name
    ):
        return None  # it would come as one of half a number's bits
    return problem_of(call.op, call.avals, call.named_strides)


def _bits(scale: Any, problem: AttentionProblem) -> int:
    return bits_of_number(scale, compute_dtype(problem.dtype))


class _AttentionCall(NamedTuple):
    """An attention or its gradient by itself, for operands that lie in one way."""

    problem: AttentionProblem
    run: EntriesCall


class AttentionCalls:
    """Attentions by themselves, by how their operands lie.

    Args:
        device: the backend.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._calls = TemplateCalls(device, self._made, [located])

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...] | None:
        """Computes it; None where operands are not what the template takes."""
        given = dict(zip(op.operation.tensors, inputs, strict=True))
        mask, scale = given.pop("mask"), given.pop("scale")
        if not isinstance(scale, Scalar) or (isinstance(mask, Scalar) and mask.value is not True):
            return None
        found = self._calls.find(op, inputs)
        if found is None:
            return None
        problem, run = found.call
        return run(found.addresses, _bits(scale.value, problem))

    def _made(
        self, op: Op, inputs: Sequence[Handle | Scalar], strides: Mapping[str, tuple[int, ...]]
    ) -> _AttentionCall | None:
        problem = problem_of(op, [Aval(x.shape, x.dtype) for x in inputs], strides)
        if problem is None:
            return None
        made = attention_entries(problem, 0, thread_pool().threads)
        run = EntriesCall(
            self._device, made, len(strides), infer(op, inputs), problem.products, SCALE_AT
        )
        return _AttentionCall(problem, run)
