"""Copying a matrix into panels, the order in which the packed tiles read it.

    void pack(source, outer, inner, depth, count, width, panel)

writes `panel[k * width + i] = source[k * outer + i * inner]` for `k < depth`, and zeros from
`count` to `width`; `outer` and `inner` are bytes. It packs either operand: rows of `a` and columns
of `b` are the `i` of one panel. Memory that lies along i is copied by vectors, memory along k is
transposed in registers, 8 x 8 at a time, and anything else goes number by number. What is left of
a row, as panels of `a` are six wide, goes by halves of a vector where no mask chooses lanes. Half
types become float32; or several numbers that follow each other along k become one element of a
panel, as a `Form` says. Then `depth` counts elements, and `outer` is the way from one to the next.

`pack_panels` is the kernel that packs a whole matrix (or a batch of them) for several contractions
or for many rows.
"""

from __future__ import annotations

from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.llvm import Values, Writer, memory_type, scalar_type, suffix, vector_type
from ingle.fusion.device.targets import Target

from ..jit.engine import IRSource
from .microkernel import FLIPPED_BITS
from .pack_rows import RowsCode
from .pack_tiles import TileRowsCode
from .panel_elements import order_text
from .panels import write_panels
from .tile import NUMBERS, Form, compute_dtype

BLOCK = 8
"""Rows and columns that are transposed at once."""
RUN = 32
"""How much of k is transposed for all rows before the next: so much of a panel stays near."""


def pack_source(dtype: str, target: Target, form: Form = "single") -> IRSource:
    """The module with `pack` and `pack_panels` for a dtype in memory."""
    names = tuple(f"{n}_{dtype}_{form}_{target.name}" for n in ("pack", "pack_panels"))
    pack: _Pack | TileRowsCode
    if form == "single":
        pack = _Pack(dtype, target, names[0])
    elif form in ("row_pairs", "row_quads"):
        pack = TileRowsCode(dtype, target, names[0], NUMBERS[form])
    else:
        pack = _PackSeveral(dtype, target, names[0], form)
    text = pack.text()
    panels = Writer(names[1])
    panels.declared = pack.writer.declared
    write_panels(names[0], panels, SIZES[compute_dtype(dtype)])
    return IRSource(text + panels.module(), names, reduced=False)


