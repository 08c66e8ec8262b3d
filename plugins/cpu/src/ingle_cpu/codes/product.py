"""The product of rows by a weight of codes, which are decoded in registers.

Codes of four bits are numbers of a table of sixteen, and each group's table holds what its codes
stand for, so that decoding takes one instruction for a vector of them where the processor chooses
among sixteen numbers. Of float32 a code stands for the same number as in `dequantize`, to the bit;
of half types it is not rounded to one. Each sum goes along k by vectors, whatever the number of
rows and columns is, and so do its bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.llvm import Values, Writer, memory_type
from ingle.fusion.device.targets import Target

from ..jit.engine import IRSource
from ..matmul.driver_images import DriverCode
from ..matmul.named_args import loaded_args, loaded_pointers
from ..matmul.panel_elements import converted, order_text
from .abi import CHUNK, POINTERS, ProductArgs

SIZE = 4
"""Bytes of a number that is multiplied."""
ROWS = 4
"""Of the result, whose sums are in registers; as many as there are left."""


def columns_at_once(target: Target) -> int:
    """Columns of the result whose sums, scales and decoded vectors are in registers too.

    >>> from ingle.fusion.device.targets import AVX512, target_of
    >>> columns_at_once(target_of({"avx2", "fma", "f16c"})), columns_at_once(AVX512)
    (2, 4)
    """
    return target.registers // 8


class Coding(NamedTuple):
    """How a weight is kept.

    Attributes:
        bits: of a code, 4 or 8.
        signed: whether codes are.
        shifted: whether there are zero points, of int32.
        dtype: of scales and of the result.
    """

    bits: int
    signed: bool
    shifted: bool
    dtype: str = "float32"

    @property
    def name(self) -> str:
        return f"{'' if self.signed else 'u'}int{self.bits}{'_shifted' if self.shifted else ''}"

    @property
    def chunk(self) -> int:
        """Bytes of a chunk of codes."""
        return CHUNK * self.bits // 8


def product_source(coding: Coding, target: Target) -> IRSource:
    """The module of the kernel."""
    name = f"product_by_{coding.name}_{coding.dtype}_{target.name}"
    return IRSource(_CodesProduct(name, coding, target).text(), (name,), reduced=False)


class _Column(NamedTuple):
    """A column of the result in the making.

    Attributes:
        codes, scale, zero: where those of the weight's row are.
        place: bytes into a row of the result.
    """

    codes: str
    scale: str
    zero: str
    place: str


Decode = Callable[[str, "str | None", int], str]
"""From a place to what a vector of the chunk of codes there stands for, by its number; of the chunk
a number of codes may be there only."""


class _CodesProduct(DriverCode):
    def __init__(self, name: str, coding: Coding, target: Target) -> None:
        super().__init__(Writer(name))
        self.coding = coding
        self.target = target
        self.lanes = target.width // SIZE
        self.columns = columns_at_once(target)
        self.stored, self.size = memory_type(coding.dtype), SIZES[coding.dtype]
        self.vector = f"<{self.lanes} x float>"
        self.whole = f"<{self.lanes} x i32>"
        self.multiply_add = "llvm.fma" if target.fma else "llvm.fmuladd"

    def text(self) -> str:
        w = self.w
        self.rows, self.codes, self.scale, self.zero, self.out = loaded_pointers(w, POINTERS)
        self.of: ProductArgs[str] = loaded_args(w, ProductArgs)
        self.ahead = self.times(self.of.codes_row, str(self.columns))
        self.some_left = w.let("some", f"icmp sgt i64 {self.of.left}, 0")

        def unit(number: str, _: Values) -> Values:
            first = self.times(number, self.of.block)
            stop = self.least(self.plus(first, self.of.block), self.of.columns)
            whole = self.op("and", self.of.rows, str(-ROWS))
            w.loop("rows", "0", whole, str(ROWS), [], self._rows(ROWS, first, stop))
            left = self.minus(self.of.rows, whole)
            for rows in range(1, ROWS):
                end = self.choose(self.equal(left, str(rows)), self.of.rows, whole)
                w.loop("rest", whole, end, str(rows), [], self._rows(rows, first, stop))
            return []

        w.loop("unit", "%begin", "%end", "1", [], unit)
        w.do("ret void")
        return w.module()

    def _rows(self, rows: int, first: str, stop: str) -> Callable[[str, Values], Values]:
        """The columns of a unit for some rows."""
        w, of = self.w, self.of

        def tile(row: str, _: Values) -> Values:
            starts, outs = [], []
            for n in range(rows):
                number = self.plus(row, str(n))
                starts.append(self.shift(self.rows, self.times(number, of.row)))
                outs.append(self.shift(self.out, self.times(number, of.out_row)))

            def some(column: str, _: Values) -> Values:
                made = [self._column(self.plus(column, str(n))) for n in range(self.columns)]
                sums = iter(self._sums(starts, made))
                for out in outs:
                    for each in made:
                        self._store(self._folded(next(sums)), self.shift(out, each.place))
                return []

            w.loop("columns", first, stop, str(self.columns), [], some)
            return []

        return tile

    def _column(self, number: str) -> _Column:
        """A column; where there are no more, the last one once again."""
        of = self.of
        number = self.least(number, self.minus(of.columns, "1"))
        return _Column(
            self.shift(self.codes, self.times(number, of.codes_row)),
            self.shift(self.scale, self.times(number, of.scale_row)),
            self.shift(self.zero, self.times(number, of.zero_row)),
            self.times(number, str(self.size)),
        )

    def _store(self, total: str, place: str) -> None:
        """Stores a number of the result."""
        dtypes = "float32", self.coding.dtype
        total = converted(self.w, self.target, total, 1, dtypes)
        self.w.do(f"store {self.stored} {total}, ptr {place}, align {self.size}")

    def _sums(self, rows: Values, columns: list[_Column]) -> Values:
        """The vectors of sums of each row with each column, rows first."""
        w, of = self.w, self.of
        kinds = [self.vector] * (len(rows) * len(columns))

        def group(number: str, sums: Values) -> Values:
            decoders = [self._decoder(column, number) for column in columns]
            first = self.times(number, of.chunks)

            def chunk(n: str, sums: Values) -> Values:
                return self._chunk(self.plus(first, n), rows, columns, decoders, sums, None)

            return w.loop("chunk", "0", of.chunks, "1", list(zip(kinds, sums, strict=True)), chunk)

        nothing = [(kind, "zeroinitializer") for kind in kinds]
        sums = w.loop("group", "0", of.groups, "1", nothing, group)

        def rest() -> Values:
            decoders = [self._decoder(column, "0") for column in columns]
            return self._chunk(of.chunks, rows, columns, decoders, sums, of.left)

        return w.when(self.some_left, list(zip(kinds, sums, strict=True)), rest)

    def _chunk(
        self, number: str, rows: Values, columns: list[_Column], decoders: list[Decode],
        sums: Values, left: str | None,
    ) -> Values:  # fmt: skip
        """The sums with another chunk; `left`: how many numbers it has, if it is not whole."""
        w = self.w
        at_codes = self.times(number, str(self.coding.chunk))
        at_rows = self.times(number, str(CHUNK * SIZE))
        codes = [self.shift(column.codes, at_codes) for column in columns]
        for place in codes:
            # Rows are short for the processor to foresee what comes: so much of the next columns.
            ahead = self.shift(place, self.ahead)
            w.call_nothing("llvm.prefetch.p0", f"ptr {ahead}", "i32 0", "i32 3", "i32 1")
        found = list(sums)
        places = [self.shift(row, at_rows) for row in rows]
        parts = range(CHUNK // self.lanes)
        # All vectors of a chunk are decoded at first, if registers have room for these too.
        needed = ROWS * self.columns + (len(parts) + 1) * self.columns + 1
        step = len(parts) if needed <= self.target.registers else 1
        for first in parts[::step]:
            some = parts[first : first + step]
            decoded = [
                [decode(place, left, part) for decode, place in zip(decoders, codes, strict=True)]
                for part in some
            ]
            for part, of_columns in zip(some, decoded, strict=True):
                for r, place in enumerate(places):
                    at = self.shift(place, str(part * self.lanes * SIZE))
                    x = w.let("x", f"load {self.vector}, ptr {at}, align {SIZE}")
                    for c, number in enumerate(of_columns):
                        k = r * len(columns) + c
                        found[k] = w.call(
                            "sum", self.vector, f"{self.multiply_add}.v{self.lanes}f32",
                            *(f"{self.vector} {v}" for v in (x, number, found[k])),
                        )  # fmt: skip
        return found

    # -- codes -------------------------------------------------------------------------------

    def _decoder(self, column: _Column, group: str) -> Decode:
        """What decodes a group of a column."""
        w = self.w
        place = self.shift(column.scale, self.times(group, str(self.size)))
        scale = w.let("scale", f"load {self.stored}, ptr {place}, align {self.size}")
        scale = converted(w, self.target, scale, 1, (self.coding.dtype, "float32"))
        scale = w.splat("scale", "float", scale, self.lanes)
        zero = None
        if self.coding.shifted:
            place = self.shift(column.zero, self.times(group, str(SIZES["int32"])))
            number = w.let("zero", f"load i32, ptr {place}, align {SIZES['int32']}")
            number = w.let("zero", f"sitofp i32 {number} to float")
            zero = w.splat("zero", "float", number, self.lanes)
        chooses = self.coding.bits == 4 and self.target.permute
        table = self._scaled(self._every_code(), scale, zero) if chooses else ""

        def decode(place: str, left: str | None, part: int) -> str:
            if chooses:
                number = self._chosen(table, self._nibbles(place, left, part))
            elif self.coding.bits == 4:
                number = self._scaled(self._number(self._nibbles(place, left, part)), scale, zero)
            else:
                number = self._scaled(self._bytes(place, left, part), scale, zero)
            return number if left is None else self._masked(number, left, part)

        return decode

    def _scaled(self, codes: str, scale: str, zero: str | None) -> str:
        """What codes stand for, each step rounded as by `dequantize`."""
        w = self.w
        if zero is not None:
            codes = w.let("moved", f"fsub {self.vector} {codes}, {zero}")
        return w.let("number", f"fmul {self.vector} {codes}, {scale}")

    def _every_code(self) -> str:
        """The codes of four bits in order."""
        codes = [n - 16 if self.coding.signed and n > 7 else n for n in range(16)]
        return "<" + ", ".join(f"float {float(n)}" for n in codes) + ">"

    def _chosen(self, table: str, bits: str) -> str:
        """Numbers of the table, which the lowest four bits choose."""
        return self.w.call(
            "number", self.vector, "llvm.x86.avx512.permvar.sf.512",
            f"{self.vector} {table}", f"{self.whole} {bits}",
        )  # fmt: skip

    def _nibbles(self, place: str, left: str | None, part: int) -> str:
        """A vector of a chunk of four-bit codes as integers, of which the lowest four bits are
        theirs: first come those of the lower halves of its bytes, then those of the upper ones."""
        w, halves = self.w, CHUNK // 2 // self.lanes
        count = None
        if left is not None:  # bytes of which at least one code is there
            count = self.op("lshr", self.plus(left, "1"), "1")
        bits = self._loaded(place, part % halves, count, "zext", "uint8")
        if part < halves:
            return bits
        return w.let("upper", f"lshr {self.whole} {bits}, splat (i32 4)")

    def _number(self, bits: str) -> str:
        """The codes of integers' lowest four bits."""
        w = self.w
        if self.coding.signed:  # moved up and down: no constant takes a register
            above = w.let("above", f"shl {self.whole} {bits}, splat (i32 28)")
            bits = w.let("code", f"ashr {self.whole} {above}, splat (i32 28)")
        else:
            bits = w.let("code", f"and {self.whole} {bits}, splat (i32 15)")
        return w.let("number", f"sitofp {self.whole} {bits} to {self.vector}")

    def _bytes(self, place: str, left: str | None, part: int) -> str:
        """A vector of a chunk of codes of eight bits as numbers."""
        word, dtype = ("sext", "int8") if self.coding.signed else ("zext", "uint8")
        code = self._loaded(place, part, left, word, dtype)
        return self.w.let("number", f"sitofp {self.whole} {code} to {self.vector}")

    def _loaded(self, place: str, part: int, count: str | None, word: str, dtype: str) -> str:
        """A vector of bytes as integers, of a chunk that may have a count of bytes only."""
        w, first = self.w, part * self.lanes
        narrow = f"<{self.lanes} x {memory_type(dtype)}>"
        at = self.shift(place, str(first))
        if count is None:
            found = w.let("bytes", f"load {narrow}, ptr {at}, align 1")
        else:
            mask = self._before(count, range(first, first + self.lanes))
            found = w.call(
                "bytes", narrow, f"llvm.masked.load.v{self.lanes}i8.p0", f"ptr {at}", "i32 1",
                f"<{self.lanes} x i1> {mask}", f"{narrow} zeroinitializer",
            )  # fmt: skip
        return w.let("code", f"{word} {narrow} {found} to {self.whole}")

    def _masked(self, value: str, left: str, part: int) -> str:
        """Zeros in place of numbers of a vector beyond those that are there."""
        order = list(range(CHUNK))
        if self.coding.bits == 4:
            order = [*order[::2], *order[1::2]]
        places = order[part * self.lanes : (part + 1) * self.lanes]
        mask = f"<{self.lanes} x i1> {self._before(left, places)}"
        picked = f"select {mask}, {self.vector} {value}, {self.vector} zeroinitializer"
        return self.w.let("there", picked)

    def _before(self, count: str, places: range | list[int]) -> str:
        """Which places are less than a count."""
        every = self.w.splat("count", "i64", count, self.lanes)
        numbers = ", ".join(f"i64 {n}" for n in places)
        return self.w.let("before", f"icmp slt <{self.lanes} x i64> <{numbers}>, {every}")

    def _folded(self, value: str) -> str:
        """The sum of the lanes, by halves."""
        w, lanes = self.w, self.lanes
        while lanes > 1:
            kind, half = f"<{lanes} x float>", f"<{lanes // 2} x float>"
            parts = []
            for start in (0, lanes // 2):
                order = order_text(range(start, start + lanes // 2))
                picked = f"shufflevector {kind} {value}, {kind} poison, <{lanes // 2} x i32>"
                parts.append(w.let("half", f"{picked} <{order}>"))
            value = w.let("sum", f"fadd {half} {parts[0]}, {parts[1]}")
            lanes //= 2
        return w.let("total", f"extractelement <1 x float> {value}, i64 0")
