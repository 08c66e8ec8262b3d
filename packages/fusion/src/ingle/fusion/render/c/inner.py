"""Nests that take the inner axis side by side, as C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...kernel.nest import BLOCK, Row, block_elements, in_blocks, is_copy, is_flat
from ...kernel.neutral import neutral_bits
from ..leaves import Environment
from . import helpers
from .prepared import FIXED, UNIFORM, VARYING
from .rare_cases import PART, apart
from .reductions import Partial
from .rows import NestRenderer, place, product
from .text import Scope, literal, value_type

Known = dict[int, str] | None
"""The values of an element by position; None where they are to be computed."""
LANE_STEPS = {"unit": "1", "zero": "0"}


@dataclass
class RowPlace:
    """The environment of code in a row, at an inner index (None: where nothing varies)."""

    owner: InnerNest
    index_name: str | None = None

    def load(self, operand: int, dtype: str) -> str:
        index = self.index_name or "0"
        return self.owner.loaded(operand, self.owner.element(operand, index))

    def gather(self, operand: int, dtype: str, offset: str) -> str:
        return self.owner.loaded(operand, f"{self.owner.row_pointer(operand)}[{offset}]")

    def scalar(self, number: int, dtype: str) -> str:
        return self.owner.scalar(number, dtype)

    def index(self, axis: int) -> str:
        if axis < 0:
            return self.index_name or "0"
        return self.owner.split("unit", axis, self.owner.nest.outer - 1)

    def result(self, stage: int, number: int) -> str:
        return f"result_{stage}_{number}"

    def row(self, stage: int, number: int) -> str:
        return f"row_{stage}_{number}"


class InnerNest(NestRenderer):
    """Writes a kernel whose rows are taken one after the other."""

    def level(self, name: str, value: object) -> int:
        if name == "load" and isinstance(value, int):
            operand = self.nest.operands[value]
            return FIXED if operand.lane == "zero" and not operand.output else VARYING
        if name == "gather" or (name, value) == ("index", -1):
            return VARYING
        return FIXED

    def body(self) -> Scope:
        for number in range(len(self.stages)):
            self._written(number, UNIFORM, self.head)
        self._flat = is_flat(self.nest)
        if self._flat:
            self.unit = self.head
        rows = Scope()
        for number in range(len(self.stages)):
            self._stage(number, rows)
        if is_copy(self.nest):
            there = Scope()
            there.block(f"if ({self.pointer(0)} != {self.pointer(1)})", rows)
            return there
        if self._flat:
            return rows
        body, row = Scope(), Scope()
        row.add(*self.unit.lines(), *rows.lines())
        body.block(*self.rows_loop(row))
        return body

    def rows_loop(self, row: Scope) -> tuple[str, Scope]:
        """The head and the body of the loop over units of work."""
        if in_blocks(self.nest):
            return "for (int64_t piece = begin; piece < end; piece++)", self._blocks(row)
        if self.nest.scattered:
            count = " * ".join([self.size(a) for a in range(1, self.nest.outer)]) or "1"
            return f"for (int64_t unit = 0; unit < {count}; unit++)", row
        return "for (int64_t unit = begin; unit < end; unit++)", row

    def _blocks(self, row: Scope) -> Scope:
        """Some rows, whose sums begin with nothing and grow with each row."""
        block, least = Scope(), helpers.least(self.source)
        for stage in self.stages:
            for k, at in stage.columns:
                nothing = literal(neutral_bits("sum", stage.code[at].dtype), stage.code[at].dtype)
                clear = [f"{self._sums(k)}[i] = {nothing};"]
                block.block(f"for (int64_t i = 0; i < {self.inner_size()}; i++)", clear)
        last = f"{least}((piece + 1) * {BLOCK}, {self.size(0)})"
        block.add(f"const int64_t last = {last};")
        block.block(f"for (int64_t unit = piece * {BLOCK}; unit < last; unit++)", row)
        return block

    def _sums(self, k: int) -> str:
        """Where the sums of the piece at hand are; `block` is one of a row's own sums."""
        return f"({self.pointer(k)} + piece * {self.stride(k, 0)})"

    def row_pointer(self, k: int) -> str:
        """Where operand `k` begins in this row."""
        pointer, outer = self.pointer(k), self.nest.outer
        first = 1 if self.nest.scattered else 0
        if first == outer:
            return pointer
        terms = [
            f"{self.split('unit', a, outer - 1)} * {self.stride(k, a)}" for a in range(first, outer)
        ]
        return self.declared_pointer(k, f"row{k}", pointer, terms)

    def element(self, k: int, index: str) -> str:
        """Operand `k` at an inner index of this row."""
        lane = self.nest.operands[k].lane
        step = LANE_STEPS.get(lane) or ("0" if index == "0" else self.stride(k, -1))
        row_base = self.nest.operands[k].row_base
        first = "0" if row_base is None else f"row_0_{row_base}"
        return place(self.row_pointer(k), first, product(index, step))

    def _written(self, number: int, level: int, scope: Scope) -> None:
        stage = self.stages[number]
        self.known[number] = self.code.render(
            stage.code, RowPlace(self), scope, self.known[number], stage.places(level)
        )

    def _stage(self, number: int, rows: Scope) -> None:
        stage = self.stages[number].stage
        body = Scope()
        self._written(number, FIXED, body)
        self.comment(number, rows)
        if isinstance(stage, Row):
            self._once(number, body, rows)
            return
        length = "" if self._flat else self.length(self._first_index())
        if self.stages[number].ends:
            self._reduce(number, body, rows, length)
        else:
            start, stop = ("begin", "end") if self._flat else ("0", length)

            def loop(scope: Scope, start: str, stop: str, values: Known) -> None:
                self.map_loop(start, stop, scope, self._loop_body(number, "i", [], "", values))

            self._by_parts(number, body, start, stop, loop)
            rows.block("", body)

    def map_loop(self, start: str, stop: str, body: Scope, loop: Scope) -> None:
        """What is done at every place."""
        body.add("INGLE_INDEPENDENT")
        body.block(f"for (int64_t i = {start}; i < {stop}; i++)", loop)

    def _by_parts(
        self, number: int, scope: Scope, start: str, stop: str,
        loop: Callable[[Scope, str, str, Known], None],
    ) -> None:  # fmt: skip
        """Writes a loop over the elements of a stage; where some may be rare cases, one with them
        and one without, of which each part of the elements takes one."""
        stage, known = self.stages[number], self.known[number]
        found = apart(self.code, stage, self.place_at("i"), known, "i - part", PART)
        if found is None:
            loop(scope, start, stop, None)
            return
        part = Scope()
        part.add(f"const int64_t behind = {helpers.least(self.source)}(part + {PART}, {stop});")
        part.add(*found.declared)
        InnerNest.map_loop(self, "part", "behind", part, found.body)
        for head, values in (("if (rare)", None), ("else", found.values)):
            some = Scope()
            loop(some, "part", "behind", values)
            part.block(head, some)
        scope.block(f"for (int64_t part = {start}; part < {stop}; part += {PART})", part)

    def _first_index(self) -> str:
        return self.split("unit", 0, self.nest.outer - 1) if self.nest.ragged else "0"

    def place_at(self, index: str) -> Environment:
        """What code finds at an inner index."""
        return RowPlace(self, index)

    def _loop_body(
        self, number: int, index: str, partials: list[Partial], lane: str, values: Known = None
    ) -> Scope:
        """One element: its code, unless its values are known, its stores, and its part in the
        reductions."""
        stage, body = self.stages[number], Scope()
        done = values or self.code.render(
            stage.code, self.place_at(index), body, self.known[number], stage.places(VARYING)
        )
        for k, at in stage.stores:
            self.store(body, k, self.element(k, index), done[at])
        for k, at in stage.columns:
            body.add(f"{self._sums(k)}[{index}] += {done[at]};")
        for p in partials:
            body.add(*p.add(self.code, self.slot(p, partials, lane), done[p.at], index))
        return body

    def slot(self, p: Partial, partials: list[Partial], lane: str) -> str:
        """Which partial result an element belongs to."""
        fewest = min(q.many for q in partials)
        return f"(start & {p.many - 1}) + {lane}" if p.many > fewest else lane

    def _once(self, number: int, body: Scope, rows: Scope) -> None:
        stage = self.stages[number]
        done = self.code.render(
            stage.code, RowPlace(self), body, self.known[number], stage.places(VARYING)
        )
        if stage.stores:
            self.store_once(body, [(k, done[at]) for k, at in stage.stores])
        for j, at in enumerate(stage.ends):
            self._outside(rows, value_type(stage.code[at].dtype), f"row_{number}_{j}")
            body.add(f"row_{number}_{j} = {done[at]};")
        rows.block("", body)
        if number == 0 and self.nest.scattered:
            rows.block("if (row_0_0 < begin || row_0_0 >= end)", ["continue;"])

    def store_once(self, body: Scope, stores: list[tuple[int, str]]) -> None:
        """Stores what is computed once a row."""
        for k, value in stores:
            self.store(body, k, self.element(k, "0"), value)

    def _outside(self, rows: Scope, kind: str, name: str) -> None:
        rows.declare(name, f"{kind} {name};")

    # -- reductions --------------------------------------------------------------------------

    def _reduce(self, number: int, body: Scope, rows: Scope, length: str) -> None:
        partials = self.partials(number)
        for p in partials:
            body.add(*p.arrays())
        for p in partials:
            each(body, p.many, p.clear("n"))
        if any(p.compensated for p in partials):
            step = block_elements(self.nest.stages[number])
            block = Scope()
            least = helpers.least(self.source)
            block.add(f"const int64_t stop = {least}(block + {step}, {length});")
            for p in partials:
                each(block, p.many, p.forget("n"))
            self._elements(number, partials, block, "block", "stop")
            for p in partials:
                each(block, p.many, p.keep(self.code, "n"))
            body.block(f"for (int64_t block = 0; block < {length}; block += {step})", block)
            for p in partials:
                each(body, p.many, p.round(self.code, "n"))
        else:
            self._elements(number, partials, body, "0", length)
        for j, p in enumerate(partials):
            self.fold(p, body)
            self._outside(rows, p.result_type, f"result_{number}_{j}")
            body.add(f"result_{number}_{j} = {p.result('0', length)};")
        rows.block("", body)

    def fold(self, p: Partial, body: Scope) -> None:
        """Folds all partial results of a reduction into the first one."""
        p.fold(self.code, body)

    def _elements(
        self, number: int, partials: list[Partial], scope: Scope, start: str, stop: str
    ) -> None:
        """Each element goes to the partial result of its index modulo their count."""

        def loop(scope: Scope, start: str, stop: str, values: Known) -> None:
            self._lanes(number, partials, scope, start, stop, values)

        self._by_parts(number, scope, start, stop, loop)

    def _lanes(
        self, number: int, partials: list[Partial], scope: Scope, start: str, stop: str,
        values: Known,
    ) -> None:  # fmt: skip
        count = min(p.many for p in partials)
        group = Scope()
        least = helpers.least(self.source)
        group.add(f"const int64_t lanes = {least}({count}, {stop} - start);")
        lane = Scope()
        lane.add("const int64_t i = start + lane;")
        lane.add(*self._loop_body(number, "i", partials, "lane", values).lines())
        group.add("INGLE_INDEPENDENT")
        group.block("for (int64_t lane = 0; lane < lanes; lane++)", lane)
        head = f"for (int64_t start = {start}; start < {stop}; start += {count})"
        scope.block(head, group)


def each(scope: Scope, count: int, lines: list[str]) -> None:
    """Does something for each partial result."""
    if lines:
        scope.block(f"for (int n = 0; n < {count}; n++)", lines)
