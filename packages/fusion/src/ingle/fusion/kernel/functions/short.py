"""Functions of half types: in float32, with as many places as are left when the result is rounded.

Each is within 2**-14 of its value, an eighth of a float16's last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..expression import Expression, copysign, where
from . import coefficients as c

_LIFT = 64
"""What the exponent of a power is raised by while it is made, so that none is too small then."""
_MAGIC = 1.5 * 2.0**23 + _LIFT
"""Added to a number, it leaves the nearest whole one, raised, in the last places."""
_BIAS = 127
_LOWEST = -104.0
"""Below which an exponential is 0."""
_GONE = 14.3
"""From which on the tail of the normal distribution is 0."""
_FLAT = 120.0
"""From which on a sigmoid is 0 or 1."""
_NEAR = 0.25
"""Up to which a hyperbolic tangent is a polynomial."""


def exp2(dtype: str, x: Expression) -> Expression:
    """Of numbers from -180 to 60: a polynomial from -1/2 to 1/2 times a power whose exponent is
    put together."""
    shifted = x + (_MAGIC + _BIAS)
    part = x - (shifted - (_MAGIC + _BIAS))
    power = (shifted.bitcast("int32") << 23).bitcast("float32")
    return part.polynomial(c.SHORT_POWER32) * power * 2.0**-_LIFT


def exp(dtype: str, x: Expression) -> Expression:
    # As in `exponential.exp`, what is 0 is not computed.
    gone = x < _LOWEST
    power = (where(gone, 0.0, x) * (1 / math.log(2))).call("short_exp2")
    return where(gone, 0.0, power)


def ndtr(dtype: str, x: Expression) -> Expression:
    """The tail beyond |x| is two to the power of a polynomial: its logarithm is a smooth one."""
    tail = abs(x).at_most(_GONE).polynomial(c.SHORT_TAIL32).call("short_exp2")
    return where(x < 0.0, tail, 1.0 - tail)


def sigmoid(dtype: str, x: Expression) -> Expression:
    decay, share = _decay(abs(x), 1.0)
    return where(x < 0.0, decay, 1.0) * share


def tanh(dtype: str, x: Expression) -> Expression:
    a = abs(x)
    decay, share = _decay(a, 2.0)
    z = x * x
    # As a factor of x, so that -0 stays that.
    near = x * z.fma(z.polynomial(c.SHORT_TANH32), 1.0)
    return where(a < _NEAR, near, copysign((1.0 - decay) * share, x))


def _decay(a: Expression, rate: float) -> tuple[Expression, Expression]:
    """exp(-a) at some rate, and the reciprocal of one more than that."""
    decay = exp_of_negative(a, rate)
    return decay, (decay + 1.0).call("short_reciprocal")


def exp_of_negative(a: Expression, rate: float = 1.0) -> Expression:
    """exp(-a) at some rate, of numbers that are not negative."""
    return (a.at_most(_FLAT / rate) * (-rate / math.log(2))).call("short_exp2")


def log1p_of_unit(x: Expression) -> Expression:
    """log(1 + x) of numbers from 0 to 1."""
    return x * x.polynomial(c.SHORT_LOG32)


def reciprocal(dtype: str, x: Expression) -> Expression:
    """Of numbers that are neither small nor large: machines may have it within some last places."""
    return 1.0 / x


EXPANSIONS: dict[str, Callable[..., Expression]] = {
    "short_exp": exp,
    "short_exp2": exp2,
    "short_ndtr": ndtr,
    "short_reciprocal": reciprocal,
    "short_sigmoid": sigmoid,
    "short_tanh": tanh,
}
