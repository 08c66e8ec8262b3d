"""Which nests over rows hold these in registers, and rows of which lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...kernel.nest import BLOCK, Map, Nest, Reduce, Row, Stage, columns_of, in_blocks, layout
from .groups import MOST, group_size

WARP = 32
SPAN = 2 * WARP
"""Elements that a warp takes at once, and partial results of a reduction."""
WHOLE = BLOCK * SPAN
"""Elements of a row that a warp holds: a block of its sums."""
CHUNK = 4
"""Pairs of a thread whose operands are loaded together; rows hold a multiple of them."""
STEP = CHUNK * SPAN
SHARED = MOST // WARP * WHOLE
"""Elements of a row that the warps of a group hold together."""
CAPACITIES = (WHOLE // 4, WHOLE // 2, WHOLE)
"""Elements of a row that a warp holds at most, of the kernels that there are."""
MOST_COLUMN_BYTES = 40 << 10
"""Of shared memory for sums over rows: blocks have 48 KiB, and rows exchange results there."""
_FEW_ROWS = 128
"""Rows up to which no multiprocessor has several to wait for at a time."""
_COMBINES = frozenset({"sum", "max", "min", "any", "all"})
_DTYPES = frozenset({"float32", "int32", "uint32", "bool"})


def may_hold(nest: Nest, gathers: bool = False) -> bool:
    """Whether the rows of a nest, where their lengths suit, may be held in registers; with
    `gathers`, but for what is read at places that are computed."""
    if nest.lanes != "inner" or nest.scattered or nest.ragged:
        return False
    if group_size(nest) != MOST or not any(isinstance(s, Reduce) for s in nest.stages):
        return False
    if any(nest.operands[k].dtype != "float32" for s in nest.stages for k, _ in columns_of(s)):
        return False
    stored: set[int] = set()
    for stage in nest.stages:
        for instruction in stage.code:
            if instruction.name == "gather" and not gathers:
                return False
            k = instruction.value
            if instruction.name == "load" and isinstance(k, int):
                operand = nest.operands[k]
                if operand.lane == "strided" or (operand.output and k not in stored):
                    return False
        if isinstance(stage, Reduce):
            if stage.scan:
                return False
            for combine, at in stage.reductions:
                if combine not in _COMBINES or stage.code[at].dtype not in _DTYPES:
                    return False
        apart = any(nest.operands[k].lane != "unit" for k, _ in stage.stores)
        if apart and not isinstance(stage, Row):
            return False
        stored |= {k for k, _ in stage.stores}
    return all(o.row_base is None for o in nest.operands)


def rows_at_once(nest: Nest, length: int) -> int:
    """How many rows of such a length a group takes at once."""
    suits = 0 < length <= WHOLE and length % STEP == 0
    return MOST // WARP if suits and may_hold(nest) else 1


class Holding(NamedTuple):
    """What a kernel that holds rows is written for, beside its nest.

    Attributes:
        capacity: elements of a row that a warp may hold, of `CAPACITIES`; or that it holds.
        length: of rows, where warps hold just as much as they may; 0 where they may hold less.
        shared: operands that are the same for all rows, and so are not held: they are near.
        few: whether there are so few rows that each waits for memory alone: what is read of one is
            asked for at once, before anything is computed, if there are registers for it.
    """

    capacity: int = WHOLE
    length: int = 0
    shared: tuple[int, ...] = ()
    few: bool = False


ANY_LAUNCH = Holding()


def holding_for(nest: Nest, numbers: Sequence[int]) -> Holding:
    """Which of the kernels that hold a nest's rows is the one for a launch.

    Args:
        numbers: sizes, then strides, as `layout` says.
    """
    if not may_hold(nest):
        return ANY_LAUNCH
    places, axes = layout(nest), range(nest.outer)
    length = numbers[places.inner]
    shared = [
        k
        for k, operand in enumerate(nest.operands)
        if operand.lane == "unit"
        and not operand.output
        and not any(numbers[places.stride(k, axis)] for axis in axes)
    ]
    rows = math.prod(numbers[: nest.outer])
    few = rows <= _FEW_ROWS and not in_blocks(nest) and any(isinstance(s, Map) for s in nest.stages)
    if rows_at_once(nest, length) > 1:
        if in_blocks(nest):
            return Holding(length, length, tuple(shared))
        capacity = next(n for n in CAPACITIES if length <= n)
        return Holding(capacity, length if length == capacity else 0, tuple(shared), few)
    full = length == SHARED
    return Holding(WHOLE, SHARED if full else 0, tuple(shared), few)


def column_bytes(columns: int, capacity: int) -> int:
    """Shared memory of a group for so many sums over rows."""
    return columns * capacity * SHARED // WHOLE * 4


def sums_beside_rows(rows: int, columns: int, processors: int) -> int:
    """How many sums over rows a kernel adds that holds these rows: none where it would leave
    processors without a block of rows, or cannot hold a row."""
    if columns % STEP or columns > SHARED or rows < BLOCK * processors:
        return 0
    capacity = next((n for n in CAPACITIES if columns <= n), WHOLE)
    return MOST_COLUMN_BYTES // column_bytes(1, capacity)


def adds_floats(stage: Stage) -> bool:
    """Whether a stage does nothing but add floats, block by block."""
    if not isinstance(stage, Reduce) or stage.stores:
        return False
    return all(c == "sum" and stage.code[at].dtype == "float32" for c, at in stage.reductions)
