"""Nests over rows of a few elements with a row in each lane, as LLVM IR.

A vector along such a row is half empty, and its lanes have to be folded for every reduction. With
a row in each lane a walk along the inner axis takes one element of each at a time: by vectors of
neighbours where rows follow each other, by gathers and scatters elsewhere. Elements that are
reduced wait on the stack and are folded in the order that is the same for all renderers.

A stage iterates over some vectors of rows before the next one, so that what takes long for one
vector, such as a chain of operations on its results, overlaps with others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ...kernel.code import SIZES
from ...kernel.nest import Nest, Reduce, Row, accumulators, in_blocks
from . import every_nth
from .prepared import FIXED, UNIFORM, VARYING, Prepared
from .reductions import Combiner
from .rows import NestRenderer
from .targets import Target
from .text import Values, memory_type, scalar_type, suffix, vector_type

Operands = list[str | None]


LONGEST = 10
"""Elements of a row: along longer ones vectors are full enough."""
MOST_BYTES = 64
"""Of rows that follow each other, which are read by vectors of neighbours instead of gathers."""
VECTORS = 4
"""How many vectors of rows a stage processes at a time."""


def goes_across(nest: Nest, target: Target) -> bool:
    """Whether lanes across rows serve a nest: processors gather no elements of 1 or 2 bytes."""
    plain = nest.outer == 1 and nest.lanes == "inner" and not nest.scattered and not in_blocks(nest)
    reduces = any(isinstance(stage, Reduce) for stage in nest.stages)
    fit = all(
        operand.row_base is None and (operand.lane == "zero" or SIZES[operand.dtype] >= 4)
        for operand in nest.operands
    )
    return target.gathers and 0 < nest.row_length <= LONGEST and plain and fit and reduces


class StackedVectors(NamedTuple):
    """Vectors on the stack."""

    pointer: str
    dtype: str


@dataclass
class _LanePlace:
    """Where lanes are: the environment of code at one element of some rows.

    Attributes:
        element: its inner index; None: where nothing varies along the rows.
    """

    owner: AcrossNest
    element: str | None = None

    def load(self, operand: int, dtype: str) -> str:
        return self.owner.loaded(operand, self.element or "0")

    def gather(self, operand: int, dtype: str, offset: str) -> str:
        r = self.owner
        kind = r.vector.type("int64")
        offset = r.writer.let("offset", f"add {kind} {offset}, {r.apart[operand]}")
        return r.gather_lanes(operand, r.row_pointers[operand], offset, r.vector, r.mask)

    def scalar(self, number: int, dtype: str) -> str:
        r = self.owner
        return r.writer.splat("scalar", scalar_type(dtype), r.scalars[number], r.lanes)

    def index(self, axis: int) -> str:
        r = self.owner
        if axis == 0:
            return r.numbers_from(r.first)
        return r.writer.splat("index", "i64", self.element or "0", r.lanes)

    def result(self, stage: int, number: int) -> str:
        return self.owner.waiting(self.owner.results[stage, number], self.owner.group)

    def row(self, stage: int, number: int) -> str:
        return self.owner.waiting(self.owner.kept[stage, number], self.owner.group)


class AcrossNest(NestRenderer):
    """Writes a kernel with a row in each lane."""

    scalar_rows = False
    gathers_contiguously = False

    @property
    def divides_by_invariants(self) -> bool:
        """What is fixed serves all elements of some rows."""
        return True

    def level(self, name: str, value: object) -> int:
        if name == "load" and isinstance(value, int):
            operand = self.nest.operands[value]
            return FIXED if operand.lane == "zero" and not operand.output else VARYING
        return VARYING if (name, value) == ("index", -1) else FIXED

    def lane_stride(self, k: int) -> str:
        return self.strides[k][0]

    def render(self) -> str:
        """The module."""
        self.load_arguments()
        w = self.writer
        self.iota = "<" + ", ".join(f"i64 {n}" for n in range(self.lanes)) + ">"
        self.apart = [self._apart(k) for k in range(len(self.nest.operands))]
        self.mask, self.full = "", "false"
        for number in range(len(self.stages)):
            self._emit(number, UNIFORM, _LanePlace(self), self.values[number])
        self._reserve()
        w.loop("block", "%begin", "%end", str(VECTORS * self.lanes), [], self._block)
        w.do("ret void")
        return w.module()

    def _apart(self, k: int) -> str:
        """How far from the first row those of the lanes begin."""
        every = self.writer.splat("stride", "i64", self.lane_stride(k), self.lanes)
        kind = vector_type("i64", self.lanes)
        return self.writer.let("apart", f"mul {kind} {every}, {self.iota}")

    def _reserve(self) -> None:
        """Makes room for what is needed again, is reduced, or is known of rows."""
        nest, short = self.nest, self.nest.row_length
        self._held: dict[int, StackedVectors] = {}
        for k, operand in enumerate(nest.operands):
            if len(self._stages_with(k)) > 1 and (operand.output or operand.lane != "zero"):
                self._held[k] = self._array(operand.dtype, VECTORS * short)
        self._reduced: list[list[StackedVectors]] = []
        self.results: dict[tuple[int, int], StackedVectors] = {}
        self.kept: dict[tuple[int, int], StackedVectors] = {}
        for number, stage in enumerate(self.stages):
            self._reduced.append([self._array(dtype, short) for _, dtype, _ in stage.reduced])
            for j, (combine, dtype, _) in enumerate(stage.reduced):
                made = "int64" if Combiner(combine, dtype).indexed else dtype
                self.results[number, j] = self._array(made, VECTORS)
            for j, at in enumerate(self._values(stage)):
                self.kept[number, j] = self._array(stage.code[at].dtype, VECTORS)

    def _stages_with(self, k: int) -> list[int]:
        """The stages that load or store operand `k`."""
        loads = ("load", k)
        return [
            number
            for number, stage in enumerate(self.nest.stages)
            if loads in [(at.name, at.value) for at in stage.code] or k in dict(stage.stores)
        ]

    def _values(self, stage: Prepared) -> tuple[int, ...]:
        """The positions of what a stage computes once a row for others."""
        return stage.roots[len(stage.stage.stores) :] if isinstance(stage.stage, Row) else ()

    def _array(self, dtype: str, vectors: int) -> StackedVectors:
        room = f"alloca [{vectors * self.lanes} x {memory_type(dtype)}], align 64"
        return StackedVectors(self.writer.let("room", room), dtype)

    # -- places ------------------------------------------------------------------------------

    def _slot(self, array: StackedVectors, element: str) -> str:
        vector = vector_type(memory_type(array.dtype), self.lanes)
        return self.writer.let(
            "slot", f"getelementptr {vector}, ptr {array.pointer}, i64 {element}"
        )

    def waiting(self, array: StackedVectors, number: str) -> str:
        """A vector of an array."""
        vector = vector_type(memory_type(array.dtype), self.lanes)
        place = f"ptr {self._slot(array, number)}, align {SIZES[array.dtype]}"
        return self.vector.as_value(
            array.dtype, self.writer.let("waiting", f"load {vector}, {place}")
        )

    def _keep(self, array: StackedVectors, number: str, value: str) -> None:
        vector = vector_type(memory_type(array.dtype), self.lanes)
        value = self.vector.as_memory(array.dtype, value)
        place = f"ptr {self._slot(array, number)}, align {SIZES[array.dtype]}"
        self.writer.do(f"store {vector} {value}, {place}")

    def _places(self, k: int, element: str) -> str:
        """Pointers to an element of operand `k` in the rows."""
        kind = memory_type(self.nest.operands[k].dtype)
        offsets = f"{vector_type('i64', self.lanes)} {self.apart[k]}"
        place = self._first_place(k, element)
        return self.writer.let("places", f"getelementptr {kind}, ptr {place}, {offsets}")

    def _first_place(self, k: int, element: str) -> str:
        """A pointer to an element of operand `k` in the first row."""
        w, kind = self.writer, memory_type(self.nest.operands[k].dtype)
        step, pointer = self.inner_strides[k], self.row_pointers[k]
        if element == "0" or step == "0":
            return pointer
        move = element if step == "1" else w.let("step", f"mul i64 {element}, {step}")
        return w.let("place", f"getelementptr {kind}, ptr {pointer}, i64 {move}")

    def loaded(self, k: int, element: str) -> str:
        """An element of operand `k` in the rows."""
        held, first = self._held.get(k), self._stages_with(k)[0]
        if held is not None and self.number > first:
            return self.waiting(held, self._number(element))
        value = self._read(k, element)
        if held is not None:
            self._keep(held, self._number(element), value)
        return value

    def _read(self, k: int, element: str) -> str:
        """An element of the rows from memory."""
        dtype, apart = self.nest.operands[k].dtype, self._dense_rows(k)
        if not apart:
            return self.vector.gather(dtype, self._places(k, element), self.mask)
        kind = self.vector.type(dtype)

        def near() -> Values:
            return [every_nth.load(self.vector, dtype, apart, self._first_place(k, element), None)]

        def far() -> Values:
            return [self.vector.gather(dtype, self._places(k, element), self.mask)]

        dense, other = self._dense(k, apart)
        found = self.writer.when(dense, [(kind, "zeroinitializer")], near)
        return self.writer.when(other, [(kind, found[0])], far)[0]

    def _dense_rows(self, k: int) -> int:
        """How far rows that follow each other without a gap begin from each other; 0: too far."""
        step = self.inner_strides[k]
        apart = self.nest.row_length if step == "1" else 1 if step == "0" else 0
        return apart if apart * SIZES[self.nest.operands[k].dtype] <= MOST_BYTES else 0

    def _dense(self, k: int, apart: int) -> tuple[str, str]:
        """Whether rows begin so far from each other and there is one for each lane; whether not."""
        w = self.writer
        rows = w.let("rows", f"icmp eq i64 {self.strides[k][0]}, {apart}")
        dense = w.let("dense", f"and i1 {rows}, {self.full}")
        return dense, w.let("other", f"xor i1 {dense}, true")

    def _number(self, element: str) -> str:
        """Where an element of these rows waits among those of all vectors."""
        before = self.writer.let("before", f"mul i64 {self.group}, {self.nest.row_length}")
        return self.writer.let("number", f"add i64 {before}, {element}")

    def _store(self, k: int, element: str, value: str) -> None:
        dtype = self.nest.operands[k].dtype
        if k in self._held:
            self._keep(self._held[k], self._number(element), value)
        if any(k in dict(stage.stores) for stage in self.nest.stages[self.number + 1 :]):
            return
        stored = self.vector.as_memory(dtype, value)
        apart = self._dense_rows(k)
        if not apart:
            self._scatter(k, element, stored)
            return

        def near() -> Values:
            place = self._first_place(k, element)
            every_nth.store(self.vector, dtype, apart, place, stored, None)
            return []

        def far() -> Values:
            self._scatter(k, element, stored)
            return []

        dense, other = self._dense(k, apart)
        self.writer.when(dense, [], near)
        self.writer.when(other, [], far)

    def _scatter(self, k: int, element: str, stored: str) -> None:
        dtype, lanes = self.nest.operands[k].dtype, self.lanes
        kind = memory_type(dtype)
        self.writer.call_nothing(
            f"llvm.masked.scatter.{suffix(kind, lanes)}.v{lanes}p0",
            f"{vector_type(kind, lanes)} {stored}", f"<{lanes} x ptr> {self._places(k, element)}",
            f"i32 {SIZES[dtype]}", f"<{lanes} x i1> {self.mask}",
        )  # fmt: skip

    # -- stages ------------------------------------------------------------------------------

    def _block(self, first: str, _: Values) -> Values:
        """Writes all stages for some vectors of rows."""
        w = self.writer
        end = w.let("last", f"add i64 {first}, {VECTORS * self.lanes}")
        last = self.smaller(end, "%end")
        for number, stage in enumerate(self.stages):
            w.comment(f"stage {number}: {type(stage.stage).__name__}")
            w.loop("rows", first, last, str(self.lanes), [], partial(self._rows, number, first))
        return []

    def _rows(self, number: int, block: str, first: str, _: Values) -> Values:
        """Writes a stage for one vector of rows."""
        w = self.writer
        self.number, self.first = number, first
        left = w.let("left", f"sub i64 %end, {first}")
        self.mask = self.mask_below(left)
        self.full = w.let("full", f"icmp sge i64 {left}, {self.lanes}")
        within = w.let("within", f"sub i64 {first}, {block}")
        self.group = w.let("group", f"udiv i64 {within}, {self.lanes}")
        self.row_pointers = self.offsets([first])
        for place in self.stages[number].places[FIXED]:
            self.values[number][place] = None
        self._emit(number, FIXED, _LanePlace(self), self.values[number])
        if isinstance(self.stages[number].stage, Row):
            self._once(number)
        else:
            w.loop("element", "0", str(self.nest.row_length), "1", [], partial(self._at, number))
            self._fold(number)
        return []

    def _emit(self, number: int, level: int, place: _LanePlace, values: Operands) -> Operands:
        stage = self.stages[number]
        return self.vector.render(stage.code, place, values, stage.places[level])

    def _once(self, number: int) -> None:
        stage = self.stages[number]
        values = self._emit(number, VARYING, _LanePlace(self), list(self.values[number]))
        for k, at in stage.stored:
            self._store(k, "0", values[at] or "")
        for j, at in enumerate(self._values(stage)):
            self._keep(self.kept[number, j], self.group, values[at] or "")

    def _at(self, number: int, element: str, _: Values) -> Values:
        """Writes a stage at one element of the rows."""
        stage = self.stages[number]
        values = self._emit(number, VARYING, _LanePlace(self, element), list(self.values[number]))
        for k, at in stage.stored:
            self._store(k, element, values[at] or "")
        for array, reduced in zip(self._reduced[number], stage.reduced, strict=True):
            self._keep(array, element, values[reduced[-1]] or "")
        return []

    def _fold(self, number: int) -> None:
        """Folds what was reduced: each element is a partial result of its own."""
        reduced = zip(self._reduced[number], self.stages[number].reduced, strict=True)
        for j, (array, (combine, dtype, _)) in enumerate(reduced):
            combiner = Combiner(combine, dtype)
            parts = [self._part(combiner, array, n) for n in range(self.nest.row_length)]
            half = accumulators(dtype) // 2
            while len(parts) > 1:
                pairs = zip(parts, parts[half:], strict=False)
                merged = [combiner.merge(self.vector, a, b) for a, b in pairs]
                parts = merged + parts[len(merged) : half]
                half //= 2
            (whole,) = parts
            result = combiner.finish(self.vector, whole, str(self.nest.row_length))
            self._keep(self.results[number, j], self.group, result)

    def _part(self, combiner: Combiner, array: StackedVectors, element: int) -> Values:
        value = self.waiting(array, str(element))
        if not combiner.indexed:
            return [value]
        index = self.writer.splat("index", "i64", str(element), self.lanes)
        return combiner.add(self.vector, combiner.start(self.lanes), value, index)