class _Pack(RowsCode):
    """Writes the kernel that packs one panel."""

    @property
    def step(self) -> int:
        """Bytes along k where elements lie one behind the other."""
        return self.from_size

    def _down(self, source: str, k: str, lanes: int) -> str:
        """Elements of one i, from a k on, where these lie one behind the other."""
        return self._load(self._numbered(source, k), lanes)

    def text(self) -> str:
        w = self.writer
        along_i, other = w.label("along_i"), w.label("other")
        along_k, scattered = w.label("along_k"), w.label("scattered")
        unit = w.let("unit", f"icmp eq i64 %inner, {self.from_size}")
        w.do(f"br i1 {unit}, label %{along_i}, label %{other}")
        w.start(along_i)
        self._along_i()
        w.start(other)
        unit = w.let("unit", f"icmp eq i64 %outer, {self.step}")
        w.do(f"br i1 {unit}, label %{along_k}, label %{scattered}")
        w.start(along_k)
        self._along_k()
        w.start(scattered)
        self._singles("0", "%depth", "0", "%count")
        self._zeros("%count")
        w.do("ret void")
        parameters = "ptr %source, i64 %outer, i64 %inner, i64 %depth, i64 %count, i64 %width"
        head = f"define void @{self.name}({parameters}, ptr %panel) nounwind {{\nentry:\n"
        return head + "\n".join([*w.lines, "}"]) + "\n"

    def _along_k(self) -> None:
        """Blocks of 8 x 8 transposed in registers, the last k number by number."""
        w = self.writer
        rows = w.let("rows", f"and i64 %count, {-BLOCK}")
        deep = w.let("deep", f"and i64 %depth, {-BLOCK}")

        def run(k: str, _: Values) -> Values:
            behind = w.let("behind", f"add i64 {k}, {RUN}")
            stop = w.call("stop", "i64", "llvm.smin.i64", f"i64 {behind}", f"i64 {deep}")
            self._blocks("0", rows, k, stop, part=False)
            # Panels are often narrower than a block.
            self._blocks(rows, "%width" if self.masks else "%count", k, stop, part=True)
            return []

        w.loop("run", "0", deep, str(RUN), [], run)
        self._singles(deep, "%depth", "0", "%count")
        self._zeros("%count")
        w.do("ret void")

    def _blocks(self, start: str, stop: str, k0: str, k1: str, *, part: bool) -> None:
        """Rows from `start` to `stop`, for k from `k0` to `k1`; `part`: less than a block."""
        w = self.writer
        masked = part and self.masks
        step = w.let("step", f"mul i64 %width, {self.to_size}")

        def at_i(i: str, _: Values) -> Values:
            rows = [w.let("i", f"add i64 {i}, {n}") for n in range(BLOCK)]
            present = [w.let("present", f"icmp slt i64 {row}, %count") for row in rows]
            if part:
                last = w.let("last", "sub i64 %count, 1")
                rows = [
                    w.call("row", "i64", "llvm.smin.i64", f"i64 {row}", f"i64 {last}")
                    for row in rows
                ]
            starts = [self._from("0", row) for row in rows]
            within = self._mask(w.let("left", f"sub i64 %width, {i}"), BLOCK) if masked else None

            def at_k(k: str, carried: Values) -> Values:
                (to,) = carried
                lines = [self._down(here, k, BLOCK) for here in starts]
                if masked:
                    lines = [self._kept(p, line) for p, line in zip(present, lines, strict=True)]
                for column in self._transposed(lines):
                    if part and not masked:
                        self._store_by_halves(to, column, w.let("left", f"sub i64 %count, {i}"))
                    else:
                        self._store(to, "0", column, BLOCK, within)
                    to = w.let("to", f"getelementptr i8, ptr {to}, i64 {step}")
                return [to]

            w.loop("block", k0, k1, str(BLOCK), [("ptr", self._to(k0, i))], at_k)
            return []

        w.loop("rows", start, stop, str(BLOCK), [], at_i)

    def _store_by_halves(self, to: str, value: str, count: str) -> None:
        """The first lanes of a vector, less than a block of them."""
        w, kind, piece, at = self.writer, scalar_type(self.made), BLOCK // 2, "0"
        while piece:
            whole, half = vector_type(kind, 2 * piece), vector_type(kind, piece)
            parts = []
            for start in (0, piece):
                numbers = ", ".join(f"i32 {start + n}" for n in range(piece))
                picked = f"{whole} {value}, {whole} poison, <{piece} x i32> <{numbers}>"
                parts.append(w.let("half", f"shufflevector {picked}"))
            if piece == 1:
                parts = [w.let("one", f"extractelement <1 x {kind}> {p}, i64 0") for p in parts]
            bit = w.let("bit", f"and i64 {count}, {piece}")
            some = w.let("some", f"icmp ne i64 {bit}, 0")

            def store(value: str = parts[0], piece: int = piece, at: str = at) -> Values:
                self._store(to, at, value, piece)
                return []

            w.when(some, [], store)
            value = w.let("rest", f"select i1 {some}, {half} {parts[1]}, {half} {parts[0]}")
            at = w.let("at", f"add i64 {at}, {bit}")
            piece //= 2

    def _kept(self, condition: str, line: str) -> str:
        """A line of a block, or zeros."""
        vector = vector_type(scalar_type(self.made), BLOCK)
        choice = f"select i1 {condition}, {vector} {line}, {vector} zeroinitializer"
        return self.writer.let("line", choice)

    def _transposed(self, rows: Values) -> Values:
        """Eight vectors of eight, in three rounds of pairs."""
        w = self.writer
        vector = vector_type(scalar_type(self.made), BLOCK)

        def pick(a: str, b: str, places: list[int]) -> str:
            numbers = ", ".join(f"i32 {p}" for p in places)
            return w.let(
                "turned", f"shufflevector {vector} {a}, {vector} {b}, <8 x i32> <{numbers}>"
            )

        low, high = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
        t = [pick(rows[i], rows[i + 1], p) for i in range(0, 8, 2) for p in (low, high)]
        left, right = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
        u = [
            pick(t[g + n], t[g + n + 2], p)
            for g in (0, 4)
            for n in (0, 1)
            for p in (left, right)
        ]  # fmt: skip
        front, back = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
        return [pick(u[n], u[n + 4], p) for p in (front, back) for n in range(4)]


