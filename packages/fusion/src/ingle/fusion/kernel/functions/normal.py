"""The inverse of the normal distribution's integral, with the bits of the operation's body.

Nothing is contracted, since random numbers are equal on all devices. The body evaluates three
quotients of polynomials and takes one; here each element chooses its coefficients first and
evaluates one quotient, the same additions and multiplications on fewer instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingle.tensor.ops.random.normal import CENTRAL, FAR, LOG_2, NEAR, SQRT_HALF_BITS

from ..expression import INTEGER_OF, Expression, where

_PIECES = tuple(zip(CENTRAL, NEAR, FAR, strict=True))
"""Of numerators, then of denominators: those of the middle and of the two parts of the tails."""


def inverse_normal(dtype: str, p: Expression) -> Expression:
    q = p - 0.5
    r = 0.180625 - q * q
    below, central = q < 0.0, r >= 0.0
    s = (-_log(where(below, p, 1.0 - p))).call("sqrt")
    near = s <= 5.0
    x = where(central, r, where(near, s - 1.6, s - 5.0))
    over, under = (_polynomial(x, central, near, pieces) for pieces in _PIECES)
    ratio = over / under
    return where(central, q * ratio, where(below, -ratio, ratio))


def _polynomial(
    x: Expression, central: Expression, near: Expression, pieces: Sequence[Sequence[float]]
) -> Expression:
    """By Horner's rule, with the coefficients of the piece that an element is in."""
    if x.builder.offers("permute", x.dtype):
        place = where(central, x.constant(0, "int32"), where(near, x.constant(1, "int32"), 2))
        chosen = [place.permute((*c, *[0.0] * 13), x.dtype) for c in zip(*pieces, strict=True)]
    else:
        chosen = [
            where(central, x.constant(a), where(near, x.constant(b), c))
            for a, b, c in zip(*pieces, strict=True)
        ]
    total = chosen[0]
    for c in chosen[1:]:
        total = total * x + c
    return total


def _log(x: Expression) -> Expression:
    """`polynomial_log`: log of the exponent, and 2 artanh((m - 1) / (m + 1)) of the mantissa."""
    wide = x.dtype == "float64"
    bits = 52 if wide else 23
    whole = INTEGER_OF[x.dtype]
    half = SQRT_HALF_BITS[wide]
    i = x.bitcast(whole) - half
    m = ((i & ((1 << bits) - 1)) + half).bitcast(x.dtype)
    e = (i >> bits).cast(x.dtype)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    total, *others = [x.constant(2.0 / k) for k in range(23 if wide else 11, 1, -2)]
    for c in others:
        total = total * z + c
    high, low = LOG_2[wide]
    return e * high + (s * 2.0 + (s * (total * z) + e * low))


EXPANSIONS: dict[str, Callable[..., Expression]] = {"inverse_normal": inverse_normal}
