"""Nests over rows in CUDA C++ whose rows stay in registers between the passes.

A warp takes a block of a row's sums, 2048 elements, and a thread two neighbours of every 64: so it
has two partial results of each reduction, which grow in the order of all kernels, and loads and
stores pairs. Rows of up to one block have a warp each; of longer ones, up to two blocks, the warps
of a group exchange their partial results in shared memory. Partial results are folded in halves
by shuffles. What several stages read is loaded once, and a dear value that was summed and
is needed again is kept, so that memory is read once and written once.

Rows of other lengths and places go the way of all groups, in the same kernel.

Sums over rows grow beside them: a thread adds what it computes of each row to sums of its own,
in registers where these are few, else in shared memory, and writes them behind the last row of a
block. So the gradient of a layer norm reads its rows once. The next row is on its way meanwhile
if there are registers for it, since few threads share a block of rows.

Rows that are read once, as those of a matrix times a vector, may be of any length: two warps take
two blocks of their sums at a time. A thread asks for up to 16 pairs of each operand before it
computes with the first one, since a row's memory answers late and nothing else waits with it.

What a thread holds are registers, of which a multiprocessor has few: with half of them twice as
many rows are on their way. So there are kernels for rows of up to 512, 1024 and 2048 elements, and
each length has the one that holds it; no sum has another order in them. What all rows share, as
weights, is not held: it is near whenever it is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...kernel.code import SIZES
from ...kernel.nest import BLOCK, Nest, Row, columns_of, in_blocks
from ...kernel.neutral import neutral_bits
from ...kernel.validation import validate
from ..leaves import Environment
from . import helpers
from .dialect import GroupDialect
from .groups import MOST
from .held_lengths import (
    ANY_LAUNCH,
    CHUNK,
    MOST_COLUMN_BYTES,
    SHARED,
    SPAN,
    STEP,
    WARP,
    WHOLE,
    Holding,
    adds_floats,
    column_bytes,
)
from .inner import InnerNest, RowPlace, each
from .kept_values import earlier_values, is_written_again, most_at_once, values_kept
from .pairs import WORDS, PairNest
from .prepared import FIXED, UNIFORM, VARYING
from .reductions import Partial
from .text import Scope, literal
from .warp_folds import exchange, fold_pairs

_MOST_CHUNKS = 4
_AHEAD_REGISTERS = 48
"""For what is loaded before it is computed with, in up to so many chunks."""
_MOST_REGISTERS = 144
"""For what is held of a row."""
_MOST_COLUMN_REGISTERS = 32
"""For sums over rows; more of them are in shared memory."""
_MOST_WITH_NEXT = 160
"""Registers up to which the next row is loaded while one is computed with."""
_LONGEST_CODE = 160
"""Instructions for an element, in all stages: they are written 64 times."""


def held(nest: Nest, name: str, dialect: GroupDialect, holding: Holding = ANY_LAUNCH) -> str:
    """The source of a kernel that holds rows where it may."""
    validate(nest)
    return HeldNest(nest, name, dialect, holding).render()


@dataclass
class _HeldPlace(RowPlace):
    """The environment of code whose operands of each place are in registers."""

    def load(self, operand: int, dtype: str) -> str:
        if self.owner.nest.operands[operand].lane != "unit":
            return super().load(operand, dtype)
        assert isinstance(self.owner, HeldNest)
        return self.owner.loaded(operand, self.owner.read_register(operand))


class HeldNest(PairNest):
    """Writes a kernel that holds rows, beside the loops for rows that cannot be held."""

    def __init__(
        self, nest: Nest, name: str, dialect: GroupDialect, holding: Holding = ANY_LAUNCH
    ) -> None:
        super().__init__(nest, name, dialect, holding)
        self._holding = False
        self._known_uniform = list(self.known)
        self._readers: dict[int, list[int]] = {}
        for number in range(len(self.stages)):
            for k in self._loads(number):
                if nest.operands[k].lane == "unit":
                    self._readers.setdefault(k, []).append(number)
        writers = {k for s in self.stages for k, _ in s.stores}
        self._held = sorted(self._readers) if holding.few else []
        if not holding.few or self.registers_of(self._held) > _MOST_REGISTERS:
            self._held = [
                k
                for k, at in sorted(self._readers.items())
                if (len(at) > 1 and k not in holding.shared) or k in writers
            ]
        self._sums_of = [k for s in nest.stages for k, _ in columns_of(s)]
        self._sums_in_registers = self.registers_of(self._sums_of) <= _MOST_COLUMN_REGISTERS
        self._kept = values_kept(self.stages)
        self._streams = self._is_whole() and not self._held and not any(self._kept) and all(
            isinstance(s.stage, Row) or (adds_floats(s.stage) and not s.columns)
            for s in self.stages
        )  # fmt: skip
        registers, inputs = self._registers(), self.registers_of(self._inputs_held())
        self._takes_next = in_blocks(nest) and registers + inputs <= _MOST_WITH_NEXT
        self._suits = (
            self._registers_at_once() <= _MOST_REGISTERS
            and sum(len(s.code) for s in self.stages) <= _LONGEST_CODE
            and (
                self._sums_in_registers
                or column_bytes(len(self._sums_of), self._capacity) <= MOST_COLUMN_BYTES
            )
        )

    def _inputs_held(self) -> list[int]:
        return [k for k in self._held if not self.nest.operands[k].output]

    def _registers(self) -> int:
        """For what is held of a row, and of sums over rows, by a thread."""
        sums = self.registers_of(self._sums_of) if self._sums_in_registers else 0
        kept = len({name for names in self._kept for name in names.values()})
        return self.registers_of(self._held) + sums + 2 * self._pairs * kept

    def _registers_at_once(self) -> int:
        """The same, but that what is kept takes the place of what no later stage reads."""
        registers: dict[int | str, int] = {k: self.registers_of([k]) for k in self._held}
        registers |= {n: 2 * self._pairs for names in self._kept for n in names.values()}
        sums = self.registers_of(self._sums_of) if self._sums_in_registers else 0
        return sums + most_at_once(self.stages, self._kept, self._inputs_held(), registers)

    # -- the kernel --------------------------------------------------------------------------

    def body(self) -> Scope:
        others = super().body()
        if not self._suits:
            return others
        self._holding = True
        for number in range(len(self.stages)):
            self.known[number] = self._known_uniform[number]
        stages = Scope()
        self._declare(stages)
        for number in range(len(self.stages)):
            self._held_stage(number, stages)
        row, loop, found = Scope(), Scope(), Scope()
        row.add(*self.unit.lines(), *stages.lines())
        if in_blocks(self.nest):
            row = self._held_block(row)
        inner = self._length or self.inner_size()
        loop.add(
            f"const bool alone = {f'{inner} <= {WHOLE}' if self._is_whole() else 'true'};",
            f"const int warp = threadIdx.x / {WARP}, part = threadIdx.x % {WARP};",
            f"const int64_t from = (alone ? 0 : warp * {WHOLE}) + 2 * part;",
            "const bool first = part == 0 && (alone || warp == 0);",
        )
        start, step = "begin + (alone ? warp : 0)", f"alone ? {MOST // WARP} : 1"
        turn = "piece" if in_blocks(self.nest) else "unit"
        loop.block(f"for (int64_t {turn} = {start}; {turn} < end; {turn} += {step})", row)
        found.block(f"if ({self._condition()})", loop)
        found.block("else", others)
        return found

    # -- sums over rows ----------------------------------------------------------------------

    def _held_block(self, row: Scope) -> Scope:
        """Some rows, whose sums begin with nothing, grow with each row, and are written."""
        block, clear, write = Scope(), Scope(), Scope()
        for k in self._sums_of:
            dtype = self.nest.operands[k].dtype
            union = self.union(k)
            if self._sums_in_registers:
                block.add(f"{union} sums{k}[{self._pairs}];")
            else:
                kind, count = WORDS[SIZES[dtype]], self._pairs * MOST
                self.head.declare(f"sums{k}", f"{self.dialect.local} {kind} sums{k}[{count}];")
            nothing = literal(neutral_bits("sum", dtype), dtype)
            clear.add(
                f"{union} none{k};", f"none{k}.at[0] = none{k}.at[1] = {nothing};",
                f"{self._sum_of_pair(k, 'p')} = none{k}.whole;",
            )  # fmt: skip
            place = f"{self._sums(k)} + from + p * {SPAN}"
            write.add(f"*({WORDS[SIZES[dtype]]} *)({place}) = {self._sum_of_pair(k, 'p')};")
        rows = f"{helpers.least(self.source)}((piece + 1) * {BLOCK}, {self.size(0)})"
        block.add("#pragma unroll")
        block.block(f"for (int p = 0; p < {self._pairs}; p++)", clear)
        block.add(f"const int64_t last = {rows};")
        if self._takes_next:
            for k in self._inputs_held():
                block.add(f"{self.union(k)} next{k}[{self._pairs}];")
        block.block(f"for (int64_t unit = piece * {BLOCK}; unit < last; unit++)", row)
        written = Scope()
        self.where_there(written, "p", write)
        block.add("#pragma unroll")
        block.block(f"for (int p = 0; p < {self._pairs}; p++)", written)
        return block

    def _sum_of_pair(self, k: int, p: str) -> str:
        """Where a thread has the sums over rows of a pair, as one word."""
        if self._sums_in_registers:
            return f"sums{k}[{p}].whole"
        return f"sums{k}[({p}) * {MOST} + threadIdx.x]"

    def _is_whole(self) -> bool:
        """Whether warps may share a row, as each holds all that belongs together."""
        return self._pairs == BLOCK

    def _condition(self) -> str:
        """Whether rows fill the chunks of one or two warps, and pairs are aligned."""
        inner = self.inner_size()
        most = SHARED if self._is_whole() else self._pairs * SPAN
        parts = [f"{inner} > 0", f"{inner} % {STEP} == 0"]
        if self._length:
            parts = [f"{inner} == {self._length}"]
        elif not self._streams:
            parts.append(f"{inner} <= {most}")
        return " && ".join([*parts, *self.aligned_pairs()])

    def _written(self, number: int, level: int, scope: Scope) -> None:
        super()._written(number, level, scope)
        if level == UNIFORM:
            self._known_uniform[number] = self.known[number]

    def _declare(self, stages: Scope) -> None:
        """Registers of a row, with what several stages read in them."""
        for k in self._held:
            stages.add(f"{self.union(k)} held{k}[{self._pairs}];")
        for name in dict.fromkeys(name for names in self._kept for name in names.values()):
            stages.add(f"float {name}[{self._pairs}][2];")
        inputs = self._inputs_held()
        if not inputs:
            return
        if not self._takes_next:
            self._load(inputs, "held", "", stages)
            return
        first, following = Scope(), Scope()
        self._load(inputs, "next", "", first)
        self._load(inputs, "next", " + {step}", following)
        stages.block(f"if (unit == piece * {BLOCK})", first)
        stages.add("#pragma unroll")
        taken = [f"held{k}[p].whole = next{k}[p].whole;" for k in inputs]
        stages.block(f"for (int p = 0; p < {self._pairs}; p++)", taken)
        stages.block("if (unit + 1 < last)", following)

    def _load(self, inputs: list[int], name: str, further: str, scope: Scope) -> None:
        """All pairs of some operands.

        Args:
            name: of the arrays that they are loaded into.
            further: where behind the row at hand, with `{step}` for an operand's from row to row.
        """
        loads = Scope()
        for k in inputs:
            loads.add("#pragma unroll")
            place = f"from + (p + q) * {SPAN}{further.format(step=self.stride(k, 0))}"
            pair = self.load_pair(f"{name}{k}[p + q]", k, place)
            loads.block(f"for (int q = 0; q < {CHUNK}; q++)", [pair])
        self.chunks(scope, loads)

    def near(self, number: int) -> list[int]:
        """The operands that a stage reads and nobody holds."""
        return [k for k, at in self._readers.items() if number in at and k not in self._held]

    def ahead_pairs(self, number: int) -> int:
        """Pairs of each operand that a stage loads before it computes with the first one."""
        sizes = [SIZES[self.nest.operands[k].dtype] for k in self.near(number)]
        each, chunks = sum(max(1, 2 * size // 4) for size in sizes), _MOST_CHUNKS
        while chunks > 1 and (
            chunks * CHUNK * each > _AHEAD_REGISTERS or self._pairs % (chunks * CHUNK)
        ):
            chunks //= 2
        return chunks * CHUNK if sizes else CHUNK

    def register(self, k: int) -> str:
        """Where the element of an operand is that is looked at."""
        return f"held{k}[p + q].at[n]" if k in self._held else f"near{k}[q].at[n]"

    def read_register(self, k: int) -> str:
        """The element as a value: of halves from the word of both, which takes one instruction
        with the conversion behind it."""
        place = self.register(k)
        if SIZES[self.nest.operands[k].dtype] != 2:
            return place
        return f"(uint16_t)({place.removesuffix('.at[n]')}.whole >> 16 * n)"

    def place_at(self, index: str) -> Environment:
        return _HeldPlace(self, index) if self._holding else super().place_at(index)

    # -- stages ------------------------------------------------------------------------------

    def _held_stage(self, number: int, rows: Scope) -> None:
        prepared, body = self.stages[number], Scope()
        self._written(number, FIXED, body)
        self.comment(number, rows)
        if isinstance(prepared.stage, Row):
            self._once(number, body, rows)
            return
        partials = self.partials(number) if prepared.ends else []
        for p in partials:
            body.add(*p.arrays())
            each(body, p.many, p.clear("n"))
        turns, ahead = Scope(), self.ahead_pairs(number)
        self.chunks(turns, self._chunk(number, partials, ahead), ahead)
        for p in partials:
            exchange(p, self.code, self.dialect, self.head, turns)
        if self._streams:
            around = Scope()
            for p in partials:
                each(around, p.many, p.forget("n"))
            around.add("const int64_t from = first_place + block;", *turns.lines())
            body.add("const int64_t first_place = from;")
            head = f"for (int64_t block = 0; block < {self.inner_size()}; block += {SHARED})"
            body.block(head, around)
        else:
            body.add(*turns.lines())
        for j, p in enumerate(partials):
            fold_pairs(p, self.code, body)
            self._outside(rows, p.result_type, f"result_{number}_{j}")
            body.add(f"result_{number}_{j} = {p.result('0', self.inner_size())};")
        rows.block("", body)

    def _chunk(self, number: int, partials: list[Partial], pairs: int) -> Scope:
        """The loads of some pairs, then their code and stores."""
        prepared, chunk, pair, element = self.stages[number], Scope(), Scope(), Scope()
        loads = Scope()
        for k in self.near(number):
            chunk.add(f"{self.union(k)} near{k}[{pairs}];")
            loads.add(self.load_pair(f"near{k}[q]", k, f"from + (p + q) * {SPAN}"))
        if loads.lines():
            self.in_chunks(chunk, pairs, loads)
        element.add(f"const int64_t i = from + (p + q) * {SPAN} + n;", *self.guard())
        kept = self._kept[number]
        before = earlier_values(kept, number)
        own = kept.keys() - before.keys()
        earlier = {at: f"{name}[p + q][n]" for at, name in before.items()}
        known = {**self.known[number], **earlier}
        done = self.code.render(
            prepared.code, self.place_at("i"), element, known, prepared.places(VARYING)
        )
        for at in sorted(own):
            element.add(f"{kept[at]}[p + q][n] = {done[at]};")
        fresh = [k for k, _ in prepared.stores if k not in self._held]
        for k in fresh:
            pair.add(f"{self.union(k)} new{k};")
        for k, at in prepared.stores:
            self.store(element, k, f"new{k}.at[n]" if k in fresh else self.register(k), done[at])
        for k, at in prepared.columns:
            place = self._sum_of_pair(k, "p + q")
            pair.add(f"{self.union(k)} sum{k};", f"sum{k}.whole = {place};")
            element.add(f"sum{k}.at[n] += {done[at]};")
        for p in partials:
            element.add(*p.add(self.code, "n", done[p.at], "i"))
        pair.add("#pragma unroll")
        pair.block("for (int n = 0; n < 2; n++)", element)
        for k, _ in prepared.stores:
            if k in self._held and is_written_again(self.stages, number, k):
                continue
            value = f"new{k}" if k in fresh else f"held{k}[p + q]"
            pair.add(self.store_pair(k, f"from + (p + q) * {SPAN}", value))
        for k, _ in prepared.columns:
            pair.add(f"{self._sum_of_pair(k, 'p + q')} = sum{k}.whole;")
        self.in_chunks(chunk, pairs, pair)
        return chunk

    def partials(self, number: int, count: int | None = None) -> list[Partial]:
        found = super().partials(number, count)
        if not self._holding:
            return found
        return [Partial(p.combine, p.dtype, p.name, p.at, 2) for p in found]

    # -- what is done once a row -------------------------------------------------------------

    def store_once(self, body: Scope, stores: list[tuple[int, str]]) -> None:
        if not self._holding:
            super().store_once(body, stores)
            return
        only = Scope()
        for k, value in stores:
            self.store(only, k, self.element(k, "0"), value)
        body.block("if (first)", only)
        body.add(self._row_barrier())

    def _once(self, number: int, body: Scope, rows: Scope) -> None:
        if not self._holding:
            super()._once(number, body, rows)
            return
        if any(stage.stores for stage in self.stages[:number]):
            rows.add(self._row_barrier())
        InnerNest._once(self, number, body, rows)

    def _row_barrier(self) -> str:
        return f"if (alone) __syncwarp(); else {self.dialect.barrier}"
