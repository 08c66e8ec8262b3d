"""Running results along the inner axis, as LLVM IR.

Every place waits for the one before it, so lanes cannot stand along the axis. They stand along
another one where there is one, or some rows go side by side so that they wait together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ...kernel.code import SIZES, UNSIGNED
from .code import CodeRenderer
from .inner import InnerNest
from .outer import OuterNest, OuterPlace
from .place import InnerPlace
from .prepared import UNIFORM, Prepared
from .reductions import Combiner
from .text import Values, memory_type

ROWS = 4
"""Rows side by side: an addition takes as many cycles."""
VECTORS = 4
"""Vectors of columns side by side."""


class Runner(Combiner):
    """One running reduction: what it carries from each place to the next."""

    __slots__ = ()

    def add(self, r: CodeRenderer, old: Values, value: str, index: str) -> Values:
        """What is known at the next place."""
        if not self.indexed:
            return [self.join(r, old[0], value)]
        word = "max" if self.combine == "argmax" else "min"
        best = r.intrinsic(
            f"{'u' if self.dtype in UNSIGNED else 's'}{word}", self.dtype, old[0], value
        )
        return [best, r.select("int64", r.compare("eq", self.dtype, value, best), index, old[1])]


def _runners(stage: Prepared) -> list[tuple[Runner, int]]:
    return [(Runner(combine, dtype), at) for combine, dtype, at in stage.reduced]


def _begun(stage: Prepared, lanes: int, count: int) -> list[tuple[str, str]]:
    """(type, value) of what so many walks side by side begin with."""
    once = [pair for runner, _ in _runners(stage)
            for pair in zip(runner.types(lanes), runner.start(lanes), strict=True)]  # fmt: skip
    return once * count


def _everywhere(stage: Prepared) -> list[int]:
    """What is computed at each place."""
    return [p for p, level in enumerate(stage.levels) if level != UNIFORM]


def _fold(
    stage: Prepared, place: _Row | _Column, r: CodeRenderer, values: list[str | None],
    known: Iterator[str], index: str,
) -> Values:  # fmt: skip
    """Renders a stage at a place, which learns its results; returns what is carried on.

    Args:
        values: of the stage's code as far as it is the same everywhere.
        known: what is carried from the place before.
        index: of the place.
    """
    r.render(stage.code, place, values, _everywhere(stage))
    carried: Values = []
    running = []
    for runner, at in _runners(stage):
        old = [next(known) for _ in runner.dtypes]
        if stage.decay is not None:
            factor = values[stage.decay]
            old = [r.writer.let("carried", f"fmul {r.type(runner.dtype)} {old[0]}, {factor}")]
        new = runner.add(r, old, values[at] or "", index)
        carried += new
        running.append(new[-1])
    place.running = running
    return carried


@dataclass
class _Row(InnerPlace):
    """The environment of code at a place of a row.

    Attributes:
        pointers: where the operands begin in the row.
        indices: of the row.
        running: the results at this place.
    """

    pointers: Sequence[str] = ()
    indices: Sequence[str] = ()
    running: Sequence[str] = ()

    def load(self, operand: int, dtype: str) -> str:
        return self.owner.load_lanes(operand, self.place(operand), None)

    def gather(self, operand: int, dtype: str, offset: str) -> str:
        base = self.pointers[operand]
        return self.owner.gather_lanes(operand, base, offset, self.renderer, None)

    def index(self, axis: int) -> str:
        return self.indices[axis] if axis >= 0 else self.start or "0"

    def result(self, stage: int, number: int) -> str:
        return self.running[number]

    def place(self, operand: int) -> str:
        """Where an operand's element lies."""
        nest, w = self.owner, self.owner.writer
        base, stride = self.pointers[operand], nest.inner_strides[operand]
        if stride == "0":
            return base
        step = self.start if stride == "1" else w.let("step", f"mul i64 {self.start}, {stride}")
        kind = memory_type(nest.nest.operands[operand].dtype)
        return w.let("place", f"getelementptr {kind}, ptr {base}, i64 {step}")


class RowScan(InnerNest):
    """Writes running results along rows."""

    gathers_contiguously = False

    @property
    def divides_by_invariants(self) -> bool:
        """Nothing is the same for long."""
        return False

    def walk_rows(self) -> None:
        w = self.writer
        count = w.let("count", "sub i64 %end, %begin")
        whole = w.let("whole", f"and i64 {count}, {-ROWS}")
        full = w.let("full", f"add i64 %begin, {whole}")
        w.loop("rows", "%begin", full, str(ROWS), [], partial(self._rows, ROWS))
        w.loop("row", full, "%end", "1", [], partial(self._rows, 1))

    def _rows(self, many: int, unit: str, _: Values) -> Values:
        rows = [self._row(unit, n) for n in range(many)]
        begun = _begun(self.stages[0], 1, many)
        self.writer.loop("along", "0", self.inner, "1", begun, partial(self._at, rows))
        return []

    def _row(self, unit: str, ahead: int) -> tuple[Values, Values]:
        """Where the operands begin in a row, and its indices."""
        if ahead:
            unit = self.writer.let("unit", f"add i64 {unit}, {ahead}")
        several = len(self.sizes) > 1
        indices = self.split(unit, self.sizes) if several else [unit][: len(self.sizes)]
        return self.offsets(indices), indices

    def _at(self, rows: Sequence[tuple[Values, Values]], i: str, old: Values) -> Values:
        """Writes both stages at a place of some rows."""
        folded, stored = self.stages
        known, r = iter(old), self.single
        places = [_Row(self, r, i, pointers=p, indices=n) for p, n in rows]
        news: Values = []
        for place in places:
            news += _fold(folded, place, r, list(self.values[0]), known, i)
        for place in places:
            values = list(self.values[1])
            r.render(stored.code, place, values, _everywhere(stored))
            for k, at in stored.stored:
                dtype = self.nest.operands[k].dtype
                value = f"{memory_type(dtype)} {r.as_memory(dtype, values[at] or '')}"
                self.writer.do(f"store {value}, ptr {place.place(k)}, align {SIZES[dtype]}")
        return news


@dataclass
class _Column(OuterPlace):
    """The environment of code at a place of some columns.

    Attributes:
        running: the results at this place.
    """

    running: Sequence[str] = ()

    def result(self, stage: int, number: int) -> str:
        return self.running[number]


class ColumnScan(OuterNest):
    """Writes running results down columns."""

    gathers_contiguously = False

    def _reserve(self) -> None:
        """Nothing waits."""

    def _stages(self) -> None:
        self._across(VECTORS, self._walk)

    def _walk(self, vectors: int) -> None:
        """Goes down some vectors of columns."""
        for k in range(len(self.nest.operands)):
            self.column_pointer(k)
        begun = _begun(self.stages[0], self.lanes, vectors)
        self.writer.loop("down", "0", self.length, "1", begun, partial(self._places, vectors))

    def _places(self, vectors: int, i: str, old: Values) -> Values:
        """Writes both stages at a place of some vectors of columns."""
        folded, stored = self.stages
        known, r = iter(old), self.vector
        places = [_Column(self, i, n) for n in range(vectors)]
        index, news = self.writer.splat("index", "i64", i, self.lanes), list[str]()
        for place in places:
            news += _fold(folded, place, r, list(self.values[0]), known, index)
        for place in places:
            values = list(self.values[1])
            r.render(stored.code, place, values, _everywhere(stored))
            for k, at in stored.stored:
                value = values[at] or ""
                self.store_lanes(k, self.walked(k, i), value, self.mask, place.vector)
        return news
