"""Rows in CUDA C++ that a warp takes alone.

Threads of a warp know each other's registers without a barrier, and blocks of many warps begin
sooner than as many blocks of two. A thread has every 32nd element, so that it holds partial results
whose numbers are 32 apart: the first halvings happen in its registers, the others by shuffles. Each
partial result has the elements, and each folding the order, that it has in every kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.nest import Nest, Reduce, accumulators, in_blocks, runs, units
from ...kernel.validation import validate
from .dialect import GroupDialect
from .groups import GroupNest, is_wide
from .held_lengths import STEP, WARP, may_hold
from .reductions import Partial
from .text import Scope
from .warp_folds import fold_strided

LONGEST = 1024
"""Elements of a row up to which a warp is quicker than two that meet at barriers: of longer ones
more rows would be under way than the GPU has memory near for."""
_MOST = 1 << 27
"""Rows of a launch: drivers count blocks in 31 bits."""
_WORTH_IT = 2
"""Bytes of an element from which on several are loaded ahead."""


def takes_rows(nest: Nest, sizes: Sequence[int]) -> bool:
    """Whether a warp takes a row of a launch of these sizes."""
    if not is_wide(nest) or nest.lanes != "inner" or nest.scattered or runs(nest):
        return False
    if in_blocks(nest) or nest.ragged or not nest.outer or 0 in sizes:
        return False
    stages = [s for s in nest.stages if isinstance(s, Reduce)]
    if not stages or (may_hold(nest) and sizes[-1] % STEP == 0):
        return False
    counts = [accumulators(s.code[at].dtype) for s in stages for _, at in s.reductions]
    if any(count < 2 * WARP for count in counts):
        return False
    return sizes[-1] <= LONGEST and units(nest, sizes) <= _MOST


def warp_rows(nest: Nest, name: str, dialect: GroupDialect) -> str:
    """The source of a kernel whose warps take a row each.

    Args:
        dialect: whose work items are numbered within their warp, and whose barriers are a warp's.
    """
    validate(nest)
    return WarpNest(nest, name, dialect).render()


class WarpNest(GroupNest):
    """Writes a kernel whose groups are warps."""

    members = WARP
    worth_it = _WORTH_IT

    def fold(self, p: Partial, body: Scope) -> None:
        fold_strided(p, self.code, body)
