"""Rows of a for registers of tiles: 16 elements of a row side by side, row after row.

    panel[k0 * width + i * depth0 + k] = source[(k0 + k) * outer + i * inner]

for each k0 that is a multiple of 16, with `depth0` of 16 or what is left of the depth. Elements
are pairs of bfloat16 or four bytes, the first one in the lowest bits; numbers of one are a part of
`outer` apart. So each step of k begins where it does in other panels.
"""

from __future__ import annotations

from ingle.fusion.device.llvm import Values
from ingle.fusion.device.targets import Target

from .amx import ROWS as STEP
from .panel_elements import PanelCode

_LINE = f"<{STEP} x i32>"
_ALL = "splat (i1 true)"


class TileRowsCode(PanelCode):
    """Writes the kernel that packs one panel, with the parameters of `pack`.

    Args:
        numbers: of which an element is made.
    """

    def __init__(self, dtype: str, target: Target, name: str, numbers: int) -> None:
        super().__init__(dtype, target, name)
        self.numbers = numbers
        self.bits = 32 // numbers

    def text(self) -> str:
        w = self.writer
        beside = w.let("beside", "icmp eq i64 %outer, 4")
        whole = w.let("whole", f"and i64 %depth, {-STEP}")
        rest = w.let("rest", f"sub i64 %depth, {whole}")
        along_k, across = w.label("along_k"), w.label("across")
        w.do(f"br i1 {beside}, label %{along_k}, label %{across}")
        w.start(along_k)
        self._along_k(whole, rest)
        w.start(across)
        unit = w.let("unit", f"icmp eq i64 %inner, {self.from_size}")
        along_i, scattered = w.label("along_i"), w.label("scattered")
        w.do(f"br i1 {unit}, label %{along_i}, label %{scattered}")
        w.start(along_i)
        self._along_i(whole, rest)
        w.start(scattered)
        self._scattered("0", "%depth")
        parameters = "ptr %source, i64 %outer, i64 %inner, i64 %depth, i64 %count, i64 %width"
        head = f"define void @{self.name}({parameters}, ptr %panel) nounwind {{\nentry:\n"
        return head + "\n".join([*w.lines, "}"]) + "\n"

    def _along_k(self, whole: str, rest: str) -> None:
        """Rows that lie one behind the other: a line a step, and zeros for rows that are none."""
        w = self.writer
        self._rows_along_k("0", whole, str(STEP), _ALL)
        numbers = ", ".join(f"i32 {n}" for n in range(STEP))
        few = w.splat("few", "i32", w.let("few", f"trunc i64 {rest} to i32"), STEP)
        mask = w.let("mask", f"icmp ult {_LINE} <{numbers}>, {few}")
        self._rows_along_k(whole, "%depth", rest, mask)
        w.do("ret void")

    def _rows_along_k(self, start: str, stop: str, depth: str, mask: str) -> None:
        w = self.writer

        def step(k: str, _: Values) -> Values:
            below = self._behind("%source", self._product(k, "4"))

            def row(i: str, _: Values) -> Values:
                present = w.let("present", f"icmp slt i64 {i}, %count")
                each = w.splat("present", "i1", present, STEP)
                some = w.let("some", f"and <{STEP} x i1> {each}, {mask}")
                place = self._behind(below, self._product(i, "%inner"))
                value = w.call(
                    "x", _LINE, f"llvm.masked.load.v{STEP}i32.p0", f"ptr {place}",
                    f"i32 {self.from_size}", f"<{STEP} x i1> {some}", f"{_LINE} zeroinitializer",
                )  # fmt: skip
                self._put(value, k, i, depth, mask)
                return []

            w.loop("row", "0", "%width", "1", [], row)
            return []

        w.loop("step", start, stop, str(STEP), [], step)

    def _put(self, value: str, k: str, i: str, depth: str, mask: str) -> None:
        """A row's elements of the step that begins at k."""
        place = self._element(k, i, depth, "0")
        self.writer.call_nothing(
            f"llvm.masked.store.v{STEP}i32.p0", f"{_LINE} {value}", f"ptr {place}", "i32 4",
            f"<{STEP} x i1> {mask}",
        )  # fmt: skip

    def _along_i(self, whole: str, rest: str) -> None:
        """Columns that lie one behind the other: squares of 16 elements and rows, turned."""
        w = self.writer
        part = f"<{STEP} x i{self.bits}>"
        apart = w.let("apart", f"sdiv i64 %outer, {self.numbers}")

        def step(k: str, _: Values) -> Values:
            def square(i: str, _: Values) -> Values:
                inside = self._mask(w.let("left", f"sub i64 %count, {i}"), STEP)
                lines = []
                for n in range(STEP):
                    at = self._product(w.let("k", f"add i64 {k}, {n}"), "%outer")
                    size = str(self.from_size)
                    place = self._behind(self._behind("%source", at), self._product(i, size))
                    parts = []
                    for _n in range(self.numbers):
                        loaded = w.call(
                            "x", part, f"llvm.masked.load.v{STEP}i{self.bits}.p0", f"ptr {place}",
                            f"i32 {size}", f"<{STEP} x i1> {inside}", f"{part} zeroinitializer",
                        )  # fmt: skip
                        parts.append(w.let("wide", f"zext {part} {loaded} to {_LINE}"))
                        place = self._behind(place, apart)
                    lines.append(self._joined(parts, _LINE))
                for n, line in enumerate(self._turned(lines)):
                    row = w.let("i", f"add i64 {i}, {n}")
                    is_row = w.let("row", f"icmp slt i64 {row}, %width")
                    self._put(line, k, row, str(STEP), w.splat("row", "i1", is_row, STEP))
                return []

            w.loop("square", "0", "%width", str(STEP), [], square)
            return []

        w.loop("step", "0", whole, str(STEP), [], step)
        self._scattered(whole, "%depth")

    def _turned(self, lines: Values) -> Values:
        """The columns of a square, in four rounds that exchange halves, quarters, …"""
        w, distance = self.writer, STEP // 2
        lines = list(lines)
        while distance:
            for upper in (n for n in range(STEP) if not n & distance):
                pair = lines[upper], lines[upper + distance]
                for place, shift in ((upper, 0), (upper + distance, distance)):
                    order = [
                        n + shift if not n & distance else n - distance + shift + STEP
                        for n in range(STEP)
                    ]
                    numbers = ", ".join(f"i32 {n}" for n in order)
                    lines[place] = w.let(
                        "turned",
                        f"shufflevector {_LINE} {pair[0]}, {_LINE} {pair[1]}, {_LINE} <{numbers}>",
                    )
            distance //= 2
        return lines

    def _scattered(self, start: str, stop: str) -> None:
        """Number by number."""
        w = self.writer
        apart = w.let("apart", f"sdiv i64 %outer, {self.numbers}")

        def element(k: str, _: Values) -> Values:
            begin = w.let("begin", f"and i64 {k}, {-STEP}")
            left = w.let("left", f"sub i64 %depth, {begin}")
            depth = w.call("depth", "i64", "llvm.smin.i64", f"i64 {left}", f"i64 {STEP}")
            number = w.let("number", f"sub i64 {k}, {begin}")
            below = self._behind("%source", self._product(k, "%outer"))

            def row(i: str, _: Values) -> Values:
                place = self._behind(below, self._product(i, "%inner"))
                parts = []
                for _n in range(self.numbers):
                    kind = f"i{self.bits}"
                    loaded = w.let("x", f"load {kind}, ptr {place}, align {self.from_size}")
                    parts.append(w.let("wide", f"zext {kind} {loaded} to i32"))
                    place = self._behind(place, apart)
                value = self._joined(parts, "i32")
                w.do(f"store i32 {value}, ptr {self._element(begin, i, depth, number)}, align 4")
                return []

            def zero(i: str, _: Values) -> Values:
                w.do(f"store i32 0, ptr {self._element(begin, i, depth, number)}, align 4")
                return []

            w.loop("row", "0", "%count", "1", [], row)
            w.loop("zero", "%count", "%width", "1", [], zero)
            return []

        w.loop("element", start, stop, "1", [], element)
        w.do("ret void")

    def _joined(self, parts: Values, kind: str) -> str:
        """Numbers as one element, the first one in the lowest bits."""
        w = self.writer
        total = parts[0]
        for number, part in enumerate(parts[1:], 1):
            shift = f"{self.bits * number}"
            each = f"splat (i32 {shift})" if kind == _LINE else shift
            moved = w.let("part", f"shl {kind} {part}, {each}")
            total = w.let("element", f"or {kind} {total}, {moved}")
        return total

    def _element(self, begin: str, i: str, depth: str, number: str) -> str:
        """The place of an element of a row in the step that begins somewhere."""
        w = self.writer
        row = w.let("row", f"add i64 {self._product(begin, '%width')}, {self._product(i, depth)}")
        at = w.let("at", f"add i64 {row}, {number}")
        return w.let("to", f"getelementptr i32, ptr %panel, i64 {at}")

    def _product(self, a: str, b: str) -> str:
        return self.writer.let("offset", f"mul i64 {a}, {b}")

    def _behind(self, pointer: str, offset: str) -> str:
        return self.writer.let("at", f"getelementptr i8, ptr {pointer}, i64 {offset}")
