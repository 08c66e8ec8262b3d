"""The driver's steps that call the epilogue, a kernel of the nests, for a part of the result."""

from __future__ import annotations

from typing import NamedTuple

from ingle.fusion.device.llvm import Values

from .driver_images import DriverCode


class EpilogueArgs(NamedTuple):
    """What is known of an epilogue, by the names that instructions gave it.

    Attributes:
        code: its address.
        m: rows of a matrix of the batch.
        operands: how many it has, the sums not counted.
        nest_args: how many arguments it takes.
        inner_at, column_at: where the columns and the first column are among them; the latter is
            below zero where it does not ask.
    """

    code: str
    m: str
    operands: str
    nest_args: str
    inner_at: str
    column_at: str


class EpilogueCode(DriverCode):
    """Arguments and pointers of the epilogue lie in the worker's memory, and change from call to
    call.

    Attributes:
        called: the epilogue.
        scratch, nest_pointers: where its arguments and its pointers are.
        column_strides: those of its operands, in bytes.
        matrix: of the batch.
        row, high: the first row of sums, and how many there are.
        tile_row, columns_waiting: from row to row of the sums, in bytes and in numbers.
    """

    first_operand = 3
    """The pointer of the kernel that is the epilogue's first operand."""
    called: EpilogueArgs
    scratch: str
    nest_pointers: str
    column_strides: str
    matrix: str
    row: str
    high: str
    tile_row: str
    columns_waiting: str

    def copy_nest_args(self, source: str) -> None:
        """The epilogue's arguments to where they may be changed."""
        w = self.w

        def copy(i: str, _: Values) -> Values:
            place = w.let("from", f"getelementptr i64, ptr {source}, i64 {i}")
            value = w.let("value", f"load i64, ptr {place}, align 8")
            w.do(f"store i64 {value}, ptr {self.nest_arg(i)}, align 8")
            return []

        w.loop("copy", "0", self.called.nest_args, "1", [], copy)

    def nest_arg(self, number: str) -> str:
        return self.w.let("to", f"getelementptr i64, ptr {self.scratch}, i64 {number}")

    def operand_at(self, number: str) -> str:
        """The pointer to an operand of the epilogue."""
        at = self.plus(number, str(self.first_operand))
        slot = self.w.let("slot", f"getelementptr ptr, ptr %pointers, i64 {at}")
        return self.w.let("base", f"load ptr, ptr {slot}, align 8")

    def epilogue(self, tile: str, column: str, columns: str) -> None:
        """Calls the epilogue for the rows of a tile and some columns."""
        w, called = self.w, self.called
        w.do(f"store i64 {columns}, ptr {self.nest_arg(called.inner_at)}, align 8")
        knows = w.let("knows", f"icmp sge i64 {called.column_at}, 0")

        def tell() -> Values:
            w.do(f"store i64 {column}, ptr {self.nest_arg(called.column_at)}, align 8")
            return []

        w.when(knows, [], tell)
        # The nest moves on by its row index; the tile's first row is row `row`.
        tile = self.shift(tile, self.minus("0", self.times(self.row, self.tile_row)))
        w.do(f"store ptr {tile}, ptr {self.nest_pointers}, align 8")
        self._tile_stride()

        def operand(n: str, _: Values) -> Values:
            place = w.let("stride", f"getelementptr i64, ptr {self.column_strides}, i64 {n}")
            stride = w.let("stride", f"load i64, ptr {place}, align 8")
            here = self.shift(self.operand_at(n), self.times(column, stride))
            slot = w.let("slot", f"getelementptr ptr, ptr {self.nest_pointers}, "
                                 f"i64 {self.plus(n, '1')}")  # fmt: skip
            w.do(f"store ptr {here}, ptr {slot}, align 8")
            return []

        w.loop("operand", "0", called.operands, "1", [], operand)
        begin = self.plus(self.times(self.matrix, called.m), self.row)
        w.do(
            f"call void {called.code}(ptr {self.nest_pointers}, ptr {self.scratch}, "
            f"i64 {begin}, i64 {self.plus(begin, self.high)}, i64 %worker)"
        )

    def _tile_stride(self) -> None:
        """Sets the row stride of the epilogue's operand 0."""
        # Its arguments are the outer sizes, the inner size, and operand 0's strides along the outer
        # axes, of which the last one is that of the rows.
        inner_at = self.called.inner_at
        place = self.nest_arg(self.plus(inner_at, inner_at))
        self.w.do(f"store i64 {self.columns_waiting}, ptr {place}, align 8")
