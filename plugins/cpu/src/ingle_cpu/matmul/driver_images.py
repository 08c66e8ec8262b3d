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
        start, stop: the unit's panels.
        count, tile_number: its tiles of rows, and which of them is at hand.
    """

    slides: str
    windows: str
    offsets: str
    panel_buffer: str
    b: str
    start: str
    stop: str
    count: str
    tile_number: str

    def epilogue(self, tile: str, column: str, columns: str) -> None:
        """Calls the epilogue for the rows of a tile and some columns."""
        raise NotImplementedError

    def note_offsets(self) -> None:
        """Where each channel and tap is in the copy, of which `padded.py` says how it lies."""
        w, arg = self.w, self.arg

        def note() -> Values:
            of = loaded_window_args(w, self.windows)
            top = self.minus(of.start1, arg.low)
            left = self.plus(of.start2, arg.zeros)

            def channel(c: str, carried: Values) -> Values:
                base = self.times(c, arg.channel)

                def upper(t1: str, carried: Values) -> Values:
                    y = self.plus(top, self.times(t1, of.spread1))
                    row = self.plus(self.times(y, arg.pitch), left)

                    def tap(t2: str, carried: Values) -> Values:
                        x = self.plus(row, self.times(t2, of.spread2))
                        offset = self.plus(base, self.times(x, arg.size))
                        narrow = w.let("narrow", f"trunc i64 {offset} to i32")
                        w.do(f"store i32 {narrow}, ptr {carried[0]}, align 4")
                        return [self.shift(carried[0], "4")]

                    return w.loop("tap", "0", of.taps2, "1", [("ptr", carried[0])], tap)

                return w.loop("upper", "0", of.taps1, "1", [("ptr", carried[0])], upper)

            w.loop("channel", "0", of.channels, "1", [("ptr", self.offsets)], channel)
            return []

        w.when(self.slides, [], note)

    def pad(self) -> str:
        """Copies what the unit's windows see, and says which column the copy begins with."""
        w, arg = self.w, self.arg

        def copy() -> Values:
            first = self.times(self.start, arg.width)
            last = self.minus(self.least(self.times(self.stop, arg.width), arg.n), "1")
            y = self.op("udiv", first, arg.pitch)
            rows = self.minus(self.op("udiv", last, arg.pitch), y)
            rows = self.plus(self.plus(rows, "1"), arg.span)
            w.do(
                f"call void {arg.pad}(ptr {self.b}, ptr {self.windows}, "
                f"i64 {self.plus(y, arg.low)}, i64 {rows}, i64 {arg.pitch}, i64 {arg.zeros}, "
                f"i64 {arg.channel}, ptr {self.panel_buffer})"
            )
            return [self.times(y, arg.pitch)]

        return w.when(self.slides, [("i64", "0")], copy)[0]

    def epilogues(self, tile: str, column: str, columns: str) -> None:
        """Calls the epilogue for each row of places, without what lies between two of them."""
        pitch, across = self.arg.pitch, self.arg.across
        end = self.plus(column, columns)

        def row(y: str, _: Values) -> Values:
            start = self.times(y, pitch)
            first = self.most(column, start)
            stop = self.least(end, self.plus(start, across))
            count = self.minus(stop, first)
            place = self.plus(self.times(y, across), self.minus(first, start))
            at = self.shift(tile, self.times(self.minus(first, column), self.arg.size))

            def some() -> Values:
                self.epilogue(at, place, count)
                return []

            self.w.when(self.w.let("some", f"icmp sgt i64 {count}, 0"), [], some)
            return []

        stop = self.plus(self.op("udiv", self.minus(end, "1"), pitch), "1")
        self.w.loop("places", self.op("udiv", column, pitch), stop, "1", [], row)

    def next_image(self, j: str, part: str, otherwise: str) -> str:
        """The part of the next image that a tile fetches, or something else behind its end.

        The next image lies as far behind this one as this one is long.
        """
        before = self.plus(self.times(self.minus(j, self.start), self.count), self.tile_number)
        done = self.times(before, part)
        inside = self.w.let("inside", f"icmp slt i64 {done}, {self.arg.b_next}")
        image = self.shift(self.b, self.plus(self.arg.b_next, done))
        return self.choose(inside, image, otherwise, "ptr")
