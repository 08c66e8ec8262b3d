"""The logarithm of the gamma function, and its derivatives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, as_floating, run1
from ...dtypes import float64
from ...errors import ArgumentError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._families import special
from .._guarding import guarded
from .._rules import as_int, elementwise_rule
from ..elementwise.arithmetic import abs
from ..elementwise.cast import astype
from ..elementwise.comparison import signbit
from ..elementwise.exponential import log
from ..elementwise.powers import pow
from ..elementwise.rounding import round
from ..elementwise.trigonometry import tan
from ..elementwise.where import where
from . import _approximations as fits
from ._polynomials import polynomial

if TYPE_CHECKING:
    from ...tensor import Tensor


def lgamma(x: TensorLike, /) -> Tensor:
    """The logarithm of the absolute value of the gamma function: infinite at 0, -1, -2, …

    Args:
        x: a real tensor; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.lgamma(it.asarray([1.0, 2.0, -1.0])).tolist()
    [0.0, 0.0, inf]
    """
    return run1(_LGAMMA, as_floating(x, "lgamma"))


_BERNOULLI = (
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510),
    (43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730), (8553103, 6),
    (-23749461029, 870),
)  # fmt: skip
"""Bernoulli's numbers B(2), B(4), … as quotients."""
_LGAMMA_SERIES = [p / (q * 2 * k * (2 * k - 1)) for k, (p, q) in enumerate(_BERNOULLI[:10], 1)][
    ::-1
]

_SINE = [(-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(11)][::-1]
"""Of the sine of pi x by x squared, up to 1/2."""

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def _lgamma(x: Tensor) -> Tensor:
    """A polynomial around 2 and the recurrence up to 8, Stirling's series from there on, and
    Euler's reflection of negative numbers.

    Kernels compute all of these for each element, so that they share one logarithm.
    """
    wide = astype(x, float64)
    size = abs(wide)
    far = size >= _STIRLING
    near = where(far, 2.0, size)
    whole = round(near)
    z = near - whole  # exact, so that the zeros at 1 and 2 are
    steps: Any = where(whole <= 1, near, 1.0) * where(whole == 0, near + 1, 1.0)
    for k in range(1, _STIRLING - 1):
        steps = steps * where(whole >= k + 2, near - k, 1.0)
    logarithm = log(where(far, size, steps))
    below = z * (1 + z) * polynomial(z * 2, fits.LGAMMA)
    below = below + where(whole >= 2, logarithm, -logarithm)
    large = where(far, size, float(_STIRLING))
    inverse = 1 / large
    series = polynomial(inverse * inverse, _LGAMMA_SERIES) * inverse
    stirling = (large - 0.5) * (logarithm - 1) + (_HALF_LOG_TWO_PI - 0.5) + series
    found = where(far, stirling, below)
    # gamma(x) gamma(-x) = -pi / (x sin(pi x)). Near 0 both are as large; the product underflows.
    # Others take a half, where the sine has no pole: its gradient is theirs times 0.
    far_below = wide < -1e-20
    turns = where(far_below, where(size == math.inf, 0.0, size), 0.5)
    sine = _sine(turns)
    reflected = math.log(math.pi) - log(where(far_below, size, 0.5) * sine) - found
    found = where(far_below, where(sine == 0, math.inf, reflected), found)
    return astype(where(wide == -math.inf, math.inf, found), x.dtype)


def _sine(x: Tensor) -> Tensor:
    """`abs(sin(pi * x))` by Taylor's series, exactly 0 for whole numbers."""
    off = x - round(x)
    return abs(off * polynomial(off * off, _SINE))


def _lgamma_reference(x: Any) -> Any:
    """SciPy's, but for -inf, of which it is -inf there and inf in C."""
    from scipy.special import gammaln

    return np.where(np.isneginf(x), np.inf, gammaln(x))


_LGAMMA = special(
    "lgamma",
    lgamma,
    vjp=lambda g, x: g * digamma(x),
    domain=(0.1, 12.0),
    body=_lgamma,
    reference=_lgamma_reference,
).op()


def digamma(x: TensorLike, /) -> Tensor:
    """The derivative of `lgamma`: infinite at 0, with the other sign, and NaN at -1, -2, …

    Args:
        x: a real tensor; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.digamma(it.asarray([1.0])).item()  # minus Euler's constant
    -0.5772156715393066
    """
    return run1(_DIGAMMA, as_floating(x, "digamma"))


_DIGAMMA_SERIES = [p / (q * 2 * k) for k, (p, q) in enumerate(_BERNOULLI[:10], 1)][::-1]

_ROOT, _ROOT_REST = 1.4616321449683622, 9.549995429965697e-17
"""Where the digamma function is 0, in two parts."""


def _digamma(x: Tensor) -> Tensor:
    """The recurrence up to 8 and the asymptotic series, with the reflection of negative numbers."""
    wide = astype(x, float64)
    negative = wide <= 0
    at = where(negative, 1 - wide, wide)
    # The sum of 1 / at, 1 / (at + 1), … as one quotient: of a product's derivative and of it.
    moved, over, under = at, at * 0, at * 0 + 1
    for _ in range(_STIRLING):
        small = moved < _STIRLING
        over = where(small, over * moved + under, over)
        under = where(small, under * moved, under)
        moved = where(small, moved + 1, moved)
    inverse = 1 / moved
    squares = inverse * inverse
    series = polynomial(squares, _DIGAMMA_SERIES)
    total = where(at == math.inf, 0.0, over / under)
    found = log(moved) - 0.5 * inverse - series * squares - total
    off = (at - _ROOT) - _ROOT_REST
    close = abs(off) < 0.45
    found = where(close, off * polynomial(where(close, off / 0.45, 0.0), fits.DIGAMMA), found)
    # Others take a quarter, as gradients of the pole at whole numbers would be theirs times 0.
    turned = found - math.pi / tan(where(negative, wide - round(wide), 0.25) * math.pi)
    pole = where(wide == 0, where(signbit(wide), math.inf, -math.inf), math.nan)
    turned = where(wide == round(wide), pole, turned)
    return astype(where(negative, turned, found), x.dtype)


def _digamma_vjp(g: Tensor, x: Tensor) -> Tensor:
    return g * polygamma(1, x)


_DIGAMMA = special(
    "digamma",
    digamma,
    vjp=_digamma_vjp,
    domain=(0.1, 12.0),
    body=_digamma,
).op()


@guarded
def polygamma(n: int, x: TensorLike, /) -> Tensor:
    """The derivative of `digamma` of order `n`: infinite at 0, -1, -2, …

    Args:
        n: from 0, which gives `digamma` itself, to 100.
        x: a real tensor; integers are cast to the default float dtype.

    Raises:
        ArgumentError: `n` is negative or too large.

    >>> import ingle.tensor as it
    >>> it.polygamma(1, it.asarray([1.0])).item()  # pi² / 6
    1.644934058189392
    """
    order = as_int(n, "polygamma", "n")
    if not 0 <= order <= _MOST:
        raise ArgumentError(f"polygamma: n must be from 0 to {_MOST}, got {order}")
    if not order:
        return digamma(x)
    return run1(_POLYGAMMA.op(n=order), as_floating(x, "polygamma"))


_MOST = 100


def _cotangent(n: int) -> list[float]:
    """The n-th derivative of `cot(pi x)` by pi x, as a polynomial in the cotangent."""
    powers = [0, 1]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(powers)][1:]
        powers = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return [float(c) for c in reversed(powers)]


