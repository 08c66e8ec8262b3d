"""Rows that are too short for a group of work items, most of which would idle.

Each work item takes an element, if all that is done is done at its place; else rows of a few
elements, alone. A partial result of such a row has one element at most, and the others nothing,
which changes no sum: as many partial results as a row has elements give the bits of all of them.
Places are counted in 32 bits, in which a quotient takes a fifth of the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ...kernel.nest import Map, Nest, Reduce, accumulators, in_blocks, runs, units
from ...kernel.validation import validate
from .dialect import Dialect
from .groups import is_wide
from .inner import InnerNest
from .reductions import Partial
from .text import Scope

COUNTS = (2, 4, 8)
"""Elements of a row at most that a work item takes, of the kernels that there are."""
ELEMENTS = 256
"""Elements of a row from which on a group is busy with it."""
COUNTED = "(uint32_t)"
"""The type of places."""
_MOST = 1 << 31


class Short(NamedTuple):
    """How work items take the rows of a launch.

    Attributes:
        each: what one of them takes.
        most: how many elements of a row.
    """

    each: Literal["element", "row"]
    most: int


def short_rows_of(nest: Nest, sizes: Sequence[int]) -> Short | None:
    """How work items take the rows of a launch of these sizes; None where groups do."""
    if not is_wide(nest) or nest.lanes != "inner" or nest.scattered or runs(nest):
        return None
    if in_blocks(nest) or nest.ragged or not nest.outer or not 0 < math.prod(sizes) < _MOST:
        return None
    length = sizes[-1]
    maps = all(isinstance(stage, Map) for stage in nest.stages)
    if maps and not any(i.name == "gather" for s in nest.stages[1:] for i in s.code):
        return Short("element", 1) if length < ELEMENTS else None
    many = [
        accumulators(stage.code[at].dtype)
        for stage in nest.stages if isinstance(stage, Reduce)
        for _, at in stage.reductions
    ]  # fmt: skip
    count = next((n for n in COUNTS if length <= n), 0)
    return Short("row", count) if 0 < count <= min(many, default=count) else None


def row_of_item(short: Short, item: str, inner: str) -> str:
    """The number of a work item's row."""
    return item if short.each == "row" else f"({COUNTED}{item} / {COUNTED}{inner})"


def items_of(short: Short, nest: Nest, sizes: Sequence[int]) -> int:
    """How many work items there are."""
    return math.prod(sizes) if short.each == "element" else units(nest, sizes)


def short_rows(nest: Nest, name: str, dialect: Dialect, short: Short, item: str) -> str:
    """The source of a kernel for rows that are taken so.

    Args:
        dialect: whose work items are numbered by rows, or by the row of their element.
        item: the number of the work item.
    """
    validate(nest)
    if short.each == "element":
        return ElementsNest(nest, name, dialect, item).render()
    return RowsNest(nest, name, dialect, short.most).render()


class ElementsNest(InnerNest):
    """Writes a kernel whose work items take an element each."""

    counted = COUNTED

    def __init__(self, nest: Nest, name: str, dialect: Dialect, item: str) -> None:
        super().__init__(nest, name, dialect)
        self._item = item

    def map_loop(self, start: str, stop: str, body: Scope, loop: Scope) -> None:
        own = Scope()
        own.add(f"const int64_t i = {COUNTED}{self._item} % {COUNTED}{self.inner_size()};")
        own.add(*loop.lines())
        body.block("", own)


class RowsNest(InnerNest):
    """Writes a kernel whose partial results stay in registers, as all loops are unrolled."""

    counted = COUNTED

    def __init__(self, nest: Nest, name: str, dialect: Dialect, count: int) -> None:
        super().__init__(nest, name, dialect)
        self._count = count

    def partials(self, number: int, count: int | None = None) -> list[Partial]:
        return super().partials(number, self._count)

    def map_loop(self, start: str, stop: str, body: Scope, loop: Scope) -> None:
        self._unrolled(body, "i", start, stop, loop)

    def fold(self, p: Partial, body: Scope) -> None:
        apart = self._count // 2
        while apart:
            half = Scope()
            half.add(f"const int64_t apart = {apart};")
            p.fold_half(self.code, half)
            body.block("", half)
            apart //= 2

    def _elements(
        self, number: int, partials: list[Partial], scope: Scope, start: str, stop: str
    ) -> None:
        lane = Scope()
        lane.add(f"const int64_t i = {start} + lane;")
        lane.add(*self._loop_body(number, "i", partials, "lane").lines())
        self._unrolled(scope, "lane", "0", f"{stop} - {start}", lane)

    def _unrolled(self, scope: Scope, index: str, start: str, stop: str, loop: Scope) -> None:
        guarded = Scope()
        guarded.block(f"if ({index} < {stop})", loop)
        scope.add("#pragma unroll")
        head = f"for (int64_t {index} = {start}; {index} < {self._count}; {index}++)"
        scope.block(head, guarded)
