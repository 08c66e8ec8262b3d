"""Convolutions of each channel by itself with three by three neighbouring taps, as LLVM IR.

All factors are in registers. Some columns of places at a time, a vector of them, see the rows of
the image go by: what a row gives to the three rows of places that see it is added at once, so that
it is read once for each column of taps, where it lies, and nothing is copied. Where places are
several rows apart, each has its own three rows read.

Taps of a place are added in row-major order: rows are walked in the order of their taps, which is
from the last one up for gradients.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from .depthwise_images import ChannelImages, ImageRow
from .text import Values, memory_type

TAPS = 3


class _Strip(NamedTuple):
    """A vector of columns of places.

    Attributes:
        columns: for each column of taps, the bytes from a row's beginning to what it sees.
        inside: the lanes of these that are inside of the image.
        places: the lanes that are places.
    """

    columns: Values
    inside: Values
    places: str


class NearTaps(ChannelImages):
    """Writes the walk over images of a nest whose taps are near."""

    def walk(self) -> None:
        """Writes it."""
        spread = self._nest.numbers["spread0"]
        back = self._w.let("back", f"icmp sgt i64 {spread}, 0")
        self._onward = self._chosen(back, "-1", "1")
        self._back = back
        self.over_images(self._image)

    def _image(self, places: Values, begin: str, end: str) -> None:
        """Some rows of places of a channel."""
        w, nest = self._w, self._nest
        source, factors, to = places
        lines = [self._on(factors, self._times(nest.factors_bytes, str(i))) for i in range(TAPS)]
        self._factors = [
            [
                nest.factor(self._on(line, self._times(nest.factor_bytes, str(j))))
                for j in range(TAPS)
            ]
            for line in lines
        ]
        count = self._op("sub", end, begin)
        first = self._chosen(self._back, self._op("sub", end, "1"), begin)
        down = self._times(nest.strides[2][-1], str(self._size))
        to = self._on(to, self._times(first, down))
        down = self._times(down, self._onward)
        stride = nest.numbers["stride0"]
        number = self._op("add", self._times(first, stride), nest.numbers["start0"])
        row = ImageRow(number, self._on(source, self._times(number, nest.row_bytes)))
        self._down = self._times(nest.row_bytes, self._onward)
        single = w.let("single", f"icmp eq i64 {stride}, 1")
        several = w.let("several", f"xor i1 {single}, true")

        def strip(x: str, _: Values) -> Values:
            made = self._strip(x)
            kind = memory_type(nest.nest.operands[2].dtype)
            here = w.let("to", f"getelementptr {kind}, ptr {to}, i64 {x}")
            w.when(single, [], partial(self._gone_by, made, row, count, here, down))
            w.when(several, [], partial(self._apart, made, row, count, here, down))
            return []

        w.loop("strip", "0", nest.inner, str(nest.lanes), [], strip)

    def _strip(self, x: str) -> _Strip:
        nest = self._nest
        first = self._times(x, nest.numbers["stride1"])
        first = self._op("add", first, nest.numbers["start1"])
        columns, inside = [], []
        for j in range(TAPS):
            far = self._times(nest.numbers["spread1"], str(j))
            column = self._op("sub", first, far)
            columns.append(self._times(column, nest.window_bytes))
            inside.append(nest.inside(column, 0))
        return _Strip(columns, inside, nest.mask_below(self._op("sub", nest.inner, x)))

    def _gone_by(self, strip: _Strip, row: ImageRow, count: str, to: str, down: str) -> Values:
        """Rows of places that see neighbouring rows: each of these goes by once."""
        w, kind = self._w, self._nest.vector_type
        before: Values = []
        for _ in range(TAPS - 1):
            before = self._grown(before, self._seen(strip, row))
            row = self._next(row)

        def line(_: str, carried: Values) -> Values:
            number, place, to, *sums = carried
            row = ImageRow(number, place)
            *begun, done = self._grown(sums, self._seen(strip, row))
            self._nest.store_lanes(2, to, done, strip.places, 0)
            return [*self._next(row), self._on(to, down), *begun]

        carried = [("i64", row.number), ("ptr", row.place), ("ptr", to)]
        carried += [(kind, total) for total in before]
        w.loop("row", "0", count, "1", carried, line)
        return []

    def _grown(self, sums: Values, seen: Values) -> Values:
        """Sums of as many rows of taps with one more, and a new one of the first row."""
        return [self._sum(total, i, seen) for i, total in enumerate(["zeroinitializer", *sums])]

    def _apart(self, strip: _Strip, row: ImageRow, count: str, to: str, down: str) -> Values:
        """Rows of places that are several rows apart: each reads its own."""
        step = self._nest.numbers["stride0"]
        far = self._times(self._down, step)
        step = self._times(self._onward, step)

        def line(_: str, carried: Values) -> Values:
            number, place, to = carried
            total, row = "zeroinitializer", ImageRow(number, place)
            for i in range(TAPS):
                total = self._sum(total, i, self._seen(strip, row))
                row = self._next(row)
            self._nest.store_lanes(2, to, total, strip.places, 0)
            return [self._op("add", number, step), self._on(place, far), self._on(to, down)]

        carried = [("i64", row.number), ("ptr", row.place), ("ptr", to)]
        self._w.loop("row", "0", count, "1", carried, line)
        return []

    def _next(self, row: ImageRow) -> ImageRow:
        number = self._op("add", row.number, self._onward)
        return ImageRow(number, self._on(row.place, self._down))

    def _sum(self, total: str, i: int, seen: Values) -> str:
        """A sum with a row of taps."""
        for value, factor in zip(seen, self._factors[i], strict=True):
            total = self._nest.sum_of(total, value, factor)
        return total

    def _seen(self, strip: _Strip, row: ImageRow) -> Values:
        """What each column of taps sees of a row, which is nothing beyond the image."""
        w, nest = self._w, self._nest
        there = w.let("there", f"icmp ult i64 {row.number}, {nest.numbers['windows0']}")

        def seen() -> Values:
            places = [self._on(row.place, column) for column in strip.columns]
            return [
                nest.load_lanes(0, place, mask)
                for place, mask in zip(places, strip.inside, strict=True)
            ]

        return w.when(there, [(nest.vector_type, "zeroinitializer")] * TAPS, seen)
