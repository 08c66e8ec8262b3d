"""The driver's steps that fetch what will be read: panels of b, or operands of the epilogue."""

from __future__ import annotations

from ingle.fusion.device.llvm import Values

from .driver_epilogue import EpilogueCode
from .driver_packing import PackingCode
from .microkernel import LINE, STEPS_OF_A_LINE


class FetchingCode(PackingCode, EpilogueCode):
    """What tiles fetch ahead, and what is asked for before the tiles of a group.

    Behind the column strides of the epilogue's operands are the numbers of those to fetch.

    Attributes:
        last: whether the sums are complete behind what is taken of k now.
        start, stop: the unit's panels.
        tile_number: of the unit's tiles of rows.
        a_tile, tile_bytes: where the tile's rows of a lie, and how far the next ones are.
        slides: whether tiles slide along an image.
    """

    last: str
    start: str
    stop: str
    tile_number: str
    a_tile: str
    tile_bytes: str
    slides: str

    def soon(self, lying: str, j: str) -> str:
        """Where that begins which a tile fetches, a line for every few steps of k.

        It is a part of the panel of b that is used next, whose tiles each fetch another one; or,
        where all panels are near, a part of what the epilogue of the next rows reads. Tiles behind
        the last part fetch something behind it, which costs next to nothing. Of windows it is the
        next rows of a: nothing lies where their panels would, and to ask for that is slow. Tiles
        that slide fetch the image of the next unit first, which that one would wait for.
        """
        w = self.w
        part = self.times(self.deep, str(LINE // STEPS_OF_A_LINE))
        following = self.plus(j, self.arg.near)
        more = w.let("more", f"icmp slt i64 {following}, {self.stop}")
        onward = self.choose(more, self.times(self.arg.near, self.arg.b_panel), self.arg.b_next)
        panel = self.shift(lying, self.plus(onward, self.times(self.tile_number, part)))
        # Windows are in no panels before they are packed.
        rows = self.shift(self.a_tile, self.tile_bytes)
        image = self.choose(self.slides, self.next_image(j, part, rows), rows, "ptr")
        panel = self.choose(self.has_windows, image, panel, "ptr")
        any_fetched = w.let("fetches", f"icmp ne i64 {self.arg.fetched}, 0")

        def operand() -> Values:
            done = self.times(self.minus(j, self.start), part)
            rows = self.times(self.arg.rows, self.arg.fetched_row)
            number = self.op("udiv", done, rows)
            inside = w.let("inside", f"icmp ult i64 {number}, {self.arg.fetched}")
            which = self._fetched(self.least(number, self.minus(self.arg.fetched, "1")))
            below = self.times(self.plus(self.row, self.arg.rows), self.arg.fetched_row)
            rest = self.op("urem", done, rows)
            return [
                self.choose(
                    inside, self.shift(self.operand_at(which), self.plus(below, rest)), panel, "ptr"
                )
            ]

        return w.when(any_fetched, [("ptr", panel)], operand)[0]

    def ask(self, column: str, columns: str) -> None:
        """Asks for the pieces of operands that the epilogue of a group of tiles is about to read or
        write, and that tiles do not fetch: the pieces of rows are too short for the processor to
        foresee, and come while the tiles are computed."""
        w = self.w

        def operand(n: str, _: Values) -> Values:
            which = self._fetched(n)
            place = w.let("stride", f"getelementptr i64, ptr {self.column_strides}, i64 {which}")
            stride = w.let("stride", f"load i64, ptr {place}, align 8")
            first = self.shift(self.operand_at(which), self.times(column, stride))
            first = self.shift(first, self.times(self.row, self.arg.fetched_row))
            # The last line of a piece that begins within a line is asked for with the next one.
            length = self.times(columns, stride)

            def row(i: str, _: Values) -> Values:
                start = self.shift(first, self.times(i, self.arg.fetched_row))

                def line(at: str, _: Values) -> Values:
                    to = self.shift(start, at)
                    w.call_nothing("llvm.prefetch.p0", f"ptr {to}", "i32 0", "i32 3", "i32 1")
                    return []

                w.loop("line", "0", length, str(LINE), [], line)
                return []

            w.loop("row", "0", self.high, "1", [], row)
            return []

        def operands() -> Values:
            stop = self.plus(self.arg.fetched, self.arg.asked)
            w.loop("asked", self.arg.fetched, stop, "1", [], operand)
            return []

        w.when(self.last, [], operands)

    def _fetched(self, number: str) -> str:
        """Which operand of the epilogue is fetched, by its number among these."""
        w, at = self.w, self.plus(number, self.arg.operands)
        place = w.let("place", f"getelementptr i64, ptr {self.column_strides}, i64 {at}")
        return w.let("which", f"load i64, ptr {place}, align 8")
