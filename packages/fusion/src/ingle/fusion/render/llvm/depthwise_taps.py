"""Sums of all taps of some rows of places, on a copy of an image between zeros, as LLVM IR.

Taps of a place are added in row-major order, whichever way the copy is gone through: tap by tap, or
row of the copy by row, where a vector is read once for all rows of places that see it.
"""

from __future__ import annotations

from .depthwise_images import ChannelImages
from .text import Values, memory_type


class TapSums(ChannelImages):
    """The sums of a nest that convolves each channel by itself.

    Attributes:
        _pitch: elements from row to row of the copy.
    """

    _pitch: str

    def sums(
        self, start: str, factors: str, to: str, rows: int, x: str, apart: Values, mask: str | None
    ) -> None:
        """Adds up all taps of vectors of places, and stores the sums."""
        w, nest = self._w, self._nest
        down = self._times(self._op("sub", "0", nest.numbers["spread0"]), self._pitch)
        here, out = self._at(start, x), nest.strides[2][-1]
        kind = memory_type(nest.nest.operands[2].dtype)
        first = w.let("to", f"getelementptr {kind}, ptr {to}, i64 {x}")
        if rows == 1:
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
        step = self._op("sub", "0", nest.numbers["spread1"])

        def tap(_: str, carried: Values) -> Values:
            place, factor, *totals = carried
            many = nest.factor(factor)
            sums = []
            for r in range(rows):
                row = self._at(place, self._times(self._pitch, str(r))) if r else place
                for n, distance in enumerate(apart):
                    value = self._read(self._at(row, distance))
                    sums.append(nest.sum_of(totals[r * len(apart) + n], value, many))
            return [self._at(place, step), self._on(factor, nest.factor_bytes), *sums]

        def taps(_: str, carried: Values) -> Values:
            place, factor, *totals = carried
            inner = [("ptr", place), ("ptr", factor)]
            inner += [(nest.vector_type, total) for total in totals]
            done = w.loop("tap", "0", nest.numbers["taps1"], "1", inner, tap)[2:]
            return [self._at(place, down), self._on(factor, nest.factors_bytes), *done]

        carried = [("ptr", here), ("ptr", factors)]
        carried += [(nest.vector_type, "zeroinitializer")] * (rows * len(apart))
        return w.loop("taps", "0", nest.numbers["taps0"], "1", carried, taps)[2:]

    def _shares(self, down: str, rows: int) -> str:
        """Whether neighbouring rows of places see the same rows of the copy, and enough of these
        that all of some rows of places do."""
        w = self._w
        size = w.call("apart", "i64", "llvm.abs.i64", f"i64 {down}", "i1 false")
        near = w.let("near", f"icmp eq i64 {size}, {self._pitch}")
        many = w.let("many", f"icmp sge i64 {self._nest.numbers['taps0']}, {rows}")
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
        step, count = self._op("sub", "0", nest.numbers["spread1"]), len(apart)
        up = self._op("sub", "0", nest.factors_bytes)

        def row(place: str, factor: str, seeing: range, totals: Values) -> Values:
            """A row of the copy, for the rows of places that see it; `factor` of the first row."""
            those = [factor]
            for _ in range(1, rows):
                those.append(self._on(those[-1], up))

            def tap(_: str, carried: Values) -> Values:
                place, *rest = carried
                of_rows, sums = rest[: len(seeing)], rest[len(seeing) :]
                values = [self._read(self._at(place, distance)) for distance in apart]
                news = []
                for k, one in enumerate(of_rows):
                    many = nest.factor(one)
                    for n, value in enumerate(values):
                        news.append(nest.sum_of(sums[k * count + n], value, many))
                onward = [self._on(one, nest.factor_bytes) for one in of_rows]
                return [self._at(place, step), *onward, *news]

            chosen = slice(seeing.start * count, seeing.stop * count)
            inner = [("ptr", place), *[("ptr", those[r]) for r in seeing]]
            inner += [(nest.vector_type, total) for total in totals[chosen]]
            done = w.loop("tap", "0", taps1, "1", inner, tap)[1 + len(seeing) :]
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
