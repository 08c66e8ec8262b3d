"""Operations that are one instruction, or a few, on any dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ingle.tensor.operation import Op

from .code import FLOATS, INTEGERS, SIZES
from .expression import Expression, where

Rule = Callable[[Op, Sequence[Expression], str], Expression]


def rule(function: Callable[..., Expression]) -> Rule:
    """Of a function of the inputs, with half types widened."""

    def lowered(op: Op, x: Sequence[Expression], out: str) -> Expression:
        return function(*[v.widen() for v in x])

    return lowered


def instruction(name: str) -> Rule:
    """Of one instruction of that name."""
    return rule(lambda x, *others: x.call(name, *others))


def comparison(name: str) -> Rule:
    """Of one instruction whose result is bool."""
    return rule(lambda x, y: x.call(name, y, dtype="bool"))


def _where(op: Op, x: Sequence[Expression], out: str) -> Expression:
    condition, yes, no = x
    return where(condition, yes, no)


def _as_bool(x: Expression) -> Expression:
    return x if x.dtype == "bool" else x.cast("bool")


def _astype(op: Op, x: Sequence[Expression], out: str) -> Expression:
    (value,) = x
    is_cut = value.dtype in FLOATS and out in INTEGERS
    return _whole(value.widen(), out) if is_cut else value.cast(out)


def _whole(x: Expression, out: str) -> Expression:
    """A float cut to an integer, as `astype` says it for what has no place there.

    Processors differ in that, and what the renderers' casts make of it is undefined.
    """
    wide = "int64" if out in ("int64", "uint32", "uint64") else "int32"
    end = 2.0 ** (8 * SIZES[wide] - 1)
    if out != "uint64":
        return where(abs(x) < end, x, -end).cast(wide).cast(out)
    upper = (x >= end) & (x < 2 * end)
    low = where(upper, x - end, x)
    whole = where(abs(low) < end, low, -end).cast(wide).cast(out)
    return where(upper, whole ^ (1 << 63), whole)


def _bitcast(op: Op, x: Sequence[Expression], out: str) -> Expression:
    return x[0] if x[0].dtype == out else x[0].bitcast(out)


def _same(op: Op, x: Sequence[Expression], out: str) -> Expression:
    return x[0]


def _zero(op: Op, x: Sequence[Expression], out: str) -> Expression:
    return x[0].constant(0)


def _is_nan(x: Expression) -> Expression:
    return x.is_nan() if x.dtype in FLOATS else x.constant(False, "bool")


def _is_infinite(x: Expression) -> Expression:
    return abs(x).equals(math.inf) if x.dtype in FLOATS else x.constant(False, "bool")


def _is_finite(x: Expression) -> Expression:
    return abs(x) < math.inf if x.dtype in FLOATS else x.constant(True, "bool")


def _invert(x: Expression) -> Expression:
    return ~x


def _clip(x: Expression, low: Expression, high: Expression) -> Expression:
    return x.call("max", low).call("min", high)


def _power(x: Expression, y: Expression) -> Expression:
    exponent = x.builder.number(y.at)
    if x.dtype in INTEGERS and isinstance(exponent, int) and 0 <= exponent < 64:
        return _whole_power(x, exponent)
    if exponent in (1, 2):
        return x if exponent == 1 else x * x
    return x.call("pow", y)


def _whole_power(x: Expression, exponent: int) -> Expression:
    out = x.constant(1)
    while exponent:
        if exponent & 1:
            out = out * x
        exponent >>= 1
        if exponent:
            x = x * x
    return out


_SAME_NAME = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "cos", "cosh", "erf",
    "erfc", "exp", "expm1", "floor", "inverse_normal", "log", "log10", "log1p", "log2", "round",
    "rsqrt", "short_exp", "short_ndtr", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip

RULES: dict[str, Rule] = {
    **{name: instruction(name) for name in _SAME_NAME},
    "add": instruction("add"),
    "astype": _astype,
    "bitcast": _bitcast,
    "bitwise_and": instruction("and"),
    "bitwise_invert": rule(_invert),
    "bitwise_or": instruction("or"),
    "bitwise_xor": instruction("xor"),
    "clip": rule(_clip),
    "conj": _same,
    "divide": instruction("div"),
    "equal": comparison("eq"),
    "floor_divide": instruction("floor_div"),
    "greater": comparison("gt"),
    "greater_equal": comparison("ge"),
    "imag": _zero,
    "isfinite": rule(_is_finite),
    "isinf": rule(_is_infinite),
    "isnan": rule(_is_nan),
    "less": comparison("lt"),
    "less_equal": comparison("le"),
    "logical_and": rule(lambda x, y: _as_bool(x) & _as_bool(y)),
    "logical_not": rule(lambda x: ~_as_bool(x)),
    "logical_or": rule(lambda x, y: _as_bool(x) | _as_bool(y)),
    "logical_xor": rule(lambda x, y: _as_bool(x) ^ _as_bool(y)),
    "maximum": instruction("max"),
    "minimum": instruction("min"),
    "multiply": instruction("mul"),
    "negative": instruction("neg"),
    "not_equal": comparison("ne"),
    "pow": rule(_power),
    "real": _same,
    "reciprocal": rule(lambda x: 1.0 / x),
    "remainder": instruction("rem"),
    "reshape": _same,
    "square": rule(lambda x: x * x),
    "subtract": instruction("sub"),
    "where": _where,
}
