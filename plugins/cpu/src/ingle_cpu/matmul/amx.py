"""Tiles of the result in registers of tiles (AMX), which hold 16 rows of 16 numbers each.

A step is 16 elements of k at once, pairs of bfloat16 or four bytes: for 16 rows of `a`, of which
`pack_tiles.py` lays these elements side by side, and 16 columns of `b`, row after row of a panel.
Rows that lie along k, in whole tiles of whole steps, are read where they are: a line of each.
The processor adds up the products of the first numbers of pairs, those of the second ones, both
sums, and then that to the result; those of bytes, as int32, in whatever order. What k leaves behind
the last 16 is read between zeros from the stack.

Up to four registers hold sums: two rows of two, or one row of up to four. Sums of an earlier block
of k are loaded, and go on.

To say what shapes registers have takes longer than a quarter of a tile's products where k is small.
So a tile says it where they have others, and leaves them as they are; `RELEASE` lets go of them
behind the last tile of a call: a thread that holds some takes the system longer to switch.
"""

from __future__ import annotations

from ingle.fusion.device.llvm import Values, Writer

from ..jit.engine import IRSource
from .abi import parameters
from .tile import Tile

ROWS = 16
"""Of a register, and elements of k in a step."""
LINE = 64
"""Bytes of a register's row."""
SUMS = 4
"""Registers that hold sums."""
RELEASE = "release_tiles"
"""The function that lets go of the registers."""
LEFT, RIGHT = SUMS, SUMS + 2
"""The first of the two registers for `a`, and of those for `b`."""


