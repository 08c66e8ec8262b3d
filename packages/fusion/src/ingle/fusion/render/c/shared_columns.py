"""Sums down few columns in CUDA C++, of each of which several warps take blocks of rows.

A thread that goes down a column alone waits for memory at each block of rows, and computes what is
summed for all of them, as the gradient of a bias does with that of an activation. Blocks of sums do
not depend on one another: each warp sums one of them and leaves it in shared memory, and the first
warp adds them up in their order, which is that of all kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.code import FLOATS
from ...kernel.nest import BLOCK, Nest, runs
from ...kernel.validation import validate
from . import helpers
from .dialect import GroupDialect
from .groups import SharedColumnNest, shared_blocks, shared_reduction
from .held_lengths import WARP
from .reductions import Partial
from .text import Scope, value_type

SHARED_COLUMNS = WARP
"""Columns of a group."""
_WARPS = 8
SHARED_COLUMNS_THREADS = _WARPS * WARP
_MOST_BLOCKS = 2
"""For each multiprocessor: more columns keep a GPU busy as they are."""


def shares_columns(nest: Nest, sizes: Sequence[int], processors: int) -> bool:
    """Whether warps share out the rows of a launch of these sizes."""
    first = shared_reduction(nest)
    if first is None or runs(nest):
        return False
    for combine, at in first.reductions:
        if combine != "sum" or first.code[at].dtype not in FLOATS:
            return False
    return sizes[-1] > BLOCK and 0 < blocks_of_columns(nest, sizes) <= _MOST_BLOCKS * processors


def blocks_of_columns(nest: Nest, sizes: Sequence[int]) -> int:
    """How many blocks of threads take a launch of these sizes."""
    return shared_blocks(nest, sizes, SHARED_COLUMNS)


def shared_columns(nest: Nest, name: str, dialect: GroupDialect) -> str:
    """The source of a kernel whose groups take `SHARED_COLUMNS` columns each.

    Args:
        dialect: which says what unit a group takes a part of.
    """
    validate(nest)
    return _BlocksNest(nest, name, dialect).render()


class _BlocksNest(SharedColumnNest):
    """Writes a nest whose first stage sums down columns."""

    together = SHARED_COLUMNS

    def _reduce(self, number: int, stages: Scope, length: str) -> None:
        partials, body = self.partials(number, 1), Scope()
        body.add(f"const int warp = threadIdx.x / {WARP}, part = threadIdx.x % {WARP};")
        for p in partials:
            kind = value_type(p.dtype)
            body.add(f"{self.dialect.local} {kind} of_{p.name}[{_WARPS}][{WARP}];")
            body.add(*p.arrays(), *p.clear("0"))
        at_once = _WARPS * BLOCK
        blocks = self._blocks_at_once(number, partials, length)
        body.block(f"for (int64_t above = 0; above < {length}; above += {at_once})", blocks)
        for j, p in enumerate(partials):
            name = f"result_{number}_{j}"
            stages.declare(name, f"{p.result_type} {name}[1];")
            body.add(*p.round(self.code, "0"), f"{name}[0] = {p.result('0', length)};")
        stages.block("", body)

    def _blocks_at_once(self, number: int, partials: list[Partial], length: str) -> Scope:
        """A block of rows for each warp, and what the first warp does with their sums."""
        walk, taken, total, found = Scope(), Scope(), Scope(), Scope()
        for p in partials:
            found.add(*p.forget("0"))
            total.add(f"{p.name}[0] = of_{p.name}[n][part];", *p.keep(self.code, "0"))
        found.add(f"const int64_t block = above + warp * {BLOCK};")
        found.add(f"const int64_t stop = {helpers.least(self.source)}(block + {BLOCK}, {length});")
        self._walk(number, partials, walk, "block", "stop")
        found.block("if (column < width)", walk)
        found.add(*[f"of_{p.name}[warp][part] = {p.name}[0];" for p in partials])
        found.add(self.dialect.local_barrier)
        here = f"n < {_WARPS} && above + n * {BLOCK} < {length}"
        taken.block(f"for (int n = 0; {here}; n++)", total)
        found.block("if (warp == 0)", taken)
        found.add(self.dialect.local_barrier)
        return found
