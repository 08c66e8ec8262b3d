"""The error function and its complement."""

from __future__ import annotations

from collections.abc import Callable

from ingle.tensor.ops.special import _approximations as fits

from ..expression import Expression, copysign, where
from . import coefficients as c
from .exponential import reduce_difference

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


def erfc(dtype: str, x: Expression) -> Expression:
    return _erfc32(x) if dtype == "float32" else _erfc64(x)


def _erfc32(x: Expression) -> Expression:
    """exp(-a**2) times one piece that is 1 at 0, for a from 0 to where the nearest float32 is 0.

    What is lost of the square, of both quotients and of the polynomial's last sum comes back in the
    end, so that one rounding counts: of the sum of a quotient and a small multiple of it.
    """
    a = abs(x).at_most(10.1)
    square = a * a
    n, r, part = reduce_difference(-square, a.call("residue", a))
    part = (r * r).fma(r.polynomial(c.EXP32), part)
    above, below = a + 2.0, a - 2.0
    about = 1.0 / above
    beyond = a - (above - 2.0)  # what `above` lacks
    t = below / above
    off = ((below - t * above) - t.call("residue", above)) + (a - (below + 2.0)) - t * beyond
    last, more = c.ERFC_LAST32
    slope = t.polynomial(c.ERFC32)
    total = t.fma(slope, last)
    lost = t.fma(slope, last - total) + more
    lost = (off * about).fma(t.fma(2 * c.ERFC32[-2], c.ERFC32[-1]), lost)
    ratio = total / above
    rest = ((total - ratio * above) - ratio.call("residue", above)) + (lost - ratio * beyond)
    growth = r.fma(ratio, part.fma(ratio, rest * about))
    out = (ratio + growth).call("scale", n)
    return where(x < 0.0, 2.0 - out, out)


def _erfc64(x: Expression) -> Expression:
    """As the operation's body: 1 - erf(x) up to 1/2, then by a square that is exact."""
    far = x > 0.5
    size = where(far, x.at_most(30.0), 1.0)
    short = (size * 64.0).call("round") * (1 / 64)
    decay = (-(short * short)).call("exp") * ((short - size) * (short + size)).call("exp")
    scaled = ((size - 3.75) / (size + 3.75)).polynomial(fits.ERFCX) / (size + size + 1.0)
    return where(far, decay * scaled, 1.0 - where(far, 0.0, x).call("erf"))


def sign(dtype: str, x: Expression) -> Expression:
    """-1, 0 or 1; NaN stays."""
    if dtype.startswith("float"):
        return where(abs(x) > 0.0, copysign(x.constant(1.0), x), x + 0.0)
    positive = where(x > 0, x.constant(1), 0)
    return where(x < 0, -1, positive) if dtype.startswith("int") else positive


EXPANSIONS: dict[str, Callable[..., Expression]] = {
    "erf": erf,
    "erfc": erfc,
    "sign": sign,
}
