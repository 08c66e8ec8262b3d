"""What each tap of windows sees, summed over all places, as LLVM IR.

Some rows of places at a time have what they see of the image copied to the stack, between zeros:
one *phase* behind the other, each of every so many columns as windows lie apart. There neighbouring
places of a tap are neighbours. The sums of some taps stay in registers while rows go by.
"""

from __future__ import annotations

from functools import partial

from ...kernel.code import SIZES
from ...kernel.nest import DotNumbers, Dots
from .depthwise import NO_PROBES
from .dots_near import NearDots
from .inner import InnerNest
from .text import Values, memory_type, vector_type

BYTES = 32 << 10
"""Of the copy: it stays in a core's nearest memory."""
TOGETHER = 8
"""Taps whose sums are in registers at once."""
SUMS = 10
"""Sums in registers: enough of them that none waits for the last one."""
MOST_ROWS = 4
PAGE = 4 << 10
"""Bytes of the smallest pages of a stack."""


class DotsNest(InnerNest):
    """Writes a kernel that sums what each tap sees."""

    gathers_contiguously = False

    def walk_rows(self) -> None:
        (stage,) = self.nest.stages
        assert isinstance(stage, Dots)
        numbers = dict(zip(DotNumbers._fields, self.scalars, strict=True))
        if stage.near and self.target.masks and self.lanes > 1:
            NearDots(self, numbers).walk()
        else:
            self._walk(stage.taps, numbers)

    def _walk(self, taps: int, n: dict[str, str]) -> None:
        w, lanes = self.writer, self.lanes
        w.attributes = NO_PROBES
        self._taps, self._n = taps, n
        dtype = self.nest.operands[0].dtype
        self._kind, self._size = memory_type(dtype), SIZES[dtype]
        self._vector = vector_type(self._kind, lanes)
        room = BYTES // self._size
        self._copy = w.let("copy", f"alloca [{room + 2 * lanes} x {self._kind}], align 64")
        self._touch(room)
        far0 = self._op("mul", self._op("sub", n["taps"], "1"), n["spread0"])
        far1 = self._op("mul", str(self._taps - 1), n["spread1"])
        # Taps may go backwards.
        self._low0, self._low1 = self._least(far0, "0"), self._least(far1, "0")
        self._far0 = self._op("sub", self._most(far0, "0"), self._low0)
        far1 = self._op("sub", self._most(far1, "0"), self._low1)
        width = self._op("add", self._op("udiv", far1, n["step1"]), self.inner)
        self._seen_width = width
        vectors = self._op("udiv", self._op("add", width, str(2 * lanes - 1)), str(lanes))
        self._phase = self._op("mul", vectors, str(lanes))
        self._pitch = self._op("mul", self._phase, n["step1"])
        rows = self._op("sub", self._op("udiv", str(room), self._most(self._pitch, "1")), "1")
        rows = self._op("udiv", self._most(self._op("sub", rows, self._far0), "0"), n["step0"])
        self._chunk = self._op("add", rows, "1")
        self._columns_of: Values = []
        for t in range(self._taps):
            column = self._op("sub", self._op("mul", str(t), n["spread1"]), self._low1)
            phase = self._op("mul", self._op("urem", column, n["step1"]), self._phase)
            self._columns_of.append(self._op("add", phase, self._op("udiv", column, n["step1"])))
        self.walk(self.sizes, self._image)

    def _touch(self, room: int) -> None:
        """Writes to each page of the stack, from the top down."""

        def page(at: str, _: Values) -> Values:
            place = self._at(self._op("sub", str(room), at))
            self.writer.do(f"store {self._kind} zeroinitializer, ptr {place}, align {self._size}")
            return []

        self.writer.loop("page", "0", str(room), str(PAGE // self._size), [], page)

    def _image(self, _: str, indices: Values) -> None:
        """All taps of a channel of an image."""
        places = self.offsets(indices)

        def rows(y: str, _: Values) -> Values:
            count = self._least(self._op("sub", self._n["height"], y), self._chunk)
            self._copy_rows(places[1], y, count)
            down = self._op("mul", y, self._n["row0"])
            here = self._element(places[0], down)
            self.writer.loop(
                "taps", "0", self._n["taps"], "1", [], partial(self._row_of_taps, here, y, count,
                                                               places[2])
            )  # fmt: skip
            return []

        self.writer.loop("rows", "0", self._n["height"], self._chunk, [], rows)

    # -- the copy ----------------------------------------------------------------------------

    def _copy_rows(self, source: str, y: str, rows: str) -> None:
        """Copies what some rows of places see, phase by phase."""
        w, n = self.writer, self._n
        first = self._op("add", self._op("mul", y, n["step0"]), n["start0"])
        first = self._op("add", first, self._low0)
        last = self._op("mul", self._op("sub", rows, "1"), n["step0"])
        count = self._op("add", self._op("add", last, self._far0), "1")
        left = self._op("add", n["start1"], self._low1)

        def row(i: str, _: Values) -> Values:
            q = self._op("add", first, i)
            inside = w.let("inside", f"icmp ult i64 {q}, {n['image0']}")
            image = w.let("image", f"select i1 {inside}, i64 {n['image1']}, i64 0")
            line = self._element(source, self._op("mul", q, n["row1"]))
            to = self._at(self._op("mul", i, self._pitch))

            def phase(p: str, carried: Values) -> Values:
                column = self._op("add", left, p)
                self._copy_phase(line, column, image, carried[0])
                return [self._element(carried[0], self._phase)]

            w.loop("phase", "0", n["step1"], "1", [("ptr", to)], phase)
            return []

        w.loop("copied", "0", count, "1", [], row)

    def _copy_phase(self, line: str, column: str, image: str, to: str) -> None:
        """Copies every so many columns of a row from one on; those beyond its ends are zeros."""
        w, step = self.writer, self._n["step1"]
        # Of x the columns are `column + x * step`: from `begin` to `end` they are inside.
        ahead = self._op("sub", step, "1")
        missing = self._most(self._op("sub", "0", column), "0")
        begin = self._op("udiv", self._op("add", missing, ahead), step)
        until = self._most(self._op("sub", image, column), "0")
        end = self._op("udiv", self._op("add", until, ahead), step)
        begin, end = self._least(begin, self._seen_width), self._least(end, self._seen_width)
        end = self._most(begin, end)
        self._fill(to, "0", begin)
        start = self._element(line, self._op("mul", column, self._n["apart"]))

        def some(mask: str | None, x: str) -> Values:
            place = self._element(start, self._op("mul", x, self.inner_strides[1]))
            value = self.load_lanes(1, place, mask)
            self._put(self._element(to, x), value)
            return []

        def last(x: str, _: Values) -> Values:
            return some(self.mask_below(self._op("sub", end, x)), x)

        full = self._op("and", self._op("sub", end, begin), str(-self.lanes))
        full = self._op("add", begin, full)
        w.loop("beside", begin, full, str(self.lanes), [], lambda x, _: some(None, x))
        w.loop("last", full, end, str(self.lanes), [], last)
        self._fill(to, end, self._seen_width)

    def _fill(self, to: str, begin: str, end: str) -> None:
        """Writes zeros, and some behind the end, where something else will be written."""

        def zeros(x: str, _: Values) -> Values:
            self._put(self._element(to, x), "zeroinitializer")
            return []

        self.writer.loop("zeros", begin, end, str(self.lanes), [], zeros)

    # -- the sums ----------------------------------------------------------------------------

    def _row_of_taps(self, here: str, y: str, rows: str, out: str, t: str, _: Values) -> Values:
        """All taps of a row of them, some at a time."""
        n = self._n
        line = self._op("sub", self._op("mul", t, n["spread0"]), self._low0)
        below = self._at(self._op("mul", line, self._pitch))
        to = self._element(out, self._op("mul", t, str(self._taps)))
        anew = self.writer.let("anew", f"icmp eq i64 {y}, 0")
        for first in range(0, self._taps, TOGETHER):
            count = min(TOGETHER, self._taps - first)
            self._some_taps(here, below, rows, self._element(to, str(first)), first, count, anew)
        return []

    def _some_taps(
        self, here: str, below: str, rows: str, to: str, first: int, count: int, anew: str
    ) -> None:
        w = self.writer
        side = max(1, min(MOST_ROWS, SUMS // count))
        whole = self._op("sub", rows, self._op("urem", rows, str(side)))
        sums: Values = ["zeroinitializer"] * (count * side)
        for start, stop, many in (("0", whole, side), (whole, rows, 1)):
            carried = [(self._vector, total) for total in sums]
            body = partial(self._rows, here, below, first, count, many)
            sums = w.loop("rows", start, stop, str(many), carried, body)
            if side == 1:
                break
        for tap in range(count):
            total = sums[tap * side]
            for other in sums[tap * side + 1 : (tap + 1) * side]:
                total = w.let("sum", f"fadd {self._vector} {total}, {other}")
            one = self._across(total)
            place = self._element(to, str(tap))
            old = w.let("old", f"load {self._kind}, ptr {place}, align {self._size}")
            more = w.let("sum", f"fadd {self._kind} {old}, {one}")
            made = w.let("sum", f"select i1 {anew}, {self._kind} {one}, {self._kind} {more}")
            w.do(f"store {self._kind} {made}, ptr {place}, align {self._size}")

    def _rows(
        self, here: str, below: str, first: int, count: int, many: int, y: str, sums: Values
    ) -> Values:
        """Adds what some taps see from some rows of places."""
        w, n, side = self.writer, self._n, len(sums) // count
        lines, images = [], []
        for r in range(many):
            row = self._op("add", y, str(r)) if r else y
            lines.append(self._element(here, self._op("mul", row, n["row0"])))
            down = self._op("mul", self._op("mul", row, n["step0"]), self._pitch)
            line = self._element(below, down)
            images.append([self._element(line, place) for place in
                           self._columns_of[first : first + count]])  # fmt: skip

        def vectors(mask: str | None, x: str, totals: Values) -> Values:
            news = list(totals)
            step = self._op("mul", x, self.inner_strides[0])
            for r in range(many):
                place = self._element(lines[r], step)
                value = self.load_lanes(0, place, mask)
                for tap in range(count):
                    seen = self._seen(self._element(images[r][tap], x), mask)
                    at = tap * side + r
                    news[at] = self._added(news[at], value, seen)
            return news

        full = self._op("and", self.inner, str(-self.lanes))
        carried = [(self._vector, total) for total in sums]
        sums = w.loop("places", "0", full, str(self.lanes), carried, partial(vectors, None))
        left = self._op("sub", self.inner, full)
        carried = [(self._vector, total) for total in sums]

        def rest() -> Values:
            return vectors(self.mask_below(left), full, sums)

        return w.when(w.let("more", f"icmp sgt i64 {left}, 0"), carried, rest)

    def _seen(self, place: str, mask: str | None) -> str:
        """What is seen of some neighbouring places; zeros where there are none."""
        w = self.writer
        value = w.let("x", f"load {self._vector}, ptr {place}, align {self._size}")
        if mask is None or self.lanes == 1:
            return value
        zero = f"{self._vector} zeroinitializer"
        bits = f"<{self.lanes} x i1> {mask}"
        return w.let("x", f"select {bits}, {self._vector} {value}, {zero}")

    def _added(self, total: str, a: str, b: str) -> str:
        if self.target.fma:
            return self.vector.intrinsic("fma", self.nest.operands[0].dtype, a, b, total)
        product = self.writer.let("product", f"fmul {self._vector} {a}, {b}")
        return self.writer.let("sum", f"fadd {self._vector} {total}, {product}")

    def _across(self, value: str) -> str:
        """The sum of all lanes: halves are added."""
        w, lanes = self.writer, self.lanes
        if lanes == 1:
            return value
        half = lanes // 2
        while half:
            order = ", ".join(f"i32 {n + half if n < half else n}" for n in range(lanes))
            pair = f"{self._vector} {value}, {self._vector} poison"
            moved = w.let("half", f"shufflevector {pair}, <{lanes} x i32> <{order}>")
            value = w.let("sum", f"fadd {self._vector} {value}, {moved}")
            half //= 2
        return w.let("sum", f"extractelement {self._vector} {value}, i64 0")

    def _put(self, place: str, value: str) -> None:
        self.writer.do(f"store {self._vector} {value}, ptr {place}, align {self._size}")

    # -- short names -------------------------------------------------------------------------

    def _op(self, name: str, a: str, b: str) -> str:
        return self.writer.let(name, f"{name} i64 {a}, {b}")

    def _most(self, a: str, b: str) -> str:
        return self.writer.call("most", "i64", "llvm.smax.i64", f"i64 {a}", f"i64 {b}")

    def _least(self, a: str, b: str) -> str:
        return self.writer.call("least", "i64", "llvm.smin.i64", f"i64 {a}", f"i64 {b}")

    def _element(self, pointer: str, number: str) -> str:
        return self.writer.let("at", f"getelementptr {self._kind}, ptr {pointer}, i64 {number}")

    def _at(self, number: str) -> str:
        """An element of the copy."""
        return self._element(self._copy, number)
