"""The innermost kernels of a contraction: a tile of the result stays in registers over all of k.

    void micro(
        a, a_row, last, b, b_step, columns, depth, tile, tile_row, add, soon, b_vector, tile_vector)

computes `tile[i, j] (+)= sum over k of a[i, k] * b[k, j]` for a number of rows and vectors; rows of
the tile are `tile_row` bytes apart, so that it may be a part of the result itself. These kinds read
`b` as whole vectors along j, and add up products in order of k, so that they give the same bits:

- *packed*: `a[k * rows + i]` and `b[k * width + j]` lie one after the other.
- *direct*: rows of `a` are `a_row` bytes apart and its columns adjacent, rows of `b` are `b_step`
  bytes apart. Nothing needs to be copied first. Rows behind number `last` are read as that one.

Additions of addresses would take the place of multiplications, since they share the ports: so each
address is a register, or the sum of two, and a constant, and one addition moves all of them on. On
the way the tile fetches what will be read next: from `soon` on a cache line for every
`STEPS_OF_A_LINE` steps of k.

The kind *pairs* is *packed* for bfloat16 where the processor multiplies and adds two of them in one
instruction (AVX512-BF16). An element of `a` and of `b` is a pair of numbers that follow each other
along k, as `pack.py` makes it, and `depth` counts pairs. The first of a pair is in the upper half,
which the processor adds first: so it gives the bits of *packed*, but for numbers below the smallest
normal one, which it takes for zeros.

The kinds of `TILES`, and these behind `LINES`, are for registers of tiles (AMX): `amx.py` says how
they read `a` and sum.

The kinds of `QUADS` do the same for bytes (AVX512-VNNI, AVX-VNNI): an element is four numbers, and
sums are int32. The instruction multiplies bytes without a sign by such with one. Where both
operands have signs, or neither has, the uppermost bits of `a` are turned over when it is packed,
which makes its numbers larger or smaller by 128. What that adds to each column is summed on the
way, as if `a` had one more row of nothing but these bits, and is taken off in the end.

The kind *words* takes bytes on other processors: an element is two numbers of 16 bits, of which one
instruction multiplies two and adds up the products, exactly whatever signs the bytes have.

The kind *sliding* is *direct*, but that row k of `b` is as many bytes behind `b` as the number k of
int32 says that `b_step`, an address, points at. The kind *stacked* is *sliding*, but that the
vectors of a row of `b` are `b_vector` bytes apart, and those of the tile `tile_vector`: they are
rows of places one below the other, and each may end behind the begin of the next, which is stored
after it.

The kind *columns* reads `a` turned around: its rows are adjacent and its columns `a_row` bytes
apart, those of `b` lie as for *direct*.

The kind *dot* reads both along k: rows of `a` are `a_row` bytes apart, columns of `b` are `b_step`
bytes apart, and there are `columns` of them. It adds up the lanes of a vector in the end.

The kind *streamed* is *direct* for a few rows: `streamed.py` says why its sums are in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.llvm import Values, Writer, scalar_type, suffix, vector_type
from ingle.fusion.device.targets import NEON, Target

from ..jit.engine import IRSource
from .abi import parameters
from .amx import most_tile_rows, tiles_text
from .dot import dot_text
from .streamed import streamed_text
from .tile import QUADS, WORDS, Tile

PACKED = ("packed", "pairs", WORDS, *QUADS.values())
"""Kinds that read panels of both operands."""
UNROLL = 4
STEPS_OF_A_LINE = 2
LINE = 64
"""Bytes of a cache line."""
DOT_OF_PAIRS = "llvm.x86.avx512bf16.dpbf16ps.512"
DOT_OF_QUADS = "llvm.x86.avx512.vpdpbusd"
DOT_OF_WORDS = {
    64: "llvm.x86.avx512.pmaddw.d.512", 32: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.sse2.pmadd.wd"
}  # fmt: skip
"""By the bytes of a register."""
FLIPPED_BITS = 0x80808080
"""Of four bytes."""


def most_rows(target: Target, vectors: int, kind: str = "packed") -> int:
    """Rows of a tile: sums in three quarters of the registers leave room for a row of b.

    >>> from ingle.fusion.device.targets import NEON
    >>> most_rows(NEON, 4), most_rows(NEON, 1)
    (6, 12)
    """
    if Tile(kind, 1, vectors).in_tiles:
        return most_tile_rows(vectors)
    if "flipped" in kind:
        return min(12, (target.registers - 1) // vectors - 2)
    if kind == WORDS:  # A product is in a register of its own before it is added.
        return min(12, (target.registers - 2) // vectors - 1)
    if kind in PACKED:
        return min(12, target.registers * 3 // 4 // vectors)
    # Each row takes an address; and ARM reads several k of a row at once, which takes registers.
    left = target.registers * (5 if target == NEON else 6) // 8
    # Besides the sums there are a row of b, and a number of a.
    return min(8, left // vectors, (target.registers - 1) // vectors - 1)


def most_vectors(target: Target) -> int:
    """Vectors of a tile: as many as it takes to load b less often than a."""
    return (4 if target.width == 64 else 3) if target.registers >= 32 else 2


def lanes_of(dtype: str, target: Target) -> int:
    """Numbers in a register."""
    return target.width // SIZES[dtype]


def micro_source(tile: Tile, dtype: str, target: Target) -> IRSource:
    """The module of one tile for float32 or float64, or int32 for bytes."""
    if tile.kind == "dot":
        name = f"micro_dot_{tile.rows}_{dtype}_{target.name}"
        return IRSource(dot_text(tile.rows, dtype, target, name), (name,), reduced=False)
    if tile.kind == "streamed":
        name = f"micro_streamed_{tile.rows}_{dtype}_{target.name}"
        return IRSource(streamed_text(tile.rows, dtype, target, name), (name,), reduced=False)
    if tile.in_tiles:
        name = f"micro_{tile.kind}_{tile.rows}x{tile.vectors}_{target.name}"
        text = tiles_text(tile, name)
        return IRSource(text, (name,), reduced=False)
    name = f"micro_{tile.kind}_{tile.rows}x{tile.vectors}_{dtype}_{target.name}"
    return IRSource(_Micro(tile, dtype, target, name).text(), (name,), reduced=False)


class _Micro:
    def __init__(self, tile: Tile, dtype: str, target: Target, name: str) -> None:
        self.tile = tile
        self.name = name
        self.lanes = lanes_of(dtype, target)
        self.size = SIZES[dtype]
        self.scalar = scalar_type(dtype)
        self.vector = vector_type(self.scalar, self.lanes)
        self.suffix = suffix(self.scalar, self.lanes)
        self.stacked = tile.kind == "stacked"
        self.slides = self.stacked or tile.kind == "sliding"
        # Without fused multiply-add LLVM would call a function for it.
        self.multiply_add = "llvm.fma" if target.fma else "llvm.fmuladd"
        self.writer = Writer(name)

    def text(self) -> str:
        w = self.writer
        self.rows = [self._row(i) for i in range(self.tile.rows)]
        if self.tile.flips:
            bits = str(FLIPPED_BITS)
            self.flipped = self.writer.splat("bits", self.scalar, bits, self.lanes)
        rows = self.tile.rows + self.tile.flips
        zeros = [(self.vector, "zeroinitializer")] * (rows * self.tile.vectors)
        b = w.let("offsets", "inttoptr i64 %b_step to ptr") if self.slides else "%b"
        carried = [("ptr", "%a"), ("ptr", b), ("ptr", "%soon"), *zeros]
        self.thrice = w.let("thrice", "mul i64 %b_step, 3")
        self._apart = self._each_vector("%b_vector")
        if self.tile.kind == "columns":
            self.columns = [w.let("column", f"mul i64 %a_row, {n}") for n in range(UNROLL + 1)]
        whole = w.let("whole", f"and i64 %depth, {-UNROLL}")
        done = self._loop("many", whole, carried, UNROLL)
        carried = [(kind, value) for (kind, _), value in zip(carried, done, strict=True)]
        done = self._loop("rest", "%depth", carried, 1)
        self._finish(done[3:])
        head = f"define void @{self.name}({parameters()}) nounwind {{\nentry:\n"
        return head + "\n".join([*w.lines, "}", *w.declared.values()]) + "\n"

    def _row(self, row: int) -> str:
        """How far a row is behind the first one, in bytes."""
        if self.tile.kind in (*PACKED, "columns") or not row:
            return str(row * self.size)
        w = self.writer
        index = w.call("row", "i64", "llvm.smin.i64", "i64 %last", f"i64 {row}")
        return w.let("row", f"mul i64 {index}, %a_row")

    def _loop(
        self, hint: str, depth: str, carried: Sequence[tuple[str, str]], count: int
    ) -> Values:
        """Steps of k, some at a time, until the pointer into a has come so deep."""
        w = self.writer
        step = "%a_row" if self.tile.kind == "columns" else self._a_step
        stop = self._at("%a", w.let("stop", f"mul i64 {depth}, {step}"))
        before, head, inside, after = w.block, *map(w.label, (hint, "body", "end"))
        w.do(f"br label %{head}")
        w.start(head)
        names = [w.name("carried") for _ in carried]
        mark = len(w.lines)
        w.lines += [""] * len(carried)
        more = w.let("more", f"icmp ult ptr {names[0]}, {stop}")
        w.do(f"br i1 {more}, label %{inside}, label %{after}")
        w.start(inside)
        news = self._steps(names, count)
        w.do(f"br label %{head}")
        for at, ((kind, first), name, new) in enumerate(zip(carried, names, news, strict=True)):
            phi = f"phi {kind} [ {first}, %{before} ], [ {new}, %{inside} ]"
            w.lines[mark + at] = f"  {name} = {phi}"
        w.start(after)
        return names

    def _at(self, pointer: str, offset: str | int) -> str:
        return self.writer.let("at", f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def _onward(self, pointer: str, distance: str | int) -> str:
        """A pointer of the next turn.

        Laundered: where LLVM sees through it, it keeps a pointer for every row instead of one.
        """
        moved = self._at(pointer, distance)
        return self.writer.call("at", "ptr", "llvm.launder.invariant.group.p0", f"ptr {moved}")

    def _each_vector(self, step: str) -> list[str | int]:
        """Where the vectors of a row begin, in bytes; those of stacked rows are a step apart."""
        if not self.stacked:
            return [vector * self.lanes * self.size for vector in range(self.tile.vectors)]
        places: list[str | int] = [0, step]
        for number in range(2, self.tile.vectors):
            places.append(self.writer.let("far", f"mul i64 {step}, {number}"))
        return places[: self.tile.vectors]

    def _tile_row(self, row: int) -> str:
        w = self.writer
        offset = w.let("offset", f"mul i64 %tile_row, {row}")
        return w.let("row", f"getelementptr i8, ptr %tile, i64 {offset}")

    def _steps(self, carried: Values, count: int) -> Values:
        """Some steps of k: the pointers into a, b and what comes next, and the sums."""
        a, b, soon, *sums = carried
        if count == UNROLL:
            soon = self._fetch(soon)
        for step in range(count):
            start = self._b_row(b, step)
            row = [self._b(start, v) for v in range(self.tile.vectors)]
            for i in range(len(sums) // self.tile.vectors):
                each = self._a(a, step, i) if i < self.tile.rows else self.flipped
                for v, other in enumerate(row):
                    at = i * self.tile.vectors + v
                    sums[at] = self._added(sums[at], each, other)
        return [
            self._onward(a, self._along(count)),
            self._onward(b, self._down(count)),
            soon,
            *sums,
        ]

    def _added(self, total: str, x: str, y: str) -> str:
        """A vector of sums, and the products of two vectors."""
        w, kind = self.writer, self.vector
        if self.tile.kind in QUADS.values():
            factors = (y, x) if "swapped" in self.tile.kind else (x, y)
            given = (f"{kind} {v}" for v in (total, *factors))
            return w.call("sum", kind, f"{DOT_OF_QUADS}.{32 * self.lanes}", *given)
        if self.tile.kind == WORDS:
            halves = vector_type("i16", 2 * self.lanes)
            words = (w.let("words", f"bitcast {kind} {v} to {halves}") for v in (x, y))
            name = DOT_OF_WORDS[self.lanes * self.size]
            two = w.call("two", kind, name, *[f"{halves} {v}" for v in words])
            added = w.let("added", f"add {kind} {total}, {two}")
            # Code of no instruction, or LLVM adds up the products of several steps first, each in a
            # register of its own.
            return w.let("sum", f'call {kind} asm "", "=v,0"({kind} {added})')
        if self.tile.kind != "pairs":
            operands = (f"{kind} {v}" for v in (x, y, total))
            return w.call("sum", kind, f"{self.multiply_add}.{self.suffix}", *operands)
        halves = vector_type("bfloat", 2 * self.lanes)
        pairs = (w.let("pairs", f"bitcast {kind} {v} to {halves}") for v in (x, y))
        operands = (f"{halves} {v}" for v in pairs)
        return w.call("sum", kind, DOT_OF_PAIRS, f"{kind} {total}", *operands)

    def _fetch(self, soon: str) -> str:
        """Fetches what will be read next, to the second-level cache: the first one is full."""
        lines = UNROLL // STEPS_OF_A_LINE
        for number in range(lines):
            place = self._at(soon, number * LINE)
            self.writer.call_nothing("llvm.prefetch.p0", f"ptr {place}", "i32 0", "i32 2", "i32 1")
        return self._onward(soon, lines * LINE)

    def _down(self, count: int) -> str | int:
        """Bytes that some steps of k take in b, or in the offsets."""
        if self.slides:
            return count * SIZES["int32"]
        if self.tile.kind in PACKED:
            return count * self._b_step
        if count in (1, 3):
            return "%b_step" if count == 1 else self.thrice
        return self.writer.let("down", f"shl i64 %b_step, {count.bit_length() - 1}")

    def _along(self, count: int) -> str | int:
        """Bytes that some steps of k take in a."""
        return self.columns[count] if self.tile.kind == "columns" else count * self._a_step

    @property
    def _a_step(self) -> int:
        return self.tile.rows * self.size if self.tile.kind in PACKED else self.size

    @property
    def _b_step(self) -> int:
        return self.tile.vectors * self.lanes * self.size

    def _b_row(self, b: str, step: int) -> str:
        start = self._at(b, self._down(step)) if step else b
        if not self.slides:
            return start
        offset = self.writer.let("offset", f"load i32, ptr {start}, align 4")
        return self._at("%b", self.writer.let("offset", f"sext i32 {offset} to i64"))

    def _b(self, start: str, vector: int) -> str:
        place = self._at(start, self._apart[vector])
        return self.writer.let("b", f"load {self.vector}, ptr {place}, align {self.size}")

    def _a(self, a: str, step: int, row: int) -> str:
        w = self.writer
        if self.tile.kind == "columns":
            place = self._at(self._at(a, self._along(step)), self.rows[row])
        else:
            place = self._at(self._at(a, self.rows[row]), step * self._a_step)
        value = w.let("a", f"load {self.scalar}, ptr {place}, align {self.size}")
        return w.splat("a", self.scalar, value, self.lanes)

    def _finish(self, sums: Values) -> None:
        """Stores the sums, or adds them to what the tile holds."""
        w = self.writer
        again, fresh = w.label("again"), w.label("fresh")
        size = self.tile.rows * self.tile.vectors
        sums, more = sums[:size], sums[size:]
        if more:
            sums = [
                w.let("sum", f"sub {self.vector} {value}, {more[at % self.tile.vectors]}")
                for at, value in enumerate(sums)
            ]
        vectors = self._each_vector("%tile_vector")
        add = "fadd" if self.scalar in ("float", "double") else "add"
        anew = w.let("anew", "icmp eq i64 %add, 0")
        w.do(f"br i1 {anew}, label %{fresh}, label %{again}")
        for label in (fresh, again):
            w.start(label)
            for row in range(self.tile.rows):
                start = self._tile_row(row)
                places = [self._at(start, step) for step in vectors]
                made = sums[row * len(vectors) : (row + 1) * len(vectors)]
                if label == again:
                    # All are loaded before any is stored: one may reach into the next.
                    olds = [
                        w.let("old", f"load {self.vector}, ptr {place}, align {self.size}")
                        for place in places
                    ]
                    made = [
                        w.let("new", f"{add} {self.vector} {old}, {value}")
                        for old, value in zip(olds, made, strict=True)
                    ]
                for place, value in zip(places, made, strict=True):
                    w.do(f"store {self.vector} {value}, ptr {place}, align {self.size}")
            w.do("ret void")
