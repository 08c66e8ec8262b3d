"""The innermost kernels of a contraction: a tile of the result stays in registers over all of k.

    void micro(a, a_row, last, b, b_step, columns, depth, tile, tile_row, add, soon, then)

computes `tile[i, j] (+)= sum over k of a[i, k] * b[k, j]` for a number of rows and vectors; rows of
the tile are `tile_row` bytes apart, so that it may be a part of the result itself. These kinds read
`b` as whole vectors along j, and add up products in order of k, so that they give the same bits:

- *packed*: `a[k * rows + i]` and `b[k * width + j]` lie one after the other, so that every address
  is one register and a constant. Additions of addresses would take the place of multiplications:
  they share the ports. On the way a cache line of what will be read next, from `soon` on, is
  fetched for every `UNROLL` steps.
- *direct*: rows of `a` are `a_row` bytes apart and its columns adjacent, rows of `b` are `b_step`
  bytes apart. Nothing needs to be copied first. Rows behind number `last` are read as that one.

The kind *dot* reads both along k: rows of `a` are `a_row` bytes apart, columns of `b` are `b_step`
bytes apart, and there are `columns` of them. It adds up the lanes of a vector in the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ingle.fusion.kernel.code import SIZES
from ingle.fusion.render.llvm_text import Values, Writer, scalar_type, suffix, vector_type
from ingle.fusion.render.targets import Target

from .engine import Source

_PARAMETERS = {
    "a": "ptr", "a_row": "i64", "last": "i64", "b": "ptr", "b_step": "i64", "columns": "i64",
    "depth": "i64", "tile": "ptr", "tile_row": "i64", "add": "i64", "soon": "ptr",
    "then": "ptr",
}  # fmt: skip
UNROLL = 2
LINE = 64
"""Bytes of a cache line."""


class Tile(NamedTuple):
    """A shape of the result in registers.

    Attributes:
        kind: `"packed"`, `"direct"` or `"dot"`.
        rows: along i.
        vectors: registers along j.
    """

    kind: str
    rows: int
    vectors: int


def parameters(values: Mapping[str, str] | None = None) -> str:
    """The parameters of every tile, or the arguments of a call."""
    given = values or {name: f"%{name}" for name in _PARAMETERS}
    return ", ".join(f"{kind} {given[name]}" for name, kind in _PARAMETERS.items())


def most_rows(target: Target, vectors: int) -> int:
    """Rows of a tile: sums in three quarters of the registers leave room for a row of b.

    >>> from ingle.fusion.render.targets import AVX2, AVX512
    >>> most_rows(AVX512, 4), most_rows(AVX512, 1), most_rows(AVX2, 2)
    (6, 12, 6)
    """
    return min(12, target.registers * 3 // 4 // vectors)


def most_vectors(target: Target) -> int:
    """Vectors of a tile: as many as it takes to load b less often than a."""
    return (4 if target.width == 64 else 3) if target.registers >= 32 else 2


def lanes_of(dtype: str, target: Target) -> int:
    """Numbers in a register."""
    return target.width // SIZES[dtype]


def micro_source(tile: Tile, dtype: str, target: Target) -> Source:
    """The module of one tile for float32 or float64."""
    if tile.kind == "dot":
        from .contraction_dot import dot_text

        name = f"micro_dot_{tile.rows}_{dtype}_{target.name}"
        return Source(dot_text(tile.rows, dtype, target, name), (name,))
    name = f"micro_{tile.kind}_{tile.rows}x{tile.vectors}_{dtype}_{target.name}"
    return Source(_Micro(tile, dtype, target, name).text(), (name,))


class _Micro:
    def __init__(self, tile: Tile, dtype: str, target: Target, name: str) -> None:
        self.tile = tile
        self.name = name
        self.lanes = lanes_of(dtype, target)
        self.size = SIZES[dtype]
        self.scalar = scalar_type(dtype)
        self.vector = vector_type(self.scalar, self.lanes)
        self.suffix = suffix(self.scalar, self.lanes)
        # Without fused multiply-add LLVM would call a function for it.
        self.multiply_add = "llvm.fma" if target.fma else "llvm.fmuladd"
        self.writer = Writer(name)

    def text(self) -> str:
        w = self.writer
        rows, vectors = self.tile.rows, self.tile.vectors
        if self.tile.kind != "packed":
            self.starts = [self._row_start(i) for i in range(rows)]
        self._fetch_tile()
        whole = w.let("whole", f"and i64 %depth, {-UNROLL}")
        zeros = [(self.vector, "zeroinitializer")] * (rows * vectors)
        carried = [("ptr", "%soon"), ("ptr", "%then"), ("i64", "0"), ("ptr", "%b"), *zeros]
        done = w.loop("many", "0", whole, str(UNROLL), carried, self._fetching)
        types = [kind for kind, _ in carried]
        carried = list(zip(types, done, strict=True))[2:]
        done = w.loop("rest", whole, "%depth", "1", carried, lambda _, c: self._steps(c, 1))
        self._finish(done[2:])
        head = f"define void @{self.name}({parameters()}) nounwind {{\nentry:\n"
        return head + "\n".join([*w.lines, "}", *w.declared.values()]) + "\n"

    def _row_start(self, row: int) -> str:
        w = self.writer
        index = w.call("row", "i64", "llvm.smin.i64", "i64 %last", f"i64 {row}")
        offset = w.let("offset", f"mul i64 {index}, %a_row")
        return w.let("row", f"getelementptr i8, ptr %a, i64 {offset}")

    def _fetch_tile(self) -> None:
        """Fetches the tile's memory, to write to it in the end."""
        w = self.writer
        for row in range(self.tile.rows):
            for at in range(0, self._b_step, LINE):
                place = w.let("line", f"getelementptr i8, ptr {self._tile_row(row)}, i64 {at}")
                w.call_nothing("llvm.prefetch.p0", f"ptr {place}", "i32 1", "i32 3", "i32 1")

    def _tile_row(self, row: int) -> str:
        w = self.writer
        offset = w.let("offset", f"mul i64 %tile_row, {row}")
        return w.let("row", f"getelementptr i8, ptr %tile, i64 {offset}")

    def _fetching(self, _: str, carried: Values) -> Values:
        w = self.writer
        soon, then, *rest = carried
        # To the second-level cache: what is at hand fills the first.
        w.call_nothing("llvm.prefetch.p0", f"ptr {soon}", "i32 0", "i32 2", "i32 1")
        if self.tile.kind == "direct":
            w.call_nothing("llvm.prefetch.p0", f"ptr {then}", "i32 0", "i32 2", "i32 1")
            then = w.let("then", f"getelementptr i8, ptr {then}, i64 {LINE}")
        soon = w.let("soon", f"getelementptr i8, ptr {soon}, i64 {LINE}")
        return [soon, then, *self._steps(rest, UNROLL)]

    def _steps(self, carried: Values, count: int) -> Values:
        """Some steps of k: the offset into a, the pointer into b, the sums."""
        w = self.writer
        offset, b, *sums = carried
        for step in range(count):
            row = [self._b(b, step, v) for v in range(self.tile.vectors)]
            for i in range(self.tile.rows):
                each = self._a(offset, step, i)
                for v, other in enumerate(row):
                    at = i * self.tile.vectors + v
                    kind = self.vector
                    sums[at] = w.call(
                        "sum", kind, f"{self.multiply_add}.{self.suffix}",
                        f"{kind} {each}", f"{kind} {other}", f"{kind} {sums[at]}",
                    )  # fmt: skip
            if self.tile.kind != "packed":
                b = w.let("b", f"getelementptr i8, ptr {b}, i64 %b_step")
        offset = w.let("offset", f"add i64 {offset}, {count * self._a_step}")
        if self.tile.kind == "packed":
            b = w.let("b", f"getelementptr i8, ptr {b}, i64 {count * self._b_step}")
        return [offset, b, *sums]

    @property
    def _a_step(self) -> int:
        return self.tile.rows * self.size if self.tile.kind == "packed" else self.size

    @property
    def _b_step(self) -> int:
        return self.tile.vectors * self.lanes * self.size

    def _b(self, b: str, step: int, vector: int) -> str:
        w = self.writer
        at = vector * self.lanes * self.size
        if self.tile.kind == "packed":
            at += step * self._b_step
        place = w.let("place", f"getelementptr i8, ptr {b}, i64 {at}")
        return w.let("b", f"load {self.vector}, ptr {place}, align {self.size}")

    def _a(self, offset: str, step: int, row: int) -> str:
        w = self.writer
        at = step * self._a_step
        start = "%a"
        if self.tile.kind == "packed":
            at += row * self.size
        else:
            start = self.starts[row]
        place = w.let("place", f"getelementptr i8, ptr {start}, i64 {offset}")
        place = w.let("place", f"getelementptr i8, ptr {place}, i64 {at}")
        value = w.let("a", f"load {self.scalar}, ptr {place}, align {self.size}")
        return w.splat("a", self.scalar, value, self.lanes)

    def _finish(self, sums: Values) -> None:
        """Stores the sums, or adds them to what the tile holds."""
        w = self.writer
        again, fresh = w.label("again"), w.label("fresh")
        anew = w.let("anew", "icmp eq i64 %add, 0")
        w.do(f"br i1 {anew}, label %{fresh}, label %{again}")
        for label in (fresh, again):
            w.start(label)
            for at, value in enumerate(sums):
                row, vector = divmod(at, self.tile.vectors)
                if not vector:
                    start = self._tile_row(row)
                step = vector * self.lanes * self.size
                place = w.let("at", f"getelementptr i8, ptr {start}, i64 {step}")
                if label == again:
                    old = w.let("old", f"load {self.vector}, ptr {place}, align {self.size}")
                    value = w.let("new", f"fadd {self.vector} {old}, {value}")
                w.do(f"store {self.vector} {value}, ptr {place}, align {self.size}")
            w.do("ret void")