class _PackSeveral(_Pack):
    """Packs several numbers that follow each other along k as one element."""

    def __init__(self, dtype: str, target: Target, name: str, form: Form) -> None:
        super().__init__(dtype, target, name)
        self.form = form
        self.numbers = NUMBERS[form]

    @property
    def step(self) -> int:
        return self.numbers * self.from_size

    def _along(self, source: str, i: str, lanes: int, mask: str | None = None) -> str:
        if self.form == "words":
            return self._two_rows(source, i, lanes, mask)
        w = self.writer
        narrow, wide = vector_type(memory_type(self.dtype), lanes), vector_type("i32", lanes)
        apart = w.let("apart", f"sdiv i64 %outer, {self.numbers}")
        place = self._numbered(source, i)
        total = ""
        for number in range(self.numbers):
            one = w.let("wide", f"zext {narrow} {self._stored(place, lanes, mask)} to {wide}")
            one = w.let("part", f"shl {wide} {one}, {self._each(self._bits_below(number), lanes)}")
            total = w.let("element", f"or {wide} {total}, {one}") if total else one
            if number + 1 < self.numbers:
                place = w.let("next", f"getelementptr i8, ptr {place}, i64 {apart}")
        return self._as_made(total, lanes)

    def _two_rows(self, source: str, i: str, lanes: int, mask: str | None) -> str:
        """Bytes of two k in turns, as numbers of 16 bits."""
        w, narrow = self.writer, vector_type("i8", lanes)
        first = self._numbered(source, i)
        apart = w.let("apart", f"sdiv i64 %outer, {self.numbers}")
        second = w.let("next", f"getelementptr i8, ptr {first}, i64 {apart}")
        rows = [self._stored(place, lanes, mask) for place in (first, second)]
        if lanes == 1:  # A number is no vector.
            rows = [w.let("row", f"insertelement <1 x i8> poison, i8 {v}, i64 0") for v in rows]
            narrow = "<1 x i8>"
        turns = order_text([n + lanes * row for n in range(lanes) for row in range(2)])
        picked = f"{narrow} {rows[0]}, {narrow} {rows[1]}, <{2 * lanes} x i32> <{turns}>"
        return self._words(w.let("turns", f"shufflevector {picked}"), lanes)

    def _words(self, pairs: str, lanes: int) -> str:
        """Pairs of bytes as pairs of numbers of 16 bits."""
        w, several = self.writer, f"<{2 * lanes} x"
        extended = "sext" if self.dtype == "int8" else "zext"
        value = w.let("words", f"{extended} {several} i8> {pairs} to {several} i16>")
        made = vector_type(scalar_type(self.made), lanes)
        return w.let("element", f"bitcast {several} i16> {value} to {made}")

    def _down(self, source: str, k: str, lanes: int) -> str:
        w, wide = self.writer, vector_type("i32", lanes)
        if self.form == "words":
            place = w.let("from", f"getelementptr i16, ptr {source}, i64 {k}")
            return self._words(w.let("x", f"load <{2 * lanes} x i8>, ptr {place}, align 1"), lanes)
        place = w.let("from", f"getelementptr i32, ptr {source}, i64 {k}")
        value = w.let("x", f"load {wide}, ptr {place}, align {self.from_size}")
        if self.form == "pairs":
            turned = (f"{wide} {v}" for v in (value, value, self._each(16, lanes)))
            value = w.call("pairs", wide, f"llvm.fshl.{suffix('i32', lanes)}", *turned)
        return self._as_made(value, lanes)

    def _bits_below(self, number: int) -> int:
        """Where a number's bits begin in its element."""
        if self.form == "pairs":
            return 16 * (1 - number)
        return 32 // self.numbers * number

    def _each(self, number: int, lanes: int) -> str:
        return self.writer.splat("each", "i32", str(number), lanes)

    def _as_made(self, elements: str, lanes: int) -> str:
        """Elements of a panel as `_store` takes them."""
        w, wide = self.writer, vector_type("i32", lanes)
        if self.form == "flipped":
            bits = self._each(FLIPPED_BITS, lanes)
            elements = w.let("flipped", f"xor {wide} {elements}, {bits}")
        made = vector_type(scalar_type(self.made), lanes)
        return (
            w.let("element", f"bitcast {wide} {elements} to {made}") if made != wide else elements
        )
