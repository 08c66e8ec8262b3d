"""Sums of many sums of blocks in CUDA C++, which the warps of a block share out.

Totals are added one after the other, each with its exact error, and so are the errors. A thread
that does all of that for a column waits for memory, and takes some ten instructions in turn where
only additions depend on one another. Here rows come in pieces, and four things happen at a time,
each to another piece: some warps ask memory for one that is far ahead, one warp adds up and leaves
every total in shared memory, two find the errors, and one adds these up. So a row takes little
longer than an addition.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.code import SIZES
from ...kernel.nest import Nest
from ...kernel.neutral import neutral_bits
from ...kernel.validation import validate
from . import helpers
from .dialect import GroupDialect
from .groups import SharedColumnNest, shared_blocks, shared_reduction
from .held_lengths import WARP
from .text import Scope, literal, value_type
from .vectors import BYTES

WIDTH = 8
"""Columns of a block: each has 16 bytes of shared memory beside those of the others."""
TOTALS_THREADS = 8 * WARP
_PIECE_BYTES = 512
"""Of a column, in a piece."""
_MOST_BLOCKS = 8
"""For each multiprocessor: more columns keep a GPU busy as they are."""


def shares_totals(nest: Nest, sizes: Sequence[int], processors: int) -> bool:
    """Whether warps share out the rows of a launch of these sizes: a piece of them at least."""
    first = shared_reduction(nest)
    if first is None or first.stores or len(first.code) != 1:
        return False
    if [combine for combine, _ in first.reductions] != ["totals"]:
        return False
    enough = sizes[-1] >= _PIECE_BYTES // SIZES[first.code[0].dtype]
    return enough and 0 < blocks_of_totals(nest, sizes) <= _MOST_BLOCKS * processors


def blocks_of_totals(nest: Nest, sizes: Sequence[int]) -> int:
    """How many blocks of threads take a launch of these sizes."""
    return shared_blocks(nest, sizes, WIDTH)


def long_totals(nest: Nest, name: str, dialect: GroupDialect) -> str:
    """The source of a kernel whose blocks take `WIDTH` columns each.

    Args:
        dialect: which says what unit a block takes a part of.
    """
    validate(nest)
    return _TotalsNest(nest, name, dialect).render()


class _TotalsNest(SharedColumnNest):
    """Writes a nest whose first stage adds up the totals of columns."""

    together = WIDTH

    def _reduce(self, number: int, stages: Scope, length: str) -> None:
        (p,) = self.partials(number, self.columns)
        (load,) = self.stages[number].code
        assert isinstance(load.value, int)
        function = self.source.need(f"add_up_{p.dtype}", self._function(p.dtype))
        first, step = self.element(load.value, "0"), self.stride(load.value, -1)
        total = f"{function}(&{first}, {step}, {length}, column < width)"
        stages.add(f"const {p.result_type} result_{number}_0[1] = {{{total}}};")

    def _function(self, dtype: str) -> str:
        """Adds up a column in each of the first threads, all of which must call it."""
        kind, rows = value_type(dtype), _PIECE_BYTES // SIZES[dtype]
        stored, rounded = self.source.stored(dtype), helpers.with_error(self.source, dtype)
        return _ADD_UP.format(
            kind=kind, dtype=dtype, stored=stored, rounded=rounded, local=self.dialect.local,
            barrier=self.dialect.local_barrier, rows=rows, width=WIDTH,
            neutral=literal(neutral_bits("sum", dtype), dtype), zero=literal(0, dtype),
            stride=rows + BYTES // SIZES[dtype], ahead=rows * WIDTH // WARP, each=WARP // WIDTH,
            part=rows * WIDTH // (2 * WARP), quarter=rows // 4, bytes=BYTES,
        )  # fmt: skip


_ADD_UP = """\
static {kind} add_up_{dtype}(const {stored} *first, int64_t step, int64_t rows, bool is_there)
{{
    alignas({bytes}) {local} {kind} pieces[4][{width}][{stride}];
    alignas({bytes}) {local} {kind} totals[2][{width}][{stride}];
    {local} {kind} before[2][{width}], errors[{width}];
    const int warp = threadIdx.x / 32, own = threadIdx.x % {width};
    const int part = threadIdx.x % 32 / {width};
    const int64_t count = (rows + {rows} - 1) / {rows};
    {kind} total = {neutral}, error = {zero}, ahead[{ahead}] = {{}};
    /* A piece is stored in one turn, added up in the next, and so on; loads are four ahead. */
    for (int64_t turn = -4; turn < count + 3; turn++) {{
        if (warp >= 4 && (turn & 3) == warp - 4) {{
            #pragma unroll
            for (int n = 0; n < {ahead}; n++)
                pieces[turn & 3][own][n * {each} + part] = ahead[n];
            const int64_t row = (turn + 4) * {rows} + part;
            if (is_there && row + {rows} <= rows) {{
                const {stored} *next = first + row * step;
                #pragma unroll
                for (int n = 0; n < {ahead}; n++, next += {each} * step)
                    ahead[n] = *next;
            }}
            else {{
                #pragma unroll
                for (int n = 0; n < {ahead}; n++) {{
                    const int64_t last = row + n * {each};
                    ahead[n] = is_there && last < rows ? first[last * step] : {neutral};
                }}
            }}
        }}
        else if (warp == 0 && part == 0 && turn >= 1 && turn <= count) {{
            const {kind} *const piece = pieces[(turn - 1) & 3][own];
            {kind} near[2][{quarter}];
            before[turn & 1][own] = total;
            #pragma unroll
            for (int n = 0; n < {quarter}; n++)
                near[0][n] = piece[n];
            #pragma unroll
            for (int k = 0; k < 4; k++) {{
                /* A load behind a store would wait for it. */
                #pragma unroll
                for (int n = 0; n < {quarter} && k < 3; n++)
                    near[~k & 1][n] = piece[(k + 1) * {quarter} + n];
                #pragma unroll
                for (int n = 0; n < {quarter}; n++)
                    totals[turn & 1][own][k * {quarter} + n] = total = total + near[k & 1][n];
            }}
        }}
        else if ((warp == 2 || warp == 3) && turn >= 2 && turn <= count + 1) {{
            const int from = ((warp - 2) * {each} + part) * {part};
            const {kind} *const sums = totals[(turn - 1) & 1][own];
            {kind} *const piece = pieces[(turn - 2) & 3][own];
            {kind} old = from ? sums[from - 1] : before[(turn - 1) & 1][own];
            #pragma unroll
            for (int n = from; n < from + {part}; n++) {{
                const {kind} value = piece[n], sum = sums[n], added = sum - old;
                piece[n] = (old - (sum - added)) + (value - added);
                old = sum;
            }}
        }}
        else if (warp == 1 && part == 0 && turn >= 3) {{
            const {kind} *const piece = pieces[(turn - 3) & 3][own];
            #pragma unroll
            for (int n = 0; n < {rows}; n++)
                error = error + piece[n];
            errors[own] = error;
        }}
        {barrier}
    }}
    return {rounded}(total, errors[own]);
}}
"""
