"""Rows of a matrix in CUDA C++ that are summed with a vector or a few, 16 bytes at a time.

Such a row is read once, and all there is to do is to have enough of it on its way. A lane takes the
neighbours that lie in 16 bytes of the matrix, so that some lanes hold the 64 partial results of a
sum, and a warp takes several rows side by side. Lines are loaded into two buffers, each of which is
filled again when what was in it is computed, past the end of a block of sums, too. Each partial
result takes the elements, and blocks, partial results and totals are added in the order, that they
have in every kernel; so bits are the same.

What all rows share, the vector, is what a kernel just before has computed, as a rule, and the
matrix is not: so the first lines of the matrix are asked for before a kernel waits for those in
front of it, and are there when these have ended. Lines of the vector are asked for as far ahead,
once it has waited: it is near, but to wait for it at each step takes longer than to compute.

Where there are several vectors, as in decoding of a batch, a line of the matrix is summed with each
of them while it is in registers, and is read as often as with one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.code import SIZES
from ...kernel.nest import BLOCK, Nest, Reduce, Row
from ...kernel.validation import validate
from . import helpers
from .dialect import LateDialect
from .held_lengths import CHUNK, SPAN, WARP, WHOLE
from .inner import each
from .line_buffers import LineBuffers, LinePlace, unrolled
from .line_lengths import Lines, early_operands
from .prepared import FIXED, UNIFORM, VARYING
from .reductions import Partial, joined
from .text import Scope
from .vectors import BYTES


def line_rows(nest: Nest, name: str, dialect: LateDialect, lines: Lines) -> str:
    """The source of a kernel whose warps take rows so."""
    validate(nest)
    return _LineNest(nest, name, dialect, lines).render()


class _LineNest(LineBuffers):
    """Writes a kernel whose warps take several rows side by side."""

    dialect: LateDialect

    def __init__(self, nest: Nest, name: str, dialect: LateDialect, lines: Lines) -> None:
        super().__init__(nest, name, dialect, lines)
        self._aligned = True
        self._units = [k for k, operand in enumerate(nest.operands) if operand.lane == "unit"]
        self._early = early_operands(nest, lines)
        self._first_sum = next(n for n, s in enumerate(nest.stages) if isinstance(s, Reduce))

    def body(self) -> Scope:
        for number in range(len(self.stages)):
            self._written(number, UNIFORM, self.head)
        uniform = list(self.known)
        lanes, rows = self._lines.lanes, self._lines.rows
        found = Scope()
        found.add(
            f"const int part = threadIdx.x % {WARP};",
            f"const int64_t own = begin + threadIdx.x / {WARP} * {rows} + part / {lanes};",
        )
        if self._lines.vectors == 1:
            found.add(*self._row_of_lane("unit", "end"))
        else:
            found.add(
                f"const int64_t behind = {helpers.least(self.source)}(end, {self._count()});",
                *self._row_of_lane("line", "behind"),
                f"const int64_t unit = {self._unit('0')};",
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

    def _row_of_lane(self, name: str, end: str) -> list[str]:
        return [
            f"const bool first = part % {self._lines.lanes} == 0 && own < {end};",
            "/* Lanes without a row go along with the last one. */",
            f"const int64_t {name} = {helpers.least(self.source)}(own, {end} - 1);",
        ]

    def _count(self) -> str:
        """How many lines the matrix has."""
        axes = [axis for axis in range(self.nest.outer) if axis != self._lines.along]
        return " * ".join([self.size(axis) for axis in axes])

    def _unit(self, vector: str) -> str:
        """The unit of work that is a line with one of several vectors."""
        if self._lines.along:
            return f"line * {self._lines.vectors} + {vector}"
        return f"{vector} * ({self._count()}) + line"

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

    def _ask_late(self, number: int, scope: Scope) -> None:
        """Asks for the first lines of what a stage reads and has not asked for before."""
        if not self._aligned:
            return
        early = self._early if self._is_early(number) else ()
        late, first = [k for k in self._read(number) if k not in early], Scope()
        scope.add(*[self._buffers(k) for k in late])
        first.add("const int64_t block = 0;", *self._start())
        self._fill(late, first)
        scope.block("", first)

    def _start(self) -> list[str]:
        """How many steps are left of a row, how many of them in a block, and from where on a lane
        takes elements."""
        return [
            f"const int64_t left = ({self.inner_size()} - block) / {SPAN};",
            f"const int there = (int){helpers.least(self.source)}(left, {BLOCK});",
            f"const int64_t from = block + part % {self._lines.lanes} * {self._lines.each};",
        ]

    def _line_stage(self, number: int, rows: Scope) -> None:
        body, once = Scope(), isinstance(self.stages[number].stage, Row)
        self.comment(number, rows)
        if once and self._lines.vectors > 1:
            self._once_each(number, rows)
            return
        self._written(number, FIXED, body)
        if once:
            self._once(number, body, rows)
        else:
            self._sum(number, body, rows)

    def _once_each(self, number: int, rows: Scope) -> None:
        """What is once a row, for the rows of a line with each of the vectors."""
        of_line, self.unit = self.unit, Scope()
        body, row, one = Scope(), Scope(), Scope()
        self._written(number, FIXED, body)
        self._once(number, body, row)
        one.add(f"const int64_t unit = {self._unit('v')};")
        for before in range(number):
            if isinstance(self.stages[before].stage, Reduce):
                for j, p in enumerate(self.partials(before)):
                    name = f"{before}_{j}"
                    one.add(f"const {p.result_type} result_{name} = results_{name}[v];")
        one.add(*self.unit.lines(), *row.lines())
        self.unit = of_line
        unrolled(rows, "v", self._lines.vectors, one)

    def store_once(self, body: Scope, stores: list[tuple[int, str]]) -> None:
        only = Scope()
        for k, value in stores:
            self.store(only, k, self.element(k, "0"), value)
        body.block("if (first)", only)
        body.add("__syncwarp();")

    # -- sums --------------------------------------------------------------------------------

    def partials(self, number: int, count: int | None = None) -> list[Partial]:
        """Those that a lane holds, of one vector's sum behind those of another."""
        return super().partials(number, self._lines.each * self._lines.vectors)

    def _sum(self, number: int, body: Scope, rows: Scope) -> None:
        """The sums of a stage, as every lane of the row knows them."""
        vectors = self._lines.vectors
        partials, turn = self.partials(number), Scope()
        for p in partials:
            body.add(*p.arrays())
            each(body, p.many, p.clear("n"))
            each(turn, p.many, p.forget("n"))
        self._ask_late(number, body)
        turn.add(*self._start())
        turn.add(*self._block(number, partials).lines())
        for p in partials:
            each(turn, p.many, p.keep(self.code, "n"))
        head = f"for (int64_t block = 0; block < {self.inner_size()}; block += {WHOLE})"
        body.block(head, turn)
        for j, p in enumerate(partials):
            each(body, p.many, p.round(self.code, "n"))
            self._fold(p, body)
            if vectors == 1:
                self._outside(rows, p.result_type, f"result_{number}_{j}")
                body.add(f"result_{number}_{j} = {p.final}[0];")
                continue
            name = f"results_{number}_{j}"
            rows.declare(name, f"{p.result_type} {name}[{vectors}];")
            each(body, vectors, [f"{name}[n] = {p.final}[n * {self._lines.each}];"])
        rows.block("", body)

    def _fold(self, p: Partial, body: Scope) -> None:
        """Folds partial results in halves: those of lanes by shuffles, then a lane's own."""
        lanes, each_ = self._lines.lanes, self._lines.each
        value, step = f"{p.final}[n]", Scope()
        unrolled(step, "n", p.many, [
            f"const float from_other = __shfl_down_sync(0xffffffffu, {value}, apart);",
            f"{value} = {joined(p, self.code, value, 'from_other')};",
        ])  # fmt: skip
        body.add("#pragma unroll")
        body.block(f"for (int apart = {lanes // 2}; apart > 0; apart /= 2)", step)
        for first in range(0, p.many, each_):
            apart = each_ // 2
            while apart:
                for n in range(first, first + apart):
                    pair = joined(p, self.code, f"{p.final}[{n}]", f"{p.final}[{n + apart}]")
                    body.add(f"{p.final}[{n}] = {pair};")
                apart //= 2
            value, lane = f"{p.final}[{first}]", f"part / {lanes} * {lanes}"
            body.add(f"{value} = __shfl_sync(0xffffffffu, {value}, {lane});")

    # -- lines -------------------------------------------------------------------------------

    def _block(self, number: int, partials: list[Partial]) -> Scope:
        """A lane's part of a block: the lines of some steps are on their way while those of the
        steps before are computed with."""
        found, turn, steps = Scope(), Scope(), self._lines.steps
        read = self._read(number)
        if not self._aligned:
            found.add(*[f"{self._union(k)} line{k}[{self._vectors(k)}];" for k in read])
            turn.add(*self._step(number, partials, None, "p").lines())
            found.block("for (int p = 0; p < there; p++)", turn)
            return found
        # What is behind a branch is not moved before it: so lines are asked for where it says so.
        for buffer in (0, 1):
            self._compute(number, partials, turn, buffer, f"p + {buffer * steps}")
            self._load(read, turn, buffer, f"p + {(buffer + 2) * steps}", end="left")
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

    def _chunks(self, scope: Scope, body: Scope, start: str, end: str = "there") -> None:
        """Something for each of some steps, `q`, in front of an end."""
        chunk, one = Scope(), Scope()
        one.add("#pragma unroll")
        one.block(f"for (int q = chunk; q < chunk + {CHUNK}; q++)", body)
        chunk.block(f"if ({start} + chunk < {end})", one)
        scope.add("#pragma unroll")
        scope.block(f"for (int chunk = 0; chunk < {self._lines.steps}; chunk += {CHUNK})", chunk)

    def _load(
        self, operands: Sequence[int], scope: Scope, buffer: int, start: str, end: str = "there"
    ) -> None:
        """Asks for the lines of some operands in some steps in front of an end."""
        loads, place = Scope(), f"from + ({start} + q) * {SPAN}"
        for k in operands:
            self._of_each(k, loads, self._words(k, self._line(k, buffer), place))
        self._chunks(scope, loads, start, end)

    def _compute(
        self, number: int, partials: list[Partial], scope: Scope, buffer: int, start: str
    ) -> None:
        """Computes with the lines of some steps."""
        self._chunks(scope, self._step(number, partials, buffer, f"({start} + q)"), start)

    def _step(self, number: int, partials: list[Partial], buffer: int | None, step: str) -> Scope:
        """The code of a lane's elements of a step.

        Args:
            buffer: of the lines, if they are loaded ahead.
            step: its number.
        """
        prepared, found, element = self.stages[number], Scope(), Scope()
        each_, lane = self._lines.each, Scope()
        for k in () if self._aligned else self._read(number):
            place, one = f"{self._start_of(k)}[from + {step} * {SPAN} + n]", Scope()
            each(one, each_, [f"{self._line(k, buffer)}.at[n] = {place};"])
            self._of_each(k, found, one.lines())
        self._buffer = buffer
        element.add(f"const int64_t i = from + {step} * {SPAN} + n;")
        environment, varying = LinePlace(self, "i"), prepared.places(VARYING)
        done = self.code.render(prepared.code, environment, element, self.known[number], varying)
        several = self._lines.vectors > 1
        for p in partials:
            slot = f"v * {each_} + n" if several else "n"
            element.add(*p.add(self.code, slot, done[p.at], "i"))
        unrolled(lane, "n", each_, element)
        if several:
            unrolled(found, "v", self._lines.vectors, lane)
        else:
            found.add(*lane.lines())
        return found
