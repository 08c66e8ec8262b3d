"""Whether a kernel may write a value where it reads another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..kernel.code import Code
from ..kernel.nest import folds
from ..lowering.contraction import ContractionCall
from ..lowering.nests import NestCall
from ..lowering.operands import Argument
from .whole_calls import WholeCall


def _operands_with_strides(
    call: NestCall | ContractionCall | WholeCall,
) -> Iterator[tuple[int, Argument, tuple[int, ...]]]:
    """Each operand's root, itself, and its strides along the axes of the call."""
    if isinstance(call, NestCall):
        for argument, strides in zip(call.arguments, call.strides, strict=True):
            yield argument.root, argument, strides
        return
    if isinstance(call, WholeCall):
        yield from ((a.root, a, a.strides) for a in call.arguments)
        return
    for argument in (call.a, call.b, *call.operands):
        yield argument.root, argument, argument.strides


def in_place(call: NestCall | ContractionCall, source: int, made: int) -> bool:
    """Whether a call may write a value where it reads another: each place after it was read."""
    operands = list(_operands_with_strides(call))
    writes = [k for k, (root, _, _) in enumerate(operands) if root == made]
    if len(writes) > 1:
        return False
    (write,) = writes
    target = operands[write][1].offset, operands[write][2]
    reads = [k for k, (root, _, _) in enumerate(operands) if root == source]
    if any((operands[k][1].offset, operands[k][2]) != target for k in reads):
        return False
    if isinstance(call, ContractionCall):
        return not any(k < 2 for k in reads) and not _loads(call.code, [k - 2 for k in reads], True)
    if folds(call.nest):
        return not reads
    written = False
    for stage in call.nest.stages:
        if _loads(stage.code, reads, gathered=not written):
            return False
        written = written or any(k == write for k, _ in stage.stores)
    return True


def _loads(code: Code, operands: Sequence[int], gathered: bool) -> bool:
    """Whether code reads any of some operands; with `gathered`, at other places than its own."""
    return any(
        i.value in operands and (i.name == "gather" or (i.name == "load" and not gathered))
        for i in code
    )
