"""Shifts, which NumPy defines for any distance."""

from __future__ import annotations

from .code import SIGNED, SIZES
from .expression import Expression, where
from .lowering_plain import Rule, rule


def _within(x: Expression, distance: Expression) -> tuple[Expression, Expression]:
    """Whether a distance is less than the number of bits, and it or 0."""
    unsigned = distance.dtype if distance.dtype.startswith("u") else f"u{distance.dtype}"
    inside = distance.bitcast(unsigned) < 8 * SIZES[x.dtype]
    return inside, where(inside, distance, 0)


def _left(x: Expression, distance: Expression) -> Expression:
    inside, by = _within(x, distance)
    return where(inside, x << by, 0)


def _right(x: Expression, distance: Expression) -> Expression:
    inside, by = _within(x, distance)
    emptied = x >> (8 * SIZES[x.dtype] - 1) if x.dtype in SIGNED else x.constant(0)
    return where(inside, x >> by, emptied)


RULES: dict[str, Rule] = {
    "bitwise_left_shift": rule(_left),
    "bitwise_right_shift": rule(_right),
}
