"""Sums of all taps of some rows of places, on a copy of an image between zeros, as LLVM IR.

Taps of a place are added in row-major order, whichever way the copy is gone through: tap by tap, or
row of the copy by row, where a vector is read once for all rows of places that see it.
"""

from __future__ import annotations

from .depthwise_images import ChannelImages
from .text import Values, memory_type

MOST_TAPS = 64
"""Of a row of them: where each is was noted."""
NEAR = 3
"""Rows of near taps, and of these in each."""


class TapSums(ChannelImages):
    """The sums of a nest that convolves each channel by itself.

    Attributes:
        _pitch: elements from row to row of the copy.
        _places: where it is noted how many bytes behind a row's beginning each tap is.
        _stride: rows of the copy from one row of places to the next.
    """

    _pitch: str
    _places: str
    _stride: str

    def sums(
        self, start: str, factors: str, to: str, rows: int, x: str, apart: Values, mask: str | None
    ) -> None:
        """Adds up all taps of vectors of places, and stores the sums."""
        w, nest = self._w, self._nest
        down = self._times(self._op("sub", "0", nest.numbers["spread0"]), self._pitch)
        here, out = self._at(start, x), nest.strides[2][-1]
        kind = memory_type(nest.nest.operands[2].dtype)
        first = w.let("to", f"getelementptr {kind}, ptr {to}, i64 {x}")
        if nest.is_near:
            totals = self._near(here, factors, down, rows, apart)
        elif rows == 1:
            totals = self._tap_by_tap(here, factors, down, rows, apart)
        else:
            shares = self._shares(down, rows)
            back = w.let("back", f"icmp slt i64 {down}, 0")
            back = w.let("back", f"and i1 {back}, {shares}")
            totals = self._either(shares, here, factors, down, back, rows, apart)
            last = self._chosen(back, self._times(out, str(rows - 1)), "0")
            first = w.let("to", f"getelementptr {kind}, ptr {first}, i64 {last}")
            out = self._chosen(back, self._op("sub", "0", out), out)
        for at, total in enumerate(totals):
            r, n = divmod(at, len(apart))
            if r and not n:
                first = w.let("to", f"getelementptr {kind}, ptr {first}, i64 {out}")
            place = w.let("to", f"getelementptr {kind}, ptr {first}, i64 {apart[n]}")
            nest.store_lanes(2, place, total, mask, 0)

    def _either(
        self, shares: str, here: str, factors: str, down: str, back: str, rows: int, apart: Values
    ) -> Values:  # fmt: skip
        """The sums of several rows of places, row by row of the copy if they share these."""
        w, kind = self._w, self._nest.vector_type
        nothing = [(kind, "zeroinitializer")] * (rows * len(apart))
        found = w.when(
            shares, nothing, lambda: self._row_by_row(here, factors, down, back, rows, apart)
        )
        alone = w.let("alone", f"xor i1 {shares}, true")
        return w.when(
            alone, [(kind, total) for total in found],
            lambda: self._tap_by_tap(here, factors, down, rows, apart),
        )  # fmt: skip

    def _tap_by_tap(
        self, here: str, factors: str, down: str, rows: int, apart: Values
    ) -> Values:  # fmt: skip
        """The sums of some rows of places, each tap of all rows after the other."""
        w, nest = self._w, self._nest
        far = self._times(self._pitch, self._stride)

        def taps(_: str, carried: Values) -> Values:
            line, factor, *totals = carried

            def tap(t: str, carried: Values) -> Values:
                factor, *totals = carried
                place, many, sums = self._on(line, self._noted(t)), nest.factor(factor), []
                for r in range(rows):
                    row = self._at(place, self._times(far, str(r))) if r else place
                    for n, distance in enumerate(apart):
                        value = self._read(self._at(row, distance))
                        sums.append(nest.sum_of(totals[r * len(apart) + n], value, many))
                return [self._on(factor, nest.factor_bytes), *sums]

            inner = [("ptr", factor)]
            inner += [(nest.vector_type, total) for total in totals]
            done = w.loop("tap", "0", nest.numbers["taps1"], "1", inner, tap)[1:]
            return [self._at(line, down), self._on(factor, nest.factors_bytes), *done]

        carried = [("ptr", here), ("ptr", factors)]
        carried += [(nest.vector_type, "zeroinitializer")] * (rows * len(apart))
        return w.loop("taps", "0", nest.numbers["taps0"], "1", carried, taps)[2:]

    def _near(self, here: str, factors: str, down: str, rows: int, apart: Values) -> Values:
        """The same of three by three taps, without loops."""
        nest = self._nest
        columns = [self._noted(str(t)) for t in range(NEAR)]
        bytes_down = self._times(down, str(self._size))
        far = self._times(self._times(self._pitch, self._stride), str(self._size))
        totals = ["zeroinitializer"] * (rows * len(apart))
        for _ in range(NEAR):
            lines = [self._on(here, self._times(far, str(r))) if r else here for r in range(rows)]
            factor = factors
            for column in columns:
                many = nest.factor(factor)
                for at, total in enumerate(totals):
                    r, n = divmod(at, len(apart))
                    value = self._read(self._at(self._on(lines[r], column), apart[n]))
                    totals[at] = nest.sum_of(total, value, many)
                factor = self._on(factor, nest.factor_bytes)
            here, factors = self._on(here, bytes_down), self._on(factors, nest.factors_bytes)
        return totals

    def _noted(self, tap: str) -> str:
        """How many bytes behind a row's beginning a tap is."""
        place = self._w.let("place", f"getelementptr i64, ptr {self._places}, i64 {tap}")
        return self._w.let("noted", f"load i64, ptr {place}, align 8")

    def _shares(self, down: str, rows: int) -> str:
        """Whether neighbouring rows of places see the same rows of the copy, and enough of these
        that all of some rows of places do."""
        w = self._w
        size = w.call("apart", "i64", "llvm.abs.i64", f"i64 {down}", "i1 false")
        near = w.let("near", f"icmp eq i64 {size}, {self._pitch}")
        many = w.let("many", f"icmp sge i64 {self._nest.numbers['taps0']}, {rows}")
        single = w.let("single", f"icmp eq i64 {self._stride}, 1")
        near = w.let("near", f"and i1 {near}, {single}")
        return w.let("shared", f"and i1 {near}, {many}")

    def _row_by_row(
        self, here: str, factors: str, down: str, back: str, rows: int, apart: Values
    ) -> Values:  # fmt: skip
        """The same, each row of the copy after the other: a vector of it is read once for all rows
        of places that see it. A row of places meets its taps in their order.

        Args:
            back: whether the taps go up, so that the last row of places comes first: here, too.
        """
        w, nest = self._w, self._nest
        taps0, taps1 = nest.numbers["taps0"], nest.numbers["taps1"]
        count = len(apart)
        up = self._op("sub", "0", nest.factors_bytes)

        def row(place: str, factor: str, seeing: range, totals: Values) -> Values:
            """A row of the copy, for the rows of places that see it; `factor` of the first row."""
            those = [factor]
            for _ in range(1, rows):
                those.append(self._on(those[-1], up))

            def tap(t: str, carried: Values) -> Values:
                of_rows, sums = carried[: len(seeing)], carried[len(seeing) :]
                seen = self._on(place, self._noted(t))
                values = [self._read(self._at(seen, distance)) for distance in apart]
                news = []
                for k, one in enumerate(of_rows):
                    many = nest.factor(one)
                    for n, value in enumerate(values):
                        news.append(nest.sum_of(sums[k * count + n], value, many))
                onward = [self._on(one, nest.factor_bytes) for one in of_rows]
                return [*onward, *news]

            chosen = slice(seeing.start * count, seeing.stop * count)
            inner = [("ptr", those[r]) for r in seeing]
            inner += [(nest.vector_type, total) for total in totals[chosen]]
            done = w.loop("tap", "0", taps1, "1", inner, tap)[len(seeing) :]
            return [*totals[: chosen.start], *done, *totals[chosen.stop :]]

        def onward(place: str, factor: str) -> tuple[str, str]:
            return self._at(place, down), self._on(factor, nest.factors_bytes)

        place = self._at(here, self._chosen(back, self._times(self._pitch, str(rows - 1)), "0"))
        factor, totals = factors, ["zeroinitializer"] * (rows * count)
        for last in range(1, rows):
            totals = row(place, factor, range(last), totals)
            place, factor = onward(place, factor)

        def all_rows(_: str, carried: Values) -> Values:
            place, factor, *totals = carried
            sums = row(place, factor, range(rows), totals)
            return [*onward(place, factor), *sums]

        carried = [("ptr", place), ("ptr", factor)]
        carried += [(nest.vector_type, total) for total in totals]
        place, factor, *totals = w.loop("taps", str(rows - 1), taps0, "1", carried, all_rows)
        for first in range(1, rows):
            totals = row(place, factor, range(first, rows), totals)
            place, factor = onward(place, factor)
        return totals

    def _read(self, place: str) -> str:
        return self._w.let("x", f"load {self._nest.vector_type}, ptr {place}, align {self._size}")
