"""Numbers and vectors in the kernels of attention: arguments, formulas, rows, masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingle.fusion.device.kernels import SIZES, CodeBuilder, Expression
from ingle.fusion.device.llvm import (
    CodeRenderer,
    Values,
    Writer,
    memory_type,
    scalar_type,
    vector_type,
)
from ingle.fusion.device.targets import Target

from ..matmul.driver_images import DriverCode
from ..matmul.machine import target
from ..matmul.named_args import loaded_args
from ..matmul.tile import compute_dtype
from .abi import MaskKind
from .blocks import tiling

INFINITE = "0x7FF0000000000000"
MINUS_INFINITE = "0xFFF0000000000000"
UNSEEN = {
    "bool": 0, "float16": 0xFC00, "bfloat16": 0xFF80, "float32": 0xFF80_0000,
    "float64": 0xFFF0_0000_0000_0000,
}  # fmt: skip
"""Of a mask's elements: the bits that hide a key."""


class _Operands:
    """An environment whose leaves are values at hand."""

    def __init__(self, values: tuple[str, ...]) -> None:
        self.values = values

    def load(self, operand: int, dtype: str) -> str:
        return self.values[operand]

    def _none(self, *_: object) -> str:
        raise ValueError("a formula has no leaf but its operands")

    gather = scalar = index = result = row = _none


