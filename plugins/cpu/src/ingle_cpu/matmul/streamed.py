"""A few rows times a matrix that is read where it lies, row after row.

    streamed(a, a_row, last, b, b_step, columns, depth, tile, tile_row, add, ...)

is a tile (`microkernel.py`) as wide as some kilobytes of a row of `b`. What so few rows take is the
time in which `b` comes from memory: a tile in registers would read a piece of each row, a cache
line or two, which processors do not foresee. Here sums wait in the first-level cache instead, and
some rows of `b` at a time go by, from their begin to their end. Sums are taken in order of k, so
that they have the bits of tiles in registers.
"""

from __future__ import annotations

from collections.abc import Callable

from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.llvm import Values, Writer, scalar_type, suffix, vector_type
from ingle.fusion.device.targets import Target

from .abi import parameters

SUMS_BYTES = 4 << 10
"""What the sums of a row take: a part of the first-level cache, and a page of a row of b."""
MOST_STREAMED = 4
"""Rows that share each load of b. A load and a store of sums come with the products of a row, which
many rows would wait for, and not for b."""


def streamed_columns(dtype: str) -> int:
    """As many as a tile may have."""
    return SUMS_BYTES // SIZES[dtype]


def streamed_text(rows: int, dtype: str, target: Target, name: str) -> str:
    """The module of a tile of some rows, as wide as it is told."""
    return _Streamed(rows, dtype, target, name).text()


class _Streamed:
    def __init__(self, rows: int, dtype: str, target: Target, name: str) -> None:
        self.rows = rows
        self.name = name
        self.lanes = target.width // SIZES[dtype]
        self.size = SIZES[dtype]
        self.scalar = scalar_type(dtype)
        # A factor for each row of a and of b is in a register.
        self.steps = target.registers // 2 // rows
        self.multiply_add = "llvm.fma" if target.fma else "llvm.fmuladd"
        self.wide = streamed_columns(dtype)
        self.writer = Writer(name)

    def text(self) -> str:
        w = self.writer
        waiting = w.let("waiting", f"alloca [{self.rows * self.wide} x {self.scalar}], align 64")
        anew = w.let("anew", "icmp eq i64 %add, 0")
        self.sums = w.let("sums", f"select i1 {anew}, ptr %tile, ptr {waiting}")
        pitch = str(self.wide * self.size)
        self.pitch = w.let("pitch", f"select i1 {anew}, i64 %tile_row, i64 {pitch}")
        self.whole = w.let("whole", f"and i64 %columns, {-self.lanes}")
        self._each_row(self._clear)
        many = w.let("many", f"sdiv i64 %depth, {self.steps}")
        many = w.let("many", f"mul i64 {many}, {self.steps}")
        for start, stop, steps in (("0", many, self.steps), (many, "%depth", 1)):

            def step(k: str, _: Values, steps: int = steps) -> Values:
                self._rows_of_b(k, steps)
                return []

            w.loop("k", start, stop, str(steps), [], step)
        more = w.let("more", f"xor i1 {anew}, true")

        def add() -> Values:
            self._each_row(self._add)
            return []

        w.when(more, [], add)
        w.do("ret void")
        head = f"define void @{self.name}({parameters()}) nounwind {{\nentry:\n"
        return head + "\n".join([*w.lines, "}", *w.declared.values()]) + "\n"

    def _at(self, pointer: str, offset: str) -> str:
        return self.writer.let("at", f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def _element(self, pointer: str, number: str) -> str:
        return self.writer.let("at", f"getelementptr {self.scalar}, ptr {pointer}, i64 {number}")

    def _row(self, pointer: str, number: int, step: str) -> str:
        if not number:
            return pointer
        return self._at(pointer, self.writer.let("offset", f"mul i64 {step}, {number}"))

    def _load(self, pointer: str, lanes: int) -> str:
        kind = vector_type(self.scalar, lanes)
        return self.writer.let("x", f"load {kind}, ptr {pointer}, align {self.size}")

    def _store(self, value: str, pointer: str, lanes: int) -> None:
        kind = vector_type(self.scalar, lanes)
        self.writer.do(f"store {kind} {value}, ptr {pointer}, align {self.size}")

    def _each_column(self, body: Callable[[str, int], None]) -> None:
        """Goes along the columns: in whole vectors, then one by one."""
        w = self.writer
        pieces = (("0", self.whole, self.lanes), (self.whole, "%columns", 1))
        for start, stop, lanes in pieces:

            def piece(j: str, _: Values, lanes: int = lanes) -> Values:
                body(j, lanes)
                return []

            w.loop("columns", start, stop, str(lanes), [], piece)

    def _each_row(self, body: Callable[[str, str, int], None]) -> None:
        """Goes along the sums of each row, and the tile's beside them."""
        for number in range(self.rows):
            sums = self._row(self.sums, number, self.pitch)
            tile = self._row("%tile", number, "%tile_row")

            def piece(j: str, lanes: int, sums: str = sums, tile: str = tile) -> None:
                body(self._element(sums, j), self._element(tile, j), lanes)

            self._each_column(piece)

    def _clear(self, sums: str, _: str, lanes: int) -> None:
        self._store("zeroinitializer" if lanes > 1 else "0.0", sums, lanes)

    def _add(self, sums: str, tile: str, lanes: int) -> None:
        kind = vector_type(self.scalar, lanes)
        old, new = self._load(tile, lanes), self._load(sums, lanes)
        self._store(self.writer.let("sum", f"fadd {kind} {old}, {new}"), tile, lanes)

    def _rows_of_b(self, k: str, steps: int) -> None:
        """Adds the products of some rows of b to all sums."""
        w = self.writer
        down = self._at("%b", w.let("down", f"mul i64 {k}, %b_step"))
        b = [self._row(down, step, "%b_step") for step in range(steps)]
        factors = []
        for number in range(self.rows):
            place = self._element(self._row("%a", number, "%a_row"), k)
            factors.append([self._load(self._element(place, str(s)), 1) for s in range(steps)])
        vectors = [[w.splat("a", self.scalar, f, self.lanes) for f in row] for row in factors]
        rows = [self._row(self.sums, number, self.pitch) for number in range(self.rows)]

        def piece(j: str, lanes: int) -> None:
            kind, name = vector_type(self.scalar, lanes), suffix(self.scalar, lanes)
            others = [self._load(self._element(row, j), lanes) for row in b]
            if self.rows > 1 and lanes > 1:
                self._fetch(b, j)
            places = [self._element(row, j) for row in rows]
            # All are loaded before any is stored: processors take rows a page apart for the same.
            totals = [self._load(place, lanes) for place in places]
            for number, given in enumerate(vectors if lanes > 1 else factors):
                for x, y in zip(given, others, strict=True):
                    operands = (f"{kind} {v}" for v in (x, y, totals[number]))
                    totals[number] = w.call("sum", kind, f"{self.multiply_add}.{name}", *operands)
            for total, place in zip(totals, places, strict=True):
                self._store(total, place, lanes)

        self._each_column(piece)

    def _fetch(self, b: Values, j: str) -> None:
        """Asks for the rows of b that come next. Of few rows at a time processors foresee less than
        of the eight that go by for one row of a, which need no help."""
        w = self.writer
        for row in b:
            following = self._row(row, self.steps, "%b_step")
            place = self._element(following, j)
            w.call_nothing("llvm.prefetch.p0", f"ptr {place}", "i32 0", "i32 3", "i32 1")
