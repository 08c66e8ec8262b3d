"""What the kernels of a nest share: arguments, walking over rows, leaves of the code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...kernel.code import SIZES, Code
from ...kernel.nest import (
    Nest,
    Reduce,
    Row,
    Stage,
    accumulator_dtype,
    columns_of,
    is_flat,
    layout,
    runs,
)
from . import backward, every_nth
from .code import CodeRenderer
from .contiguous_gather import CONTIGUOUS_GATHER, with_contiguous_gathers
from .invariant_division import with_invariant_divisions
from .prepared import FIXED, UNIFORM, VARYING, Prepared
from .some_lanes import SomeLanes
from .targets import Target
from .text import Values, Writer, memory_type, scalar_type, suffix, vector_type


def lanes_of(nest: Nest, target: Target) -> int:
    """How many lanes a vector of the nest has: as many as fill a register with its widest dtype.

    What is the same in all lanes does not count, such as the class of a row. Running results along
    the lanes need the one before, so there is one lane.
    """
    if runs(nest) and nest.lanes == "inner":
        return 1
    widest = 1
    for operand in nest.operands:
        if operand.lane != "zero":
            widest = max(widest, SIZES[accumulator_dtype(operand.dtype)])
    for stage in nest.stages:
        if isinstance(stage, Reduce):
            for _, at in stage.reductions:
                widest = max(widest, SIZES[stage.code[at].dtype])
    return target.width // widest


class NestRenderer:
    """Common parts; `llvm_inner` and `llvm_outer` derive from it."""

    def __init__(self, nest: Nest, name: str, target: Target) -> None:
        self.nest = nest
        self.target = target
        self.writer = Writer(name)
        self.lanes = lanes_of(nest, target)
        self.vector = CodeRenderer(self.writer, target, self.lanes)
        self.single = CodeRenderer(self.writer, target, 1)
        self.some = SomeLanes(self.writer, target, self.lanes)
        self.layout = layout(nest)
        self.stages = [self.prepare(stage) for stage in nest.stages]
        self.values: list[list[str | None]] = [[None] * len(s.code) for s in self.stages]

    # -- preparing ---------------------------------------------------------------------------

    def level(self, name: str, value: object) -> int:
        """The level of a leaf."""
        raise NotImplementedError

    def prepare(self, stage: Stage) -> Prepared:
        """Expands a stage's code and sorts its instructions by what they depend on."""
        roots = [at for _, at in (*stage.stores, *columns_of(stage))]
        if isinstance(stage, Reduce):
            roots += [at for _, at in stage.reductions]
            roots += [] if stage.decay is None else [stage.decay]
        if isinstance(stage, Row):
            roots += stage.values
        renderer = self.single if self.scalar_rows and isinstance(stage, Row) else self.vector
        code, places = renderer.expand(stage.code, roots)
        levels = self._levels(code)
        if self.gathers_contiguously and not isinstance(stage, Row):
            along, axis = self.lane_levels(code, levels), self.lane_axis
            code, places = with_contiguous_gathers(code, places, along, VARYING, axis)
            levels = self._levels(code)
        if self.target.estimates and self.divides_by_invariants and not isinstance(stage, Row):
            code, places = with_invariant_divisions(code, places, levels, VARYING)
            levels = self._levels(code)
        by_level = [
            tuple([p for p, at in enumerate(code) if levels[p] == n and at.name != "constant"])
            for n in (UNIFORM, FIXED, VARYING)
        ]
        constants = tuple([p for p, at in enumerate(code) if at.name == "constant"])
        sorted_places = (constants + by_level[0], by_level[1], by_level[2])
        cost = sum(1 for p in by_level[2] if code[p].name != "load")
        return Prepared(stage, code, places, tuple(levels), sorted_places, cost)

    def _levels(self, code: Code) -> list[int]:
        levels: list[int] = []
        for at in code:
            level = max([levels[a] for a in at.args], default=UNIFORM)
            if at.name in _PLACED:
                level = max(level, self.level(at.name, at.value))
            levels.append(level)
        return levels

    scalar_rows = True
    """Whether Row stages are computed with one lane."""
    gathers_contiguously = True
    """Whether lanes run along `lane_axis`, so that gathers may be contiguous."""
    lane_axis = -1

    def lane_levels(self, code: Code, levels: Sequence[int]) -> Sequence[int]:
        """By position, how much a value varies along the lanes: as along the inner axis."""
        return levels

    @property
    def divides_by_invariants(self) -> bool:
        """Whether what is fixed serves long enough for inverses of divisors."""
        return self.nest.long_rows or is_flat(self.nest)

    # -- arguments ---------------------------------------------------------------------------

    def argument(self, number: int, hint: str) -> str:
        """Writes the loading of an argument."""
        w = self.writer
        place = w.let("arg", f"getelementptr i64, ptr %args, i64 {number}")
        return w.let(hint, f"load i64, ptr {place}, align 8")

    def load_arguments(self) -> None:
        """Writes what runs once a call: pointers, sizes, strides, scalars."""
        nest, w = self.nest, self.writer
        self.pointers: Values = []
        for k in range(len(nest.operands)):
            place = w.let("slot", f"getelementptr ptr, ptr %pointers, i64 {k}")
            self.pointers.append(w.let("operand", f"load ptr, ptr {place}, align 8"))
        self.sizes = [self.argument(a, "size") for a in range(nest.outer)]
        self.inner = self.argument(self.layout.inner, "inner")
        self.total = self.argument(self.layout.total, "total") if nest.ragged else ""
        self.strides = [
            [self.argument(self.layout.stride(k, a), "stride") for a in range(nest.outer)]
            for k in range(len(nest.operands))
        ]
        self.inner_strides = [self._inner_stride(k) for k in range(len(nest.operands))]
        self.scalars = [self._scalar(n, dtype) for n, dtype in enumerate(nest.scalars)]

    def _inner_stride(self, k: int) -> str:
        lane = self.nest.operands[k].lane
        if self.nest.lanes == "inner" and lane != "strided":
            return "1" if lane == "unit" else "0"
        if self.nest.operands[k].apart:
            return str(self.nest.operands[k].apart)
        if self.nest.operands[k].backward:
            return "-1"
        return self.argument(self.layout.stride(k, -1), "stride")

    def _scalar(self, number: int, dtype: str) -> str:
        w = self.writer
        bits = self.argument(self.layout.scalar(number), "bits")
        kind = scalar_type(dtype)
        if kind == "i64":
            return bits
        if kind == "double":
            return w.let("scalar", f"bitcast i64 {bits} to double")
        if kind == "float":
            low = w.let("bits", f"trunc i64 {bits} to i32")
            return w.let("scalar", f"bitcast i32 {low} to float")
        return w.let("scalar", f"trunc i64 {bits} to {kind}")

    # -- rows --------------------------------------------------------------------------------

    def offset(self, base: str, k: int, indices: Sequence[str]) -> str:
        """A pointer to operand `k` at outer indices."""
        return self._place(base, k, self._distance(k, indices))

    def offsets(self, indices: Sequence[str]) -> Values:
        """Pointers to all operands at outer indices; those that are alike share the arithmetic."""
        distances: list[str | None] = []
        for k, operand in enumerate(self.nest.operands):
            alike = operand.alike
            distances.append(self._distance(k, indices) if alike is None else distances[alike])
        places = zip(self.pointers, distances, strict=True)
        return [self._place(base, k, distance) for k, (base, distance) in enumerate(places)]

    def _distance(self, k: int, indices: Sequence[str]) -> str | None:
        """How many elements operand `k` is further on at outer indices; None without any."""
        w, total = self.writer, None
        for index, stride in zip(indices, self.strides[k], strict=False):
            step = w.let("step", f"mul i64 {index}, {stride}")
            total = step if total is None else w.let("far", f"add i64 {total}, {step}")
        return total

    def _place(self, base: str, k: int, distance: str | None) -> str:
        if distance is None:
            return base
        kind = memory_type(self.nest.operands[k].dtype)
        return self.writer.let("row", f"getelementptr {kind}, ptr {base}, i64 {distance}")

    def walk(
        self, sizes: Sequence[str], body: Callable[[str, Values], None],
        begin: str = "%begin", end: str = "%end",
    ) -> None:  # fmt: skip
        """Runs the body for each unit of work, with its number and its indices along axes."""
        w = self.writer
        first = self.split(begin, sizes) if len(sizes) > 1 else []

        def step(unit: str, indices: Values) -> Values:
            body(unit, indices or [unit][: len(sizes)])
            return self._advance(indices, sizes) if indices else []

        w.loop("unit", begin, end, "1", [("i64", i) for i in first], step)

    def split(self, unit: str, sizes: Sequence[str]) -> Values:
        """The indices of a unit of work; sizes of 0 are taken as 1, there is no work then."""
        w = self.writer
        indices: Values = []
        for size in reversed(sizes[1:]):
            empty = w.let("empty", f"icmp eq i64 {size}, 0")
            divisor = w.let("divisor", f"select i1 {empty}, i64 1, i64 {size}")
            indices.append(w.let("index", f"urem i64 {unit}, {divisor}"))
            unit = w.let("rest", f"udiv i64 {unit}, {divisor}")
        return [unit, *reversed(indices)]

    def _advance(self, indices: Values, sizes: Sequence[str]) -> Values:
        w = self.writer
        news: Values = []
        carry = "1"
        for index, size in zip(reversed(indices[1:]), reversed(sizes[1:]), strict=True):
            more = w.let("index", f"add i64 {index}, {carry}")
            full = w.let("full", f"icmp eq i64 {more}, {size}")
            news.append(w.let("index", f"select i1 {full}, i64 0, i64 {more}"))
            carry = w.let("carry", f"zext i1 {full} to i64")
        return [w.let("index", f"add i64 {indices[0]}, {carry}"), *reversed(news)]

    def row_length(self, first_index: str) -> str:
        """The inner size of a row, which is smaller for the last row of a ragged nest."""
        if not self.nest.ragged:
            return self.inner
        w = self.writer
        before = w.let("before", f"mul i64 {first_index}, {self.inner}")
        left = w.let("left", f"sub i64 {self.total}, {before}")
        return self.smaller(left, self.inner)

    def smaller(self, a: str, b: str) -> str:
        """The smaller of two int64."""
        return self.writer.call("least", "i64", "llvm.smin.i64", f"i64 {a}", f"i64 {b}")

    # -- lanes -------------------------------------------------------------------------------

    def constants_of_lanes(self) -> None:
        """Writes the numbers 0, 1, … of the lanes, and what strided operands need."""
        numbers = ", ".join(f"i64 {n}" for n in range(self.lanes))
        self.iota = f"<{numbers}>" if self.lanes > 1 else "0"
        self.lane_offsets: dict[int, str] = {}
        for k, operand in enumerate(self.nest.operands):
            if operand.lane == "strided":
                stride = self.lane_stride(k)
                every = self.writer.splat("stride", "i64", stride, self.lanes)
                kind = vector_type("i64", self.lanes)
                self.lane_offsets[k] = self.writer.let("apart", f"mul {kind} {every}, {self.iota}")

    def lane_stride(self, k: int) -> str:
        """The stride of an operand along the axis of the lanes."""
        raise NotImplementedError

    def numbers_from(self, start: str) -> str:
        """start, start + 1, … in the lanes."""
        if self.lanes == 1:
            return start
        every = self.writer.splat("at", "i64", start, self.lanes)
        return self.writer.let("index", f"add <{self.lanes} x i64> {every}, {self.iota}")

    def masks_below(self, left: str, count: int) -> Values:
        """For some vectors after each other, masks of the first `left` of all their lanes."""
        w, lanes = self.writer, self.lanes
        if lanes == 1:
            return [w.let("mask", f"icmp sgt i64 {left}, {n}") for n in range(count)]
        # Numbers that fill a register: of smaller vectors LLVM's masks have stray bits above.
        kind = f"i{max(128 // lanes, 8 if lanes * count < 256 else 16)}"
        few = whole = self.smaller(left, str(lanes * count))
        if kind != "i64":
            few = w.let("few", f"trunc i64 {few} to {kind}")
        every = w.splat("few", kind, few, lanes)
        masks = []
        for start in range(0, lanes * count, lanes):
            numbers = ", ".join(f"{kind} {n}" for n in range(start, start + lanes))
            compared = f"icmp ult <{lanes} x {kind}> <{numbers}>, {every}"
            masks.append(w.let("mask", compared))
        self.some.note(masks, whole)
        return masks

    def mask_below(self, left: str) -> str:
        """A mask of the first `left` lanes."""
        return self.masks_below(left, 1)[0]

    def load_lanes(self, k: int, pointer: str, mask: str | None, ahead: int = 0) -> str:
        """Loads operand `k` into the lanes; `pointer` is where lane 0 of vector 0 lies.

        Args:
            mask: which lanes to load; all if None.
            ahead: how many vectors after the first one.
        """
        operand, w, lanes = self.nest.operands[k], self.writer, self.lanes
        kind = memory_type(operand.dtype)
        if operand.lane == "zero" or lanes == 1:
            value = w.let("x", f"load {kind}, ptr {pointer}, align {SIZES[operand.dtype]}")
            one = self.single.as_value(operand.dtype, value)
            return w.splat("x", scalar_type(operand.dtype), one, lanes)
        if operand.lane == "strided":
            place = self.ahead(k, pointer, ahead)
            if self._by_neighbours(k) and (mask is None or self.target.masks):
                return every_nth.load(self.vector, operand.dtype, operand.apart, place, mask)
            if operand.backward and (mask is None or self.target.masks):
                return backward.load(self.vector, operand.dtype, place, mask)
            return self.vector.gather(operand.dtype, self.spread(k, place), mask)
        return self.load_run(k, pointer, mask, ahead)

    def _by_neighbours(self, k: int) -> bool:
        """Whether vectors of neighbours hold a strided operand's lanes, and not too many of them:
        of few lanes each, they take longer than an access for each lane."""
        return 0 < self.nest.operands[k].apart <= max(4, self.lanes // 2)

    def load_run(self, k: int, pointer: str, mask: str | None, ahead: int) -> str:
        """Loads neighbouring elements of operand `k`; the arguments are those of `load_lanes`."""
        operand, w, lanes = self.nest.operands[k], self.writer, self.lanes
        kind, place = memory_type(operand.dtype), pointer
        if ahead:
            place = w.let("place", f"getelementptr {kind}, ptr {place}, i64 {ahead * lanes}")
        size = SIZES[operand.dtype]
        if mask is None:
            vector = vector_type(kind, lanes)
            loaded = w.let("x", f"load {vector}, ptr {place}, align {size}")
        else:
            loaded = self.some.load(kind, size, place, mask)
        return self.vector.as_value(operand.dtype, loaded)

    def store_lanes(self, k: int, pointer: str, value: str, mask: str | None, ahead: int) -> None:
        """Stores lanes of operand `k`; the arguments are those of `load_lanes`."""
        operand, w, lanes = self.nest.operands[k], self.writer, self.lanes
        kind, align = memory_type(operand.dtype), SIZES[operand.dtype]
        value = self.vector.as_memory(operand.dtype, value)
        place = self.ahead(k, pointer, ahead)
        vector = vector_type(kind, lanes)
        if lanes > 1 and self._by_neighbours(k) and self.target.masks:
            every_nth.store(self.vector, operand.dtype, operand.apart, place, value, mask)
        elif lanes > 1 and operand.backward and (mask is None or self.target.masks):
            backward.store(self.vector, operand.dtype, place, value, mask)
        elif lanes > 1 and operand.lane == "strided":
            w.call_nothing(
                f"llvm.masked.scatter.{suffix(kind, lanes)}.v{lanes}p0", f"{vector} {value}",
                f"<{lanes} x ptr> {self.spread(k, place)}", f"i32 {align}",
                f"<{lanes} x i1> {mask or 'splat (i1 true)'}",
            )  # fmt: skip
        elif mask is None or lanes == 1:
            w.do(f"store {vector} {value}, ptr {place}, align {align}")
        else:
            self.some.store(kind, align, place, value, mask)

    def store_turns(
        self, ks: tuple[int, int], pointer: str, values: tuple[str, str], mask: str | None,
        ahead: int,
    ) -> None:  # fmt: skip
        """Stores lanes of two operands that take turns, from the place of the first one on; the
        arguments are otherwise those of `load_lanes`."""
        dtype, other = (self.nest.operands[k].dtype for k in ks)
        first = self.vector.as_memory(dtype, values[0])
        second = self.vector.as_memory(other, values[1])
        kinds = [vector_type(memory_type(d), self.lanes) for d in (dtype, other)]
        if kinds[0] != kinds[1]:  # what is only moved has the dtype of its bits
            second = self.writer.let("bits", f"bitcast {kinds[1]} {second} to {kinds[0]}")
        place = self.ahead(ks[0], pointer, ahead)
        every_nth.store_turns(self.vector, dtype, place, (first, second), mask)

    def ahead(self, k: int, pointer: str, vectors: int) -> str:
        """A pointer some vectors further along the lanes."""
        if not vectors or self.nest.operands[k].lane == "zero":
            return pointer
        w, kind = self.writer, memory_type(self.nest.operands[k].dtype)
        distance = str(vectors * self.lanes)
        if self.nest.operands[k].lane == "strided":
            distance = w.let("step", f"mul i64 {distance}, {self.lane_stride(k)}")
        return w.let("place", f"getelementptr {kind}, ptr {pointer}, i64 {distance}")

    def spread(self, k: int, pointer: str) -> str:
        """A pointer for every lane of a strided operand."""
        kind = memory_type(self.nest.operands[k].dtype)
        offsets = f"<{self.lanes} x i64> {self.lane_offsets[k]}"
        return self.writer.let("places", f"getelementptr {kind}, ptr {pointer}, {offsets}")

    def gather_lanes(self, k: int, base: str, offset: str, renderer: CodeRenderer,
                     mask: str | None) -> str:  # fmt: skip
        """Loads operand `k` at an offset in every lane."""
        dtype = self.nest.operands[k].dtype
        kind = renderer.type("int64")
        place = f"getelementptr {memory_type(dtype)}, ptr {base}, {kind} {offset}"
        return renderer.gather(dtype, self.writer.let("places", place), mask)


_PLACED = frozenset({"load", "gather", CONTIGUOUS_GATHER, "index", "result", "row"})
