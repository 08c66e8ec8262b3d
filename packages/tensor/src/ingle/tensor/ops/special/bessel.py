"""Modified Bessel functions of the first kind, of orders 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import TensorLike, as_floating, run1
from ...dtypes import float64
from .._families import special
from ..elementwise.arithmetic import abs, sign
from ..elementwise.cast import astype
from ..elementwise.exponential import exp
from ..elementwise.powers import sqrt
from ..elementwise.where import where
from . import _approximations as fits
from ._polynomials import polynomial

if TYPE_CHECKING:
    from ...tensor import Tensor


def _reference(name: str) -> Callable[[Any], Any]:
    """SciPy's function, which is NaN where the limit is infinite."""

    def function(x: Any) -> Any:
        from scipy import special

        limit = np.abs(x) if name == "i0" else x
        return np.where(np.isinf(x), limit, getattr(special, name)(x))

    return function


def i0(x: TensorLike, /) -> Tensor:
    """The modified Bessel function of order 0, which grows like `exp(abs(x))`.

    Args:
        x: a real tensor; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.i0(it.asarray([0.0])).tolist()
    [1.0]
    """
    return run1(_I0, as_floating(x, "i0"))


_TERMS = range(33, -1, -1)
_SERIES_0 = [0.25**k / math.factorial(k) ** 2 for k in _TERMS]


def _i0(x: Tensor) -> Tensor:
    size = abs(astype(x, float64))
    near = size < _NEAR
    inside, outside = where(near, size, 0.0), where(near, _NEAR, size)
    found = where(near, polynomial(inside * inside, _SERIES_0), _far(outside, fits.I0))
    return astype(where(size == math.inf, math.inf, found), x.dtype)


_I0 = special(
    "i0",
    i0,
    vjp=lambda g, x: g * i1(x),
    domain=(-12.0, 12.0),
    body=_i0,
    reference=_reference("i0"),
).op()


def i1(x: TensorLike, /) -> Tensor:
    """The modified Bessel function of order 1, the derivative of `i0`.

    Args:
        x: a real tensor; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.i1(it.asarray([0.0])).tolist()
    [0.0]
    """
    return run1(_I1, as_floating(x, "i1"))


_SERIES_1 = [0.5 * 0.25**k / (math.factorial(k) * math.factorial(k + 1)) for k in _TERMS]
"""Powers of x²: all terms are positive, so that nothing cancels."""


def _i1(x: Tensor) -> Tensor:
    wide = astype(x, float64)
    size = abs(wide)
    near = size < _NEAR
    inside, outside = where(near, wide, 0.0), where(near, _NEAR, size)
    series = polynomial(inside * inside, _SERIES_1) * inside
    found = where(near, series, _far(outside, fits.I1) * sign(wide))
    return astype(where(size == math.inf, wide, found), x.dtype)


def _i1_by_x(x: Tensor) -> Tensor:
    """`i1(x) / x` with right derivatives at 0."""
    near = abs(x) < 1
    inside, outside = where(near, x, 0), where(near, 1, x)
    series: Tensor = polynomial(inside * inside, _SERIES_1[-16:])
    return where(near, series, i1(outside) / outside)


_I1 = special(
    "i1",
    i1,
    vjp=lambda g, x: g * (i0(x) - _i1_by_x(x)),
    domain=(-12.0, 12.0),
    body=_i1,
    reference=_reference("i1"),
).op()

_NEAR = 8.0


def _far(size: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    half = exp(size * 0.5)
    scaled: Tensor = polynomial(_NEAR * 2 / size - 1, coefficients) / sqrt(size)
    return half * scaled * half
