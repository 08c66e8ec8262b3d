"""Eight matrices of a stack in the lanes of vectors, and back."""

from __future__ import annotations

from collections.abc import Callable

from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.llvm import Values, Writer, memory_type
from ingle.fusion.device.targets import Target

from ..matmul.driver_images import DriverCode
from ..matmul.named_args import loaded_args, loaded_pointers
from .abi import LANES, POINTERS, StackArgs

VECTOR = f"<{LANES} x double>"
WHOLE = f"<{LANES} x i64>"
MASK = f"<{LANES} x i1>"
STEP = LANES * 8
"""Bytes of a vector."""
ZERO = "zeroinitializer"
ONE = "splat (double 1.0)"


class LaneCode(DriverCode):
    """Instructions on a tile: rows of vectors in scratch memory, with a matrix in each lane.

    Arithmetic is that of double precision, as in NumPy's kernels.

    Args:
        name: of the kernel.
        dtype: of the matrices in memory.
        target: the processor.
    """

    def __init__(self, name: str, dtype: str, target: Target) -> None:
        super().__init__(Writer(name))
        self.stored, self.size = memory_type(dtype), SIZES[dtype]
        self.multiply_add = "llvm.fma" if target.fma else "llvm.fmuladd"

    def tiles(self, body: Callable[[], None]) -> str:
        """The module of a kernel that does so for each tile; `body` keeps where matrices begin."""
        w = self.w
        self.a, self.b, self.out, self.mantissa, self.exponent, self.declined, scratch = (
            loaded_pointers(w, POINTERS)
        )
        self.of: StackArgs[str] = loaded_args(w, StackArgs)
        self.a = self.shift(self.a, self.of.first_a)
        self.b = self.shift(self.b, self.of.first_b)
        self.out = self.shift(self.out, self.of.first_out)
        self.tile = self.shift(scratch, self.times("%worker", self.of.worker_bytes))
        self.width = self.plus(self.of.rows, self.of.columns)
        self.row_bytes = self.times(self.width, str(STEP))

        def unit(number: str, _: Values) -> Values:
            self.number = number
            first = self.times(number, str(LANES))
            last = self.minus(self.of.matrices, "1")
            # Lanes without a matrix of their own have the last one too.
            self.places = [self.least(self.plus(first, str(n)), last) for n in range(LANES)]
            body()
            return []

        w.loop("unit", "%begin", "%end", "1", [], unit)
        w.do("ret void")
        return w.module()

    # -- loops -------------------------------------------------------------------------------

    def each(self, start: str, stop: str, body: Callable[[str], None]) -> None:
        """A loop that carries nothing."""

        def step(index: str, _: Values) -> Values:
            body(index)
            return []

        self.w.loop("each", start, stop, "1", [], step)

    # -- a tile ------------------------------------------------------------------------------

    def row(self, number: str) -> str:
        """Where a row of the tile begins."""
        return self.shift(self.tile, self.times(number, self.row_bytes))

    def at(self, row: str, column: str) -> str:
        """Where a vector of a row is."""
        return self.shift(row, self.times(column, str(STEP)))

    def get(self, place: str) -> str:
        """The vector in a place."""
        return self.w.let("x", f"load {VECTOR}, ptr {place}, align {STEP}")

    def put(self, value: str, place: str) -> None:
        """Writes a vector."""
        self.w.do(f"store {VECTOR} {value}, ptr {place}, align {STEP}")

    def less(self, row: str, factor: str, other: str, start: str, stop: str) -> None:
        """Takes `factor` times another row from a row, in some columns."""
        negative = self.w.let("negative", f"fneg {VECTOR} {factor}")

        def column(j: str) -> None:
            place = self.at(row, j)
            parts = negative, self.get(self.at(other, j)), self.get(place)
            self.put(self.fused(*parts), place)

        self.each(start, stop, column)

    def fused(self, a: str, b: str, c: str) -> str:
        """a * b + c."""
        arguments = (f"{VECTOR} {v}" for v in (a, b, c))
        return self.w.call("sum", VECTOR, f"{self.multiply_add}.v{LANES}f64", *arguments)

    def real(self, word: str, a: str, b: str) -> str:
        """An operation on numbers."""
        return self.w.let(word, f"{word} {VECTOR} {a}, {b}")

    def compared(self, how: str, a: str, b: str) -> str:
        """In which lanes numbers compare so."""
        return self.w.let("are", f"fcmp {how} {VECTOR} {a}, {b}")

    def either(self, mask: str, a: str, b: str, kind: str = VECTOR) -> str:
        """`a` where the mask holds, else `b`."""
        return self.w.let("either", f"select {MASK} {mask}, {kind} {a}, {kind} {b}")

    def both(self, word: str, a: str, b: str) -> str:
        """A mask of two."""
        return self.w.let("mask", f"{word} {MASK} {a}, {b}")

    def any(self, mask: str) -> str:
        """Whether a mask holds somewhere."""
        bits = self.w.let("bits", f"bitcast {MASK} {mask} to i{LANES}")
        return self.w.let("any", f"icmp ne i{LANES} {bits}, 0")

    # -- matrices in memory ------------------------------------------------------------------

    def starts(self, base: str, step: str) -> Values:
        """Where the lanes' matrices begin."""
        return [self.shift(base, self.times(place, step)) for place in self.places]

    def loaded(self, starts: Values, distance: str) -> str:
        """An element of each lane's matrix."""
        w, kind = self.w, f"<{LANES} x {self.stored}>"
        found = "poison"
        for lane, start in enumerate(starts):
            place = self.shift(start, distance)
            x = w.let("number", f"load {self.stored}, ptr {place}, align {self.size}")
            found = w.let("lanes", f"insertelement {kind} {found}, {self.stored} {x}, i64 {lane}")
        if self.stored == "double":
            return found
        return w.let("wide", f"fpext {kind} {found} to {VECTOR}")

    def stored_at(self, value: str, starts: Values, distance: str) -> None:
        """Writes an element of each lane's matrix."""
        w, kind = self.w, f"<{LANES} x {self.stored}>"
        if self.stored != "double":
            value = w.let("narrow", f"fptrunc {VECTOR} {value} to {kind}")
        for lane, start in enumerate(starts):
            x = w.let("number", f"extractelement {kind} {value}, i64 {lane}")
            place = self.shift(start, distance)
            w.do(f"store {self.stored} {x}, ptr {place}, align {self.size}")

    def load_square(self, *, lower: bool = False) -> str:
        """Brings the matrices into the tile, all of them or lower halves; says which lanes have
        elements that are not finite."""
        starts = self.starts(self.a, self.of.a)

        def row(i: str, carried: Values) -> Values:
            to, distance = self.row(i), self.times(i, self.of.a_row)

            def column(j: str, carried: Values) -> Values:
                x = self.loaded(starts, self.plus(distance, self.times(j, self.of.a_column)))
                self.put(x, self.at(to, j))
                return [self.fused(x, ZERO, carried[0])]

            stop = self.plus(i, "1") if lower else self.of.rows
            return self.w.loop("column", "0", stop, "1", [(VECTOR, carried[0])], column)

        (seen,) = self.w.loop("row", "0", self.of.rows, "1", [(VECTOR, ZERO)], row)
        return self.compared("uno", seen, seen)

    def load_right(self) -> None:
        """Brings right-hand sides into the tile, beside the matrices."""
        starts = self.starts(self.b, self.of.b)

        def row(i: str) -> None:
            to, distance = self.row(i), self.times(i, self.of.b_row)

            def column(j: str) -> None:
                x = self.loaded(starts, self.plus(distance, self.times(j, self.of.b_column)))
                self.put(x, self.at(to, self.plus(self.of.rows, j)))

            self.each("0", self.of.columns, column)

        self.each("0", self.of.rows, row)

    def store(self, first: str, columns: str) -> None:
        """Writes columns of the tile, from the first on, as the result."""
        starts = self.starts(self.out, self.of.out)

        def row(i: str) -> None:
            source, distance = self.row(i), self.times(i, self.of.out_row)

            def column(j: str) -> None:
                x = self.get(self.at(source, self.plus(first, j)))
                to = self.plus(distance, self.times(j, self.of.out_column))
                self.stored_at(x, starts, to)

            self.each("0", columns, column)

        self.each("0", self.of.rows, row)

    def decline(self, mask: str) -> None:
        """Says whether some lane of the tile has no answer."""
        flag = self.w.let("flag", f"zext i1 {self.any(mask)} to i64")
        place = self.shift(self.declined, self.times(self.number, "8"))
        self.w.do(f"store i64 {flag}, ptr {place}, align 8")
