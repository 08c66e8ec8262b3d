"""Rounding to decimal digits."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from ...dtypes import float64, int64, uint64
from ..creation.filled import zeros_like
from .arithmetic import abs, floor_divide
from .cast import astype
from .complex import imag, real
from .rounding import round
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor

_DIGITS = 308
"""Digits before the point of the largest float64."""
_EXACT = 2.0**52
"""From here on a float64 has no digits behind the point."""


def rounded(x: Tensor, decimals: int) -> Tensor:
    """A tensor rounded to some digits behind the point, or before it if negative."""
    if x.dtype.kind in ("bool", "signed", "unsigned"):
        return _whole(x, -decimals) if decimals < 0 and x.dtype.kind != "bool" else x
    if x.dtype.is_complex:
        return astype(rounded(real(x), decimals) + rounded(imag(x), decimals) * 1j, x.dtype)
    if decimals > _DIGITS:
        return x
    if decimals < -_DIGITS:
        return where(abs(x) < float("inf"), 0, x)
    wide, power = astype(x, float64), 10.0 ** float(builtins.abs(decimals))
    if decimals < 0:
        return astype(round(wide / power) * power, x.dtype)
    scaled = wide * power
    # Digits that the number does not have are not rounded; nor are NaN and infinities.
    return astype(where(abs(scaled) < _EXACT, round(scaled) / power, wide), x.dtype)


def _whole(x: Tensor, zeros: int) -> Tensor:
    wide = astype(x, uint64 if x.dtype.kind == "unsigned" else int64)
    unit = 10**zeros
    if unit >= 1 << 63:
        return zeros_like(x)
    below = floor_divide(wide, unit)
    rest = wide - below * unit
    odd = below % 2 == 1
    up = (rest > unit - rest) | ((rest == unit - rest) & odd)
    return astype((below + astype(up, wide.dtype)) * unit, x.dtype)
