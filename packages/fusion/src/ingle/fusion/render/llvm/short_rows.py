"""Nests over rows so short that they stay in registers, as LLVM IR.

The inner size is part of such a kernel: there are no loops along a row, its masks are constants,
and what one stage loads or stores the next one has at hand.
"""

from __future__ import annotations

from ...kernel.code import SIZES
from ...kernel.nest import Nest, accumulators
from .inner import InnerNest
from .reductions import Combiner
from .targets import Target
from .text import Values, memory_type, vector_type


class ShortNest(InnerNest):
    """Writes a kernel whose rows are a few vectors."""

    def __init__(self, nest: Nest, name: str, target: Target) -> None:
        super().__init__(nest, name, target)
        self._held: dict[tuple[int, int], str] = {}
        self._masks = [self._mask(start) for start in range(0, nest.row_length, self.lanes)]

    def _mask(self, start: int) -> str | None:
        """The lanes that exist of the vector from an inner index on; None: all."""
        left = self.nest.row_length - start
        if left >= self.lanes:
            return None
        flags = ["true" if n < left else "false" for n in range(self.lanes)]
        return "<" + ", ".join(f"i1 {flag}" for flag in flags) + ">"

    def row(self, unit: str, indices: Values) -> None:
        self._held = {}
        super().row(unit, indices)

    def load_lanes(self, k: int, pointer: str, mask: str | None, ahead: int = 0) -> str:
        if self.nest.operands[k].lane == "zero":
            return super().load_lanes(k, pointer, mask, ahead)
        held = self._held.get((k, ahead))
        if held is None:
            held = self._held[k, ahead] = super().load_lanes(k, pointer, mask, ahead)
        return held

    def store_lanes(self, k: int, pointer: str, value: str, mask: str | None, ahead: int) -> None:
        operand = self.nest.operands[k]
        alone = mask is not None and mask.count("true") == 1
        if alone and (operand.lane == "unit" or operand.apart or operand.backward):
            self._store_first(k, pointer, value, ahead)
        else:
            super().store_lanes(k, pointer, value, mask, ahead)
        self._held[k, ahead] = value

    def store_turns(
        self, ks: tuple[int, int], pointer: str, values: tuple[str, str], mask: str | None,
        ahead: int,
    ) -> None:  # fmt: skip
        super().store_turns(ks, pointer, values, mask, ahead)
        for k, value in zip(ks, values, strict=True):
            self._held[k, ahead] = value

    def _store_first(self, k: int, pointer: str, value: str, ahead: int) -> None:
        """Stores lane 0 by itself.

        LLVM turns a narrowing masked store whose constant mask has one lane into a store of the
        wide number, over what lies behind it.
        """
        dtype, w = self.nest.operands[k].dtype, self.writer
        kind = memory_type(dtype)
        lanes = f"{vector_type(kind, self.lanes)} {self.vector.as_memory(dtype, value)}"
        first = w.let("first", f"extractelement {lanes}, i64 0")
        w.do(f"store {kind} {first}, ptr {self.ahead(k, pointer, ahead)}, align {SIZES[dtype]}")

    def map(self, number: int, start: str, stop: str) -> None:
        self.vectors(number, start, self._masks)

    def reduce(self, number: int, length: str) -> None:
        """With few elements each is a partial result of its own, and its block's total."""
        done = self.vectors(number, "0", self._masks)
        for j, (combine, dtype, at) in enumerate(self.stages[number].reduced):
            combiner = Combiner(combine, dtype)
            parts: list[Values | None] = [None] * max(1, accumulators(dtype) // self.lanes)
            for n, values in enumerate(done):
                parts[n] = self._part(combiner, values[at], n)
            one = combiner.fold(self.vector, self._folded(combiner, parts))
            result = combiner.finish(self.single, one, str(self.nest.row_length))
            self.results[number, j] = ("int64" if combiner.indexed else dtype, result)

    def _part(self, combiner: Combiner, value: str, n: int) -> Values:
        nothing, mask = combiner.start(self.lanes), self._masks[n]
        if mask is not None:
            value = self.vector.select(combiner.dtype, mask, value, nothing[0])
        if not combiner.indexed:
            return [value]
        return combiner.add(self.vector, nothing, value, self.numbers_from(str(n * self.lanes)))

    def _folded(self, combiner: Combiner, parts: list[Values | None]) -> Values:
        """Folded in halves, where what is not there changes nothing."""
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [
                combiner.merge(self.vector, a, b) if a and b else a
                for a, b in zip(parts[:half], parts[half:], strict=True)
            ]
        (found,) = parts
        assert found is not None, "there is a first vector"
        return found
