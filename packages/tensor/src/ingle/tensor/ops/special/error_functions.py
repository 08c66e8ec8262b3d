"""The complement and the inverse of the error function."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...dispatch import TensorLike, as_floating, run1
from ...dtypes import float32, float64
from .._families import special
from ..elementwise.arithmetic import abs
from ..elementwise.cast import astype
from ..elementwise.exponential import exp, log
from ..elementwise.powers import sqrt
from ..elementwise.rounding import round
from ..elementwise.where import where
from . import _approximations as fits
from ._polynomials import polynomial
from .erf import erf

if TYPE_CHECKING:
    from ...tensor import Tensor


_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def erfc(x: TensorLike, /) -> Tensor:
    """`1 - erf(x)`, exact to the last places where that is small.

    Args:
        x: a real tensor; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.erfc(it.asarray([0.0, float("inf")])).tolist()
    [1.0, 0.0]
    """
    return run1(_ERFC, as_floating(x, "erfc"))


def _erfc(x: Tensor) -> Tensor:
    """Schonfelder, Chebyshev expansions for the error and related functions (1978), in one piece.

    `exp(-x²)` is that of x cut to a few bits, whose square is exact, times that of the rest.
    """
    if x.dtype != float64:
        return _short_erfc(x)
    wide = astype(x, float64)
    far = wide > 0.5
    size = where(far, where(wide > 30, 30.0, wide), 1.0)
    short = round(size * 64) / 64
    decay = exp(-(short * short)) * exp((short - size) * (short + size))
    scaled = polynomial((size - 3.75) / (size + 3.75), fits.ERFCX) / (1 + size * 2)
    return astype(where(far, decay * scaled, 1 - erf(where(far, 0.0, wide))), x.dtype)


def _short_erfc(x: Tensor) -> Tensor:
    """The same to the last place of float32, whose squares are exact in float64: one `exp`."""
    single = astype(x, float32)
    far = single > 0.5
    size = where(far, where(single > 10.2, 10.2, single), 1.0)
    wide = astype(size, float64)
    scaled = polynomial((wide - 2.5) / (wide + 2.5), fits.ERFCX_SHORT) / (1 + wide * 2)
    tail = astype(exp(-(wide * wide)) * scaled, float32)
    near = 1 - erf(where(far, 0.0, single))
    # From 10.06 on the nearest float32 is 0.
    return astype(where(single > 10.2, 0.0, where(far, tail, near)), x.dtype)


_ERFC = special(
    "erfc",
    erfc,
    vjp=lambda g, x: g * (exp(-(x * x)) * -_TWO_OVER_ROOT_PI),
    domain=(-4.0, 6.0),
    body=_erfc,
    cost="expensive",
).op()


def erfinv(x: TensorLike, /) -> Tensor:
    """The inverse of `erf`: infinite at -1 and 1, NaN beyond.

    Args:
        x: a real tensor; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.erfinv(it.asarray([0.0, 1.0])).tolist()
    [0.0, inf]
    """
    return run1(_ERFINV, as_floating(x, "erfinv"))


def _erfinv(x: Tensor) -> Tensor:
    """Giles, Approximating the erfinv function (2010), with polynomials for float64.

    Those for float32 are shorter, and it ends before the last of them begins.
    """
    short = x.dtype != float64
    wide = astype(x, float64)
    size = abs(wide)
    w = -log((1 - size) * (1 + size))
    root = sqrt(w)
    near = polynomial(w / 3.125 - 1, fits.ERFINV_SHORT if short else fits.ERFINV)
    tail = polynomial((root - 3.25) / 0.75, fits.ERFINV_TAIL_SHORT if short else fits.ERFINV_TAIL)
    if not short:
        tail = where(w < 16, tail, polynomial((root - 5.025) / 1.025, fits.ERFINV_END))
    factor = where(w < 6.25, near, tail)
    return astype(where(size == 1, where(wide > 0, math.inf, -math.inf), wide * factor), x.dtype)


_ERFINV = special(
    "erfinv",
    erfinv,
    vjp=lambda g, out: g * (exp(out * out) / _TWO_OVER_ROOT_PI),
    domain=(-0.95, 0.95),
    body=_erfinv,
).op()
