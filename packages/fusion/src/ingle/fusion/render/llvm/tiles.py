"""Maps with operands that are strided along the lanes, in tiles of rows, as LLVM IR.

A transposed operand has its neighbours in the next row. Rows are therefore taken some at a time,
and all of them at one vector of places before the next one, so that a cache line is used up while
it is near.
"""

from __future__ import annotations

from ...kernel.code import SIZES
from ...kernel.nest import Map, Nest, Operand, in_blocks
from .inner import InnerNest
from .targets import Target
from .text import Values


def is_tiled(nest: Nest) -> bool:
    """Whether tiles serve a nest."""
    strided = any(_is_far(operand) for operand in nest.operands)
    one_map = len(nest.stages) == 1 and isinstance(nest.stages[0], Map)
    rows = nest.outer > 0 and nest.lanes == "inner" and not nest.ragged and not in_blocks(nest)
    return strided and one_map and rows


def _is_far(operand: Operand) -> bool:
    """Whether neighbours along the lanes lie in other cache lines."""
    return operand.lane == "strided" and not (operand.apart or operand.backward)


class TiledNest(InnerNest):
    """Writes one map over tiles of rows."""

    @property
    def divides_by_invariants(self) -> bool:
        """What is fixed is written for each vector of a tile."""
        return False

    def __init__(self, nest: Nest, name: str, target: Target) -> None:
        super().__init__(nest, name, target)
        smallest = min(SIZES[o.dtype] for o in nest.operands if _is_far(o))
        self.rows = min(64 // smallest, 32)

    def walk_rows(self) -> None:
        w, rows = self.writer, self.rows
        self._slots = [
            w.let("places", f"alloca [{rows} x ptr], align 64") for _ in self.nest.operands
        ]
        self._numbers = [w.let("indices", f"alloca [{rows} x i64]") for _ in self.sizes]
        first = w.let("first", f"udiv i64 %begin, {rows}")
        more = w.let("more", f"add i64 %end, {rows - 1}")
        last = w.let("last", f"udiv i64 {more}, {rows}")
        w.loop("tile", first, last, "1", [], self._tile)

    def _tile(self, tile: str, _: Values) -> Values:
        w = self.writer
        start = w.let("start", f"mul i64 {tile}, {self.rows}")
        before = w.let("before", f"sub i64 %begin, {start}")
        low = w.call("low", "i64", "llvm.smax.i64", f"i64 {before}", "i64 0")
        high = self.smaller(w.let("left", f"sub i64 %end, {start}"), str(self.rows))
        w.loop("rows", low, high, "1", [], lambda r, _: self._prepare(start, r))

        def places(i: str, mask: str | None) -> Values:
            w.loop("row", low, high, "1", [], lambda r, _: self._at_row(r, i, mask))
            return []

        full = w.let("full", f"and i64 {self.inner}, {-self.lanes}")
        w.loop("vectors", "0", full, str(self.lanes), [], lambda i, _: places(i, None))

        def rest() -> Values:
            left = w.let("left", f"sub i64 {self.inner}, {full}")
            return places(full, self.mask_below(left))

        w.when(w.let("more", f"icmp slt i64 {full}, {self.inner}"), [], rest)
        return []

    def _prepare(self, start: str, row: str) -> Values:
        """Notes where the operands of a row begin, and its indices."""
        w = self.writer
        unit = w.let("unit", f"add i64 {start}, {row}")
        indices = self.split(unit, self.sizes) if len(self.sizes) > 1 else [unit]
        for k, pointer in enumerate(self.offsets(indices)):
            slot = w.let("slot", f"getelementptr ptr, ptr {self._slots[k]}, i64 {row}")
            w.do(f"store ptr {pointer}, ptr {slot}")
        for array, index in zip(self._numbers, indices, strict=True):
            slot = w.let("slot", f"getelementptr i64, ptr {array}, i64 {row}")
            w.do(f"store i64 {index}, ptr {slot}")
        return []

    def _at_row(self, row: str, place: str, mask: str | None) -> Values:
        """Writes the map at one vector of a row."""
        self.row_pointers = [self._noted("ptr", slots, row) for slots in self._slots]
        self.indices = [self._noted("i64", numbers, row) for numbers in self._numbers]
        self.fixed(0)
        self.vectors(0, place, [mask])
        return []

    def _noted(self, kind: str, array: str, row: str) -> str:
        slot = self.writer.let("slot", f"getelementptr {kind}, ptr {array}, i64 {row}")
        return self.writer.let("noted", f"load {kind}, ptr {slot}")
