"""sin, cos and tan over the whole range.

x = q pi/2 + r with |r| <= pi/4. Up to a limit q pi/2 is taken from x in parts with so few bits that
the products are exact (Cody and Waite: Software manual for the elementary functions, 1980); beyond
it a function of its own multiplies x with the bits of 2/pi that matter (Payne and Hanek: Radian
reduction for trigonometric functions, SIGNUM 18, 1983).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from ..expression import Expression, where
from . import coefficients as c
from .exponential import nearest
from .pi import far_digits, two_over_pi_words

_LIMIT = {"float32": 8192 * math.pi / 2, "float64": 2.0**20}
_PARTS = {
    "float32": (1.5703125, 0.0004837512969970703, 7.549533620476723e-08, 2.56334407e-12),
    "float64": (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21),
}
"""pi/2 in parts."""
_SIN = {"float32": c.SIN32, "float64": c.SIN64}
_COS = {"float32": c.COS32, "float64": c.COS64}


class Reduced(NamedTuple):
    """r, what rounding took from it (None: it does not matter), and q (int32 or int64)."""

    r: Expression
    tail: Expression | None
    q: Expression

    def rough(self) -> Reduced:
        """Without the tail in float32, where sine and cosine have places to spare."""
        return self._replace(tail=None) if self.r.dtype == "float32" else self


def _near(x: Expression) -> Reduced:
    n = nearest(x * (2 / math.pi))
    whole = "int32" if x.dtype == "float32" else "int64"
    q = n.cast("int32").cast(whole)
    parts = _PARTS[x.dtype]
    *exact, before, last = parts
    a = x
    for part in exact:
        a = (-n).fma(part, a)
    b = n * before
    t = a - b
    rest = n * last - ((a - t) - b)
    r = t - rest
    return Reduced(r, (t - r) - rest, q)


def _far32(x: Expression) -> Reduced:
    """The integer mantissa times 2/pi 2**e mod 4, given in three parts of 29 bits."""
    bits = abs(x).bitcast("int32")
    exponent = bits >> 23
    m = ((bits & 0x7FFFFF) | 0x800000).cast("float64")
    place = exponent - (127 + 13)
    place = where(place < 0, 0, place)
    digits = [m * place.table(part, "float64") for part in far_digits()]
    first = digits[0] - (digits[0] * 0.25).call("floor") * 4.0
    n = nearest(first + digits[1])
    fraction = ((first - n) + digits[1]) + digits[2]
    sign = where(x < 0.0, fraction.constant(-1.0), 1.0)
    q = (n * sign).cast("int32")
    angle = fraction * sign * (math.pi / 2)
    r = angle.cast("float32")
    return Reduced(r, (angle - r.cast("float64")).cast("float32"), q)


def _product(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """The high and low words of a product of two uint64."""
    a0, a1, b0, b1 = a & 0xFFFFFFFF, a >> 32, b & 0xFFFFFFFF, b >> 32
    middle = a1 * b0 + ((a0 * b0) >> 32)
    other = a0 * b1 + (middle & 0xFFFFFFFF)
    return a1 * b1 + (middle >> 32) + (other >> 32), a * b


def _far64(x: Expression) -> Reduced:
    """The integer mantissa times 192 bits of 2/pi, mod 4, in fixed point of 128 bits."""
    bits = abs(x).bitcast("uint64")
    m = (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000
    place = (bits >> 52) - (1075 - 62)
    place = where(place > 1100, 1100, place)  # infinity, NaN, and what is not far
    word, shift = (place >> 6).cast("int64"), place & 63
    words = [(word + k).table(two_over_pi_words(), "uint64") for k in range(4)]
    parts = [(a << shift) | ((b >> 1) >> (63 - shift)) for a, b in pairwise(words)]
    high2, low2 = _product(parts[1], m)
    high3, _ = _product(parts[2], m)
    low = low2 + high3
    high = parts[0] * m + high2 + where(low < low2, low.constant(1), 0)
    # The two highest bits count quarters; the rest is a signed fraction of one.
    q = ((high + (1 << 61)) >> 62).cast("int64")
    signed = high.bitcast("int64") - (q << 62)
    a = ((signed >> 20) << 20).cast("float64") * 2.0**-62
    b = (signed & 0xFFFFF).cast("float64") * 2.0**-62
    b = b + (low >> 1).bitcast("int64").cast("float64") * 2.0**-125
    r = a + b
    tail = (a - r) + b
    half_pi, more = math.pi / 2, 6.123233995736766e-17
    main = r * half_pi
    tail = r.call("residue", half_pi) + (r * more + tail * half_pi)
    sign = where(x < 0.0, main.constant(-1.0), 1.0)
    return Reduced(main * sign, tail * sign, where(x < 0.0, -q, q))


def _sin_parts(at: Reduced) -> tuple[Expression, Expression]:
    """The sine as a sum of a large and a small part."""
    r, dtype = at.r, at.r.dtype
    z = r * r
    cubic = (r * z) * z.polynomial(_SIN[dtype])
    if at.tail is not None:
        cubic = cubic + z.fma(-0.5, 1.0) * at.tail
    return r, cubic


def _sin_of(at: Reduced) -> Expression:
    large, small = _sin_parts(at)
    return large + small


def _cos_parts(r: Expression, tail: Expression) -> tuple[Expression, Expression]:
    """The cosine as a sum of a large and a small part."""
    z = r * r
    half = z * 0.5
    w = 1.0 - half
    return w, ((1.0 - w) - half) + ((z * z) * z.polynomial(_COS[r.dtype]) - r * tail)


def _cos_of(at: Reduced) -> Expression:
    r = at.r
    if at.tail is None:
        z = r * r
        return z.fma(z.fma(z.polynomial(_COS[r.dtype]), -0.5), 1.0)
    large, small = _cos_parts(r, at.tail)
    return large + small


def _sin(at: Reduced, quarters: int) -> Expression:
    """The sine, a number of quarter turns further."""
    at = at.rough()
    q = at.q + quarters if quarters else at.q
    out = where((q & 1).differs(0), _cos_of(at), _sin_of(at))
    return where((q & 2).differs(0), -out, out)


def _tan(at: Reduced) -> Expression:
    return _tan32(at) if at.r.dtype == "float32" else _tan64(at)


def _tan32(at: Reduced) -> Expression:
    r, tail = at.r, at.tail
    assert tail is not None
    z = r * r
    cubic = (r * z) * z.polynomial(c.TAN32)
    near = r + cubic
    t = r + (cubic + tail * near.fma(near, 1.0))
    odd = (at.q & 1).differs(0)
    return where(odd, -1.0, t) / where(odd, t, 1.0)


def _tan64(at: Reduced) -> Expression:
    """Sine by cosine, or minus cosine by sine, with what the quotient and both lack."""
    assert at.tail is not None
    (sine, sine_low), (cosine, cosine_low) = _sin_parts(at), _cos_parts(at.r, at.tail)
    odd = (at.q & 1).differs(0)
    above, above_low = where(odd, -cosine, sine), where(odd, -cosine_low, sine_low)
    below, below_low = where(odd, sine, cosine), where(odd, sine_low, cosine_low)
    a, b = above + above_low, below + below_low
    ratio = a / b
    lacks = above_low - (a - above), below_low - (b - below)
    rest = (a - ratio * b) - ratio.call("residue", b) + (lacks[0] - ratio * lacks[1])
    return ratio + rest / b


def _far(x: Expression) -> Reduced:
    return _far32(x) if x.dtype == "float32" else _far64(x)


def _everywhere(name: str, function: Callable[[Reduced], Expression]) -> Callable[..., Expression]:
    def expansion(dtype: str, x: Expression) -> Expression:
        fast = function(_near(x))
        if name != "cos":
            fast = where(x.equals(0.0), x, fast)  # -0.0
        far = abs(x) > _LIMIT[dtype]
        places = (fast.at, far.at, x.at)
        return Expression(x.builder, x.builder.append("fallback", dtype, places, f"{name}_far"))

    return expansion


def _far_function(function: Callable[[Reduced], Expression]) -> Callable[[Expression], Expression]:
    # x - x is NaN for what has no sine, else 0.
    return lambda x: function(_far(x)) + (x - x)


_FUNCTIONS: dict[str, Callable[[Reduced], Expression]] = {
    "cos": lambda at: _sin(at, 1),
    "sin": lambda at: _sin(at, 0),
    "tan": _tan,
}
EXPANSIONS = {name: _everywhere(name, f) for name, f in _FUNCTIONS.items()}
FUNCTIONS = {f"{name}_far": _far_function(f) for name, f in _FUNCTIONS.items()}
