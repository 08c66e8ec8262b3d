"""Operations of floats that take more than one instruction."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingle.tensor.operation import Op

from .code import FLOATS, SIZES, UNSIGNED
from .expression import INTEGER_OF, Expression, copysign, where
from .lowering_plain import Rule, rule


def _magnitude(x: Expression) -> Expression:
    """The absolute value by its bits, for half types as well."""
    whole = INTEGER_OF[x.dtype]
    mask = (1 << (8 * SIZES[x.dtype] - 1)) - 1
    return (x.bitcast(whole) & mask).bitcast(x.dtype)


def _copysign(op: Op, x: Sequence[Expression], out: str) -> Expression:
    return copysign(_magnitude(x[0]), x[1])


def _signbit(op: Op, x: Sequence[Expression], out: str) -> Expression:
    value = x[0]
    if value.dtype in UNSIGNED or value.dtype == "bool":
        return value.constant(False, "bool")
    bits = value.bitcast(INTEGER_OF[value.dtype]) if value.dtype in FLOATS else value
    return bits < 0


def _nextafter(op: Op, x: Sequence[Expression], out: str) -> Expression:
    start, goal = x
    a, b = start.widen(), goal.widen()
    bits = start.bitcast(INTEGER_OF[out])
    one = bits.constant(1)
    # Away from zero the bits count up, for either sign.
    step = where((b > a) ^ (a < 0.0), one, -one)
    smallest = copysign(one.bitcast(out), goal)
    moved = where(a.equals(0.0), smallest, (bits + step).bitcast(out))
    moved = where(a.equals(b), goal, moved)
    return where(a.is_nan(), start, where(b.is_nan(), goal, moved))


def _logaddexp(x: Expression, y: Expression) -> Expression:
    small = (-abs(x - y)).call("exp").call("log1p")
    return where(x.equals(y), x + math.log(2), x.call("max", y) + small)


def _hypot(x: Expression, y: Expression) -> Expression:
    a, b = abs(x), abs(y)
    if x.dtype == "float32":
        wide = a.cast("float64"), b.cast("float64")
        out = (wide[0] * wide[0] + wide[1] * wide[1]).call("sqrt").cast("float32")
    else:
        out = _scaled_hypot(a, b)
    return where(a.equals(math.inf) | b.equals(math.inf), math.inf, out)


def _scaled_hypot(a: Expression, b: Expression) -> Expression:
    """With both multiplied by a power of two so that squares neither overflow nor vanish."""
    large = a.call("max", b)
    down, up = large > 2.0**500, large < 2.0**-400
    factor = where(down, 2.0**-600, where(up, large.constant(2.0**600), 1.0))
    back = where(down, 2.0**600, where(up, large.constant(2.0**-600), 1.0))
    a, b = a * factor, b * factor
    return (a * a + b * b).call("sqrt") * back


RULES: dict[str, Rule] = {
    "copysign": _copysign,
    "hypot": rule(_hypot),
    "logaddexp": rule(_logaddexp),
    "nextafter": _nextafter,
    "signbit": _signbit,
}
