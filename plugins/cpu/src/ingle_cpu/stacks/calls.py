"""Operations on stacks of small matrices, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ingle.fusion.device import WholeCall
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.dtypes import float64, int64
from ingle.tensor.operation import Op, infer

from ..matmul.entries_call import EntriesCall
from ..matmul.template_calls import TemplateCalls
from ..threads.pool import thread_count
from .abi import LANES
from .launches import stack_entries
from .problem import StackProblem, problem_of


def launches(call: WholeCall) -> bool:
    """Whether executables compute an operation: what has no answer is left to NumPy's kernels."""
    return False


class StackCall(NamedTuple):
    """An operation on operands that lie in one way.

    Attributes:
        problem: what it computes.
        entries: what runs it.
        results: shapes and dtypes of its results.
    """

    problem: StackProblem
    entries: EntriesCall
    results: tuple[Aval, ...]


class StackCalls:
    """Operations on stacks of small matrices by themselves, by how their operands lie.

    Args:
        device: the backend.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._calls = TemplateCalls(device, self._made)

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...] | None:
        """Computes it; None where operands are not what the template takes, or have no answer."""
        found = self._calls.find(op, inputs)
        return None if found is None else self._answer(found.call, found.addresses)

    def _answer(self, call: StackCall, addresses: Sequence[int]) -> tuple[Handle, ...] | None:
        *results, declined = call.entries(addresses)
        if _array(declined).any():
            return None
        count = call.problem.matrices
        if call.problem.name == "det":
            mantissa, exponent = (_array(x)[:count] for x in results)
            with np.errstate(over="ignore", under="ignore"):
                return self._written(call, np.ldexp(mantissa, exponent))
        if call.problem.name == "slogdet":
            mantissa, exponent = (_array(x)[:count] for x in results)
            return self._written(call, np.sign(mantissa), _logarithm(mantissa, exponent))
        return tuple(results)

    def _written(self, call: StackCall, *arrays: Any) -> tuple[Handle, ...]:
        typed = [
            x.astype(aval.dtype.dtype, copy=False).reshape(aval.shape)
            for x, aval in zip(arrays, call.results, strict=True)
        ]
        return tuple([self._device.adopt(x) for x in typed])

    def _made(
        self, op: Op, inputs: Sequence[Handle | Scalar], strides: Mapping[str, tuple[int, ...]]
    ) -> StackCall | None:
        problem = problem_of(op, [Aval(x.shape, x.dtype) for x in inputs], strides)
        if problem is None:
            return None
        results = tuple(infer(op, inputs))
        factors = problem.name in ("det", "slogdet")
        room = (problem.units * LANES,)
        written = (Aval(room, float64), Aval(room, int64)) if factors else results
        entries = EntriesCall(
            self._device, stack_entries(problem, thread_count()), len(inputs),
            (*written, Aval((problem.units,), int64)), problem.products,
        )  # fmt: skip
        return StackCall(problem, entries, results)


def _array(handle: Handle) -> Any:
    return handle.array  # type: ignore[attr-defined]


def _logarithm(mantissa: Any, exponent: Any) -> Any:
    """Of a number's absolute value; -inf of zero. Numbers about 1 keep their digits."""
    size = np.abs(mantissa)
    large = size > np.sqrt(2)
    with np.errstate(divide="ignore"):
        return np.log(np.where(large, size / 2, size)) + (exponent + large) * np.log(2)
