"""Windows that overlap, added up along rows of images, as LLVM IR."""

from __future__ import annotations

from functools import partial

from ...kernel.code import SIZES
from ...kernel.nest import FoldNumbers
from .inner import InnerNest
from .text import Values, memory_type, scalar_type, vector_type


class FoldNest(InnerNest):
    """Writes a kernel that gives each vector of places what all taps have for it.

    A tap's windows are read where they lie, so that what is beyond the first or the last of them
    is no memory at all: lanes there are masked, and rows there are passed over.
    """

    slides = False

    def walk_rows(self) -> None:
        w, lanes, dtype = self.writer, self.lanes, self.nest.operands[0].dtype
        self.numbers = dict(zip(FoldNumbers._fields, self.scalars, strict=True))
        self.vector_type = vector_type(scalar_type(dtype), lanes)
        # Numbers of lanes that fill a register, as in `masks_below`.
        self.kind = f"i{max(128 // lanes, 32)}"
        self.windows = w.splat("windows", self.kind, self._lane(self.numbers["windows1"]), lanes)
        size = str(SIZES[dtype])
        self.window_bytes = self._op("mul", self.inner_strides[0], size)
        self.row_bytes = self._op("mul", self.numbers["row"], size)
        self.taps_bytes = self._op("mul", self.numbers["step0"], size)
        back = self._op("mul", self.numbers["spread1"], self.window_bytes)
        self.tap_bytes = self._op("sub", self._op("mul", self.numbers["step1"], size), back)
        super().walk_rows()

    def row(self, unit: str, indices: Values) -> None:
        source, target = self.offsets(indices)
        below = self._op("add", indices[-1], self.numbers["start0"])
        along = partial(self._vector, source, target, below)
        self.writer.loop("places", "0", self.inner, str(self.lanes), [], along)

    def _vector(self, source: str, target: str, below: str, x: str, _: Values) -> Values:
        """Adds up a vector of a row; `below` is the row of windows that the first tap sees."""
        w = self.writer
        start = [(self.vector_type, "zeroinitializer" if self.lanes > 1 else "0.0")]
        first = self._op("add", x, self.numbers["start1"])
        begin = self._on(source, self._op("mul", first, self.window_bytes))
        row = partial(self._row_of_taps, begin, first, below)
        (total,) = w.loop("taps", "0", self.numbers["taps0"], "1", start, row)
        mask = self.mask_below(self._op("sub", self.inner, x))
        kind = memory_type(self.nest.operands[1].dtype)
        to = w.let("to", f"getelementptr {kind}, ptr {target}, i64 {x}")
        self.store_lanes(1, to, total, mask, 0)
        return []

    def _row_of_taps(self, begin: str, first: str, below: str, t: str, sums: Values) -> Values:
        """Adds the taps of a row of them, if there are windows for it."""
        w = self.writer
        q = self._op("sub", below, self._op("mul", t, self.numbers["spread0"]))
        seen = w.let("seen", f"icmp ult i64 {q}, {self.numbers['windows0']}")
        stop = w.let("stop", f"select i1 {seen}, i64 {self.numbers['taps1']}, i64 0")
        place = self._on(begin, self._op("mul", q, self.row_bytes))
        place = self._on(place, self._op("mul", t, self.taps_bytes))
        carried = [("ptr", place), ("i64", first), (self.vector_type, sums[0])]
        return [w.loop("tap", "0", stop, "1", carried, self._tap)[-1]]

    def _tap(self, _: str, carried: Values) -> Values:
        """Adds what a tap has for some places, which is zero where it has none."""
        w, lanes = self.writer, self.lanes
        place, at, total = carried
        numbers = self._lane(at)
        if lanes > 1:
            vector = f"<{lanes} x {self.kind}>"
            iota = ", ".join(f"{self.kind} {n}" for n in range(lanes))
            numbers = w.splat("at", self.kind, numbers, lanes)
            numbers = w.let("numbers", f"add {vector} {numbers}, <{iota}>")
            mask = w.let("mask", f"icmp ult {vector} {numbers}, {self.windows}")
            value = self.load_lanes(0, place, mask)
        else:
            inside = w.let("inside", f"icmp ult {self.kind} {numbers}, {self.windows}")
            nothing = [(self.vector_type, "0.0")]
            (value,) = w.when(inside, nothing, lambda: [self.load_lanes(0, place, None)])
        total = w.let("sum", f"fadd {self.vector_type} {total}, {value}")
        return [
            self._on(place, self.tap_bytes),
            self._op("sub", at, self.numbers["spread1"]),
            total,
        ]

    def _lane(self, number: str) -> str:
        """A number as lanes have it."""
        if self.kind == "i64":
            return number
        return self.writer.let("lane", f"trunc i64 {number} to {self.kind}")

    def _on(self, place: str, distance: str) -> str:
        return self.writer.let("at", f"getelementptr i8, ptr {place}, i64 {distance}")

    def _op(self, name: str, a: str, b: str) -> str:
        return self.writer.let(name, f"{name} i64 {a}, {b}")
