"""How partial results of reductions begin, grow and are folded together, in LLVM IR."""

from __future__ import annotations

from ...kernel.code import FLOATS, INTEGERS
from ...kernel.neutral import neutral_bits
from ..reductions import Reduction
from .code import CodeRenderer
from .text import Values, constant, scalar_type, value_type

LAST = (1 << 63) - 1
"""The index of a partial result that has seen nothing."""


class Combiner(Reduction):
    """One reduction, whose partial results are one operand, or two: see `Reduction`."""

    __slots__ = ()

    @property
    def dtypes(self) -> list[str]:
        """Those of a partial result."""
        if self.totals:
            return [self.dtype, self.dtype]
        return [self.dtype, "int64"] if self.indexed else [self.dtype]

    def types(self, lanes: int) -> list[str]:
        """LLVM's types of a partial result."""
        return [value_type(dtype, lanes) for dtype in self.dtypes]

    def start(self, lanes: int) -> Values:
        """A partial result that has seen nothing."""
        neutral = constant(neutral_bits(self.combine, self.dtype), self.dtype, lanes)
        if self.totals:
            return [neutral, constant(0, self.dtype, lanes)]
        return [neutral, constant(LAST, "int64", lanes)] if self.indexed else [neutral]

    def add(self, r: CodeRenderer, old: Values, value: str, index: str) -> Values:
        """A partial result that has seen another element, with a larger index if that matters."""
        if self.totals:
            return two_sum(r, self.dtype, old, value)
        if not self.indexed:
            return [self.join(r, old[0], value)]
        better = self._better(r, value, old[0])
        return [
            r.select(self.dtype, better, value, old[0]),
            r.select("int64", better, index, old[1]),
        ]

    def join(self, r: CodeRenderer, a: str, b: str) -> str:
        """Two values combined, without indices."""
        if self.combine in ("max", "min"):
            return r.minmax(self.dtype, [a, b], larger=self.combine == "max")
        return r.writer.let(self.combine, f"{self._word()} {r.type(self.dtype)} {a}, {b}")

    def merge(self, r: CodeRenderer, a: Values, b: Values) -> Values:
        """Two partial results combined; of equals the one with the smaller index."""
        if not self.indexed:
            return [self.join(r, a[0], b[0])]
        w, kind = r.writer, r.type(self.dtype)
        better = self._better(r, b[0], a[0])
        word = "fcmp ueq" if self.dtype in FLOATS else "icmp eq"
        tied = w.let("tied", f"{word} {kind} {a[0]}, {b[0]}")
        if self.dtype in FLOATS:  # unordered, but only one of them is NaN
            worse = self._better(r, a[0], b[0])
            not_worse = w.let("not", f"xor {r.type('bool')} {worse}, {_true(r)}")
            tied = w.let("tied", f"and {r.type('bool')} {tied}, {not_worse}")
        earlier = r.compare("lt", "int64", b[1], a[1])
        first = w.let("first", f"and {r.type('bool')} {tied}, {earlier}")
        take = w.let("take", f"or {r.type('bool')} {better}, {first}")
        return [r.select(self.dtype, take, b[0], a[0]), r.select("int64", take, b[1], a[1])]

    def _better(self, r: CodeRenderer, value: str, best: str) -> str:
        """Whether a value replaces the best one: it is beyond it or NaN, and that is not NaN."""
        larger = self.combine == "argmax"
        kind, w = r.type(self.dtype), r.writer
        if self.dtype in INTEGERS:
            return r.compare("gt" if larger else "lt", self.dtype, value, best)
        beyond = w.let("beyond", f"fcmp {'ugt' if larger else 'ult'} {kind} {value}, {best}")
        known = w.let("known", f"fcmp ord {kind} {best}, {best}")
        return w.let("better", f"and {r.type('bool')} {beyond}, {known}")

    def _word(self) -> str:
        return {
            "sum": "fadd" if self.dtype in FLOATS else "add",
            "prod": "fmul" if self.dtype in FLOATS else "mul",
            "any": "or",
            "all": "and",
        }[self.combine]

    def fold(self, r: CodeRenderer, vector: Values) -> Values:
        """The lanes of a partial result folded in halves into one."""
        w, lanes = r.writer, r.lanes
        if self.dtype == "bool" and lanes > 1:
            word = "or" if self.combine in ("any", "max") else "and"
            mask, name = r.type("bool"), f"llvm.vector.reduce.{word}.v{lanes}i1"
            return [w.call("folded", "i1", name, f"{mask} {vector[0]}")]
        narrow = r
        while lanes > 1:
            half = lanes // 2
            parts: list[Values] = []
            for start in (0, half):
                chosen = ", ".join(f"i32 {n}" for n in range(start, start + half))
                part = []
                for kind, value in zip(self.types(lanes), vector, strict=True):
                    mask = f"<{half} x i32> <{chosen}>"
                    part.append(
                        w.let("half", f"shufflevector {kind} {value}, {kind} poison, {mask}")
                    )
                parts.append(part)
            narrow = CodeRenderer(w, r.target, half)
            if half == 1:
                parts = [self._extract(r, p) for p in parts]
            vector = self.merge(narrow, *parts)
            lanes = half
        return vector

    def _extract(self, r: CodeRenderer, values: Values) -> Values:
        kinds = [scalar_type(self.dtype), "i64"]
        return [
            r.writer.let("one", f"extractelement <1 x {kind}> {value}, i64 0")
            for kind, value in zip(kinds, values, strict=False)
        ]

    def finish(self, r: CodeRenderer, partial: Values, length: str) -> str:
        """The result of the reduction of `length` elements."""
        w = r.writer
        if self.indexed:  # nothing was beyond the neutral value: all elements equal it
            unseen = r.compare("eq", "int64", partial[1], constant(LAST, "int64", r.lanes))
            return r.select("int64", unseen, constant(0, "int64", r.lanes), partial[1])
        if self.compensated or self.totals:  # the neutral -0.0 is no sum of nothing
            empty = w.let("empty", f"icmp eq i64 {length}, 0")
            kind = r.type(self.dtype)
            zero = constant(0, self.dtype, r.lanes)
            return w.let("sum", f"select i1 {empty}, {kind} {zero}, {kind} {partial[0]}")
        return partial[0]


def _true(r: CodeRenderer) -> str:
    return constant(1, "bool", r.lanes)


def two_sum(r: CodeRenderer, dtype: str, total: Values, value: str) -> Values:
    """A total and its error with a value added: Knuth's exact sum of two floats."""
    w, kind = r.writer, r.type(dtype)
    s, e = total
    new = w.let("total", f"fadd {kind} {s}, {value}")
    part = w.let("part", f"fsub {kind} {new}, {s}")
    rest = w.let("rest", f"fsub {kind} {new}, {part}")
    lost = w.let("lost", f"fsub {kind} {s}, {rest}")
    missing = w.let("missing", f"fsub {kind} {value}, {part}")
    error = w.let("error", f"fadd {kind} {lost}, {missing}")
    return [new, w.let("error", f"fadd {kind} {e}, {error}")]


def total_of(r: CodeRenderer, dtype: str, total: Values) -> str:
    """A total with its error, which is NaN beside infinities, and would turn -0.0 into 0.0."""
    w, kind = r.writer, r.type(dtype)
    both = w.let("sum", f"fadd {kind} {total[0]}, {total[1]}")
    matters = w.let("lost", f"fcmp one {kind} {total[1]}, {constant(0, dtype, r.lanes)}")
    return r.select(dtype, matters, both, total[0])