class VectorCode(DriverCode):
    """A kernel of attention in the making.

    Args:
        name: of the kernel.
        dtype: of queries, keys, values and results in memory.
        mask: of which kind the mask is.
    """

    def __init__(self, name: str, dtype: str, mask: MaskKind) -> None:
        super().__init__(Writer(name))
        self.stored = dtype
        self.mask_kind: MaskKind = mask
        self.dtype = compute_dtype(dtype)
        self.machine: Target = target()
        self.tiling = tiling(self.dtype)
        self.rows, self.width, self.lanes = self.tiling.rows, self.tiling.width, self.tiling.lanes
        self.size = SIZES[self.dtype]
        self.scalar = scalar_type(self.dtype)
        self.vector = vector_type(self.scalar, self.lanes)

    # -- arguments ---------------------------------------------------------------------------

    def load_args(self, kind: type[Any], addresses: tuple[str, ...]) -> Any:
        """The arguments by name; those that are addresses as pointers."""
        loaded = loaded_args(self.w, kind)
        codes = {
            name: self.w.let(name, f"inttoptr i64 {getattr(loaded, name)} to ptr")
            for name in addresses
        }
        return loaded._replace(**codes)

    def pointer(self, number: int) -> str:
        place = self.w.let("slot", f"getelementptr ptr, ptr %pointers, i64 {number}")
        return self.w.let("base", f"load ptr, ptr {place}, align 8")

    def number(self, bits: str) -> str:
        """A number of the kernel's dtype that an argument's bits are, in every lane."""
        w = self.w
        if self.size < 8:
            bits = w.let("bits", f"trunc i64 {bits} to i{8 * self.size}")
        value = w.let("number", f"bitcast i{8 * self.size} {bits} to {self.scalar}")
        return self.splat(value)

    def walk(self, head: str, pointer: str, strides: tuple[str, ...], sizes: Values) -> str:
        """A pointer moved to a head, whose number counts through axes; `sizes` of the last ones."""
        rest = head
        for stride, size in zip(reversed(strides), reversed([None, *sizes]), strict=True):
            index = rest if size is None else self.op("urem", rest, size)
            pointer = self.shift(pointer, self.times(index, stride))
            if size is not None:
                rest = self.op("udiv", rest, size)
        return pointer

    # -- numbers and vectors -----------------------------------------------------------------

    @property
    def minus_infinite(self) -> str:
        """In every lane."""
        return MINUS_INFINITE if self.lanes == 1 else f"splat ({self.scalar} {MINUS_INFINITE})"

    def splat(self, value: str) -> str:
        return self.w.splat("every", self.scalar, value, self.lanes)

    def numbers(self, count: str) -> str:
        """Bytes of so many numbers."""
        return self.times(count, str(self.size))

    def stored_bytes(self, count: str) -> str:
        """Bytes of so many numbers of a result."""
        return self.times(count, str(SIZES[self.stored]))

    def rounded_up(self, count: str, step: int) -> str:
        return self.times(self.op("udiv", self.plus(count, str(step - 1)), str(step)), str(step))

    def load(self, place: str) -> str:
        return self.w.let("x", f"load {self.vector}, ptr {place}, align {self.size}")

    def store(self, value: str, place: str) -> None:
        self.w.do(f"store {self.vector} {value}, ptr {place}, align {self.size}")

    def load_number(self, place: str) -> str:
        return self.w.let("x", f"load {self.scalar}, ptr {place}, align {self.size}")

    def store_number(self, value: str, place: str) -> None:
        self.w.do(f"store {self.scalar} {value}, ptr {place}, align {self.size}")

    def formula(
        self, make: Callable[..., Expression], *values: tuple[str, str], lanes: int = 0
    ) -> str:
        """A formula of (dtype, value) pairs."""
        builder = CodeBuilder()
        operands = [
            Expression(builder, builder.load(n, dtype)) for n, (dtype, _) in enumerate(values)
        ]
        root = make(*operands).at
        renderer = CodeRenderer(self.w, self.machine, lanes or self.lanes)
        code, (place,) = renderer.expand(tuple(builder.instructions), (root,))
        found = renderer.render(code, _Operands(tuple([v for _, v in values])))[place]
        assert found is not None
        return found

    def arithmetic(self, word: str, a: str, b: str) -> str:
        return self.w.let(word, f"{word} {self.vector} {a}, {b}")

    def larger(self, a: str, b: str) -> str:
        """The larger of two; the second one where one is NaN."""
        more = self.w.let("more", f"fcmp ogt {self.vector} {a}, {b}")
        return self.pick(more, a, b)

    def pick(self, condition: str, a: str, b: str) -> str:
        mask = vector_type("i1", self.lanes)
        return self.w.let(
            "either", f"select {mask} {condition}, {self.vector} {a}, {self.vector} {b}"
        )

    def finite_or_zero(self, value: str) -> str:
        """A number, 0 in place of infinite ones and NaN."""
        size = self.w.call("size", self.scalar, f"llvm.fabs.f{8 * self.size}",
                           f"{self.scalar} {value}")  # fmt: skip
        finite = self.w.let("finite", f"fcmp olt {self.scalar} {size}, {INFINITE}")
        return self.choose(finite, value, "0.0", self.scalar)

    def largest_lane(self, value: str) -> str:
        return self._folded(value, "llvm.vector.reduce.fmax")

    def sum_of_lanes(self, value: str) -> str:
        """In halves, so that the order is that of other folds."""
        w, lanes = self.w, self.lanes
        while lanes > 1:
            half = lanes // 2
            kind = vector_type(self.scalar, lanes)
            parts = []
            for start in (0, half):
                places = ", ".join(f"i32 {start + n}" for n in range(half))
                lane_numbers = f"<{half} x i32> <{places}>"
                parts.append(
                    w.let("half", f"shufflevector {kind} {value}, {kind} poison, {lane_numbers}")
                )
            lanes = half
            if lanes == 1:
                parts = [
                    w.let("lane", f"extractelement <1 x {self.scalar}> {p}, i64 0") for p in parts
                ]
            value = w.let("sum", f"fadd {vector_type(self.scalar, lanes)} {parts[0]}, {parts[1]}")
        return value

    def _folded(self, value: str, name: str) -> str:
        kind = f"v{self.lanes}f{8 * self.size}"
        return self.w.call("fold", self.scalar, f"{name}.{kind}", f"{self.vector} {value}")

    def first_lanes(self, count: str) -> str:
        """A mask of the lanes before a count."""
        w = self.w
        every = w.splat("few", "i32", w.let("few", f"trunc i64 {count} to i32"), self.lanes)
        numbers = ", ".join(f"i32 {n}" for n in range(self.lanes))
        return w.let("inside", f"icmp slt <{self.lanes} x i32> <{numbers}>, {every}")

    def sweep(
        self, start: str, stop: str, carried: list[tuple[str, str]],
        body: Callable[[str, bool, Values], Values], unroll: int = 4,
    ) -> Values:  # fmt: skip
        """Vectors from a number to another, several a turn; the last in part, if any are left.

        Args:
            body: of the first number, whether only some lanes are inside, and what is carried.
        """
        w = self.w
        kinds = [kind for kind, _ in carried]
        length = self.minus(stop, start)
        left = w.let("any", f"icmp sgt i64 {length}, 0")
        length = self.choose(left, length, "0")
        values = [value for _, value in carried]
        at = start
        for count in (unroll, 1):
            step = count * self.lanes
            end = self.plus(start, self.times(self.op("udiv", length, str(step)), str(step)))

            def turn(c: str, given: Values, count: int = count) -> Values:
                for n in range(count):
                    place = self.plus(c, str(n * self.lanes)) if n else c
                    given = body(place, False, given)
                return given

            values = w.loop(
                "sweep", at, end, str(step), list(zip(kinds, values, strict=True)), turn
            )
            at = end
        rest = w.let("rest", f"icmp slt i64 {at}, {stop}")
        return w.when(rest, list(zip(kinds, values, strict=True)), lambda: body(at, True, values))

    # -- masks -------------------------------------------------------------------------------

    def masked(self, scores: str, mask: str, column: str, step: str, last: str, tail: bool) -> str:
        """Scores, of which a mask leaves some, or to which it adds.

        Args:
            mask: the place of the row.
            column, last: the first column, and the last one that there is.
            step: bytes between columns.
        """
        if self.mask_kind == "none":
            return scores
        dtype = "bool" if self.mask_kind == "bool" else self.stored
        w, kind = self.w, memory_type(dtype)
        vector = vector_type(kind, self.lanes)

        def apart() -> Values:
            found = "poison"
            for lane in range(self.lanes):
                number = self.least(self.plus(column, str(lane)), last)
                place = self.shift(mask, self.times(number, step))
                one = w.let("m", f"load {kind}, ptr {place}, align {SIZES[dtype]}")
                found = w.let("m", f"insertelement {vector} {found}, {kind} {one}, i64 {lane}")
            return [found]

        if tail:
            (given,) = apart()
        else:
            size = SIZES[dtype]
            dense = w.let("dense", f"icmp eq i64 {step}, {size}")
            near, far, done = w.label("dense"), w.label("apart"), w.label("loaded")
            w.do(f"br i1 {dense}, label %{near}, label %{far}")
            w.start(near)
            place = self.shift(mask, self.times(column, str(size)))
            together = w.let("m", f"load {vector}, ptr {place}, align {size}")
            w.do(f"br label %{done}")
            w.start(far)
            (each,) = apart()
            from_far = w.block
            w.do(f"br label %{done}")
            w.start(done)
            given = w.let("m", f"phi {vector} [ {together}, %{near} ], [ {each}, %{from_far} ]")
        if self.mask_kind == "bool":
            seen = w.let("seen", f"icmp ne {vector} {given}, zeroinitializer")
            return self.pick(seen, scores, self.minus_infinite)
        return self.formula(
            lambda x, m: x + m.cast(self.dtype), (self.dtype, scores), (dtype, given)
        )

    def seen_columns(
        self, mask: str, row_step: str, column_step: str, rows: str, wide: str
    ) -> tuple[str, str]:
        """From where to where a mask leaves something of a block, give or take a part of a vector;
        the end is not behind the start where it leaves nothing.

        Args:
            mask: the place of the block.
            row_step, column_step: bytes; only rows without gaps, of a vector at least, are looked
                at.
            rows, wide: of the block.
        """
        if self.mask_kind == "none":
            return "0", wide
        w, lanes = self.w, self.lanes
        dtype = "bool" if self.mask_kind == "bool" else self.stored
        size = SIZES[dtype]
        kind, none = f"<{lanes} x i{8 * size}>", UNSEEN[dtype]
        dense = self.equal(column_step, str(size))
        once = self.equal(row_step, "0")
        rows = self.choose(once, self.least(rows, "1"), rows)
        looked = w.let("long", f"icmp sge i64 {wide}, {lanes}")
        looked = w.let("looked", f"and i1 {dense}, {looked}")
        last = self.minus(wide, str(lanes))

        def column(c: str, carried: Values) -> Values:
            c = self.least(c, last)
            top = self.shift(mask, self.times(c, str(size)))

            def row(r: str, carried: Values) -> Values:
                at = self.shift(top, self.times(r, row_step))
                given = w.let("m", f"load {kind}, ptr {at}, align {size}")
                seen = w.let("seen", f"icmp ne {kind} {given}, splat (i{8 * size} {none})")
                return [w.let("seen", f"or <{lanes} x i1> {carried[0]}, {seen}")]

            nothing = [(f"<{lanes} x i1>", "zeroinitializer")]
            (seen,) = w.loop("row", "0", rows, "1", nothing, row)
            some = w.call(
                "some", "i1", f"llvm.vector.reduce.or.v{lanes}i1", f"<{lanes} x i1> {seen}"
            )
            return [
                self.choose(some, self.least(carried[0], c), carried[0]),
                self.choose(some, self.plus(c, str(lanes)), carried[1]),
            ]

        first, end = (self.choose(looked, *of) for of in ((wide, "0"), ("0", wide)))
        stop = self.choose(looked, wide, "0")
        found = w.loop("seen", "0", stop, str(lanes), [("i64", first), ("i64", end)], column)
        return found[0], found[1]

    def written(self, source: str, to: str, count: str, factor: str | None) -> None:
        """Numbers as they are stored, times a factor in every lane."""
        w, kind = self.w, memory_type(self.stored)
        vector = vector_type(kind, self.lanes)
        size = SIZES[self.stored]

        def some(c: str, tail: bool, _: Values) -> Values:
            value = self.load(self.shift(source, self.numbers(c)))
            if factor is not None:
                value = self.arithmetic("fmul", value, factor)
            if self.stored != self.dtype:
                value = self.formula(lambda x: x.cast(self.stored), (self.dtype, value))
            place = self.shift(to, self.times(c, str(size)))
            if not tail:
                w.do(f"store {vector} {value}, ptr {place}, align {size}")
                return []
            left = self.minus(count, c)
            for lane in range(self.lanes - 1):

                def one(lane: int = lane) -> Values:
                    number = w.let("x", f"extractelement {vector} {value}, i64 {lane}")
                    w.do(f"store {kind} {number}, ptr "
                         f"{self.shift(place, str(lane * size))}, align {size}")  # fmt: skip
                    return []

                w.when(w.let("inside", f"icmp sgt i64 {left}, {lane}"), [], one)
            return []

        self.sweep("0", count, [], some, unroll=2)
