"""Attention within plans, and by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ingle.fusion.device import Lender, WholeCall
from ingle.fusion.device.executables import bits_of_number
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer

from ..matmul.entries_table import entries_table
from ..matmul.panel_elements import compute_dtype
from ..matmul.plan import Contraction, Pointer
from ..memory import CpuHandle, lent_memory
from ..threads.pool import thread_pool
from ..threads.table import IdleTables
from .launches import LINE, SCALE_AT, attention_entries
from .problem import AttentionProblem, Strides, in_order, problem_of

QUICK = 1 << 20
"""Multiplications up to which Python's lock is kept."""
MOST = 1024
"""Calls that are kept."""


def launches(call: WholeCall) -> bool:
    """Whether executables compute an operation, on operands that lie so."""
    return _problem(call) is not None


def entries_of(call: WholeCall) -> Contraction:
    """The entries of an operation within a plan, whose scale is the first argument of the last."""
    problem = _problem(call)
    assert problem is not None, "launches() has seen it"
    scale = call.numbers[call.op.operation.tensors.index("scale")]
    bits = _bits(scale.value, problem) if isinstance(scale, Scalar) else 0
    return attention_entries(problem, bits, thread_pool().threads)


def _problem(call: WholeCall) -> AttentionProblem | None:
    names = call.op.operation.tensors
    if "scale" not in names:
        return None
    given = dict(zip(names, call.numbers, strict=True))
    mask, scale = given["mask"], given["scale"]
    if scale is None or isinstance(mask, int) or (mask is not None and mask.value is not True):
        return None
    if (
        isinstance(scale, int)
        and compute_dtype(call.avals[0].dtype.name) != call.avals[0].dtype.name
    ):
        return None  # it would come as one of half a number's bits
    tensors = [name for name, number in given.items() if number is None]
    strides = dict(zip(tensors, call.strides, strict=True))
    return problem_of(call.op, call.avals, strides)


def _bits(scale: Any, problem: AttentionProblem) -> int:
    return bits_of_number(scale, compute_dtype(problem.dtype))


class _Operand(NamedTuple):
    """A tensor in memory.

    Attributes:
        address: of its first element.
        strides: of its axes, in numbers.
        handle: what keeps it there.
    """

    address: int
    strides: Strides
    handle: Handle


class AttentionCall:
    """An attention or its gradient by itself, for operands that lie in one way.

    Args:
        device: the backend.
        problem: what it computes.
        results: shapes and dtypes of the results.
        tables: its entries.
        scratch: bytes of scratch memory.
        scale_at: the place of the scale among the arguments.
    """

    def __init__(
        self, device: Any, problem: AttentionProblem, results: Sequence[Aval],
        tables: IdleTables, scratch: int, scale_at: int,
    ) -> None:  # fmt: skip
        self._device = device
        self._problem = problem
        self._results = results
        self._tables = tables
        self._scratch = scratch
        self._scale_at = scale_at

    @staticmethod
    def of(
        device: Any, problem: AttentionProblem, op: Op, inputs: Sequence[Handle | Scalar]
    ) -> AttentionCall:
        """The call of an operation on operands like these."""
        results = infer(op, inputs)
        made = attention_entries(problem, 0, thread_pool().threads)
        operands = len(problem.operands) + len(results)
        places = {Pointer("operand", n): (n, 0) for n in range(operands)}
        end = 0
        for number, nbytes in enumerate(made.scratch):
            places[Pointer("scratch", number)] = operands, end
            end += -(-nbytes // LINE) * LINE
        scale_at = sum(len(e.args) for e in made.entries[:-1]) + SCALE_AT
        tables = IdleTables(entries_table(made.entries, places))
        return AttentionCall(device, problem, results, tables, end, scale_at)

    def __call__(self, addresses: Sequence[int], scale: Any) -> tuple[Handle, ...]:
        """Runs it on tensors at these addresses."""
        results = tuple([self._device.empty(aval) for aval in self._results])
        table = self._tables.taken()
        scratch = _scratch.lend(self._scratch, lent_memory)
        table.bases[:] = [*addresses, *[h.address for h in results], scratch.address]
        table.args[self._scale_at] = _bits(scale, self._problem)
        table.run(release=self._problem.products > QUICK)
        _scratch.take_back(scratch)
        self._tables.idle.append(table)
        return results


class AttentionCalls:
    """Attentions by themselves, by how their operands lie.

    Args:
        device: the backend.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._known: dict[Any, AttentionCall] = {}

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...] | None:
        """Computes it; None where operands are not what the template takes."""
        given = dict(zip(op.operation.tensors, inputs, strict=True))
        mask, scale = given.pop("mask"), given.pop("scale")
        if not isinstance(scale, Scalar) or (isinstance(mask, Scalar) and mask.value is not True):
            return None
        operands = {
            name: self._operand(x)
            for name, x in zip(op.operation.tensors, inputs, strict=True) if isinstance(x, Handle)
        }  # fmt: skip
        strides = {name: x.strides for name, x in operands.items()}
        avals = [Aval(x.shape, x.dtype) for x in inputs]
        key = op, *avals, *strides.items()
        call = self._known.get(key)
        if call is None:
            problem = problem_of(op, avals, strides)
            if problem is None:
                return None
            if len(self._known) > MOST:
                self._known.clear()
            call = self._known[key] = AttentionCall.of(self._device, problem, op, inputs)
        return call([x.address for x in operands.values()], scale.value)

    def _operand(self, handle: Handle) -> _Operand:
        if not isinstance(handle, CpuHandle):
            array: Any = handle.array  # type: ignore[attr-defined]
            size = array.itemsize
            if not any(step % size for step in array.strides):
                strides = tuple([step // size for step in array.strides])
                return _Operand(array.ctypes.data, strides, handle)
        ordered: CpuHandle = self._device.in_order(handle)
        return _Operand(ordered.address, in_order(ordered.shape), ordered)


_scratch = Lender()
"""Memory for blocks and panels."""
