"""What every renderer knows of reductions: their kinds, and what changes nothing in them."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernel.code import FLOATS, SIGNED, SIZES, bits_of


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


def neutral_bits(combine: str, dtype: str) -> int:
    """The bits of what changes nothing when it is combined."""
    if dtype == "bool":
        return int(combine in ("all", "min"))
    if combine in ("sum", "totals"):
        return bits_of(-0.0, dtype) if dtype in FLOATS else 0
    if combine == "prod":
        return bits_of(1, dtype)
    largest = combine in ("min", "argmin")
    if dtype in FLOATS:
        return bits_of(float("inf") if largest else float("-inf"), dtype)
    width = 8 * SIZES[dtype]
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    if dtype not in SIGNED:
        low, high = 0, (1 << width) - 1
    return bits_of(high if largest else low, dtype)
