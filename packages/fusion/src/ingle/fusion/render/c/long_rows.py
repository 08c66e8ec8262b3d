"""Long rows in CUDA C++, as of the logits of a vocabulary: many warps share one.

Each warp takes whole blocks of the row's sums, one after the other, a thread two neighbours of
every 64, and asks for many of them before it computes with the first one. What it finds of a block
goes to shared memory. There the first warp adds block by block, in the order of all kernels, and
the others read the result. A row is read again by each stage, from the cache of its
multiprocessor: some rows at a time have room there, and while one folds, others load.

The last block of a row, and rows that begin at odd places, are read element by element, several at
a time as well. One source does for every length.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.code import SIZES
from ...kernel.nest import Nest, Reduce, Row, in_blocks, units
from ...kernel.validation import validate
from . import helpers
from .dialect import GroupDialect
from .held import HeldNest
from .held_lengths import ANY_LAUNCH, CHUNK, SHARED, SPAN, WARP, WHOLE, adds_floats, may_hold
from .inner import each
from .prepared import FIXED, UNIFORM
from .reductions import Partial, joined
from .text import Scope, value_type
from .warp_folds import fold_pairs

MOST_THREADS = 512
"""Of a group: warps for so many have registers, and several groups are under way."""
_MOST_GUARDED = 8
"""Pairs that are loaded at once where the row may not have them all."""
_MOST_BLOCKS = 128
"""Of a row."""
_MOST_BYTES = 40 << 10
"""Of shared memory for what was found of the blocks of a row."""
_MOST = 1 << 31
"""Rows of a launch: drivers count blocks in 31 bits."""
_LONGEST_CODE = 160
"""Instructions for an element, in all stages: they are written 64 times."""


def long_blocks(nest: Nest, sizes: Sequence[int]) -> int:
    """For how many blocks of a row the kernel for a launch of these sizes has room; 0 if rows are
    taken in another way."""
    if (
        not may_hold(nest, gathers=True)
        or in_blocks(nest)
        or not SHARED < sizes[-1] <= _MOST_BLOCKS * WHOLE
    ):
        return 0
    if all(isinstance(s, Row) or adds_floats(s) for s in nest.stages):
        return 0  # a matrix times a vector, whose rows are read once
    if units(nest, sizes) >= _MOST or sum(len(s.code) for s in nest.stages) > _LONGEST_CODE:
        return 0
    blocks = 4
    while blocks * WHOLE < sizes[-1]:
        blocks *= 2
    kept = {
        (j, s.code[at].dtype)
        for s in nest.stages
        if isinstance(s, Reduce)
        for j, (_, at) in enumerate(s.reductions)
    }
    return blocks if sum(SIZES[d] for _, d in kept) * blocks * SPAN <= _MOST_BYTES else 0


def threads_of_row(length: int) -> int:
    """Threads that share a row: all warps have as many blocks of it, or one less."""
    blocks = -(-length // WHOLE)
    each_warp = -(-blocks * WARP // MOST_THREADS)
    return -(-blocks // each_warp) * WARP


def long_rows(nest: Nest, name: str, dialect: GroupDialect, blocks: int) -> str:
    """The source of a kernel for rows of up to so many blocks."""
    validate(nest)
    return _LongNest(nest, name, dialect, blocks).render()


class _LongNest(HeldNest):
    """Writes a kernel whose groups take a row each."""

    def __init__(self, nest: Nest, name: str, dialect: GroupDialect, blocks: int) -> None:
        super().__init__(nest, name, dialect, ANY_LAUNCH)
        self._blocks_of_row = blocks
        self._held, self._kept, self._streams = [], [{} for _ in self.stages], False
        self._holding, self._whole_block = True, True

    def body(self) -> Scope:
        for number in range(len(self.stages)):
            self._written(number, UNIFORM, self.head)
        stages, row, found = Scope(), Scope(), Scope()
        for number in range(len(self.stages)):
            self._held_stage(number, stages)
        row.add(*self.unit.lines(), *stages.lines(), self.dialect.barrier)
        found.add(
            f"const int warp = threadIdx.x / {WARP}, part = threadIdx.x % {WARP};",
            f"const int warps = blockDim.x / {WARP};",
            "const bool first = threadIdx.x == 0;",
            f"const bool aligned = {' && '.join(self.aligned_pairs()) or 'true'};",
        )
        found.block("for (int64_t unit = begin; unit < end; unit++)", row)
        return found

    def _held_stage(self, number: int, rows: Scope) -> None:
        stage, body = self.stages[number], Scope()
        self._written(number, FIXED, body)
        self.comment(number, rows)
        if isinstance(stage.stage, Row):
            self._once(number, body, rows)
            return
        partials = self.partials(number) if stage.ends else []
        for p in partials:
            body.add(*p.arrays())
            each(body, 2, p.clear("n"))
        inner, one = self.inner_size(), Scope()
        one.add(
            f"const int64_t from = block * {WHOLE} + 2 * part;",
            f"const int left = (int){helpers.least(self.source)}({inner} - from, {WHOLE});",
        )
        for p in partials:
            each(one, 2, p.forget("n") or p.clear("n"))
        for head, whole in (
            (f"if (aligned && (block + 1) * {WHOLE} <= {inner})", True), ("else", False)
        ):  # fmt: skip
            self._whole_block = whole
            turns, ahead = Scope(), self.ahead_pairs(number)
            ahead = ahead if whole else min(ahead, _MOST_GUARDED)
            self.chunks(turns, self._chunk(number, partials, ahead), ahead)
            one.block(head, turns)
        arrays = [self._of_blocks(p, j) for j, p in enumerate(partials)]
        for p, array in zip(partials, arrays, strict=True):
            each(one, 2, [f"{array}[block * {SPAN} + 2 * part + n] = {p.name}[n];"])
        body.block(f"for (int64_t block = warp; block * {WHOLE} < {inner}; block += warps)", one)
        if partials:
            body.add(self.dialect.local_barrier)
        for j, p in enumerate(partials):
            self._outside(rows, p.result_type, f"result_{number}_{j}")
            body.add(f"result_{number}_{j} = {self._folded(p, arrays[j], body)};")
        rows.block("", body)

    def _of_blocks(self, p: Partial, j: int) -> str:
        """Where a group has what it found of the blocks of a row; stages use it in turn."""
        kind = value_type(p.dtype)
        name = f"of_blocks_{kind}_{j}"
        size = self._blocks_of_row * SPAN
        return self.head.declare(name, f"{self.dialect.local} {kind} {name}[{size}];")

    # -- pairs of a block, of which the row may not have all ----------------------------------

    def chunks(self, scope: Scope, body: Scope, pairs: int = CHUNK) -> None:
        scope.add("#pragma unroll 1")
        scope.block(f"for (int p = 0; p < {self._pairs}; p += {pairs})", body)

    def in_chunks(self, scope: Scope, pairs: int, body: Scope) -> None:
        scope.add("#pragma unroll")
        scope.block(f"for (int q = 0; q < {pairs}; q++)", body)

    def guard(self) -> list[str]:
        if self._whole_block:
            return []
        return [f"if ((p + q) * {SPAN} + n >= left)", "    continue;"]

    def load_pair(self, into: str, k: int, place: str) -> str:
        if self._whole_block:
            return super().load_pair(into, k, place)
        return self._guarded([f"{into}.at[{n}] = {at};" for n, at in self._apart(k, place)])

    def store_pair(self, k: int, place: str, pair: str) -> str:
        if self._whole_block:
            return super().store_pair(k, place, pair)
        return self._guarded([f"{at} = {pair}.at[{n}];" for n, at in self._apart(k, place)])

    def _apart(self, k: int, place: str) -> list[tuple[int, str]]:
        """The elements of a pair."""
        return [(n, f"{self.row_pointer(k)}[{place} + {n}]") for n in range(2)]

    def _guarded(self, done: Sequence[str]) -> str:
        """Something for each element of a pair that the row has."""
        guarded = [f"if ((p + q) * {SPAN} + {n} < left) {d}" for n, d in enumerate(done)]
        return " ".join(guarded)

    # -- what is done once a row -------------------------------------------------------------

    def _row_barrier(self) -> str:
        return self.dialect.barrier

    def _folded(self, p: Partial, array: str, body: Scope) -> str:
        """What all blocks of a row come to, by the first warp, for all of them."""
        place, folded, value = f"{array}[block * {SPAN} + 2 * part + n]", Scope(), Scope()
        each(folded, 2, p.clear("n"))
        if p.compensated:
            each(value, 2, [f"{p.name}[n] = {place};", *p.keep(self.code, "n")])
        else:
            each(value, 2, [f"{p.name}[n] = {joined(p, self.code, f'{p.name}[n]', place)};"])
        folded.add("#pragma unroll 4")
        folded.block(
            f"for (int64_t block = 0; block * {WHOLE} < {self.inner_size()}; block++)", value
        )
        body.block("if (warp == 0)", folded)
        fold_pairs(p, self.code, body)
        whole, kind = f"whole_of_{p.name}", value_type(p.dtype)
        self.head.declare(whole, f"{self.dialect.local} {kind} {whole};")
        body.block("if (first)", [f"{whole} = {p.final}[0];"])
        body.add(self.dialect.local_barrier, f"{p.final}[0] = {whole};")
        return p.result("0", self.inner_size())
