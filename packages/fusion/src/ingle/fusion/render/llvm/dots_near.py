"""What each of three by three neighbouring taps sees, summed over all places, as LLVM IR.

The sums of all taps are in registers, and so are the three rows of the image that a row of places
sees: a vector of places goes down, and of neighbouring rows each is read once for each column of
taps. Lanes are summed last, in halves, those of many sums at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .depthwise_images import ImageCode, ImageRow
from .text import Values, scalar_type, vector_type

if TYPE_CHECKING:
    from .dots import DotsNest

TAPS = 3


class NearDots(ImageCode):
    """Writes the walk over images of a nest whose taps are near.

    Args:
        nest: that is written.
        numbers: its scalars by name; see `DotNumbers`.
    """

    def __init__(self, nest: DotsNest, numbers: dict[str, str]) -> None:
        super().__init__(nest)
        self._nest, self._n = nest, numbers
        self._dtype = nest.nest.operands[0].dtype
        self._kind = vector_type(scalar_type(self._dtype), nest.lanes)
        self._back = self._w.let("back", f"icmp slt i64 {numbers['spread0']}, 0")
        self._onward = self._chosen(self._back, "-1", "1")
        self._down = self._times(self._times(self._onward, numbers["row1"]), str(self._size))
        self._apart = self._w.let("apart", f"icmp ne i64 {numbers['step0']}, 1")

    def walk(self) -> None:
        """Writes it."""
        self._nest.walk(self._nest.sizes, self._image)

    def _image(self, _: str, indices: Values) -> None:
        """All taps of a channel of an image."""
        w, nest = self._w, self._nest
        places, image, to = nest.offsets(indices)
        start = [(self._kind, "zeroinitializer")] * TAPS**2

        def strip(x: str, sums: Values) -> Values:
            return self._strip(places, image, x, sums)

        sums = w.loop("strip", "0", nest.inner, str(nest.lanes), start, strip)
        for number, totals in enumerate(self._across(sums)):
            left = min(nest.lanes, TAPS**2 - number * nest.lanes)
            place = self._at(to, str(number * nest.lanes))
            nest.store_lanes(2, place, totals, nest.mask_below(str(left)), 0)

    def _strip(self, places: str, image: str, x: str, sums: Values) -> Values:
        """Adds what taps see from a vector of columns of places; rows in the order of their taps,
        so that those of the image which a row sees are those of the one before and a new one.
        """
        w, n, nest = self._w, self._n, self._nest
        mask = nest.mask_below(self._op("sub", nest.inner, x))
        first = self._op("add", self._times(x, n["step1"]), n["start1"])
        self._columns, self._masks = [], []
        for j in range(TAPS):
            column = self._op("add", first, self._times(n["spread1"], str(j)))
            self._columns.append(self._times(self._times(column, n["apart"]), str(self._size)))
            self._masks.append(self._inside(column, mask))
        begin = self._chosen(self._back, self._op("sub", n["height"], "1"), "0")
        here = self._at(places, self._times(x, nest.inner_strides[0]))
        here = self._at(here, self._times(begin, n["row0"]))
        number = self._op("add", self._times(begin, n["step0"]), n["start0"])
        row = ImageRow(number, self._at(image, self._times(number, n["row1"])))
        next_places = self._times(self._times(self._onward, n["row0"]), str(self._size))
        far = self._times(self._down, n["step0"])
        step = self._times(self._onward, n["step0"])
        old = TAPS * (TAPS - 1)

        def below(_: str, carried: Values) -> Values:
            number, place, here, *rest = carried
            row = ImageRow(number, place)
            known, last = [(self._kind, value) for value in rest[:old]], row
            for _row in range(TAPS - 1):
                last = self._next(last)
            others = w.when(self._apart, known, lambda: self._rows(row, TAPS - 1))
            lines = [*others, *self._seen(last)]
            value = nest.load_lanes(0, here, mask)
            sums = [
                nest.vector.intrinsic("fma", self._dtype, value, line, total)
                for total, line in zip(rest[old:], lines, strict=True)
            ]
            after = self._op("add", number, step), self._on(place, far)
            return [*after, self._on(here, next_places), *lines[TAPS:], *sums]

        above = self._rows(row, TAPS - 1)
        carried = [("i64", row.number), ("ptr", row.place), ("ptr", here)]
        carried += [(self._kind, value) for value in [*above, *sums]]
        return w.loop("row", "0", n["height"], "1", carried, below)[3 + old :]

    def _rows(self, row: ImageRow, count: int) -> Values:
        """What is seen of some rows, one after the other."""
        found = []
        for _ in range(count):
            found += self._seen(row)
            row = self._next(row)
        return found

    def _next(self, row: ImageRow) -> ImageRow:
        number = self._op("add", row.number, self._onward)
        return ImageRow(number, self._on(row.place, self._down))

    def _inside(self, column: str, mask: str) -> str:
        """The lanes of places which see a column of the image; `column` is what lane 0 sees."""
        w, lanes = self._w, self._nest.lanes
        vector = f"<{lanes} x i64>"
        steps = w.splat("step", "i64", self._n["step1"], lanes)
        steps = w.let("steps", f"mul {vector} {steps}, {self._nest.iota}")
        seen = w.let("seen", f"add {vector} {steps}, {w.splat('column', 'i64', column, lanes)}")
        width = w.splat("width", "i64", self._n["image1"], lanes)
        inside = w.let("inside", f"icmp ult {vector} {seen}, {width}")
        return w.let("inside", f"and <{lanes} x i1> {inside}, {mask}")

    def _seen(self, row: ImageRow) -> Values:
        """What each column of taps sees of a row, which is zero beyond the image."""
        w, height = self._w, self._n["image0"]
        there = w.let("there", f"icmp ult i64 {row.number}, {height}")

        def seen() -> Values:
            return [
                self._nest.load_lanes(1, self._on(row.place, column), mask)
                for column, mask in zip(self._columns, self._masks, strict=True)
            ]

        return w.when(there, [(self._kind, "zeroinitializer")] * TAPS, seen)

    def _across(self, sums: Values) -> Values:
        """The sums of all lanes, as lanes: of each two vectors halves are added at once."""
        lanes, half = self._nest.lanes, self._nest.lanes // 2
        while half:
            groups = range(0, lanes, 2 * half)
            firsts = [at + n for at in groups for n in range(half)]
            pairs = [[*sums, sums[-1]][at : at + 2] for at in range(0, len(sums), 2)]
            sums = [
                self._w.let("sum", f"fadd {self._kind} {self._taken(a, b, firsts)}, "
                                   f"{self._taken(a, b, [n + half for n in firsts])}")
                for a, b in pairs
            ]  # fmt: skip
            half //= 2
        return sums

    def _taken(self, a: str, b: str, places: list[int]) -> str:
        """Some lanes of a, then those of b."""
        lanes = self._nest.lanes
        order = ", ".join(f"i32 {n}" for n in [*places, *[lanes + n for n in places]])
        pair = f"shufflevector {self._kind} {a}, {self._kind} {b}"
        return self._w.let("half", f"{pair}, <{lanes} x i32> <{order}>")
