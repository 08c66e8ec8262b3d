"""Nests whose lanes run along the last outer axis while the inner axis is walked, as LLVM IR.

A unit of work is some columns. They are gone through a block of rows at a time, and within it a few
vectors of columns at a time down the rows of the block, so that memory is read in long runs of each
row. What belongs to a column meanwhile (partial results, totals, values of `Row` stages) waits in
arrays on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ...kernel.code import SIZES, Code
from ...kernel.nest import BLOCK, COLUMNS, NARROW, WIDE, Nest, Row
from .alike_columns import AlikePlace, column_levels, shared_of
from .contiguous_gather import CONTIGUOUS_GATHER
from .prepared import FIXED, UNIFORM, VARYING
from .reductions import Combiner, total_of, two_sum
from .rows import NestRenderer
from .targets import Target
from .text import Values, memory_type, scalar_type, value_type

Operands = list[str | None]


class StackedColumns(NamedTuple):
    """An array with a value for each column of a unit.

    Attributes:
        pointer: where it lies.
        dtype: of its elements.
        start: the LLVM constant that it begins with.
    """

    pointer: str
    dtype: str
    start: str = ""


@dataclass
class OuterPlace:
    """Where lanes are: the environment of code over some columns.

    Attributes:
        walk: the inner index; None: where nothing varies along it.
        vector: which of the vectors of columns that are taken together.
    """

    owner: OuterNest
    walk: str | None
    vector: int

    def load(self, operand: int, dtype: str) -> str:
        r = self.owner
        pointer = r.column_pointer(operand) if self.walk is None else r.walked(operand, self.walk)
        return r.load_lanes(operand, pointer, r.mask, self.vector)

    def gather(self, operand: int, dtype: str, offset: str) -> str:
        r = self.owner
        return r.gather_lanes(operand, r.base_pointers[operand], offset, r.vector, r.mask)

    def contiguous_gather(self, operand: int, dtype: str, offset: str) -> str:
        r, w = self.owner, self.owner.writer
        kind = memory_type(r.nest.operands[operand].dtype)
        one = w.let("offset", f"extractelement <{r.lanes} x i64> {offset}, i64 0")
        place = w.let("place", f"getelementptr {kind}, ptr {r.base_pointers[operand]}, i64 {one}")
        place = w.let("place", f"getelementptr {kind}, ptr {place}, i64 {r.column}")
        return r.load_run(operand, place, r.mask, self.vector)

    def scalar(self, number: int, dtype: str) -> str:
        r = self.owner
        return r.writer.splat("scalar", scalar_type(dtype), r.scalars[number], r.lanes)

    def index(self, axis: int) -> str:
        r = self.owner
        if axis == r.nest.outer - 1:
            return r.numbers_from(r.column_of(self.vector))
        value = self.walk if axis == -1 else r.indices[axis]
        return r.writer.splat("index", "i64", value or "0", r.lanes)

    def result(self, stage: int, number: int) -> str:
        return self.owner.waiting(self.owner.results[stage, number], self.vector)

    def row(self, stage: int, number: int) -> str:
        return self.owner.waiting(self.owner.kept[stage, number], self.vector)


class OuterNest(NestRenderer):
    """Writes a kernel with lanes along the last outer axis."""

    scalar_rows = False

    def __init__(self, nest: Nest, name: str, target: Target) -> None:
        self.lane_axis = nest.outer - 1
        super().__init__(nest, name, target)
        self._shared = [shared_of(stage) for stage in self.stages]

    def lane_levels(self, code: Code, levels: Sequence[int]) -> Sequence[int]:
        return column_levels(code, self.nest)

    def level(self, name: str, value: object) -> int:
        return VARYING if name in _READ or (name, value) == ("index", -1) else FIXED

    def lane_stride(self, k: int) -> str:
        return self.strides[k][-1]

    def render(self) -> str:
        """The module."""
        self.load_arguments()
        self.constants_of_lanes()
        w = self.writer
        self.columns = self.sizes[-1]
        many = w.let("many", f"icmp sge i64 {self.columns}, {WIDE}")
        self.width = w.let("width", f"select i1 {many}, i64 {COLUMNS}, i64 {NARROW}")
        more = w.let("more", f"add i64 {self.columns}, {self.width}")
        above = w.let("more", f"sub i64 {more}, 1")
        blocks = w.let("blocks", f"sdiv i64 {above}, {self.width}")
        self.mask: str | None = None
        self.indices: Values = []
        self._reserve()
        for number in range(len(self.stages)):
            self._emit(number, UNIFORM, OuterPlace(self, None, 0), self.values[number])
        self.walk([*self.sizes[:-1], blocks], self._unit)
        w.do("ret void")
        return w.module()

    def _emit(self, number: int, level: int, place: OuterPlace, values: Operands) -> Operands:
        stage = self.stages[number]
        return self.vector.render(stage.code, place, values, stage.places[level])

    # -- what waits between vectors of columns -----------------------------------------------

    def _reserve(self) -> None:
        """Makes room for partial results, totals, results and values of rows."""
        self.partials: list[list[list[StackedColumns]]] = []
        self.results: dict[tuple[int, int], StackedColumns] = {}
        self.kept: dict[tuple[int, int], StackedColumns] = {}
        for number, stage in enumerate(self.stages):
            parts = []
            for j, (combine, dtype, _) in enumerate(stage.reduced):
                combiner = Combiner(combine, dtype)
                dtypes, starts = combiner.dtypes, combiner.start(self.lanes)
                if combiner.compensated:
                    dtypes, starts = [dtype, dtype], [*starts, "zeroinitializer"]
                pairs = zip(dtypes, starts, strict=True)
                parts.append([self._array(d, start) for d, start in pairs])
                self.results[number, j] = self._array("int64" if combiner.indexed else dtype)
            self.partials.append(parts)
            if isinstance(stage.stage, Row):
                for j, at in enumerate(stage.roots[len(stage.stage.stores) :]):
                    self.kept[number, j] = self._array(stage.code[at].dtype)

    def _array(self, dtype: str, start: str = "") -> StackedColumns:
        room = f"alloca [{COLUMNS} x {memory_type(dtype)}], align 64"
        return StackedColumns(self.writer.let("room", room), dtype, start)

    def _slot(self, array: StackedColumns, vector: int) -> str:
        w, kind = self.writer, memory_type(array.dtype)
        number = w.let("number", f"add i64 {self.offset_in_unit}, {vector * self.lanes}")
        return w.let("slot", f"getelementptr {kind}, ptr {array.pointer}, i64 {number}")

    def waiting(self, array: StackedColumns, vector: int) -> str:
        """The values of a vector of columns in an array."""
        w, kind = self.writer, value_type(array.dtype, self.lanes)
        if array.dtype == "bool":
            kind = f"<{self.lanes} x i8>"
        place = f"ptr {self._slot(array, vector)}, align {SIZES[array.dtype]}"
        return self.vector.as_value(array.dtype, w.let("waiting", f"load {kind}, {place}"))

    def keep(self, array: StackedColumns, vector: int, value: str) -> None:
        """Puts the values of a vector of columns into an array."""
        kind = value_type(array.dtype, self.lanes)
        if array.dtype == "bool":
            kind = f"<{self.lanes} x i8>"
        value = self.vector.as_memory(array.dtype, value)
        place = f"ptr {self._slot(array, vector)}, align {SIZES[array.dtype]}"
        self.writer.do(f"store {kind} {value}, {place}")

    # -- columns -----------------------------------------------------------------------------

    def _unit(self, unit: str, indices: Values) -> None:
        w = self.writer
        self.indices = indices[:-1]
        self.base_pointers = self.offsets(self.indices)
        self.length = self.row_length(self.indices[0] if self.indices else "0")
        self.first = w.let("column", f"mul i64 {indices[-1]}, {self.width}")
        end = w.let("last", f"add i64 {self.first}, {self.width}")
        self.last = self.smaller(end, self.columns)
        self._stages()

    def _stages(self) -> None:
        """Writes all stages for the columns of a unit."""
        w = self.writer
        for number, stage in enumerate(self.stages):
            w.comment(f"stage {number}: {type(stage.stage).__name__}")
            if isinstance(stage.stage, Row):
                self._across(1, partial(self._once, number))
            elif stage.reduced:
                self._reduce(number)
            else:
                self._in_blocks(number, partial(self._down, number))

    def _across(self, vectors: int, body: Callable[[int], object]) -> None:
        """Runs the body, which takes some vectors of columns, over all columns of the unit."""
        w, width = self.writer, vectors * self.lanes
        whole = w.let("whole", f"sub i64 {self.last}, {self.first}")
        rounded = w.let("whole", f"and i64 {whole}, {-width}")
        full = w.let("full", f"add i64 {self.first}, {rounded}")

        def some(column: str, _: Values) -> Values:
            self._begin(column, None)
            body(vectors)
            return []

        def rest(column: str, _: Values) -> Values:
            self._begin(column, self.mask_below(w.let("left", f"sub i64 {self.last}, {column}")))
            body(1)
            return []

        w.loop("columns", self.first, full, str(width), [], some)
        w.loop("tail", full, self.last, str(self.lanes), [], rest)

    def _begin(self, column: str, mask: str | None) -> None:
        self.column, self.mask = column, mask
        self.offset_in_unit = self.writer.let("within", f"sub i64 {column}, {self.first}")
        self._pointers: dict[tuple[int, str | None], str] = {}

    def column_of(self, vector: int) -> str:
        """The column of lane 0 of a vector."""
        if not vector:
            return self.column
        return self.writer.let("column", f"add i64 {self.column}, {vector * self.lanes}")

    def column_pointer(self, k: int) -> str:
        """Where operand `k` begins at these columns."""
        found = self._pointers.get((k, None))
        if found is not None:
            return found
        w, lane = self.writer, self.nest.operands[k].lane
        found, column = self.base_pointers[k], self.column
        if lane == "strided":
            column = w.let("step", f"mul i64 {column}, {self.lane_stride(k)}")
        if lane != "zero":
            kind = memory_type(self.nest.operands[k].dtype)
            found = w.let("column", f"getelementptr {kind}, ptr {found}, i64 {column}")
        self._pointers[k, None] = found
        return found

    def walked(self, k: int, walk: str) -> str:
        """Where operand `k` begins at these columns, at an inner index."""
        found = self._pointers.get((k, walk))
        if found is None:
            w, kind = self.writer, memory_type(self.nest.operands[k].dtype)
            start = self._pointers[k, None]
            step = w.let("step", f"mul i64 {walk}, {self.inner_strides[k]}")
            found = w.let("place", f"getelementptr {kind}, ptr {start}, i64 {step}")
            self._pointers[k, walk] = found
        return found

    # -- stages ------------------------------------------------------------------------------

    def _once(self, number: int, vectors: int) -> None:
        """A Row stage at some vectors of columns."""
        stage = self.stages[number]
        for n in range(vectors):
            place = OuterPlace(self, None, n)
            values = self._emit(number, FIXED, place, list(self.values[number]))
            values = self._emit(number, VARYING, place, values)
            for k, at in stage.stored:
                self.store_lanes(k, self.column_pointer(k), values[at] or "", self.mask, n)
            for j, at in enumerate(stage.roots[len(stage.stage.stores) :]):
                self.keep(self.kept[number, j], n, values[at] or "")

    def _in_blocks(self, number: int, body: Callable[[int, str, str], object]) -> None:
        """Runs the body for blocks of rows, and in each over all columns of the unit.

        The body takes a number of vectors, the block's first row and the one after its last.
        """
        w, vectors = self.writer, 4 if self._shared[number].cost <= LIGHT else 1

        def block(start: str, _: Values) -> Values:
            stop = self.smaller(w.let("stop", f"add i64 {start}, {BLOCK}"), self.length)
            self._across(vectors, lambda n: body(n, start, stop))
            return []

        w.loop("block", "0", self.length, str(BLOCK), [], block)

    def _at(self, number: int, walk: str, fixed: list[Operands]) -> list[list[str]]:
        """Writes a stage at one row; returns all operands of each vector."""
        stage = self.stages[number]
        copies = [list(values) for values in fixed]
        places = [OuterPlace(self, walk, n) for n in range(len(fixed))]
        shared = self._shared[number]
        ones = self.single.render(stage.code, AlikePlace(self, walk), None, shared.positions)
        for at in shared.offsets:
            offset = self.writer.splat("offset", "i64", ones[at] or "", self.lanes)
            for values in copies:
                values[at] = offset
        loads = [p for p in shared.own if stage.code[p].name == "load"]
        for chosen in (loads, shared.own):
            for place, values in zip(places, copies, strict=True):
                self.vector.render(stage.code, place, values, chosen)
        done = [[v or "" for v in values] for values in copies]
        for n, ready in enumerate(done):
            for k, at in stage.stored:
                self.store_lanes(k, self.walked(k, walk), ready[at], self.mask, n)
        return done

    def _fixed(self, number: int, vectors: int) -> list[Operands]:
        """The operands that stay the same down the rows; pointers to the columns are made."""
        for k in range(len(self.nest.operands)):
            self.column_pointer(k)
        return [
            self._emit(number, FIXED, OuterPlace(self, None, n), list(self.values[number]))
            for n in range(vectors)
        ]

    def _down(
        self,
        number: int,
        vectors: int,
        start: str,
        stop: str,
        carried: Sequence[tuple[str, str]] = (),
    ) -> Values:
        """Goes down some rows, carrying partial results of the stage's reductions."""
        stage = self.stages[number]
        combiners = [Combiner(combine, dtype) for combine, dtype, _ in stage.reduced]
        fixed = self._fixed(number, vectors)

        def body(i: str, flat: Values) -> Values:
            done = self._at(number, i, fixed)
            index = ""
            if any(c.indexed for c in combiners):
                index = self.writer.splat("index", "i64", i, self.lanes)
            old, news = iter(flat), []
            for values in done:
                for c, (_, _, at) in zip(combiners, stage.reduced, strict=True):
                    part = [next(old) for _ in c.dtypes]
                    news += c.add(self.vector, part, values[at], index)
            return news

        return self.writer.loop("down", start, stop, "1", carried, body)

    def _reduce(self, number: int) -> None:
        self._across(1, partial(self._start, number))
        self._in_blocks(number, partial(self._block, number))
        self._across(1, partial(self._finish, number))

    def _start(self, number: int, vectors: int) -> None:
        for n in range(vectors):
            for part in self.partials[number]:
                for array in part:
                    self.keep(array, n, array.start)

    def _block(self, number: int, vectors: int, start: str, stop: str) -> None:
        """Partial results of a block; sums begin anew and are added to totals, others go on."""
        combiners = [Combiner(c, d) for c, d, _ in self.stages[number].reduced]
        lanes, r = self.lanes, self.vector
        carried: list[tuple[str, str]] = []
        for n in range(vectors):
            for c, part in zip(combiners, self.partials[number], strict=True):
                old = c.start(lanes) if c.compensated else [self.waiting(a, n) for a in part]
                carried += zip(c.types(lanes), old, strict=True)
        found = iter(self._down(number, vectors, start, stop, carried))
        for n in range(vectors):
            for c, part in zip(combiners, self.partials[number], strict=True):
                news = [next(found) for _ in c.dtypes]
                if c.compensated:
                    total = [self.waiting(a, n) for a in part]
                    news = two_sum(r, c.dtype, total, news[0])
                for array, value in zip(part, news, strict=True):
                    self.keep(array, n, value)

    def _finish(self, number: int, vectors: int) -> None:
        for n in range(vectors):
            reduced = zip(self.stages[number].reduced, self.partials[number], strict=True)
            for j, ((combine, dtype, _), part) in enumerate(reduced):
                combiner = Combiner(combine, dtype)
                final = [self.waiting(a, n) for a in part]
                if combiner.compensated or combiner.totals:
                    final = [total_of(self.vector, dtype, final)]
                result = combiner.finish(self.vector, final, self.length)
                self.keep(self.results[number, j], n, result)


_READ = frozenset({"load", "gather", CONTIGUOUS_GATHER})
LIGHT = 8
"""Instructions an element up to which several vectors of columns are taken together."""
