"""The error function."""

from __future__ import annotations

from collections.abc import Callable

from ..expression import Expression, copysign, where
from . import coefficients as c

_MIDDLE = (1.25 + 3.92) / 2
_LAST = 3.875 - 2.0**-22
"""The largest float32 whose nearest quarter is 3.75."""


def erf(dtype: str, x: Expression) -> Expression:
    a = abs(x)
    return copysign(_erf32(a) if dtype == "float32" else _erf64(a), x)


def _erf32(a: Expression) -> Expression:
    """Two polynomials; beyond 3.92 the nearest float32 is 1."""
    if a.builder.offers("permute", a.dtype):
        return _erf_in_pieces(a)
    z = a * a
    near = a.fma(z.polynomial(c.ERF32), a)
    far = (a.at_most(3.92) - _MIDDLE).polynomial(c.ERF_FAR32)
    return where(a < 1.25, near, where(a > 3.92, 1.0, far))


def _erf_in_pieces(a: Expression) -> Expression:
    """A polynomial around the nearest quarter; the last one ends as 1."""
    a = a.at_most(_LAST)
    place = (a + 2.0**21).bitcast("int32")
    centers, *powers = c.ERF_PIECES32
    r = a - place.permute(centers, a.dtype)
    first, *others = [place.permute(p, a.dtype) for p in powers]
    slope = others[-1]
    for other in others[-2::-1]:
        slope = slope.fma(r, other)
    return slope.fma(r, where(a <= 0.125, r, first))


def _erf64(a: Expression) -> Expression:
    """A polynomial, or 1 - exp(-x**2) times one of (x - 2) / (x + 2)."""
    a = a.at_most(6.0)
    z = a * a
    near = a.fma(z.polynomial(c.ERF64), a)
    scaled = ((a - 2.0) / (a + 2.0)).polynomial(c.ERFCX64)
    far = 1.0 - (-z).call("exp") * scaled
    return where(a < 1.0, near, far)


def sign(dtype: str, x: Expression) -> Expression:
    """-1, 0 or 1; NaN stays."""
    if dtype.startswith("float"):
        return where(abs(x) > 0.0, copysign(x.constant(1.0), x), x + 0.0)
    positive = where(x > 0, x.constant(1), 0)
    return where(x < 0, -1, positive) if dtype.startswith("int") else positive


EXPANSIONS: dict[str, Callable[..., Expression]] = {"erf": erf, "sign": sign}
