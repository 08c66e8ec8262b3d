"""Partial results of reductions along vector lanes, in LLVM IR."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.nest import accumulators
from .reductions import Combiner
from .rows import NestRenderer
from .text import Values


class Partials:
    """The partial results of a stage's reductions as a flat list of operands.

    Each reduction has `counts[j]` vectors of partial results; `count` is the largest of these.
    """

    def __init__(self, owner: NestRenderer, combiners: Sequence[Combiner]) -> None:
        self.owner = owner
        self.combiners = combiners
        self.lanes = owner.lanes
        self.counts = [max(1, accumulators(c.dtype) // self.lanes) for c in combiners]
        self.count = max(self.counts)

    def start(self) -> Values:
        """Of each, one that has seen nothing."""
        pairs = zip(self.combiners, self.counts, strict=True)
        return [v for c, n in pairs for _ in range(n) for v in c.start(self.lanes)]

    def carried(self, values: Values) -> list[tuple[str, str]]:
        """With their types, for a loop."""
        pairs = zip(self.combiners, self.counts, strict=True)
        types = [t for c, n in pairs for _ in range(n) for t in c.types(self.lanes)]
        return list(zip(types, values, strict=True))

    def split(self, values: Values) -> list[list[Values]]:
        """By reduction and vector."""
        return self._split(values, [len(c.types(1)) for c in self.combiners])

    def _split(self, values: Values, widths: Sequence[int]) -> list[list[Values]]:
        found: list[list[Values]] = []
        at = 0
        for width, count in zip(widths, self.counts, strict=True):
            found.append([values[at + n * width : at + (n + 1) * width] for n in range(count)])
            at += width * count
        return found

    def totals(self) -> list[tuple[str, str]]:
        """What blocks are added to, with types: sums have their error beside them."""
        found: list[tuple[str, str]] = []
        for c, n in zip(self.combiners, self.counts, strict=True):
            each = list(zip(c.types(self.lanes), c.start(self.lanes), strict=True))
            if c.compensated:
                each.append((each[0][0], "zeroinitializer" if self.lanes > 1 else "0.0"))
            found += each * n
        return found

    def split_totals(self, values: Values) -> list[list[Values]]:
        """Totals by reduction and vector."""
        return self._split(values, [1 + c.compensated + c.indexed for c in self.combiners])

    def resume(self, totals: list[list[Values]]) -> Values:
        """Partial results for the next block: sums begin anew, others go on."""
        fresh = self.split(self.start())
        return [
            v
            for c, old, new in zip(self.combiners, totals, fresh, strict=True)
            for vector in (new if c.compensated else old)
            for v in vector
        ]

    def grow(
        self,
        number: int,
        old: Values,
        done: list[list[str]],
        starts: Sequence[str],
        masks: Sequence[str | None],
    ) -> Values:
        """Adds vectors of new elements, the first to the first partial result and so on."""
        r, stage = self.owner.vector, self.owner.stages[number]
        parts = self.split(old)
        for n, values in enumerate(done):
            index = ""
            if any(c.indexed for c in self.combiners):
                index = self.owner.numbers_from(starts[n])
            for c, vectors, (_, _, at) in zip(self.combiners, parts, stage.reduced, strict=True):
                value, mask = values[at], masks[n]
                if mask is not None:
                    value = r.select(c.dtype, mask, value, c.start(self.lanes)[0])
                place = n % len(vectors)
                vectors[place] = c.add(r, vectors[place], value, index)
        return [v for vectors in parts for vector in vectors for v in vector]

    def rotate(self, values: Values) -> Values:
        """The first partial result of each reduction becomes the last."""
        parts = self.split(values)
        return [v for vectors in parts for vector in (vectors[1:] + vectors[:1]) for v in vector]
