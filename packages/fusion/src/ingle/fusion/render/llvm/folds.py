"""Windows that overlap, added up along rows of images, as LLVM IR."""

from __future__ import annotations

from functools import partial

from ...kernel.code import SIZES
from ...kernel.nest import Fold, FoldNumbers
from .depthwise import ImagesBetweenZeros
from .depthwise_near import NearTaps
from .inner import InnerNest
from .text import Values, memory_type, scalar_type, vector_type

SIDE = 2
"""Vectors of places side by side: what a tap takes besides them is shared."""
ROWS = 4
"""Rows of an image that are added up at once: sums that do not wait for each other, and a tap's
masks and factor for all of them.
"""


class FoldNest(InnerNest):
    """Writes a kernel that gives each vector of places what all taps have for it.

    A tap's windows are read where they lie, so that what is beyond the first or the last of them
    is no memory at all: lanes there are masked, and rows there are passed over.
    """

    gathers_contiguously = False

    def walk_rows(self) -> None:
        w, lanes, dtype = self.writer, self.lanes, self.nest.operands[0].dtype
        numbers = self.numbers = dict(zip(FoldNumbers._fields, self.scalars, strict=True))
        self.vector_type = vector_type(scalar_type(dtype), lanes)
        # Numbers of lanes that fill a register, as in `masks_below`.
        self.kind = f"i{max(128 // lanes, 32)}"
        self.windows = w.splat("windows", self.kind, self._lane(numbers["windows1"]), lanes)
        self.stride = w.splat("stride", self.kind, self._lane(numbers["stride1"]), lanes)
        self.has_factors = len(self.nest.operands) == 3
        size = str(SIZES[dtype])
        self.window_bytes = self._op("mul", numbers["apart"], size)
        self.row_bytes = self._op("mul", numbers["row"], size)
        *_, images, _, _ = ("0", "0", *self.strides[0])
        self.image_bytes = self._op("mul", images, size)
        self.taps_bytes = self._op("mul", numbers["step0"], size)
        back = self._op("mul", numbers["spread1"], self.window_bytes)
        self.tap_bytes = self._op("sub", self._op("mul", numbers["step1"], size), back)
        self.factors_bytes = self._op("mul", numbers["factor0"], size)
        self.factor_bytes = self._op("mul", numbers["factor1"], size)
        together = SIDE * lanes
        whole = self._op("add", self.inner, str(together - lanes - 1))
        self.whole = self._op("mul", self._op("udiv", whole, str(together)), str(together))
        (stage,) = self.nest.stages
        self.is_near = isinstance(stage, Fold) and stage.near
        if self.is_near and self.target.masks and lanes > 1:
            NearTaps(self).walk()
        elif self.has_factors and lanes > 1:
            ImagesBetweenZeros(self).walk(super().walk_rows)
        else:
            super().walk_rows()

    def row(self, unit: str, indices: Values) -> None:
        """A row, or the rows of an image that begin with it, if the others follow in this call."""
        if self.lanes == 1:
            self._rows(indices, 1)
            return
        w = self.writer
        past = self._op("urem", indices[-1], str(ROWS))
        first, above = self._op("sub", unit, past), self._op("sub", indices[-1], past)
        begun = w.let("begun", f"icmp sge i64 {first}, %begin")
        reach, below = self._op("add", first, str(ROWS)), self._op("add", above, str(ROWS))
        ends = w.let("ends", f"icmp sle i64 {reach}, %end")
        whole = w.let("whole", f"icmp sle i64 {below}, {self.sizes[-1]}")
        together = w.let("together", f"and i1 {begun}, {ends}")
        together = w.let("together", f"and i1 {together}, {whole}")
        leads = w.let("leads", f"icmp eq i64 {past}, 0")
        alone = w.let("alone", f"xor i1 {together}, true")
        w.when(w.let("all", f"and i1 {together}, {leads}"), [], partial(self._rows, indices, ROWS))
        w.when(alone, [], partial(self._rows, indices, 1))

    def _rows(self, indices: Values, rows: int) -> Values:
        """Neighbouring rows of an image."""
        source, *factors, self.to = self.offsets(indices)
        below = self._op("mul", indices[-1], self.numbers["stride0"])
        below = self._op("add", below, self.numbers["start0"])
        ends = ("0", self.whole, SIDE), (self.whole, self.inner, 1)
        for begin, end, count in ends:
            along = partial(
                self._vectors, source, factors[0] if factors else "null", below, count, rows
            )
            self.writer.loop("places", begin, end, str(count * self.lanes), [], along)
        return []

    def _vectors(
        self, source: str, factors: str, below: str, count: int, rows: int, x: str, _: Values
    ) -> Values:
        """Adds up vectors of some rows; `below` is the row of windows that the first tap sees."""
        w = self.writer
        zero = "zeroinitializer" if self.lanes > 1 else "0.0"
        first = self._op("mul", x, self.numbers["stride1"])
        first = self._op("add", first, self.numbers["start1"])
        begin = self._on(source, self._op("mul", first, self.window_bytes))
        row = partial(self._row_of_taps, begin, factors, first, below)
        if rows > 1:
            row = partial(self._rows_of_taps, begin, factors, first, below)
        start = [(self.vector_type, zero)] * (count * rows)
        totals = w.loop("taps", "0", self.numbers["taps0"], "1", start, row)
        masks = self.masks_below(self._op("sub", self.inner, x), count)
        out = len(self.nest.operands) - 1
        kind = memory_type(self.nest.operands[out].dtype)
        to = w.let("to", f"getelementptr {kind}, ptr {self.to}, i64 {x}")
        for at, total in enumerate(totals):
            r, n = divmod(at, count)
            if r and not n:
                to = w.let("to", f"getelementptr {kind}, ptr {to}, i64 {self.strides[out][-1]}")
            if self.lanes > 1:
                self.store_lanes(out, to, total, masks[n], n)
            else:
                w.when(masks[n], [], partial(self._store_one, out, to, total, n))
        return []

    def _store_one(self, out: int, to: str, total: str, n: int) -> Values:
        self.store_lanes(out, to, total, None, n)
        return []

    def _rows_of_taps(
        self, begin: str, factors: str, first: str, below: str, t: str, sums: Values
    ) -> Values:
        """Adds the taps of a row of them to all rows at once, if there are windows for all."""
        w = self.writer
        q = self._op("sub", below, self._op("mul", t, self.numbers["spread0"]))
        seen = []
        for r in range(ROWS):
            row = self._op("add", q, self._op("mul", self.numbers["stride0"], str(r)))
            seen.append(w.let("seen", f"icmp ult i64 {row}, {self.numbers['windows0']}"))
        every, some = seen[0], seen[0]
        for one in seen[1:]:
            every = w.let("every", f"and i1 {every}, {one}")
            some = w.let("some", f"or i1 {some}, {one}")
        some = w.let("some", f"xor i1 {some}, {every}")

        def taps(seen: Values, sums: Values) -> Values:
            place = self._on(begin, self._op("mul", q, self.row_bytes))
            place = self._on(place, self._op("mul", t, self.taps_bytes))
            factor = self._on(factors, self._op("mul", t, self.factors_bytes))
            kept = [(self.vector_type, one) for one in sums]
            carried = [("ptr", place), ("ptr", factor), ("i64", first), *kept]
            tap = partial(self._tap_of_rows, seen)
            return w.loop("tap", "0", self.numbers["taps1"], "1", carried, tap)[3:]

        kept = [(self.vector_type, one) for one in sums]
        done = w.when(every, kept, lambda: taps([], sums))
        mixed = [(self.vector_type, one) for one in done]
        return w.when(some, mixed, lambda: taps(seen, done))

    def _tap_of_rows(self, seen: Values, _: str, carried: Values) -> Values:
        """Adds what a tap has for some places of all rows, or of those that have windows for it."""
        w = self.writer
        place, factor, at, *totals = carried
        count = len(totals) // ROWS
        many = self.factor(factor)
        masks = [self.inside(at, n) for n in range(count)]
        sums = []
        bits = f"<{self.lanes} x i1>"
        down = self._op("mul", self.row_bytes, self.numbers["stride0"])
        for r in range(ROWS):
            row = self._on(place, self._op("mul", down, str(r))) if r else place
            if not self.has_factors:
                self._fetch(row)
            here_too = w.splat("seen", "i1", seen[r], self.lanes) if seen else ""
            for n, mask in enumerate(masks):
                total = totals[r * count + n]
                read = w.let("read", f"and {bits} {mask}, {here_too}") if seen else mask
                value = self.load_lanes(0, self.ahead(0, row, n), read)
                added = self.sum_of(total, value, many)
                if seen:  # Nothing is added where there is no window, not even zero.
                    kind = self.vector_type
                    added = w.let(
                        "sum", f"select {bits} {here_too}, {kind} {added}, {kind} {total}"
                    )
                sums.append(added)
        following = self._op("sub", at, self.numbers["spread1"])
        after = self._on(place, self.tap_bytes), self._on(factor, self.factor_bytes)
        return [*after, following, *sums]

    def _row_of_taps(
        self, begin: str, factors: str, first: str, below: str, t: str, sums: Values
    ) -> Values:
        """Adds the taps of a row of them, if there are windows for it."""
        w = self.writer
        q = self._op("sub", below, self._op("mul", t, self.numbers["spread0"]))
        seen = w.let("seen", f"icmp ult i64 {q}, {self.numbers['windows0']}")
        stop = w.let("stop", f"select i1 {seen}, i64 {self.numbers['taps1']}, i64 0")
        place = self._on(begin, self._op("mul", q, self.row_bytes))
        place = self._on(place, self._op("mul", t, self.taps_bytes))
        factor = self._on(factors, self._op("mul", t, self.factors_bytes))
        carried = [("ptr", place), ("ptr", factor), ("i64", first)]
        sums_too = [(self.vector_type, one) for one in sums]
        return w.loop("tap", "0", stop, "1", carried + sums_too, self._tap)[3:]

    def _tap(self, _: str, carried: Values) -> Values:
        """Adds what a tap has for some places, which is zero where it has none."""
        place, factor, at, *totals = carried
        many = self.factor(factor)
        sums = [self._added(total, place, at, n, many) for n, total in enumerate(totals)]
        following = self._op("sub", at, self.numbers["spread1"])
        after = self._on(place, self.tap_bytes), self._on(factor, self.factor_bytes)
        return [*after, following, *sums]

    def _fetch(self, place: str) -> None:
        """Fetches what the next image has at the same place: taps are so far apart in memory that
        the processor does not foresee it."""
        ahead = self._on(place, self.image_bytes)
        self.writer.call_nothing("llvm.prefetch.p0", f"ptr {ahead}", "i32 0", "i32 2", "i32 1")

    def factor(self, place: str) -> str:
        """A tap's factor in all lanes; "" if there are none."""
        if not self.has_factors:
            return ""
        dtype = self.nest.operands[0].dtype
        kind = scalar_type(dtype)
        one = self.writer.let("factor", f"load {kind}, ptr {place}, align {SIZES[dtype]}")
        return self.writer.splat("factor", kind, one, self.lanes)

    def inside(self, at: str, n: int) -> str:
        """Which lanes of the `n`-th vector have windows; `at` is the window of lane 0."""
        w, lanes = self.writer, self.lanes
        vector = vector_type(self.kind, lanes)
        here = w.splat("at", self.kind, self._lane(at), lanes)
        iota = ", ".join(f"{self.kind} {n * lanes + lane}" for lane in range(lanes))
        ahead = f"<{iota}>" if lanes > 1 else str(n)
        steps = w.let("steps", f"mul {vector} {self.stride}, {ahead}")
        numbers = w.let("numbers", f"add {vector} {here}, {steps}")
        return w.let("inside", f"icmp ult {vector} {numbers}, {self.windows}")

    def _added(self, total: str, place: str, at: str, n: int, factor: str) -> str:
        """A sum with what the `n`-th vector of a tap has; `at` is the window of its lane 0."""
        w = self.writer
        inside = self.inside(at, n)
        if self.lanes > 1:
            value = self.load_lanes(0, self.ahead(0, place, n), inside)
        else:
            nothing = [(self.vector_type, "0.0")]
            load = partial(self.load_lanes, 0, place, None, n)
            (value,) = w.when(inside, nothing, lambda: [load()])
        return self.sum_of(total, value, factor)

    def sum_of(self, total: str, value: str, factor: str) -> str:
        """A sum with a value, or its product with a factor."""
        w, kind = self.writer, self.vector_type
        if not factor:
            return w.let("sum", f"fadd {kind} {total}, {value}")
        if self.target.fma:
            dtype = self.nest.operands[0].dtype
            return self.vector.intrinsic("fma", dtype, value, factor, total)
        share = w.let("share", f"fmul {kind} {value}, {factor}")
        return w.let("sum", f"fadd {kind} {total}, {share}")

    def _lane(self, number: str) -> str:
        """A number as lanes have it."""
        if self.kind == "i64":
            return number
        return self.writer.let("lane", f"trunc i64 {number} to {self.kind}")

    def _on(self, place: str, distance: str) -> str:
        return self.writer.let("at", f"getelementptr i8, ptr {place}, i64 {distance}")

    def _op(self, name: str, a: str, b: str) -> str:
        return self.writer.let(name, f"{name} i64 {a}, {b}")
