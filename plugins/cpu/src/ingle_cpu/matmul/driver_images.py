"""The driver's steps for padded images, which tiles slide along; `padded.py` has their layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.llvm import Values, Writer

from .abi import DriverArgs
from .window_args import loaded_window_args

MOVED = 32
"""Bytes that are copied at once."""


class Memory(NamedTuple):
    """A place in memory, and the bytes from row to row there."""

    place: str
    row: str


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

    def share(self, block: str, whole: str, blocks: str) -> tuple[str, str]:
        """From where to where a block goes, if all are as even as can be."""
        start, stop = self.times(block, whole), self.times(self.plus(block, "1"), whole)
        return self.op("udiv", start, blocks), self.op("udiv", stop, blocks)

    def matrices(
        self, matrix: str, batch: tuple[str, str], pointers: Sequence[tuple[str, Sequence[str]]]
    ) -> Values:
        """Where a matrix of the batch is.

        Args:
            matrix: its number.
            batch: the sizes of the last two batch axes.
            pointers: with strides along three of them.
        """
        index2, rest = self.op("urem", matrix, batch[1]), self.op("udiv", matrix, batch[1])
        index1, index0 = self.op("urem", rest, batch[0]), self.op("udiv", rest, batch[0])
        found = []
        for pointer, strides in pointers:
            for stride, index in zip(strides, (index0, index1, index2), strict=True):
                pointer = self.shift(pointer, self.times(index, stride))
            found.append(pointer)
        return found


class ImageCode(DriverCode):
    """The steps before, in and behind the loops for tiles that slide along a copy of an image.

    Attributes:
        slides: whether tiles do.
        flat, by_rows: whether they do over the ends of rows, and whether not.
        windows: where the `WindowArgs` are.
        offsets, panel_buffer: where the worker notes taps, and copies the image to.
        b: the image.
        first_row: the unit's first row of places.
        start, stop: the unit's panels.
        count, tile_number: its tiles of rows, and which of them is at hand.
    """

    slides: str
    flat: str
    by_rows: str
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
                    row = self.times(self.op("udiv", y, arg.turns_of_rows), arg.pitch)
                    turn = self.times(self.op("urem", y, arg.turns_of_rows), arg.turn)
                    row = self.plus(row, turn)

                    def tap(t2: str, carried: Values) -> Values:
                        x = self.plus(left, self.times(t2, of.spread2))
                        phase = self.times(self.op("urem", x, of.step2), arg.apart)
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
            y, last = self._rows_of_places()
            rows = self.times(self.minus(last, y), arg.down)
            rows = self.plus(self.plus(rows, "1"), arg.span)
            top = self.plus(self.times(y, arg.down), arg.low)
            w.do(
                f"call void {arg.pad}(ptr {self.b}, ptr {self.windows}, i64 {top}, i64 {rows}, "
                f"i64 {arg.wide}, i64 {arg.origin}, i64 {arg.channel}, i64 {arg.turns_of_rows}, "
                f"i64 {self._bytes(arg.turn)}, i64 {self._bytes(arg.pitch)}, "
                f"i64 {self._bytes(arg.apart)}, ptr {self.panel_buffer})"
            )
            return [y]

        return w.when(self.slides, [("i64", "0")], copy)[0]

    def _bytes(self, elements: str) -> str:
        return self.times(elements, self.arg.size)

    def _rows_of_places(self) -> tuple[str, str]:
        """The first and the last one of the unit."""
        arg = self.arg
        columns = self.choose(self.flat, arg.width, "1")
        row = self.choose(self.flat, arg.pitch, arg.along)
        last = self.minus(self.times(self.stop, columns), "1")
        height = self.op("udiv", arg.n, arg.across)
        last = self.least(self.op("udiv", last, row), self.minus(height, "1"))
        return self.op("udiv", self.times(self.start, columns), row), last

    def number(self, column: str) -> str:
        """How many places come before a column of a flat copy."""
        arg = self.arg
        y, x = self.op("udiv", column, arg.pitch), self.op("urem", column, arg.pitch)
        return self.plus(self.times(y, arg.across), self.least(x, arg.across))

    def close_up(self, tile: Memory, rows: str, column: str, stop: str, to: Memory) -> None:
        """Copies the places among some columns of a flat copy next to each other, row by row.

        Args:
            tile: results from the first of these columns on.
            rows: how many there are.
            column, stop: the columns.
            to: where the first place goes, which may be in the tile.
        """
        arg, skipped = self.arg, self.number(column)
        first = self.op("udiv", column, arg.pitch)
        last = self.plus(self.op("udiv", self.minus(stop, "1"), arg.pitch), "1")

        def piece(y: str, _: Values) -> Values:
            row = self.times(y, arg.pitch)
            begin = self.most(row, column)
            count = self.minus(self.least(self.plus(row, arg.across), stop), begin)
            count = self.most(count, "0")
            number = self.plus(self.times(y, arg.across), self.minus(begin, row))
            source = self.shift(tile.place, self.times(self.minus(begin, column), arg.size))
            there = self.shift(to.place, self.times(self.minus(number, skipped), arg.size))

            def line(_: str, carried: Values) -> Values:
                here, there = carried
                self._move(here, there, self.times(count, arg.size))
                return [self.shift(here, tile.row), self.shift(there, to.row)]

            self.w.loop("line", "0", rows, "1", [("ptr", source), ("ptr", there)], line)
            return []

        self.w.loop("piece", first, last, "1", [], piece)

    def _move(self, source: str, to: str, nbytes: str) -> None:
        """Copies bytes to a place that is not behind theirs."""
        w, whole = self.w, self.op("and", nbytes, str(-MOVED))
        for begin, end, kind in (("0", whole, f"<{MOVED // 4} x i32>"), (whole, nbytes, "i32")):

            def some(at: str, _: Values, kind: str = kind) -> Values:
                value = w.let("x", f"load {kind}, ptr {self.shift(source, at)}, align 4")
                w.do(f"store {kind} {value}, ptr {self.shift(to, at)}, align 4")
                return []

            step = str(MOVED if kind != "i32" else 4)
            w.loop("move", begin, end, step, [], some)

    def place(self, j: str) -> tuple[str, str, str]:
        """The column that a panel begins with, its number in a row of places, and that row's."""

        def sliding() -> Values:
            y, x = self.op("udiv", j, self.arg.along), self.op("urem", j, self.arg.along)
            column = self.times(y, self.arg.across)
            return [self.plus(column, self.times(x, self.arg.width)), x, y]

        column = self.least(self.times(j, self.arg.width), self.arg.columns)
        x = self.choose(self.equal(j, self.arg.along), "0", j)
        others = [("i64", column), ("i64", x), ("i64", "0")]
        column, x, y = self.w.when(self.by_rows, others, sliding)
        return column, x, y

    def slid(self, x: str, y: str) -> str:
        """Where a panel begins in the copy."""
        step = self.choose(self.flat, self.arg.pitch, self.times(self.arg.down, self.arg.pitch))
        down = self.times(self.minus(y, self.first_row), step)
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
