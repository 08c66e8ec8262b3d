"""exp, exp2, expm1 and the hyperbolic functions.

exp(x) = 2**n exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2; ln 2 is taken in two parts, the
first with so few bits that n times it is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..expression import Expression, copysign, where
from . import coefficients as c


class _Limits(NamedTuple):
    """Numbers of a dtype: ln 2 in two parts, and beyond which exp is 0 or infinite."""

    ln2: tuple[float, float]
    low: float
    high: float
    magic: float


_LIMITS = {
    "float32": _Limits((0.693359375, -2.12194440e-4), -104.0, 89.0, 1.5 * 2.0**23),
    "float64": _Limits((0.6931471803691238, 1.9082149292705877e-10), -746.0, 710.0, 1.5 * 2.0**52),
}
_EXP = {"float32": c.EXP32, "float64": c.EXP64}
_SINH = {"float32": c.SINH32, "float64": c.SINH64}


def nearest(x: Expression) -> Expression:
    """The nearest whole number of one that is much smaller than 2**23 (2**52)."""
    magic = _LIMITS[x.dtype].magic
    return (x + magic) - magic


def reduce(x: Expression) -> tuple[Expression, Expression]:
    """n and r of x within the limits."""
    limits = _LIMITS[x.dtype]
    n = x.fma(1 / math.log(2), limits.magic) - limits.magic
    r = (-n).fma(limits.ln2[0], x)
    return n, (-n).fma(limits.ln2[1], r)


def reduce_difference(x: Expression, less: Expression) -> tuple[Expression, ...]:
    """n, r and what r lacks, of x minus a small number; x within the limits."""
    limits = _LIMITS[x.dtype]
    n = x.fma(1 / math.log(2), limits.magic) - limits.magic
    most, small = (-n).fma(limits.ln2[0], x), n.fma(limits.ln2[1], less)
    r = most - small
    return n, r, (most - r) - small


def exp_reduced(r: Expression) -> Expression:
    """exp(r) for |r| <= ln(2) / 2."""
    return r.polynomial((*_EXP[r.dtype], 1.0, 1.0))


def scale(x: Expression, n: Expression) -> Expression:
    """x * 2**n with x near 1 and a whole float n."""
    return x.call("scale_near", n)


def bounded(x: Expression) -> Expression:
    """x within the limits, beyond which exp does not change; NaN stays."""
    limits = _LIMITS[x.dtype]
    return x.at_most(limits.high).at_least(limits.low)


def exp(dtype: str, x: Expression) -> Expression:
    # 0 is not computed: processors take a hundred cycles for numbers below the normal ones, and
    # what a softmax masks is all of that kind.
    limits = _LIMITS[dtype]
    gone = x < limits.low
    n, r = reduce(where(gone, 0.0, x).at_most(limits.high))
    return where(gone, 0.0, scale(exp_reduced(r), n))


def half_exp(x: Expression) -> Expression:
    """exp(x) / 2 without overflow on the way."""
    limits = _LIMITS[x.dtype]
    n, r = reduce(x.at_most(limits.high + 1).at_least(limits.low))
    return scale(exp_reduced(r), n - 1.0)


def exp2(dtype: str, x: Expression) -> Expression:
    limit = {"float32": 151.0, "float64": 1076.0}[dtype]
    x = x.at_most(limit).at_least(-limit)
    n = nearest(x)
    return scale(exp_reduced((x - n) * math.log(2)), n)


def expm1(dtype: str, x: Expression) -> Expression:
    n, r = reduce(bounded(x))
    z = r * r
    small = z.fma(r.polynomial(_EXP[dtype]), r)
    # 2**n (1 + small) - 1, from halves, because 2**n itself may be infinite.
    power = scale(n.constant(0.5), n)
    out = power.fma(small, power - 0.5)
    return where(x.equals(0.0), x, out + out)


def sinh(dtype: str, x: Expression) -> Expression:
    a = abs(x)
    z = a * a
    near = (a * z).fma(z.polynomial(_SINH[dtype]), a)
    half = half_exp(a)
    return copysign(where(a < 1.0, near, half - 0.25 / half), x)


def cosh(dtype: str, x: Expression) -> Expression:
    half = half_exp(abs(x))
    return half + 0.25 / half


def tanh(dtype: str, x: Expression) -> Expression:
    a = abs(x)
    out = _tanh32(a) if dtype == "float32" else _tanh64(a)
    return copysign(out, x)


def _tanh32(a: Expression) -> Expression:
    """A polynomial, and 1 - 2 / (exp(2 a) + 1)."""
    z = a * a
    near = (a * z).fma(z.polynomial(c.TANH32), a)
    b = a.at_most(20.0)
    n, r = reduce(b + b)
    far = 1.0 - 2.0 / (scale(exp_reduced(r), n) + 1.0)
    return where(a < 0.625, near, far)


def _tanh64(a: Expression) -> Expression:
    """By m = expm1(2 a) as m / (m + 2), a quotient whose rounding is made good."""
    e = a.at_most(20.0)
    m = (e + e).call("expm1")
    d = m + 2.0
    lost = m - (d - 2.0)
    q = m / d
    rest = (m - q * d) - q.call("residue", d) - q * lost
    return q + rest / d


EXPANSIONS: dict[str, Callable[..., Expression]] = {
    "cosh": cosh,
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "sinh": sinh,
    "tanh": tanh,
}