def most_tile_rows(vectors: int) -> int:
    """Rows of a tile that is so many registers wide."""
    return ROWS * (2 if vectors <= SUMS // 2 else 1)


def tile_cycles(rows: int, vectors: int) -> float:
    """Of a step: products of two registers, beside which most of the loads are for nothing."""
    high = -(-rows // ROWS)
    return ROWS * high * vectors + ROWS // 4 * (high + vectors)


def tiles_text(tile: Tile, name: str) -> str:
    """The module of a tile."""
    return _Tiles(tile, name).text()


def release_source() -> IRSource:
    """The module of `RELEASE`."""
    w = Writer(RELEASE)
    w.call_nothing("llvm.x86.tilerelease")
    w.do("ret void")
    head = f"define void @{RELEASE}() nounwind {{\nentry:\n"
    text = head + "\n".join([*w.lines, "}", *w.declared.values()]) + "\n"
    return IRSource(text, (RELEASE,), reduced=False)


class _Tiles:
    def __init__(self, tile: Tile, name: str) -> None:
        self.product = f"llvm.x86.tdp{tile.instruction}"
        self.parts = [min(ROWS, tile.rows - start) for start in range(0, tile.rows, ROWS)]
        self.rows = tile.rows
        self.vectors = tile.vectors
        self.takes_lines = tile.takes_lines
        self.name = name
        self.writer = Writer(name)

    def text(self) -> str:
        w = self.writer
        room = {
            what: w.let(what, f"alloca [{count} x i8], align {LINE}")
            for what, count in (
                ("shapes", LINE), ("found", LINE), ("a_rest", self.rows * LINE),
                ("b_rest", ROWS * self.vectors * LINE),
            )
        }  # fmt: skip
        self._configure(room["shapes"], room["found"])
        self._begin()
        whole = w.let("whole", f"and i64 %depth, {-ROWS}")

        def step(k: str, _: Values) -> Values:
            a = self._behind("%a", self._product(k, str(4 if self.takes_lines else 4 * self.rows)))
            b = self._behind("%b", self._product(k, "%b_step"))
            self._step(a, "%a_row" if self.takes_lines else str(LINE), b, "%b_step")
            return []

        w.loop("step", "0", whole, str(ROWS), [], step)
        rest = w.let("rest", f"and i64 %depth, {ROWS - 1}")

        def last() -> Values:
            self._copy_rest(whole, rest, room)
            self._step(room["a_rest"], str(LINE), room["b_rest"], str(self.vectors * LINE))
            return []

        if not self.takes_lines:
            w.when(w.let("some", f"icmp ne i64 {rest}, 0"), [], last)
        for number, place in self._sums():
            w.call_nothing("llvm.x86.tilestored64", f"i8 {number}", f"ptr {place}", "i64 %tile_row")
        w.do("ret void")
        head = f"define void @{self.name}({parameters()}) nounwind {{\nentry:\n"
        return head + "\n".join([*w.lines, "}", *w.declared.values()]) + "\n"

    def _configure(self, shapes: str, found: str) -> None:
        """Says how many rows each register has, if they have others; all are as wide as can be."""
        high = [self.parts[n // self.vectors] if n < self._count else 0 for n in range(SUMS)]
        high += [self.parts[n] if n < len(self.parts) else 0 for n in range(2)]
        high += [ROWS, ROWS]
        wide = [LINE if rows else 0 for rows in high]
        form = bytearray(LINE)
        form[0] = 1
        for number, (rows, width) in enumerate(zip(high, wide, strict=True)):
            form[16 + 2 * number] = width
            form[48 + number] = rows
        numbers = ", ".join(f"i8 {n}" for n in form)
        w, kind = self.writer, f"<{LINE} x i8>"
        w.call_nothing("llvm.x86.sttilecfg", f"ptr {found}")
        old = w.let("old", f"load {kind}, ptr {found}, align {LINE}")
        others = w.let("others", f"icmp ne {kind} {old}, <{numbers}>")
        bits = w.let("bits", f"bitcast <{LINE} x i1> {others} to i{LINE}")

        def say() -> Values:
            w.do(f"store {kind} <{numbers}>, ptr {shapes}, align {LINE}")
            w.call_nothing("llvm.x86.ldtilecfg", f"ptr {shapes}")
            return []

        w.when(w.let("differs", f"icmp ne i{LINE} {bits}, 0"), [], say)

    @property
    def _count(self) -> int:
        """Of sums."""
        return len(self.parts) * self.vectors

    def _sums(self) -> list[tuple[int, str]]:
        """The registers of sums, and where each belongs in the tile."""
        found = []
        for part in range(len(self.parts)):
            row = self._behind("%tile", self._product("%tile_row", str(part * ROWS)))
            for vector in range(self.vectors):
                found.append((part * self.vectors + vector, self._behind(row, str(vector * LINE))))
        return found

    def _begin(self) -> None:
        """Zeros, or what earlier blocks of k have summed up."""
        w = self.writer
        again, fresh, ready = (w.label(what) for what in ("again", "fresh", "ready"))
        anew = w.let("anew", "icmp eq i64 %add, 0")
        w.do(f"br i1 {anew}, label %{fresh}, label %{again}")
        w.start(again)
        for number, place in self._sums():
            self._load(number, place, "%tile_row")
        w.do(f"br label %{ready}")
        w.start(fresh)
        for number in range(self._count):
            w.call_nothing("llvm.x86.tilezero", f"i8 {number}")
        w.do(f"br label %{ready}")
        w.start(ready)

    def _step(self, a: str, a_step: str, b: str, b_step: str) -> None:
        """Adds the products of 16 elements of k; rows of a and of b are some bytes apart."""
        w = self.writer
        for part in range(len(self.parts)):
            down = self._product(a_step, str(part * ROWS))
            self._load(LEFT + part, self._behind(a, down), a_step)
        for vector in range(self.vectors):
            right = RIGHT + vector % 2
            self._load(right, self._behind(b, str(vector * LINE)), b_step)
            for part in range(len(self.parts)):
                numbers = (part * self.vectors + vector, LEFT + part, right)
                w.call_nothing(self.product, *[f"i8 {n}" for n in numbers])

    def _load(self, number: int, place: str, step: str) -> None:
        self.writer.call_nothing(
            "llvm.x86.tileloadd64", f"i8 {number}", f"ptr {place}", f"i64 {step}"
        )

    def _copy_rest(self, whole: str, rest: str, room: dict[str, str]) -> None:
        """The last elements of k, less than 16, between zeros."""
        w = self.writer
        line = f"<{ROWS} x i32>"
        for what, lines in (("a_rest", self.rows), ("b_rest", ROWS * self.vectors)):
            for number in range(lines):
                place = self._behind(room[what], str(number * LINE))
                w.do(f"store {line} zeroinitializer, ptr {place}, align {LINE}")
        numbers = ", ".join(f"i32 {n}" for n in range(ROWS))
        count = w.splat("rest", "i32", w.let("rest", f"trunc i64 {rest} to i32"), ROWS)
        mask = w.let("mask", f"icmp ult {line} <{numbers}>, {count}")
        from_a = self._behind("%a", self._product(whole, str(4 * self.rows)))

        def row(i: str, _: Values) -> Values:
            source = self._behind(from_a, self._product(self._product(i, rest), "4"))
            value = w.call(
                "x", line, f"llvm.masked.load.v{ROWS}i32.p0", f"ptr {source}", "i32 4",
                f"<{ROWS} x i1> {mask}", f"{line} zeroinitializer",
            )  # fmt: skip
            to = self._behind(room["a_rest"], self._product(i, str(LINE)))
            w.do(f"store {line} {value}, ptr {to}, align {LINE}")
            return []

        w.loop("row", "0", str(self.rows), "1", [], row)
        from_b = self._behind("%b", self._product(whole, "%b_step"))

        def element(k: str, _: Values) -> Values:
            source = self._behind(from_b, self._product(k, "%b_step"))
            to = self._behind(room["b_rest"], self._product(k, str(self.vectors * LINE)))
            for vector in range(self.vectors):
                here, there = (self._behind(p, str(vector * LINE)) for p in (source, to))
                value = w.let("x", f"load {line}, ptr {here}, align 4")
                w.do(f"store {line} {value}, ptr {there}, align {LINE}")
            return []

        w.loop("element", "0", rest, "1", [], element)

    def _product(self, a: str, b: str) -> str:
        return self.writer.let("offset", f"mul i64 {a}, {b}")

    def _behind(self, pointer: str, offset: str) -> str:
        return self.writer.let("at", f"getelementptr i8, ptr {pointer}, i64 {offset}")