def _power(x: Tensor, n: int) -> Tensor:
    """A whole power: a few products where these are exact enough."""
    if n > 8:
        return pow(x, float(n))
    if n == 1:
        return x
    half = _power(x, n // 2)
    return half * half * x if n % 2 else half * half


def _polygamma(x: Tensor, *, n: int) -> Tensor:
    """`(-1)^(n + 1) n! zeta(n + 1, x)` by Euler and Maclaurin's sum, and the reflection."""
    wide = astype(x, float64)
    negative = wide <= 0
    at = where(negative, 1 - wide, wide)
    steps, s = 10 + n, n + 1
    total: Any = 0.0
    for k in range(steps):
        total = total + _power(1 / (at + k), s)
    end = at + steps
    squares = 1 / (end * end)
    terms, rising = [], float(s)
    for k, (p, q) in enumerate(_BERNOULLI, 1):
        terms.append(p / q / math.factorial(2 * k) * rising)
        rising *= (s + 2 * k - 1) * (s + 2 * k)
    rest = polynomial(squares, terms[::-1]) / end + 0.5
    total = total + _power(1 / end, s) * rest + _power(1 / end, n) / n
    sign = -1.0 if n % 2 == 0 else 1.0
    factor = float(math.factorial(n))
    found = total * (sign * factor)
    whole = round(wide)
    cotangent = 1 / tan((wide - whole) * math.pi)
    turn = polynomial(cotangent, _cotangent(n)) * math.pi ** (n + 1)
    turned = -turn - sign * found
    turned = where(wide == whole, sign * math.inf, turned)
    return astype(where(negative, turned, found), x.dtype)


def _rule(x: Aval, *, n: int) -> Aval:
    return elementwise_rule("polygamma", ("float",))(x)  # type: ignore[return-value]


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for n, shape in ((1, (17,)), (2, (3, 5)), (4, ()), (3, (0,))):
            x = draw.array(shape, low=0.5, high=9.0)
            yield Sample((n, x), condition=8)
        yield Sample((1, draw.array((8,), low=-0.9, high=-0.1)), condition=64)


_POLYGAMMA = Operation(
    "polygamma",
    tensors=("x",),
    statics=("n",),
    rule=_rule,
    traits=Traits("elementwise", precision="high"),
    vjp={"x": lambda g, x, n: g * polygamma(n + 1, x)},
    body=_polygamma,
    public=polygamma,
    samples=_samples,
    reference="scipy.special:polygamma",
)

_STIRLING = 8
"""From here on series in powers of 1/x are exact enough."""
