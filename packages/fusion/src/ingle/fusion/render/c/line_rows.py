"""Rows of a matrix in CUDA C++ that are summed with a vector, 16 bytes at a time.

Such a row is read once, and all there is to do is to have enough of it on its way. A lane takes the
neighbours that lie in 16 bytes of the matrix, so that some lanes hold the 64 partial results of a
sum, and a warp takes several rows, or several blocks of the sums of one, side by side. Lines are
loaded into two buffers, each of which is filled again when what was in it is computed. Each partial
result takes the elements, and blocks, partial results and totals are added in the order, that they
have in every kernel; so bits are the same.

What all rows share, the vector, is what a kernel just before has computed, as a rule, and the
matrix is not: so the first lines of the matrix are asked for before a kernel waits for those in
front of it, and are there when these have ended. Lines of the vector are asked for as far ahead,
once it has waited: it is near, but to wait for it at each step takes longer than to compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...kernel.code import SIZES
from ...kernel.nest import Nest, Reduce, Row
from ...kernel.validation import validate
from . import helpers
from .dialect import LateDialect
from .held_lengths import CHUNK, SPAN, WARP, WHOLE
from .inner import InnerNest, RowPlace, each
from .line_lengths import Lines, early_operands
from .prepared import FIXED, UNIFORM, VARYING
from .reductions import Partial, joined
from .text import Scope
from .vectors import BYTES

_WORDS = {16: "uint4", 8: "uint64_t", 4: "uint32_t", 2: "uint16_t"}
"""The type of a load, by its bytes."""


def line_rows(nest: Nest, name: str, dialect: LateDialect, lines: Lines) -> str:
    """The source of a kernel whose warps take rows so."""
    validate(nest)
    return _LineNest(nest, name, dialect, lines).render()


@dataclass
class _Line(RowPlace):
    """The environment of code whose operands of each place are in registers."""

    def load(self, operand: int, dtype: str) -> str:
        if self.owner.nest.operands[operand].lane != "unit":
            return super().load(operand, dtype)
        assert isinstance(self.owner, _LineNest)
        return self.owner.loaded(operand, self.owner.in_register(operand))


class _LineNest(InnerNest):
    """Writes a kernel whose warps take several rows, or blocks of a row's sums, side by side."""

    dialect: LateDialect

    def __init__(self, nest: Nest, name: str, dialect: LateDialect, lines: Lines) -> None:
        super().__init__(nest, name, dialect)
        self._lines, self._aligned, self._line = lines, True, ""
        self._units = [k for k, operand in enumerate(nest.operands) if operand.lane == "unit"]
        self._early = early_operands(nest, lines)
        self._first_sum = next(n for n, s in enumerate(nest.stages) if isinstance(s, Reduce))

    def body(self) -> Scope:
        for number in range(len(self.stages)):
            self._written(number, UNIFORM, self.head)
        uniform = list(self.known)
        lanes, rows = self._lines.lanes, self._lines.rows
        lines = lanes * self._lines.blocks
        found = Scope()
        found.add(
            f"const int part = threadIdx.x % {WARP};",
            f"const int64_t own = begin + threadIdx.x / {WARP} * {rows} + part / {lines};",
            f"const bool first = part % {lines} == 0 && own < end;",
            "/* Lanes without a row go along with the last one. */",
            f"const int64_t unit = {helpers.least(self.source)}(own, end - 1);",
        )
        ways = []
        for self._aligned in (True, False):
            self.known, rest = list(uniform), Scope()
            self._ask_early(rest)
            rest.add(self.dialect.after_others)
            for number in range(len(self.stages)):
                self._line_stage(number, rest)
            ways.append(rest)
        found.add(*self.unit.lines())
        sizes: dict[int, list[str]] = {}
        for k in self._units:
            word = min(BYTES, self._lines.each * SIZES[self.nest.operands[k].dtype])
            sizes.setdefault(word, []).append(f"(uint64_t){self.pointer(k)}")
        aligned = [f"(({' | '.join(of)}) & {word - 1}) == 0" for word, of in sizes.items()]
        found.block(f"if ({' && '.join(aligned)})", ways[0])
        found.block("else", ways[1])
        return found

    def _is_early(self, number: int) -> bool:
        """Whether the first lines of a stage are asked for before the kernel waits."""
        return self._aligned and bool(self._early) and number == self._first_sum

    def _ask_early(self, rows: Scope) -> None:
        """Asks for the first lines of the first sum, whose buffers the whole kernel has."""
        number = self._first_sum
        if not self._is_early(number):
            return
        rows.add(*[self._buffers(k) for k in self._early])
        first = Scope()
        first.add("const int64_t block = 0;", *self._start())
        self._fill(self._early, first)
        rows.block("", first)

    def _buffers(self, k: int) -> str:
        """Where lines of an operand are on their way to, those of these steps and of the next."""
        return f"{self._union(k)} line{k}[2][{self._lines.steps}];"

    def _start(self) -> list[str]:
        """How many steps there are in a block, and from where on a lane takes elements."""
        lanes, blocks = self._lines.lanes, self._lines.blocks
        own = f"block + part / {lanes} % {blocks} * {WHOLE}" if blocks > 1 else "block"
        least = helpers.least(self.source)
        return [
            f"const int64_t whole = {own};",
            f"const int there = (int)({least}({self.inner_size()} - whole, {WHOLE}) / {SPAN});",
            f"const int64_t from = whole + part % {lanes} * {self._lines.each};",
        ]

    def _line_stage(self, number: int, rows: Scope) -> None:
        body = Scope()
        self._written(number, FIXED, body)
        self.comment(number, rows)
        if isinstance(self.stages[number].stage, Row):
            self._once(number, body, rows)
        else:
            self._sum(number, body, rows)

    def store_once(self, body: Scope, stores: list[tuple[int, str]]) -> None:
        only = Scope()
        for k, value in stores:
            self.store(only, k, self.element(k, "0"), value)
        body.block("if (first)", only)
        body.add("__syncwarp();")

    # -- sums --------------------------------------------------------------------------------

    def partials(self, number: int, count: int | None = None) -> list[Partial]:
        """Those that a lane holds."""
        return super().partials(number, self._lines.each)

    def _sum(self, number: int, body: Scope, rows: Scope) -> None:
        """The sums of a stage, as every lane of the row knows them."""
        each_, blocks = self._lines.each, self._lines.blocks
        partials, turn = self.partials(number), Scope()
        for p in partials:
            body.add(*p.arrays())
            each(body, each_, p.clear("n"))
            each(turn, each_, p.forget("n"))
        turn.add(*self._start())
        turn.add(*self._block(number, partials).lines())
        for p in partials:
            self._keep(p, turn)
        head = f"for (int64_t block = 0; block < {self.inner_size()}; block += {blocks * WHOLE})"
        body.block(head, turn)
        for j, p in enumerate(partials):
            each(body, each_, p.round(self.code, "n"))
            self._fold(p, body)
            self._outside(rows, p.result_type, f"result_{number}_{j}")
            body.add(f"result_{number}_{j} = {p.final}[0];")
        rows.block("", body)

    def _keep(self, p: Partial, turn: Scope) -> None:
        """Adds what blocks gave to the totals, one block after the other."""
        lanes, blocks = self._lines.lanes, self._lines.blocks
        if blocks == 1:
            each(turn, p.many, p.keep(self.code, "n"))
            return
        turn.add(f"float own_{p.name}[{p.many}];")
        each(turn, p.many, [f"own_{p.name}[n] = {p.name}[n];"])
        one = Scope()
        lane = f"part / {lanes * blocks} * {lanes * blocks} + at * {lanes} + part % {lanes}"
        one.add(f"const int lane = {lane};")
        given = f"{p.name}[n] = __shfl_sync(0xffffffffu, own_{p.name}[n], lane);"
        one.add("#pragma unroll")
        one.block(f"for (int n = 0; n < {p.many}; n++)", [given])
        there = Scope()
        each(there, p.many, p.keep(self.code, "n"))
        one.block(f"if (block + at * {WHOLE} < {self.inner_size()})", there)
        turn.add("#pragma unroll")
        turn.block(f"for (int at = 0; at < {blocks}; at++)", one)

    def _fold(self, p: Partial, body: Scope) -> None:
        """Folds partial results in halves: those of lanes by shuffles, then a lane's own."""
        lanes, each_ = self._lines.lanes, self._lines.each
        value, step = f"{p.final}[n]", Scope()
        step.add("#pragma unroll")
        step.block(f"for (int n = 0; n < {each_}; n++)", [
            f"const float from_other = __shfl_down_sync(0xffffffffu, {value}, apart);",
            f"{value} = {joined(p, self.code, value, 'from_other')};",
        ])  # fmt: skip
        body.add("#pragma unroll")
        body.block(f"for (int apart = {lanes // 2}; apart > 0; apart /= 2)", step)
        apart = each_ // 2
        while apart:
            for n in range(apart):
                pair = joined(p, self.code, f"{p.final}[{n}]", f"{p.final}[{n + apart}]")
                body.add(f"{p.final}[{n}] = {pair};")
            apart //= 2
        lines = lanes * self._lines.blocks
        body.add(
            f"{p.final}[0] = __shfl_sync(0xffffffffu, {p.final}[0], part / {lines} * {lines});"
        )

    # -- lines -------------------------------------------------------------------------------

    def _block(self, number: int, partials: list[Partial]) -> Scope:
        """A lane's part of a block: the lines of some steps are on their way while those of the
        steps before are computed with."""
        found, turn, steps = Scope(), Scope(), self._lines.steps
        read, early = self._read(number), self._early if self._is_early(number) else ()
        if not self._aligned:
            found.add(*[f"{self._union(k)} line{k};" for k in read])
            turn.add(*self._step(number, partials, "", "p").lines())
            found.block("for (int p = 0; p < there; p++)", turn)
            return found
        found.add(*[self._buffers(k) for k in read if k not in early])
        if early:
            first = Scope()
            self._fill(early, first)
            found.block("if (block)", first)
        self._fill([k for k in read if k not in early], found)
        # What is behind a branch is not moved before it: so lines are asked for where it says so.
        for buffer in (0, 1):
            self._compute(number, partials, turn, buffer, f"p + {buffer * steps}")
            self._load(read, turn, buffer, f"p + {(buffer + 2) * steps}")
        found.add("#pragma unroll 1")
        found.block(f"for (int p = 0; p < there; p += {2 * steps})", turn)
        return found

    def _fill(self, operands: Sequence[int], scope: Scope) -> None:
        """Asks for the first lines of some operands in a block."""
        for buffer in (0, 1):
            self._load(operands, scope, buffer, f"{buffer * self._lines.steps}")

    def _read(self, number: int) -> list[int]:
        """The operands of which a stage reads each place."""
        code = self.stages[number].code
        read = {i.value for i in code if i.name == "load"}
        return [k for k in self._units if k in read]

    def _chunks(self, scope: Scope, body: Scope, start: str) -> None:
        """Something for each of some steps, `q`, that the row has."""
        chunk, one = Scope(), Scope()
        one.add("#pragma unroll")
        one.block(f"for (int q = chunk; q < chunk + {CHUNK}; q++)", body)
        chunk.block(f"if ({start} + chunk < there)", one)
        scope.add("#pragma unroll")
        scope.block(f"for (int chunk = 0; chunk < {self._lines.steps}; chunk += {CHUNK})", chunk)

    def _load(self, operands: Sequence[int], scope: Scope, buffer: int, start: str) -> None:
        """Asks for the lines of some operands in some steps."""
        loads = Scope()
        for k in operands:
            loads.add(*self._words(k, f"line{k}[{buffer}][q]", f"from + ({start} + q) * {SPAN}"))
        self._chunks(scope, loads, start)

    def _compute(
        self, number: int, partials: list[Partial], scope: Scope, buffer: int, start: str
    ) -> None:
        """Computes with the lines of some steps."""
        self._chunks(scope, self._step(number, partials, f"[{buffer}][q]", f"({start} + q)"), start)

    def _step(self, number: int, partials: list[Partial], line: str, step: str) -> Scope:
        """The code of a lane's elements of a step.

        Args:
            line: where in their buffers lines are.
            step: its number.
        """
        prepared, found, element = self.stages[number], Scope(), Scope()
        for k in () if self._aligned else self._read(number):
            place = f"{self.row_pointer(k)}[from + {step} * {SPAN} + n]"
            each(found, self._lines.each, [f"line{k}.at[n] = {place};"])
        self._line = line
        element.add(f"const int64_t i = from + {step} * {SPAN} + n;")
        done = self.code.render(
            prepared.code, _Line(self, "i"), element, self.known[number], prepared.places(VARYING)
        )
        for p in partials:
            element.add(*p.add(self.code, "n", done[p.at], "i"))
        found.add("#pragma unroll")
        found.block(f"for (int n = 0; n < {self._lines.each}; n++)", element)
        return found

    def _words(self, k: int, into: str, place: str) -> list[str]:
        """Loads a lane's elements of a step in words of up to 16 bytes."""
        nbytes = self._lines.each * SIZES[self.nest.operands[k].dtype]
        word, count = _WORDS[min(nbytes, BYTES)], max(1, nbytes // BYTES)
        start = f"((const {word} *)({self.row_pointer(k)} + {place}))"
        return [f"{into}.whole[{n}] = {start}[{n}];" for n in range(count)]

    def _union(self, k: int) -> str:
        dtype, lanes = self.nest.operands[k].dtype, self._lines.each
        nbytes = lanes * SIZES[dtype]
        word, count = _WORDS[min(nbytes, BYTES)], max(1, nbytes // BYTES)
        words = f"uint32_t words[{nbytes // 4}]; " if nbytes >= 4 else ""
        return f"union {{ {word} whole[{count}]; {words}{self.source.stored(dtype)} at[{lanes}]; }}"

    def in_register(self, k: int) -> str:
        """An element of a line; of halves from the word of both, which takes one instruction with
        the conversion behind it."""
        line = f"line{k}{self._line}"
        if SIZES[self.nest.operands[k].dtype] != 2:
            return f"{line}.at[n]"
        return f"(uint16_t)({line}.words[n / 2] >> n % 2 * 16)"
