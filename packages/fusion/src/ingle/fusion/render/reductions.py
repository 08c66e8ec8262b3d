"""What every renderer knows of reductions: their kinds."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernel.code import FLOATS


@dataclass(frozen=True, slots=True)
class Reduction:
    """One reduction of a stage.

    Attributes:
        combine, dtype: its operation and the dtype of what it takes.
    """

    combine: str
    dtype: str

    @property
    def indexed(self) -> bool:
        """Whether it finds a place: a partial result is a value and its index."""
        return self.combine.startswith("arg")

    @property
    def compensated(self) -> bool:
        """Whether it goes in blocks, whose sums are added with their errors."""
        return self.combine == "sum" and self.dtype in FLOATS

    @property
    def totals(self) -> bool:
        """Whether it takes sums of blocks: a partial result is a total and its error."""
        return self.combine == "totals"
