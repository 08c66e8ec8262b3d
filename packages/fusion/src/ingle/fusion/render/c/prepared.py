"""A stage in terms of what C has, and what its values depend on."""

from __future__ import annotations

from typing import NamedTuple

from ...kernel.code import Code
from ...kernel.nest import Stage

UNIFORM, FIXED, VARYING = 0, 1, 2
"""What a value depends on: only the call; the row; the place in it."""


class Prepared(NamedTuple):
    """A stage in terms of what C has.

    Attributes:
        stores: (operand, position).
        columns: the same of what is summed over rows.
        ends: positions of what is reduced, or kept for the row.
        levels: by position, UNIFORM, FIXED or VARYING.
    """

    stage: Stage
    code: Code
    stores: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]
    ends: tuple[int, ...]
    levels: tuple[int, ...]

    @property
    def roots(self) -> list[int]:
        """The positions of what leaves the stage."""
        return [*[at for _, at in (*self.stores, *self.columns)], *self.ends]

    def places(self, level: int) -> list[int]:
        """The positions of a level."""
        return [p for p, own in enumerate(self.levels) if own == level]
