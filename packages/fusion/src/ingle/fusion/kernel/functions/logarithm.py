"""Logarithms and inverse hyperbolic functions.

x = 2**k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2). In float32 log(1 + f) is a polynomial of f, in
float64 one of s = f / (2 + f), as log((1 + s) / (1 - s)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..expression import INTEGER_OF, Expression, copysign, where
from . import coefficients as c
from .rounding import MANTISSA, power_of_two

LN2 = {
    "float32": (0.693145751953125, 1.42860677e-06),
    "float64": (0.6931471805598903, 5.497923018708371e-14),
}
"""ln 2 in two parts; the first has so few bits that its products with exponents are exact."""
_LOG10_2 = {
    "float32": (0.30103302001953125, -3.02435546e-06),
    "float64": (0.30102999566395283, 2.8363394551044964e-14),
}
"""The same of the logarithm of 2 to base 10."""
_TINY = {"float32": 2.0**-126, "float64": 2.0**-1022}
_ROOT = {"float32": 0x3F3504F3, "float64": 0x3FE6A09E667F3BCD}
"""The bits of sqrt(1/2)."""
_INVERSE_LN2 = {
    "float32": (1.4426950216293335, 1.92596299e-08),
    "float64": (1.4426950408889634, 2.0355273740931033e-17),
}
_INVERSE_LN10 = {
    "float32": (0.4342944920063019, -1.01030501e-08),
    "float64": (0.4342944819032518, 1.098319650216765e-17),
}
"""Each as a float of the dtype, and what it lacks."""


class Parts(NamedTuple):
    """k as a float, and log(1 + f) as `high + low` with a small low part."""

    k: Expression
    high: Expression
    low: Expression


def split(x: Expression, *, normal: bool = False) -> tuple[Expression, Expression]:
    """k (an integer) and f of a positive x, which may be denormal unless said."""
    dtype, whole = x.dtype, INTEGER_OF[x.dtype]
    places = MANTISSA[dtype]
    tiny = x < _TINY[dtype]
    bits = (x if normal else where(tiny, x * 2.0**places, x)).bitcast(whole)
    k = (bits - _ROOT[dtype]) >> places
    f = (bits - (k << places)).bitcast(dtype) - 1.0
    return (k if normal else where(tiny, k - places, k)), f


def parts_of(k: Expression, f: Expression) -> Parts:
    """k and the logarithm of 1 + f."""
    if f.dtype == "float32":
        return Parts(k.cast(f.dtype), f, (f * f) * f.polynomial(c.LOG32))
    half = f * f * 0.5
    s = f / (f + 2.0)
    z = s * s
    high = f - half
    low = ((f - high) - half) + s * (half + z * z.polynomial(c.LOGS64))
    return Parts(k.cast(f.dtype), high, low)


def _special(x: Expression, out: Expression) -> Expression:
    """What is not a positive finite number."""
    out = where(x < math.inf, out, x)  # NaN, too
    out = where(x.equals(0.0), -math.inf, out)
    return where(x < 0.0, math.nan, out)


def _natural(p: Parts) -> Expression:
    high, low = LN2[p.high.dtype]
    return p.k.fma(high, p.high + p.k.fma(low, p.low))


def log(dtype: str, x: Expression) -> Expression:
    return _special(x, _natural(parts_of(*split(x))))


def _to_base(x: Expression, factor: tuple[float, float], power: tuple[float, float]) -> Expression:
    """A factor, in two parts, times log(x); `power` is the factor times ln 2."""
    p = parts_of(*split(x))
    main = p.high * factor[0]
    lost = p.high.call("residue", factor[0]) + p.high * factor[1]
    whole = p.k * power[0]
    total = whole + main
    error = (whole - total) + main
    rest = p.low.fma(factor[0], lost) + p.k * power[1] if power[1] else p.low.fma(factor[0], lost)
    return _special(x, total + (rest + error))


def log2(dtype: str, x: Expression) -> Expression:
    return _to_base(x, _INVERSE_LN2[dtype], (1.0, 0.0))


def log10(dtype: str, x: Expression) -> Expression:
    return _to_base(x, _INVERSE_LN10[dtype], _LOG10_2[dtype])


def log1p(dtype: str, x: Expression) -> Expression:
    """log of u = 1 + x, where f gets back what rounding took from x."""
    u = x + 1.0
    lost = where(u > 2.0, 1.0 - (u - x), x - (u - 1.0))
    k, f = split(u, normal=True)
    most = {"float32": 100, "float64": 1000}[dtype]  # beyond, what was lost does not matter
    f = lost.fma(power_of_two(-where(k > most, most, k), dtype), f)
    out = _special(u, _natural(parts_of(k, f)))
    return where(x.equals(0.0), x, out)


def _in_float64(function: Callable[[Expression], Expression]) -> Callable[..., Expression]:
    """A function of either dtype that is computed in float64."""

    def expansion(dtype: str, x: Expression) -> Expression:
        return function(x.cast("float64")).cast(dtype)

    return expansion


_LARGE = 2.0**60
"""From here on 1 + x**2 is x**2."""


def _asinh(x: Expression) -> Expression:
    a = abs(x)
    large = a > _LARGE
    z = a * a
    t = where(large, a, a + z / ((z + 1.0).call("sqrt") + 1.0)).call("log1p")
    return copysign(where(large, t + math.log(2), t), x)


def _acosh(x: Expression) -> Expression:
    large = x > _LARGE
    t = x - 1.0
    y = where(large, x, t + (t * (t + 2.0)).call("sqrt")).call("log1p")
    return where(x < 1.0, math.nan, where(large, y + math.log(2), y))


def _atanh(x: Expression) -> Expression:
    a = abs(x)
    return copysign(((a + a) / (1.0 - a)).call("log1p") * 0.5, x)


EXPANSIONS: dict[str, Callable[..., Expression]] = {
    "acosh": _in_float64(_acosh),
    "asinh": _in_float64(_asinh),
    "atanh": _in_float64(_atanh),
    "log": log,
    "log10": log10,
    "log1p": log1p,
    "log2": log2,
}
