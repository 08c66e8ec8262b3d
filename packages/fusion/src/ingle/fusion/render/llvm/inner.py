"""Nests whose lanes run along the inner axis, as LLVM IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...kernel.code import SIZES
from ...kernel.nest import BLOCK, Row, block_elements, in_blocks, is_copy, is_flat
from .code import CodeRenderer
from .contiguous_gather import CONTIGUOUS_GATHER
from .partials import Partials
from .place import InnerPlace
from .prepared import FIXED, UNIFORM, VARYING, Prepared
from .reductions import Combiner, total_of, two_sum
from .rows import NestRenderer
from .text import Values, memory_type


class InnerNest(NestRenderer):
    """Writes a kernel with lanes along the inner axis."""

    def level(self, name: str, value: object) -> int:
        if name in ("load", "gather") and isinstance(value, int):
            operand = self.nest.operands[value]
            same = name == "gather" or operand.lane == "zero"  # as far as its offset is
            return FIXED if same and not operand.output else VARYING
        return VARYING if name == CONTIGUOUS_GATHER or (name, value) == ("index", -1) else FIXED

    def lane_stride(self, k: int) -> str:
        return self.inner_strides[k]

    def render(self) -> str:
        """The module."""
        self.load_arguments()
        self.constants_of_lanes()
        self.row_pointers = self.pointers
        self.indices: Values = []
        self.results: dict[tuple[int, int], tuple[str, str]] = {}
        self.kept: dict[tuple[int, int], tuple[str, str]] = {}
        passes = [n for n, stage in enumerate(self.nest.stages) if not isinstance(stage, Row)]
        self.fetching = passes[1] if self.nest.prefetched else -1
        self.sums: dict[int, str] = {}  # where sums over rows grow
        for number, stage in enumerate(self.stages):
            self.emit(number, UNIFORM, InnerPlace(self, self.renderer_of(stage)))
        if is_copy(self.nest):
            self._unless_there()
        if is_flat(self.nest):
            for number in range(len(self.stages)):
                self.fixed(number)
                self.map(number, "%begin", "%end")
        else:
            self.walk_rows()
        self.writer.do("ret void")
        return self.writer.module()

    def _unless_there(self) -> None:
        """Returns if what is copied lies there already."""
        w = self.writer
        there, work = w.label("there"), w.label("work")
        same = w.let("same", f"icmp eq ptr {self.pointers[0]}, {self.pointers[1]}")
        w.do(f"br i1 {same}, label %{there}, label %{work}")
        w.start(there)
        w.do("ret void")
        w.start(work)

    def walk_rows(self) -> None:
        """Writes all stages for each row."""
        if in_blocks(self.nest):
            self.walk(["0"], lambda unit, _: self._rows_of(unit))
        elif self.nest.scattered:
            self._walk_all()
        else:
            self.walk(self.sizes, self.row)

    def _walk_all(self) -> None:
        """Goes over all rows: which of them are done is said by where they begin."""
        w, count = self.writer, "1"
        for size in self.sizes[1:]:
            count = w.let("count", f"mul i64 {count}, {size}")
        self.walk(self.sizes[1:], lambda unit, i: self.row(unit, ["0", *i]), "0", count)

    def _rows_of(self, unit: str) -> None:
        """A unit of some rows, whose sums begin with nothing and grow with each row."""
        w = self.writer
        self.sums = {
            k: self.offset(self.pointers[k], k, [unit])
            for stage in self.stages
            for k, _ in stage.columns
        }
        self.row_pointers = [self.sums.get(k, p) for k, p in enumerate(self.pointers)]
        for k in self.sums:
            self._along("0", self.inner, 1, partial(self._clear, k))
        first = w.let("first", f"mul i64 {unit}, {BLOCK}")
        last = self.smaller(w.let("last", f"add i64 {first}, {BLOCK}"), self.sizes[0])

        def row(index: str, _: Values) -> Values:
            self.row(index, [index])
            return []

        w.loop("row", first, last, "1", [], row)

    def _clear(self, k: int, start: str, masks: Sequence[str | None]) -> None:
        dtype = self.nest.operands[k].dtype
        nothing = Combiner("sum", dtype).start(self.lanes)[0]
        place = self._further(k, self.row_pointers[k], start)
        self.store_lanes(k, place, nothing, masks[0], 0)

    def renderer_of(self, stage: Prepared) -> CodeRenderer:
        """With one lane for what is computed once a row."""
        return self.single if isinstance(stage.stage, Row) else self.vector

    def emit(self, number: int, level: int, place: InnerPlace) -> list[str | None]:
        """Writes a level of a stage's code and keeps the operands for the levels above."""
        stage = self.stages[number]
        values = self.values[number] if level != VARYING else list(self.values[number])
        return place.renderer.render(stage.code, place, values, stage.places[level])

    def fixed(self, number: int) -> None:
        """Writes what a stage computes once a row."""
        stage = self.stages[number]
        for place in stage.places[FIXED]:
            self.values[number][place] = None
        self.emit(number, FIXED, InnerPlace(self, self.renderer_of(stage)))

    def row(self, unit: str, indices: Values) -> None:
        """Writes all stages for one row."""
        self.indices = indices
        self.row_pointers = [self.sums.get(k) or p for k, p in enumerate(self.offsets(indices))]
        length = self.row_length(indices[0] if indices else "0")
        if not self.nest.scattered:
            self._stages_from(0, length)
            return
        self._once(0)
        w, (_, place) = self.writer, self.kept[0, 0]
        ahead = w.let("ahead", f"sub i64 {place}, %begin")
        many = w.let("many", "sub i64 %end, %begin")

        def mine() -> Values:
            self._stages_from(1, length)
            return []

        w.when(w.let("mine", f"icmp ult i64 {ahead}, {many}"), [], mine)

    def _stages_from(self, first: int, length: str) -> None:
        for number, stage in enumerate(self.stages[first:], first):
            self.writer.comment(f"stage {number}: {type(stage.stage).__name__}")
            if isinstance(stage.stage, Row):
                self._once(number)
                continue
            self.fixed(number)
            if stage.reduced:
                self.reduce(number, length)
            else:
                self.map(number, "0", length)

    def _once(self, number: int) -> None:
        stage = self.stages[number]
        self.fixed(number)
        values = self.emit(number, VARYING, InnerPlace(self, self.single))
        for k, at in stage.stored:
            dtype = self.nest.operands[k].dtype
            value = self.single.as_memory(dtype, values[at] or "")
            place = f"ptr {self.row_pointers[k]}, align {SIZES[dtype]}"
            self.writer.do(f"store {memory_type(dtype)} {value}, {place}")
        for j, at in enumerate(stage.roots[len(stage.stage.stores) :]):
            self.kept[number, j] = (stage.code[at].dtype, values[at] or "")
        if number == 0:
            self.row_pointers = [self._from_row_base(k, p) for k, p in enumerate(self.row_pointers)]

    def _from_row_base(self, k: int, pointer: str) -> str:
        """Where an operand's row begins, which may have been computed."""
        operand = self.nest.operands[k]
        if operand.row_base is None:
            return pointer
        _, place = self.kept[0, operand.row_base]
        kind = memory_type(operand.dtype)
        return self.writer.let("row", f"getelementptr {kind}, ptr {pointer}, i64 {place}")

    # -- along the row -----------------------------------------------------------------------

    def at(self, k: int, index: str) -> str:
        """A pointer to operand `k` at an inner index of this row."""
        found = self._places.get((k, index))
        if found is None:
            found = self._places[k, index] = self._further(k, self.row_pointers[k], index)
        return found

    def _further(self, k: int, pointer: str, index: str) -> str:
        """A pointer moved along the inner axis."""
        w, kind = self.writer, memory_type(self.nest.operands[k].dtype)
        stride = self.inner_strides[k]
        step = index if stride == "1" else w.let("step", f"mul i64 {index}, {stride}")
        return w.let("place", f"getelementptr {kind}, ptr {pointer}, i64 {step}")

    def contiguous_gather(
        self, k: int, offset: str, start: str, ahead: int, mask: str | None
    ) -> str:
        """Loads operand `k` at an offset, the same in all lanes, beyond an inner index."""
        w, kind = self.writer, memory_type(self.nest.operands[k].dtype)
        one = w.let("offset", f"extractelement <{self.lanes} x i64> {offset}, i64 0")
        place = w.let("place", f"getelementptr {kind}, ptr {self.row_pointers[k]}, i64 {one}")
        place = w.let("place", f"getelementptr {kind}, ptr {place}, i64 {start}")
        return self.load_run(k, place, mask, ahead)

    def further(self, index: str, vectors: int) -> str:
        """An index some vectors further."""
        if not vectors:
            return index
        return self.writer.let("i", f"add i64 {index}, {vectors * self.lanes}")

    def vectors(self, number: int, start: str, masks: Sequence[str | None]) -> list[list[str]]:
        """Writes a stage at vectors from an inner index on; returns all operands of each.

        All loads come before the first computation, all computations before the first store.

        Args:
            masks: for each vector, which of its lanes exist; all if None.
        """
        stage, count = self.stages[number], len(masks)
        self._places: dict[tuple[int, str], str] = {}  # pointers of this block
        places = [InnerPlace(self, self.vector, start, n, mask) for n, mask in enumerate(masks)]
        copies: list[list[str | None]] = [list(self.values[number]) for _ in range(count)]
        loads = [p for p in stage.places[VARYING] if stage.code[p].name == "load"]
        for chosen in (loads, stage.places[VARYING]):
            for place, values in zip(places, copies, strict=True):
                self.vector.render(stage.code, place, values, chosen)
        done = [[v or "" for v in values] for values in copies]
        if number == self.fetching and masks[0] is None:
            self._prefetch(start, count)
        second = {self.nest.operands[k].beside: (k, at) for k, at in stage.stored}
        for place, ready in zip(places, done, strict=True):
            for k, at in stage.stored:
                if k in second:
                    other, there = second[k]
                    pair, here = (ready[at], ready[there]), self.at(k, start)
                    self.store_turns((k, other), here, pair, place.mask, place.ahead)
                elif self.nest.operands[k].beside is None:
                    self.store_lanes(k, self.at(k, start), ready[at], place.mask, place.ahead)
            for k, at in stage.columns:
                self._grow(k, self.at(k, start), ready[at], place)
        return done

    def _prefetch(self, start: str, count: int) -> None:
        """Asks for the same places of the next row."""
        for k in self.nest.prefetched:
            kind, step = memory_type(self.nest.operands[k].dtype), self.strides[k][-1]
            for n in range(count):
                place = self.ahead(k, self.at(k, start), n)
                soon = self.writer.let("soon", f"getelementptr {kind}, ptr {place}, i64 {step}")
                self.writer.call_nothing(
                    "llvm.prefetch.p0", f"ptr {soon}", "i32 0", "i32 3", "i32 1"
                )

    def _grow(self, k: int, pointer: str, value: str, place: InnerPlace) -> None:
        """Adds lanes to the sums over rows in operand `k`."""
        old = self.load_run(k, pointer, place.mask, place.ahead)
        kind = self.vector.type(self.nest.operands[k].dtype)
        new = self.writer.let("sum", f"fadd {kind} {old}, {value}")
        self.store_lanes(k, pointer, new, place.mask, place.ahead)

    def map(self, number: int, start: str, stop: str) -> None:
        """Writes a map from one inner index to another."""
        count = unroll(self.stages[number].cost)
        self._along(start, stop, count, partial(self.vectors, number))

    def _along(
        self, start: str, stop: str, count: int, body: Callable[[str, Sequence[str | None]], object]
    ) -> None:
        """Runs the body, which takes an inner index and the masks of some vectors, to the end."""
        w, chunk = self.writer, count * self.lanes
        full = self._rounded_down(start, stop, chunk)

        def many(i: str, _: Values) -> Values:
            body(i, [None] * count)
            return []

        def one(i: str, _: Values) -> Values:
            body(i, [None])
            return []

        def rest(i: str, _: Values) -> Values:
            body(i, self.masks_below(w.let("left", f"sub i64 {stop}, {i}"), 1))
            return []

        w.loop("vectors", start, full, str(chunk), [], many)
        if count > 1 and not self.target.masks:  # Masked loads wait for stores to what they read.
            behind, full = full, self._rounded_down(start, stop, self.lanes)
            w.loop("vector", behind, full, str(self.lanes), [], one)
        w.loop("rest", full, stop, str(self.lanes), [], rest)

    def _rounded_down(self, start: str, stop: str, chunk: int) -> str:
        """The last index that is a whole number of chunks behind the start."""
        w = self.writer
        length = stop if start == "0" else w.let("length", f"sub i64 {stop}, {start}")
        whole = w.let("whole", f"and i64 {length}, {-chunk}")
        return whole if start == "0" else w.let("full", f"add i64 {start}, {whole}")

    # -- reductions --------------------------------------------------------------------------

    def reduce(self, number: int, length: str) -> None:
        """Writes the reductions of a stage over a row."""
        stage = self.stages[number]
        combiners = [Combiner(combine, dtype) for combine, dtype, _ in stage.reduced]
        parts = Partials(self, combiners)
        if any(c.compensated for c in combiners) and not self.nest.one_block:
            finals = self._in_blocks(number, parts, length)
        else:
            finals = parts.split(self._block(number, parts, "0", length, parts.start()))
        for j, (combiner, vectors) in enumerate(zip(combiners, finals, strict=True)):
            one = combiner.fold(self.vector, self._fold_vectors(combiner, vectors))
            dtype = "int64" if combiner.indexed else combiner.dtype
            self.results[number, j] = (dtype, combiner.finish(self.single, one, length))

    def _fold_vectors(self, combiner: Combiner, vectors: list[Values]) -> Values:
        while len(vectors) > 1:
            half = len(vectors) // 2
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [combiner.merge(self.vector, a, b) for a, b in pairs]
        return vectors[0]

    def _in_blocks(self, number: int, parts: Partials, length: str) -> list[list[Values]]:
        """Partial results of each block are added to totals, sums with their errors."""
        w, r = self.writer, self.vector
        size = str(block_elements(self.nest.stages[number]))

        def block(start: str, totals: Values) -> Values:
            stop = self.smaller(w.let("stop", f"add i64 {start}, {size}"), length)
            news: Values = []
            old = parts.split_totals(totals)
            begin = parts.resume(old)
            found = parts.split(self._block(number, parts, start, stop, begin))
            for combiner, before, after in zip(parts.combiners, old, found, strict=True):
                for total, vector in zip(before, after, strict=True):
                    if combiner.compensated:
                        news += two_sum(r, combiner.dtype, total, vector[0])
                    else:
                        news += vector
            return news

        totals = parts.split_totals(w.loop("block", "0", length, size, parts.totals(), block))
        return [
            [[total_of(r, c.dtype, t)] if c.compensated else t for t in vectors]
            for c, vectors in zip(parts.combiners, totals, strict=True)
        ]

    def _block(self, number: int, parts: Partials, start: str, stop: str, first: Values) -> Values:
        """Partial results of the elements from one index to another."""
        w, lanes = self.writer, self.lanes
        heavy = self.stages[number].cost > HEAVY and parts.count > 1
        count = 1 if heavy else parts.count

        def grown(i: str, old: Values, masks: Sequence[str | None]) -> Values:
            done = self.vectors(number, i, masks)
            starts = [self.further(i, n) for n in range(count)]
            news = parts.grow(number, old, done, starts, masks)
            return parts.rotate(news) if heavy else news

        full = self._rounded_down(start, stop, count * lanes)
        partial = w.loop(
            "vectors", start, full, str(count * lanes), parts.carried(first),
            lambda i, old: grown(i, old, [None] * count),
        )  # fmt: skip

        def rest() -> Values:
            left = w.let("left", f"sub i64 {stop}, {full}")
            return grown(full, partial, self.masks_below(left, count))

        more = w.let("more", f"icmp slt i64 {full}, {stop}")
        partial = w.when(more, parts.carried(partial), rest)
        return self._turn_back(parts, partial, start, stop) if heavy else partial

    def _turn_back(self, parts: Partials, partial: Values, start: str, stop: str) -> Values:
        """Rotates partial results until each is in its place again."""
        w, count = self.writer, parts.count
        length = w.let("length", f"sub i64 {stop}, {start}")
        more = w.let("more", f"add i64 {length}, {self.lanes - 1}")
        turned = w.let("turned", f"sdiv i64 {more}, {self.lanes}")
        left = w.let("left", f"sub i64 0, {turned}")
        turns = w.let("turns", f"and i64 {left}, {count - 1}")
        carried = parts.carried(partial)
        return w.loop("turn", "0", turns, "1", carried, lambda _, old: parts.rotate(old))


HEAVY = 12
"""Instructions an element from which on code is written once, not once for each partial result."""


def unroll(cost: int) -> int:
    """How many vectors an iteration of a map computes."""
    return 4 if cost <= 6 else 2 if cost <= 24 else 1
