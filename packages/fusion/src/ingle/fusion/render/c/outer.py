"""Nests that take the last outer axis side by side while the inner axis is walked, as C."""

from __future__ import annotations

from dataclasses import dataclass

from ...kernel.nest import BLOCK, COLUMNS, NARROW, WIDE, Row
from . import helpers
from .prepared import UNIFORM, VARYING
from .rare_cases import apart
from .reductions import Partial
from .rows import NestRenderer, place, product
from .text import Scope, value_type

COLUMN = "for (int64_t column = 0; column < width; column++)"


@dataclass
class _ColumnPlace:
    """The environment of code in a column of a block, at an inner index."""

    owner: OuterNest
    walk: str

    def load(self, operand: int, dtype: str) -> str:
        return self.owner.loaded(operand, self.owner.element(operand, self.walk))

    def gather(self, operand: int, dtype: str, offset: str) -> str:
        return self.owner.loaded(operand, f"{self.owner.base_pointer(operand)}[{offset}]")

    def scalar(self, number: int, dtype: str) -> str:
        return self.owner.scalar(number, dtype)

    def index(self, axis: int) -> str:
        last = self.owner.nest.outer - 1
        if axis == last:
            return f"({self.owner.first()} + column)"
        return self.walk if axis < 0 else self.owner.split(self.owner.rest(), axis, last - 1)

    def result(self, stage: int, number: int) -> str:
        return f"result_{stage}_{number}[{self.owner.slot}]"

    def row(self, stage: int, number: int) -> str:
        return f"row_{stage}_{number}[{self.owner.slot}]"


