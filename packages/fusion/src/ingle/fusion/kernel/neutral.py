"""What changes nothing in a reduction."""

from __future__ import annotations

from .code import FLOATS, SIGNED, SIZES, bits_of


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
