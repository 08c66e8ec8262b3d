"""Specialization of nests by row length and strides, which are arguments of a kernel otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from ..kernel.code import SIZES
from ..kernel.nest import APART_BYTES, MOST_APART, SHORT, Nest, Row, block_elements, is_flat

LONG = 256
"""Elements from which on a row is long."""
NEAR = 32 << 10
"""Bytes that rows may have together, so that they stay in a core's nearest memory."""


def with_row_length(nest: Nest, sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> Nest:
    """The nest, specialized for rows of these lengths.

    Args:
        sizes: of the outer axes and the inner axis.
        strides: for each operand along these axes.
    """
    length, along = sizes[-1], nest.lanes == "inner"
    blocks = [n for n in map(block_elements, nest.stages) if n]
    return with_strides(nest, strides)._replace(
        row_length=short_length(length) if nest.outer and along else 0,
        one_block=along and bool(blocks) and length <= min(blocks),
        long_rows=length >= LONG and not is_flat(nest) and _divides(nest),
        prefetched=_prefetched(nest, sizes, strides) if nest.outer and along else (),
    )


def short_length(length: int) -> int:
    """The length of rows that a kernel holds as a constant, since they are short; else 0.

    A length that varies is an argument however short the rows are: else each length would be a
    kernel of its own, and take longer to compile than it saves. The bits are the same.
    """
    return length if type(length) is int and length <= SHORT else 0


def with_strides(nest: Nest, strides: Sequence[Sequence[int]]) -> Nest:
    """The nest, specialized for its operands' strides."""
    if nest.lanes == "outer":
        return nest
    first: dict[tuple[int, ...], int] = {}
    operands = []
    for k, (operand, steps) in enumerate(zip(nest.operands, strides, strict=True)):
        alike = first.setdefault(tuple(steps[:-1]), k) if nest.outer else k
        strided = operand.lane == "strided"
        most = min(MOST_APART, APART_BYTES // SIZES[operand.dtype]) if strided else 0
        apart = next((n for n in range(2, most + 1) if steps[-1] == n), 0)
        backward = strided and not apart and steps[-1] == -1
        same = None if alike == k else alike
        operands.append(operand._replace(apart=apart, backward=backward, alike=same))
    return nest._replace(operands=tuple(operands))


def _divides(nest: Nest) -> bool:
    """Whether something is divided at every place: else a kernel serves all lengths."""
    passes = [stage for stage in nest.stages if not isinstance(stage, Row)]
    return any(at.name == "div" for stage in passes for at in stage.code)


def _prefetched(
    nest: Nest, sizes: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """The operands whose next row is prefetched in the second pass over a row.

    The first pass over a row waits for memory, the later ones find everything near and let memory
    idle. Rows that are too long for this one and the next to stay near are left alone.
    """
    passes = [stage for stage in nest.stages if not isinstance(stage, Row)]
    if len(passes) < 2 or nest.scattered or sizes[-1] < LONG or sizes[-2] == 1:
        return ()
    first = {at.value for at in passes[0].code if at.name == "load"}
    rows = [k for k, operand in enumerate(nest.operands) if operand.lane == "unit"]
    chosen = [
        k
        for k in rows
        if k in first and not nest.operands[k].output and nest.operands[k].row_base is None
        and strides[k][-2]
    ]  # fmt: skip
    row_bytes = sum(SIZES[nest.operands[k].dtype] for k in (*rows, *chosen)) * sizes[-1]
    return tuple(chosen) if row_bytes <= NEAR else ()
