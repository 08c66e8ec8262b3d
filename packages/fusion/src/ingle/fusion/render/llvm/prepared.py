"""A stage whose code is expanded for the target, and sorted by how often it runs."""

from __future__ import annotations

from typing import NamedTuple

from ...kernel.code import Code
from ...kernel.nest import Reduce, Stage, columns_of

UNIFORM, FIXED, VARYING = 0, 1, 2
"""What a value depends on: only the call; the row (or the columns); the place along the walk."""


class Prepared(NamedTuple):
    """A stage whose code is expanded for the target.

    Attributes:
        roots: positions of what is stored, of what is summed over rows, then of what is reduced or
            kept, and of the decay.
        levels: by position, UNIFORM, FIXED or VARYING.
        places: the positions of each level.
        cost: how many instructions run at every place.
    """

    stage: Stage
    code: Code
    roots: tuple[int, ...]
    levels: tuple[int, ...]
    places: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    cost: int

    @property
    def stored(self) -> list[tuple[int, int]]:
        """(operand, position) of each store."""
        pairs = zip(self.stage.stores, self.roots, strict=False)
        return [(k, root) for (k, _), root in pairs]

    @property
    def columns(self) -> list[tuple[int, int]]:
        """(operand, position) of each sum over rows."""
        pairs = zip(columns_of(self.stage), self.roots[len(self.stage.stores) :], strict=False)
        return [(k, root) for (k, _), root in pairs]

    @property
    def reduced(self) -> list[tuple[str, str, int]]:
        """(combine, dtype, position) of each reduction."""
        if not isinstance(self.stage, Reduce):
            return []
        roots = self.roots[len(self.stage.stores) + len(self.stage.columns) :]
        pairs = zip(self.stage.reductions, roots, strict=False)
        return [(combine, self.code[root].dtype, root) for (combine, _), root in pairs]

    @property
    def decay(self) -> int | None:
        """The position of what the result so far is multiplied by; None if by nothing."""
        decays = isinstance(self.stage, Reduce) and self.stage.decay is not None
        return self.roots[-1] if decays else None
