"""Rounding, powers of two, exact products and division, for targets that lack them."""

from __future__ import annotations

from collections.abc import Callable

from ..code import INTEGERS, SIGNED, SIZES
from ..expression import INTEGER_OF, Expression, copysign, where

_WHOLE = {"float32": 2.0**23, "float64": 2.0**52}
"""From here on all floats are whole."""
MANTISSA = {"float32": 23, "float64": 52}
BIAS = {"float32": 127, "float64": 1023}


def _round(dtype: str, x: Expression) -> Expression:
    """To even, by adding and taking away a number whose last place is 1."""
    a = abs(x)
    shifted = (a + _WHOLE[dtype]) - _WHOLE[dtype]
    return where(a < _WHOLE[dtype], copysign(shifted, x), x)


def _floor(dtype: str, x: Expression) -> Expression:
    near = x.call("round")
    down = where(near > x, near - 1.0, near)
    return copysign(abs(down), x)  # floor(0.5) is +0


def _ceil(dtype: str, x: Expression) -> Expression:
    near = x.call("round")
    up = where(near < x, near + 1.0, near)
    return copysign(abs(up), x)  # ceil(-0.5) is -0


def _trunc(dtype: str, x: Expression) -> Expression:
    a = abs(x)
    near = a.call("round")
    return copysign(where(near > a, near - 1.0, near), x)


def power_of_two(exponent: Expression, dtype: str) -> Expression:
    """2**n as a float of an integer n between the exponents of normal numbers."""
    whole = INTEGER_OF[dtype]
    return ((exponent.cast(whole) + BIAS[dtype]) << MANTISSA[dtype]).bitcast(dtype)


def _integer(x: Expression) -> Expression:
    """A whole float much smaller than 2**23 (2**52): behind a larger number it stands in the last
    places. Many processors have no conversion of several float64 at once."""
    large = 1.5 * _WHOLE[x.dtype]
    return (x + large).bitcast(INTEGER_OF[x.dtype]) - x.constant(large).pattern


def _scale(dtype: str, x: Expression, power: Expression) -> Expression:
    """By three factors, each a normal number; only the last product that matters can round.

    Where the whole factor is smaller than any normal number, the first ones leave as many bits
    above the smallest as a float has: what is denormal even so ends as 0.
    """
    limit, places = BIAS[dtype], MANTISSA[dtype]
    bound = 2.0 * (limit + places)
    n = power.at_most(bound).at_least(-bound).cast(INTEGER_OF[dtype])
    for _ in range(2):
        part = where(n > limit, limit, n)
        part = where(n < 1 - limit, 2 + places - limit, part)
        x = x * power_of_two(part, dtype)
        n = n - part
    return x * power_of_two(n, dtype)


def _scale_near(dtype: str, x: Expression, power: Expression) -> Expression:
    """By two factors, each a normal number; only the second product can round."""
    n = _integer(power) if dtype == "float64" else power.cast("int32")
    half = n >> 1
    return x * power_of_two(half, dtype) * power_of_two(n - half, dtype)


def _residue(dtype: str, a: Expression, b: Expression) -> Expression:
    """Dekker's product of halves (Numerische Mathematik 18, 1971)."""
    factor = {"float32": 4097.0, "float64": 134217729.0}[dtype]
    bound = {"float32": 2.0**114, "float64": 2.0**995}[dtype]

    def halves(x: Expression) -> tuple[Expression, Expression]:
        large = abs(x) > bound  # its multiple would be infinite
        small = where(large, x * 2.0**-28, x)
        c = small * factor
        half = c - (c - small)
        high = where(large, half * 2.0**28, half)
        return high, x - high

    (a1, a2), (b1, b2) = halves(a), halves(b)
    product = a * b
    return ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _quotient(dtype: str, a: Expression, b: Expression) -> Expression:
    """Exact: with n bits of numerator and denominator a fraction is no nearer to 1 than 2**-n."""
    if SIZES[dtype] == 8:
        return _long_quotient(dtype, a, b)
    wide = "float32" if SIZES[dtype] < 4 else "float64"
    return (a.cast(wide) / b.cast(wide)).call("trunc").cast(dtype)


def _modulo(dtype: str, a: Expression, b: Expression) -> Expression:
    return a - a.call("quotient", b) * b


def _long_quotient(dtype: str, a: Expression, b: Expression) -> Expression:
    """Of 64 bits, by two products with the inverse of the divisor in float64.

    The inverse is too small by some 2**-50 of it, so that neither product exceeds the quotient of
    what it divides. The first leaves less than b + 2**15, the second less than 2 b. The inverse is
    the same for a whole row where the divisor is.
    """
    if dtype in SIGNED:
        negative = (a ^ b) < 0
        size = _long_quotient("uint64", *[abs(x).bitcast("uint64") for x in (a, b)])
        whole = size.bitcast(dtype)
        return where(negative, -whole, whole)
    divisor = where(b.equals(0), 1, b)
    inverse = (1.0 - 2.0**-50) / divisor.cast("float64")
    first = (a.cast("float64") * inverse).cast(dtype)
    rest = a - first * divisor
    second = (rest.cast("float64") * inverse).cast(dtype)
    rest = rest - second * divisor
    return first + second + where(rest >= divisor, rest.constant(1), 0)


