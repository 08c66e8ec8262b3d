"""Products in the kernels of attention: what packs their operands, and loops over tiles."""

from __future__ import annotations

from ingle.fusion.device.llvm import Values

from ..matmul.abi import parameters
from .vectors import VectorCode


class ProductCode(VectorCode):
    """Blocks of scores, and what is multiplied by them."""

    def pack_tiles(
        self, pack: str, source: str, row: str, column: str, count: str, depth: str, to: str
    ) -> None:
        """Rows of a matrix as the left operand of tiles, some rows a tile."""
        w = self.w

        def tile(first: str, _: Values) -> Values:
            high = self.least(self.minus(count, first), str(self.rows))
            here = self.shift(source, self.times(first, row))
            there = self.shift(to, self.numbers(self.times(first, depth)))
            self._pack(pack, here, column, row, depth, high, str(self.rows), there)
            return []

        w.loop("pack", "0", count, str(self.rows), [], tile)

    def pack_panels(
        self, pack: str, source: str, along: str, across: str, depth: str, count: str, last: str,
        to: str,
    ) -> None:  # fmt: skip
        """A matrix as the right operand: panels of columns, of which the last has `last`."""
        w = self.w

        def panel(first: str, _: Values) -> Values:
            left = self.minus(count, first)
            whole = w.let("whole", f"icmp sgt i64 {left}, {self.width}")
            width = self.choose(whole, str(self.width), last)
            here = self.shift(source, self.times(first, across))
            there = self.shift(to, self.numbers(self.times(first, depth)))
            high = self.least(left, str(self.width))
            self._pack(pack, here, along, across, depth, high, width, there)
            return []

        w.loop("pack", "0", count, str(self.width), [], panel)

    def _pack(self, pack: str, *given: str) -> None:
        source, outer, inner, depth, count, width, to = given
        self.w.do(
            f"call void {pack}(ptr {source}, i64 {outer}, i64 {inner}, i64 {depth}, "
            f"i64 {count}, i64 {width}, ptr {to})"
        )

    def tile(
        self, code: str, a: str, a_row: str, b: str, b_step: str, depth: str, to: str, to_row: str,
        add: str, soon: str,
    ) -> None:  # fmt: skip
        given = {
            "a": a, "a_row": a_row, "last": str(self.rows - 1), "b": b, "b_step": b_step,
            "columns": str(self.width), "depth": depth, "tile": to, "tile_row": to_row,
            "add": add, "soon": soon, "b_vector": "0", "tile_vector": "0",
        }  # fmt: skip
        self.w.do(f"call void {code}({parameters(given)})")

    def scores(
        self, code: str, tiles: str, panels: str, count: str, columns: str, depth: str, to: str,
        pitch: str,
    ) -> None:  # fmt: skip
        """A block of products of rows and columns that are both packed."""
        w = self.w
        down = self.times(str(self.rows), pitch)
        tile_bytes = self.numbers(self.times(str(self.rows), depth))

        def panel(first: str, _: Values) -> Values:
            b = self.shift(panels, self.numbers(self.times(first, depth)))
            there = self.shift(to, self.numbers(first))
            ahead = self.shift(b, self.numbers(self.times(str(self.width), depth)))

            def row(_: str, carried: Values) -> Values:
                a, here = carried
                self.tile(code, a, "0", b, "0", depth, here, pitch, "0", ahead)
                return [self.shift(a, tile_bytes), self.shift(here, down)]

            w.loop("rows", "0", count, str(self.rows), [("ptr", tiles), ("ptr", there)], row)
            return []

        w.loop("panel", "0", columns, str(self.width), [], panel)

    def mixed(
        self, codes: tuple[str, str], a: str, a_row: str, onward: str, rows: str, panels: str,
        length: str, first: str, columns: str, last: str, depth: str, to: str, to_row: str,
        add: str,
    ) -> None:  # fmt: skip
        """A block of scores times rows that are in panels.

        Args:
            codes: of tiles of whole panels, and of the last panel.
            a, a_row, onward: the scores, what tiles are told of their rows, and bytes to the next
                tile's.
            panels, length, first: the panels, rows of a whole panel, and the first one wanted.
            columns, last: of all panels, and of the last one.
        """
        w = self.w
        down = self.times(str(self.rows), to_row)

        def panel(start: str, _: Values) -> Values:
            whole = w.let("whole", f"icmp sgt i64 {self.minus(columns, start)}, {self.width}")
            step = self.numbers(self.choose(whole, str(self.width), last))
            code = self.choose(whole, *codes, "ptr")
            b = self.shift(panels, self.numbers(self.times(start, length)))
            b = self.shift(b, self.times(first, step))
            there = self.shift(to, self.numbers(start))

            def row(_: str, carried: Values) -> Values:
                a, here = carried
                self.tile(code, a, a_row, b, step, depth, here, to_row, add, b)
                return [self.shift(a, onward), self.shift(here, down)]

            w.loop("rows", "0", rows, str(self.rows), [("ptr", a), ("ptr", there)], row)
            return []

        w.loop("panel", "0", columns, str(self.width), [], panel)
