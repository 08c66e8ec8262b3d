"""The driver's steps for padded images, which tiles slide along; `padded.py` has their layout."""

from __future__ import annotations

from ingle.fusion.device.llvm import Values, Writer

from .abi import DriverArgs
from .window_args import loaded_window_args


class DriverCode:
    """Short names of the instructions that the loops around tiles are written of."""

    def __init__(self, writer: Writer) -> None:
        self.w = writer
        self.arg: DriverArgs[str]

    def op(self, word: str, a: str, b: str) -> str:
        """An integer operation."""
        return self.w.let(word, f"{word} i64 {a}, {b}")

    def times(self, a: str, b: str) -> str:
        return self.op("mul", a, b)

    def plus(self, a: str, b: str) -> str:
        return self.op("add", a, b)

    def minus(self, a: str, b: str) -> str:
        return self.op("sub", a, b)

    def least(self, a: str, b: str) -> str:
        return self.w.call("least", "i64", "llvm.smin.i64", f"i64 {a}", f"i64 {b}")

    def most(self, a: str, b: str) -> str:
        return self.w.call("most", "i64", "llvm.smax.i64", f"i64 {a}", f"i64 {b}")

    def shift(self, pointer: str, distance: str) -> str:
        return self.w.let("at", f"getelementptr i8, ptr {pointer}, i64 {distance}")

    def choose(self, condition: str, a: str, b: str, kind: str = "i64") -> str:
        return self.w.let("either", f"select i1 {condition}, {kind} {a}, {kind} {b}")

    def equal(self, a: str, b: str) -> str:
        return self.w.let("equal", f"icmp eq i64 {a}, {b}")


class ImageCode(DriverCode):
    """The steps before, in and behind the loops for tiles that slide along a copy of an image.

    Attributes:
        slides: whether tiles do.
        windows: where the `WindowArgs` are.
        offsets, panel_buffer: where the worker notes taps, and copies the image to.
        b: the image.
        first_row: the unit's first row of places.
        start, stop: the unit's panels.
        count, tile_number: its tiles of rows, and which of them is at hand.
    """

    slides: str
    windows: str
    offsets: str
    panel_buffer: str
    b: str
    first_row: str
    start: str
    stop: str
    count: str
    tile_number: str

    def note_offsets(self) -> None:
        """Where each channel and tap is in the copy, of which `padded.py` says how it lies."""
        w, arg = self.w, self.arg

        def note() -> Values:
            of = loaded_window_args(w, self.windows)
            top = self.minus(of.start1, arg.low)
            left = self.minus(of.start2, arg.origin)

            def channel(c: str, carried: Values) -> Values:
                base = self.times(c, arg.channel)

                def upper(t1: str, carried: Values) -> Values:
                    y = self.plus(top, self.times(t1, of.spread1))
                    row = self.times(y, arg.pitch)

                    def tap(t2: str, carried: Values) -> Values:
                        x = self.plus(left, self.times(t2, of.spread2))
                        phase = self.times(self.op("urem", x, of.step2), arg.wide)
                        x = self.plus(self.op("udiv", x, of.step2), phase)
                        offset = self.plus(base, self.times(self.plus(row, x), arg.size))
                        narrow = w.let("narrow", f"trunc i64 {offset} to i32")
                        w.do(f"store i32 {narrow}, ptr {carried[0]}, align 4")
                        return [self.shift(carried[0], "4")]

                    return w.loop("tap", "0", of.taps2, "1", [("ptr", carried[0])], tap)

                return w.loop("upper", "0", of.taps1, "1", [("ptr", carried[0])], upper)

            w.loop("channel", "0", of.channels, "1", [("ptr", self.offsets)], channel)
            return []

        w.when(self.slides, [], note)

    def pad(self) -> str:
        """Copies what the unit's windows see, and says which row of places the copy begins with."""
        w, arg = self.w, self.arg

        def copy() -> Values:
            y = self.op("udiv", self.start, arg.along)
            last = self.op("udiv", self.minus(self.stop, "1"), arg.along)
            rows = self.times(self.minus(last, y), arg.down)
            rows = self.plus(self.plus(rows, "1"), arg.span)
            top = self.plus(self.times(y, arg.down), arg.low)
            w.do(
                f"call void {arg.pad}(ptr {self.b}, ptr {self.windows}, i64 {top}, i64 {rows}, "
                f"i64 {arg.wide}, i64 {arg.origin}, i64 {arg.channel}, ptr {self.panel_buffer})"
            )
            return [y]

        return w.when(self.slides, [("i64", "0")], copy)[0]

    def place(self, j: str) -> tuple[str, str, str]:
        """The column that a panel begins with, its number in a row of places, and that row's."""

        def sliding() -> Values:
            y, x = self.op("udiv", j, self.arg.along), self.op("urem", j, self.arg.along)
            column = self.times(y, self.arg.across)
            return [self.plus(column, self.times(x, self.arg.width)), x, y]

        column = self.least(self.times(j, self.arg.width), self.arg.n)
        x = self.choose(self.equal(j, self.arg.along), "0", j)
        others = [("i64", column), ("i64", x), ("i64", "0")]
        column, x, y = self.w.when(self.slides, others, sliding)
        return column, x, y

    def slid(self, x: str, y: str) -> str:
        """Where a panel begins in the copy."""
        down = self.times(self.minus(y, self.first_row), self.times(self.arg.down, self.arg.pitch))
        across = self.times(x, self.arg.width)
        return self.shift(self.panel_buffer, self.times(self.plus(down, across), self.arg.size))

    def next_image(self, j: str, part: str, otherwise: str) -> str:
        """The part of the next image that a tile fetches, or something else behind its end.

        The next image lies as far behind this one as this one is long.
        """
        before = self.plus(self.times(self.minus(j, self.start), self.count), self.tile_number)
        done = self.times(before, part)
        inside = self.w.let("inside", f"icmp slt i64 {done}, {self.arg.b_next}")
        image = self.shift(self.b, self.plus(self.arg.b_next, done))
        return self.choose(inside, image, otherwise, "ptr")