def _fmod(a: Expression, b: Expression) -> Expression:
    """C's fmod: a minus the whole multiple of b next to it towards zero; exact."""
    ratio = a / b
    q = ratio.call("trunc")
    fast = _taken(a, q, b)
    # The rounded ratio may be the next whole number: then the sign is wrong.
    wrong = (fast.differs(0.0)) & ((fast < 0.0) ^ (a < 0.0))
    fast = where(wrong, fast + copysign(abs(b), a), fast)
    fast = where(q.equals(0.0), where(ratio.is_nan(), ratio, a), fast)
    far = abs(ratio) >= _WHOLE[a.dtype] / 4
    places = (fast.at, far.at, a.at, b.at)
    return Expression(a.builder, a.builder.append("fallback", a.dtype, places, "fmod_far"))


def _taken(a: Expression, q: Expression, b: Expression) -> Expression:
    """a - q b, exactly where that is a float."""
    return (a - q * b) - q.call("residue", b)


def _fmod_far(a: Expression, b: Expression) -> Expression:
    """Long division, with as many bits of the quotient a step as are exact."""
    dtype = a.dtype
    x, y = abs(a).cast("float64"), abs(b).cast("float64")
    if dtype == "float32":
        for step in range(9, -1, -1):
            unit = y * 2.0 ** (29 * step)
            x = x - (x / unit).call("trunc") * unit
    else:
        for step in range(42, -1, -1):
            unit = y
            for part in range(0, 50 * step, 1000):
                unit = unit * 2.0 ** min(1000, 50 * step - part)
            x = where(unit < float("inf"), _taken(x, (x / unit).call("trunc"), unit), x)
    x = where(x < 0.0, x + y, x)
    out = copysign(abs(x), a.cast("float64"))
    return where(x.is_nan(), x, out).cast(dtype)


def rem(dtype: str, a: Expression, b: Expression) -> Expression:
    """With the sign of the divisor; an integer by 0 is 0."""
    if dtype in INTEGERS:
        return _integer_division(dtype, a, b)[1]
    rest = _fmod(a, b)
    moved = where(_other_side(rest, b), rest + b, rest)
    return where(rest.equals(0.0), copysign(abs(rest), b), moved)


def _other_side(rest: Expression, b: Expression) -> Expression:
    return rest.differs(0.0) & ((rest < 0.0) ^ (b < 0.0))


def floor_div(dtype: str, a: Expression, b: Expression) -> Expression:
    """Rounded down; an integer by 0 is 0. Infinity stays infinite."""
    if dtype in INTEGERS:
        return _integer_division(dtype, a, b)[0]
    ratio = a / b
    rest = _fmod(a, b)
    exact = (a - rest) / b
    exact = where(_other_side(rest, b), exact - 1.0, exact)
    down = exact.call("floor")
    near = where(exact - down > 0.5, down + 1.0, down)
    zero = copysign(abs(near), ratio)
    infinite = abs(a).equals(float("inf")) | abs(b).equals(float("inf"))
    whole = where(near.equals(0.0), zero, near)
    return where(b.equals(0.0), ratio, where(infinite, ratio.call("floor"), whole))


def _integer_division(dtype: str, a: Expression, b: Expression) -> tuple[Expression, Expression]:
    zero = b.equals(0)
    if dtype not in SIGNED:
        divisor = where(zero, 1, b)
        return where(zero, 0, a.call("quotient", divisor)), where(
            zero, 0, a.call("modulo", divisor)
        )
    # The smallest number by -1 overflows: it is taken by 1, and negated.
    negated = b.equals(-1)
    divisor = where(zero | negated, 1, b)
    q, r = a.call("quotient", divisor), a.call("modulo", divisor)
    down = r.differs(0) & ((r ^ b) < 0)
    q, r = where(down, q - 1, q), where(down, r + b, r)
    q = where(negated, -a, q)
    return where(zero, 0, q), where(zero | negated, 0, r)


EXPANSIONS: dict[str, Callable[..., Expression]] = {
    "ceil": _ceil,
    "floor": _floor,
    "floor_div": floor_div,
    "modulo": _modulo,
    "quotient": _quotient,
    "rem": rem,
    "residue": _residue,
    "round": _round,
    "rsqrt": lambda dtype, x: 1.0 / x.call("sqrt"),
    "scale": _scale,
    "scale_near": _scale_near,
    "trunc": _trunc,
}
FUNCTIONS: dict[str, Callable[..., Expression]] = {"fmod_far": _fmod_far}
