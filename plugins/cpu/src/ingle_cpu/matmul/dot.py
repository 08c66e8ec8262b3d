"""A tile whose operands both lie along k: `contraction_micro` says what it does."""

from __future__ import annotations

from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.llvm import Values, Writer, scalar_type, suffix, vector_type
from ingle.fusion.device.targets import Target

from .abi import parameters

COLUMNS = 4
"""Columns of b that share each load of a."""


def dot_text(rows: int, dtype: str, target: Target, name: str) -> str:
    """The module of a tile of some rows, as wide as it is told."""
    return _Dot(rows, dtype, target, name).text()


class _Dot:
    def __init__(self, rows: int, dtype: str, target: Target, name: str) -> None:
        self.rows = rows
        self.name = name
        self.lanes = target.width // SIZES[dtype]
        self.size = SIZES[dtype]
        self.scalar = scalar_type(dtype)
        self.vector = vector_type(self.scalar, self.lanes)
        self.suffix = suffix(self.scalar, self.lanes)
        self.multiply_add = "llvm.fma" if target.fma else "llvm.fmuladd"
        self.writer = Writer(name)

    def text(self) -> str:
        w = self.writer
        a = [self._start("%a", "%a_row", str(i), "%last") for i in range(self.rows)]
        last = w.let("last", "sub i64 %columns, 1")
        # One column beside all others, as of a vector, is not computed as often as there are some.
        alone = w.let("alone", f"urem i64 %columns, {COLUMNS}")
        alone = w.let("alone", f"icmp eq i64 {alone}, 1")
        stop = w.let("stop", f"select i1 {alone}, i64 {last}, i64 %columns")

        def columns(j: str, count: int) -> Values:
            number = [w.let("j", f"add i64 {j}, {n}") for n in range(count)]
            b = [self._start("%b", "%b_step", n, last) for n in number]
            self._store(j, self._sums(a, b), count)
            return []

        w.loop("columns", "0", stop, str(COLUMNS), [], lambda j, _: columns(j, COLUMNS))
        w.when(alone, [], lambda: columns(last, 1))
        w.do("ret void")
        head = f"define void @{self.name}({parameters()}) nounwind {{\nentry:\n"
        return head + "\n".join([*w.lines, "}", *w.declared.values()]) + "\n"

    def _start(self, base: str, step: str, number: str, last: str) -> str:
        w = self.writer
        index = w.call("index", "i64", "llvm.smin.i64", f"i64 {number}", f"i64 {last}")
        offset = w.let("offset", f"mul i64 {index}, {step}")
        return w.let("start", f"getelementptr i8, ptr {base}, i64 {offset}")

    def _sums(self, a: Values, b: Values) -> Values:
        """The sum of each pair, rows first: whole vectors along k, then what is left."""
        w, lanes = self.writer, self.lanes
        whole = w.let("whole", f"and i64 %depth, {-lanes}")
        carried = [(self.vector, "zeroinitializer")] * (len(a) * len(b))
        sums = w.loop(
            "k", "0", whole, str(lanes), carried, lambda k, s: self._step(a, b, k, s, None)
        )

        def rest() -> Values:
            left = w.let("left", f"sub i64 %depth, {whole}")
            few = w.let("few", f"trunc i64 {left} to i8")
            every = w.splat("few", "i8", few, lanes)
            numbers = ", ".join(f"i8 {n}" for n in range(lanes))
            mask = w.let("mask", f"icmp ult <{lanes} x i8> <{numbers}>, {every}")
            return self._step(a, b, whole, sums, mask)

        some = w.let("some", f"icmp slt i64 {whole}, %depth")
        sums = w.when(some, [(self.vector, s) for s in sums], rest)
        return [self._folded(s) for s in sums]

    def _step(self, a: Values, b: Values, k: str, sums: Values, mask: str | None) -> Values:
        w, kind = self.writer, self.vector
        rows = [self._load(p, k, mask) for p in a]
        columns = [self._load(p, k, mask) for p in b]
        pairs = [(x, y) for x in rows for y in columns]
        return [
            w.call(
                "sum", kind, f"{self.multiply_add}.{self.suffix}",
                f"{kind} {x}", f"{kind} {y}", f"{kind} {s}",
            )
            for (x, y), s in zip(pairs, sums, strict=True)
        ]  # fmt: skip

    def _load(self, start: str, k: str, mask: str | None) -> str:
        w, kind = self.writer, self.vector
        place = w.let("place", f"getelementptr {self.scalar}, ptr {start}, i64 {k}")
        if mask is None:
            return w.let("x", f"load {kind}, ptr {place}, align {self.size}")
        return w.call(
            "x", kind, f"llvm.masked.load.{self.suffix}.p0", f"ptr {place}", f"i32 {self.size}",
            f"<{self.lanes} x i1> {mask}", f"{kind} zeroinitializer",
        )  # fmt: skip

    def _folded(self, value: str) -> str:
        """The sum of the lanes, by halves."""
        w, count = self.writer, self.lanes
        while count > 1:
            count //= 2
            kind = vector_type(self.scalar, 2 * count)
            half = vector_type(self.scalar, count)
            parts = []
            for start in (0, count):
                places = ", ".join(f"i32 {start + n}" for n in range(count))
                part = f"shufflevector {kind} {value}, {kind} poison, <{count} x i32> <{places}>"
                parts.append(w.let("half", part))
            if count == 1:
                parts = [
                    w.let("one", f"extractelement <1 x {self.scalar}> {p}, i64 0") for p in parts
                ]
                half = self.scalar
            value = w.let("sum", f"fadd {half} {parts[0]}, {parts[1]}")
        return value

    def _store(self, j: str, sums: Values, columns: int) -> None:
        """Stores a value for each pair, or adds it to what the tile holds."""
        w = self.writer
        anew = w.let("anew", "icmp eq i64 %add, 0")
        for n, value in enumerate(sums):
            row, column = divmod(n, columns)
            offset = w.let("offset", f"mul i64 %tile_row, {row}")
            start = w.let("row", f"getelementptr i8, ptr %tile, i64 {offset}")
            at = w.let("at", f"add i64 {j}, {column}")
            place = w.let("place", f"getelementptr {self.scalar}, ptr {start}, i64 {at}")
            old = w.let("old", f"load {self.scalar}, ptr {place}, align {self.size}")
            both = w.let("both", f"fadd {self.scalar} {old}, {value}")
            new = w.let("new", f"select i1 {anew}, {self.scalar} {value}, {self.scalar} {both}")
            w.do(f"store {self.scalar} {new}, ptr {place}, align {self.size}")
