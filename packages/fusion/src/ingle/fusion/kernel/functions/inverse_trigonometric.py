"""asin, acos, atan, atan2."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..expression import INTEGER_OF, Expression, copysign, where
from . import coefficients as c

_ASIN = {"float32": c.ASIN32, "float64": c.ASIN64}
_ATAN = {"float32": c.ATAN32, "float64": c.ATAN64}
_HALF_PI = {
    "float32": (1.5707963705062866, -4.37113883e-08),
    "float64": (1.5707963267948966, 6.123233995736766e-17),
}
_QUARTER_PI = {d: (high / 2, low / 2) for d, (high, low) in _HALF_PI.items()}


def _halved(a: Expression) -> tuple[Expression, Expression, Expression]:
    """Where a > 1/2: asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)).

    Returns the condition, the number whose arc sine is wanted, and its arc sine without it.
    """
    large = a > 0.5
    z = where(large, (1.0 - a) * 0.5, a * a)
    s = where(large, z.call("sqrt"), a)
    return large, s, (s * z) * z.polynomial(_ASIN[a.dtype])


def asin(dtype: str, x: Expression) -> Expression:
    large, s, more = _halved(abs(x))
    high, low = _HALF_PI[dtype]
    far = high - ((s + s) - (low - (more + more)))
    return copysign(where(large, far, s + more), x)


def acos(dtype: str, x: Expression) -> Expression:
    large, s, more = _halved(abs(x))
    high, low = _HALF_PI[dtype]
    s, more = copysign(s, x), copysign(abs(more), x)
    near = high - (s - (low - more))
    far = (s + s) + (more + more)
    negative = 2 * high + (far + 2 * low)
    return where(large, where(x < 0.0, negative, far), near)


def _quotient_atan(small: Expression, large: Expression) -> tuple[Expression, Expression]:
    """atan(small / large) for 0 <= small <= large in a high and a low part."""
    dtype = small.dtype
    beyond = small > large * math.tan(math.pi / 8)
    a, b = where(beyond, small - large, small), where(beyond, small + large, large)
    t = a / b
    z = t * t
    more = (t * z) * z.polynomial(_ATAN[dtype])
    if dtype == "float64":
        # What the sum, the difference (both exact with their remainders) and the quotient lost.
        lost = where(beyond, small - (a + large), 0.0), where(beyond, small - (b - large), 0.0)
        rest = (a - t * b) - t.call("residue", b) + (lost[0] - t * lost[1])
        usual = (small > 2.0**-900) & (large < 2.0**900)  # else it is in no way exact, nor missed
        more = more + where(usual, rest / b * (1.0 - z), 0.0)
    high, low = _QUARTER_PI[dtype]
    offset = where(beyond, t.constant(high), 0.0)
    total = offset + t
    error = (offset - total) + t
    return total, error + (more + where(beyond, t.constant(low), 0.0))


def _from(base: tuple[float, float], high: Expression, low: Expression) -> Expression:
    """A constant in two parts minus a number in two parts."""
    total = base[0] - high
    error = (base[0] - total) - high
    return total + (error + (base[1] - low))


def atan(dtype: str, x: Expression) -> Expression:
    a = abs(x)
    steep = a > 1.0
    one = a.constant(1.0)
    # 1 / a of infinity is 0, and its own quotient is not taken.
    small, large = where(steep, one, a), where(steep, a, one)
    high, low = _quotient_atan(small, large)
    out = where(steep, _from(_HALF_PI[dtype], high, low), high + low)
    return where(x.is_nan(), x, copysign(out, x))


def atan2(dtype: str, y: Expression, x: Expression) -> Expression:
    a, b = abs(y), abs(x)
    steep = a > b
    small, large = where(steep, b, a), where(steep, a, b)
    infinite = small.equals(math.inf)  # both are
    none = large.equals(0.0)  # both are 0
    small = where(infinite, 1.0, small)
    large = where(none | infinite, 1.0, large)
    # The sum of both must be finite, and what it lacks no denormal number.
    factor = where(
        large > (2.0**120 if dtype == "float32" else 2.0**1000), large.constant(0.25), 1.0
    )
    if dtype == "float64":
        factor = where(large < 2.0**-500, 2.0**500, factor)
    small, large = small * factor, large * factor
    high, low = _quotient_atan(small, large)
    half, low_half = _HALF_PI[dtype]
    out = where(steep, _from((half, low_half), high, low), high + low)
    # Turned by pi where x is negative, -0.0 included.
    turned = _turned(dtype, steep, high, low)
    back = x.bitcast(INTEGER_OF[dtype]) < 0
    out = where(back, turned, out)
    return where(x.is_nan() | y.is_nan(), x + y, copysign(out, y))


def _turned(dtype: str, steep: Expression, high: Expression, low: Expression) -> Expression:
    half, low_half = _HALF_PI[dtype]
    beyond = (half + high) + (((half - (half + high)) + high) + (low + low_half))
    return where(steep, beyond, _from((2 * half, 2 * low_half), high, low))


EXPANSIONS: dict[str, Callable[..., Expression]] = {
    "acos": acos,
    "asin": asin,
    "atan": atan,
    "atan2": atan2,
}
