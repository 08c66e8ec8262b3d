"""Which nests over rows hold these in registers, and rows of which lengths."""

from __future__ import annotations

from ...kernel.nest import BLOCK, Nest, Reduce, Row, Stage, in_blocks
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
_COMBINES = frozenset({"sum", "max", "min", "any", "all"})
_DTYPES = frozenset({"float32", "int32", "uint32", "bool"})


def may_hold(nest: Nest) -> bool:
    """Whether the rows of a nest, where their lengths suit, may be held in registers."""
    if nest.lanes != "inner" or nest.scattered or nest.ragged or in_blocks(nest) or not nest.outer:
        return False
    if group_size(nest) != MOST or not any(isinstance(s, Reduce) for s in nest.stages):
        return False
    stored: set[int] = set()
    for stage in nest.stages:
        for instruction in stage.code:
            if instruction.name == "gather":
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


def capacity_for(nest: Nest, length: int) -> int:
    """Which of the kernels that hold a nest's rows is the one for a length."""
    if not rows_at_once(nest, length) > 1:
        return WHOLE
    return next(n for n in CAPACITIES if length <= n)


def adds_floats(stage: Stage) -> bool:
    """Whether a stage does nothing but add floats, block by block."""
    if not isinstance(stage, Reduce) or stage.stores:
        return False
    return all(c == "sum" and stage.code[at].dtype == "float32" for c, at in stage.reductions)
