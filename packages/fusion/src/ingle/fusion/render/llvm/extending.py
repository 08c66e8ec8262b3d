"""Rows with elements of their own added at both ends, or taken back there, as LLVM IR."""

from __future__ import annotations

from functools import partial

from ...kernel.nest import Extend, ExtendNumbers
from .inner import InnerNest
from .text import Values, memory_type

TOGETHER = 4
"""Vectors of a row that are copied at once."""


class ExtendNest(InnerNest):
    """Writes a kernel that copies each row and, while it is near, its ends.

    The last vector of a row overlaps the one before it, so that no lanes are masked; rows that fill
    no vector, or whose elements lie apart, are copied element by element.
    """

    gathers_contiguously = False

    def walk_rows(self) -> None:
        w = self.writer
        self.numbers = dict(zip(ExtendNumbers._fields, self.scalars, strict=False))
        size, apart = self.numbers["size"], self.numbers["apart"]
        fills = w.let("fills", f"icmp sge i64 {size}, {self.lanes}")
        near = w.let("near", f"icmp eq i64 {apart}, 1")
        whole = w.let("whole", f"and i1 {fills}, {near}")
        last = self._op("sub", size, str(self.lanes))
        self.last = w.let("last", f"select i1 {whole}, i64 {last}, i64 0")
        several = self._op("sub", self.last, str(TOGETHER * self.lanes - 1))
        self.several = self.writer.call("far", "i64", "llvm.smax.i64", f"i64 {several}", "i64 0")
        self.whole = whole
        self.single_end = w.let("stop", f"select i1 {whole}, i64 0, i64 {size}")
        super().walk_rows()

    def map(self, number: int, start: str, stop: str) -> None:
        """Writes what a row is extended to, or was extended from."""
        stage = self.nest.stages[number]
        assert isinstance(stage, Extend)
        before, after, size, apart = self.numbers.values()
        behind = self._op("add", before, size)
        stop = self._op("add", behind, after)
        source, target = self.row_pointers
        if stage.back:
            self._copy(self._place(source, 0, self._op("mul", before, apart)), target)
        else:
            self._copy(source, self._place(target, 1, before))
        end = self._op("sub", size, "1")
        # From the index of an added element to that of the one that it repeats.
        if stage.step < 0:
            low, high = before, self._op("add", self._op("add", behind, end), "-1")
        elif stage.step:
            low, high = self._op("sub", size, before), self._op("sub", "0", behind)
        else:
            low, high = "0", end
        for begin, limit, base in (("0", before, low), (behind, stop, high)):
            along = partial(self._end, stage, base)
            self.writer.loop("added", begin, limit, "1", [], along)

    def _copy(self, source: str, target: str) -> None:
        """Copies a row."""
        w = self.writer

        def vectors(count: int, i: str, _: Values) -> Values:
            places = [self._place(p, k, i) for k, p in enumerate((source, target))]
            read = [self.load_run(1, places[0], None, n) for n in range(count)]
            for n, value in enumerate(read):
                self.store_lanes(1, places[1], value, None, n)
            return []

        many = TOGETHER * self.lanes
        w.loop("vectors", "0", self.several, str(many), [], partial(vectors, TOGETHER))
        past = self._op("add", self.several, str(many - 1))
        past = self._op("mul", self._op("udiv", past, str(many)), str(many))
        w.loop("vector", past, self.last, str(self.lanes), [], partial(vectors, 1))
        w.when(self.whole, [], lambda: vectors(1, self.last, []))
        along = partial(self._one, source, target)
        w.loop("element", "0", self.single_end, "1", [], along)

    def _one(self, source: str, target: str, i: str, _: Values) -> Values:
        """Copies the element at an index."""
        w, kind = self.writer, memory_type(self.nest.operands[0].dtype)
        one = w.let("x", f"load {kind}, ptr {self._apart(source, i)}")
        w.do(f"store {kind} {one}, ptr {self._place(target, 1, i)}")
        return []

    def _end(self, stage: Extend, base: str, i: str, _: Values) -> Values:
        """Has the added element at an index from the one that it repeats, or gives it to that."""
        w, kind = self.writer, memory_type(self.nest.operands[0].dtype)
        source, target = self.row_pointers
        at = base if not stage.step else self._op("add" if stage.step > 0 else "sub", base, i)
        if not stage.back:
            one = w.let("x", f"load {kind}, ptr {self._apart(source, at)}")
            w.do(f"store {kind} {one}, ptr {self._place(target, 1, i)}")
            return []
        one = w.let("x", f"load {kind}, ptr {self._apart(source, i)}")
        to = self._place(target, 1, at)
        there = w.let("there", f"load {kind}, ptr {to}")
        w.do(f"store {kind} {w.let('sum', f'fadd {kind} {there}, {one}')}, ptr {to}")
        return []

    def _apart(self, source: str, at: str) -> str:
        return self._place(source, 0, self._op("mul", at, self.numbers["apart"]))

    def _op(self, name: str, a: str, b: str) -> str:
        return self.writer.let(name, f"{name} i64 {a}, {b}")
