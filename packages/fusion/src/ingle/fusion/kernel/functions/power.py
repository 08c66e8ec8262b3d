"""Powers of floats and of integers.

A float power is exp(y log |x|) with a logarithm of more places than the result has: float64 for
float32, pairs of float64 for float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..code import INTEGERS, SIGNED, SIZES
from ..expression import Expression, where
from . import coefficients as c
from .exponential import exp_reduced, nearest, reduce, scale
from .logarithm import LN2, split


def power(dtype: str, x: Expression, y: Expression) -> Expression:
    if dtype in INTEGERS:
        return _integer_power(dtype, x, y)
    a = abs(x)
    size = _power32(a, y) if dtype == "float32" else _power64(a, y)
    # The sign of a power of a negative number: that of an odd whole exponent, NaN for a fraction.
    whole = y.call("trunc").equals(y)
    half = y * 0.5
    odd = whole & half.call("trunc").differs(half)
    negative = x.bitcast("int32" if dtype == "float32" else "int64") < 0
    out = where(odd & negative, -size, size)
    undefined = (x < 0.0) & (x > -math.inf) & ~whole
    out = where(undefined, math.nan, out)
    out = where(x.is_nan() | y.is_nan(), x + y, out)
    return where(x.equals(1.0) | y.equals(0.0), 1.0, out)


def _limits(a: Expression, log: Expression) -> Expression:
    """A logarithm, also of 0 and infinity."""
    return where(a.equals(0.0), -math.inf, where(a.equals(math.inf), math.inf, log))


def _power32(a: Expression, y: Expression) -> Expression:
    wide = a.cast("float64")
    k, f = split(wide, normal=True)
    s = f / (f + 2.0)
    z = s * s
    log = (s + s) + (s * z) * z.polynomial(c.LOGS64[2:])
    log = _limits(wide, k.cast("float64") + log * (1 / math.log(2)))
    t = where(a.equals(1.0), 0.0, y.cast("float64") * log).at_most(300.0).at_least(-300.0)
    n = nearest(t)
    r = ((t - n) * math.log(2)).cast("float32")
    return scale(exp_reduced(r), n.cast("float32").at_most(200.0).at_least(-200.0))


Pair = tuple[Expression, Expression]


def _sum(a: Expression, b: Expression) -> Pair:
    """a + b and what rounding lost, for |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def _product(a: Pair, b: Pair) -> Pair:
    high = a[0] * b[0]
    return high, a[0].call("residue", b[0]) + (a[0] * b[1] + a[1] * b[0])


def _log_pair(a: Expression) -> Pair:
    """log(a) of a positive finite float64 with about 65 bits."""
    k, f = split(a)
    u = f + 2.0
    u_low = f - (u - 2.0)
    s = f / u
    rest = (f - s * u) - s.call("residue", u) - s * u_low
    pair = (s, rest / u)
    z = _product(pair, pair)
    # log((1 + s) / (1 - s)) = s (2 + 2/3 z + z**2 (2/5 + ...)), the first terms in pairs
    third = f.constant(2 / 3), f.constant(3.7007434154171886e-17)
    w, w_low = _product(z, third)
    w, error = _sum(w, (z[0] * z[0]) * z[0].polynomial(c.LOGT64))
    v, v_low = _product(pair, (w, w_low + error))
    high, low = _sum(s + s, v)
    low = low + (pair[1] + pair[1]) + v_low
    k = k.cast("float64")
    total, error = _sum(k * LN2["float64"][0], high)
    return _sum(total, error + (low + k * LN2["float64"][1]))


def _power64(a: Expression, y: Expression) -> Expression:
    log, low = _log_pair(a)
    log = _limits(a, log)
    one = a.equals(1.0)
    t = where(one, 0.0, y * log)
    more = y.call("residue", log) + y * low
    more = where(one | ~(abs(t) < 800.0), 0.0, more)
    t = t.at_most(800.0).at_least(-800.0)
    n, r = reduce(t)
    return scale(exp_reduced(r + more), n)


def _integer_power(dtype: str, x: Expression, y: Expression) -> Expression:
    """By squaring; with exponents of many bits in a function of its own."""
    bits = 8 * SIZES[dtype]
    if bits == 8:
        out = _squarings(x, y, 7 if dtype in SIGNED else 8)
    else:
        fast = _squarings(x, y, 6)
        long = y > 63
        places = (fast.at, long.at, x.at, y.at)
        at = x.builder.append("fallback", dtype, places, "long_power")
        out = Expression(x.builder, at)
    if dtype not in SIGNED:
        return out
    # To a negative power only 1 and -1 are not cut to 0, and the power of -1 by parity.
    parity = where((y & 1).differs(0), x, x.constant(1))
    cut = where(abs(x).equals(1), parity, 0)
    return where(y < 0, cut, out)


def _squarings(x: Expression, y: Expression, bits: int) -> Expression:
    out = x.constant(1)
    for bit in range(bits):
        out = where((y & (1 << bit)).differs(0), out * x, out)
        x = x * x
    return out


def _long_power(x: Expression, y: Expression) -> Expression:
    return _squarings(x, y, 8 * SIZES[x.dtype] - (x.dtype in SIGNED))


EXPANSIONS: dict[str, Callable[..., Expression]] = {"pow": power}
FUNCTIONS: dict[str, Callable[..., Expression]] = {"long_power": _long_power}