class OuterNest(NestRenderer):
    """Writes a kernel that takes blocks of columns.

    Attributes:
        columns: of which there is memory for results at once.
        slot: where among these a column's are.
        each_column: the loop over a block's columns.
    """

    columns = COLUMNS
    slot = "column"
    each_column = COLUMN

    def level(self, name: str, value: object) -> int:
        return VARYING

    def body(self) -> Scope:
        for number, stage in enumerate(self.stages):
            self.known[number] = self.code.render(
                stage.code, _ColumnPlace(self, "0"), self.head, {}, stage.places(UNIFORM)
            )
        least = helpers.least(self.source)
        columns = self.size(self.nest.outer - 1)
        width = f"const int64_t width = {least}({columns} - {self.first()}, {self._span()});"
        self.unit.declare("width", width)
        stages = Scope()
        for number in range(len(self.stages)):
            self._stage(number, stages)
        body, unit = Scope(), Scope()
        unit.add(*self.unit.lines(), *self.guarded(stages).lines())
        body.block("for (int64_t unit = begin; unit < end; unit++)", unit)
        return body

    def guarded(self, stages: Scope) -> Scope:
        """The stages, where there is a column for them."""
        return stages

    # -- places ------------------------------------------------------------------------------

    def _span(self) -> str:
        """How many columns a unit has."""
        columns = self.size(self.nest.outer - 1)
        shown = f"{columns} < {WIDE} ? {NARROW} : {COLUMNS}"
        return self.head.declare("span", f"const int64_t span = {shown};")

    def _blocks(self) -> str:
        columns = self.size(self.nest.outer - 1)
        shown = f"({columns} + {self._span()} - 1) / {self._span()}"
        return self.head.declare("blocks", f"const int64_t blocks = {shown};")

    def first(self) -> str:
        """The first column of the block."""
        block = "unit" if self.nest.outer == 1 else f"unit % {self._blocks()}"
        return self.unit.declare("first", f"const int64_t first = {block} * {self._span()};")

    def rest(self) -> str:
        """The number of the other outer axes' indices."""
        return f"(unit / {self._blocks()})"

    def base_pointer(self, k: int) -> str:
        """Where operand `k` begins at the indices of the other outer axes."""
        others = self.nest.outer - 1
        if not others:
            return self.pointer(k)
        terms = [
            f"{self.split(self.rest(), a, others - 1)} * {self.stride(k, a)}" for a in range(others)
        ]
        return self.declared_pointer(k, f"base{k}", self.pointer(k), terms)

    def _column_step(self, k: int) -> str:
        known = {"unit": "1", "zero": "0"}.get(self.nest.operands[k].lane)
        return known or self.stride(k, self.nest.outer - 1)

    def element(self, k: int, walk: str) -> str:
        """Operand `k` in a column of the block at an inner index."""
        step = self._column_step(k)
        base, offset = self.base_pointer(k), product(self.first(), step)
        pointer = base if offset == "0" else self.declared_pointer(k, f"row{k}", base, [offset])
        along = "0" if walk == "0" else product(walk, self.stride(k, -1))
        return place(pointer, along, product("column", step))

    # -- stages ------------------------------------------------------------------------------

    def _stage(self, number: int, stages: Scope) -> None:
        self.comment(number, stages)
        if isinstance(self.stages[number].stage, Row):
            self._once(number, stages)
            return
        others = self.nest.outer - 2
        first = self.split(self.rest(), 0, others) if self.nest.ragged else "0"
        length = self.length(first)
        if self.stages[number].ends:
            self._reduce(number, stages, length)
        else:
            self._walk(number, [], stages, "0", length)

    def _columns(
        self, number: int, walk: str, partials: list[Partial],
        values: dict[int, str] | None = None,
    ) -> Scope:  # fmt: skip
        """One inner index in one column: its code, unless its values are known, its stores, its
        part in the reductions."""
        stage, body = self.stages[number], Scope()
        done = values or self.code.render(
            stage.code, _ColumnPlace(self, walk), body, self.known[number], stage.places(VARYING)
        )
        for k, at in stage.stores:
            self.store(body, k, self.element(k, walk), done[at])
        for p in partials:
            body.add(*p.add(self.code, self.slot, done[p.at], walk))
        return body

    def _walk(
        self, number: int, partials: list[Partial], scope: Scope, start: str, stop: str
    ) -> None:
        walk, stage, known = Scope(), self.stages[number], self.known[number]
        place = _ColumnPlace(self, "i")
        found = apart(self.code, stage, place, known, "column", self.columns)
        if found is None:
            self._over(walk, self._columns(number, "i", partials))
        else:
            walk.add(*found.declared)
            self._over(walk, found.body)
            for head, values in (("if (rare)", None), ("else", found.values)):
                some = Scope()
                self._over(some, self._columns(number, "i", partials, values))
                walk.block(head, some)
        scope.block(f"for (int64_t i = {start}; i < {stop}; i++)", walk)

    def _once(self, number: int, stages: Scope) -> None:
        stage, body = self.stages[number], Scope()
        done = self.code.render(
            stage.code, _ColumnPlace(self, "0"), body, self.known[number], stage.places(VARYING)
        )
        for k, at in stage.stores:
            self.store(body, k, self.element(k, "0"), done[at])
        for j, at in enumerate(stage.ends):
            name = f"row_{number}_{j}"
            stages.declare(name, f"{value_type(stage.code[at].dtype)} {name}[{self.columns}];")
            body.add(f"{name}[{self.slot}] = {done[at]};")
        stages.block(self.each_column, body)

    def _reduce(self, number: int, stages: Scope, length: str) -> None:
        partials = self.partials(number, self.columns)
        body = Scope()
        for p in partials:
            body.add(*p.arrays())
        self._each(body, [line for p in partials for line in p.clear(self.slot)])
        if any(p.compensated for p in partials):
            block, least = Scope(), helpers.least(self.source)
            block.add(f"const int64_t stop = {least}(block + {BLOCK}, {length});")
            self._each(block, [line for p in partials for line in p.forget(self.slot)])
            self._walk(number, partials, block, "block", "stop")
            self._each(block, [line for p in partials for line in p.keep(self.code, self.slot)])
            body.block(f"for (int64_t block = 0; block < {length}; block += {BLOCK})", block)
        else:
            self._walk(number, partials, body, "0", length)
        self._each(body, [line for p in partials for line in p.round(self.code, self.slot)])
        for j, p in enumerate(partials):
            name = f"result_{number}_{j}"
            stages.declare(name, f"{p.result_type} {name}[{self.columns}];")
            self._each(body, [f"{name}[{self.slot}] = {p.result(self.slot, length)};"])
        stages.block("", body)

    def _over(self, scope: Scope, body: Scope) -> None:
        """Does something in each column, in which nobody reads what another column writes."""
        scope.add("INGLE_INDEPENDENT")
        scope.block(self.each_column, body)

    def _each(self, scope: Scope, lines: list[str]) -> None:
        if lines:
            scope.block(self.each_column, lines)
