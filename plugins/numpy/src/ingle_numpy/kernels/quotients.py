"""Float remainders, quotients rounded down, and sums of exponentials, faster than NumPy's loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from .blocks import in_blocks

_EXACT = 2.0**28


@in_blocks
def remainder(x1: Any, x2: Any) -> Any:
    """As NumPy has it, with the sign of the divisor."""
    q = _quotient(x1, x2)
    if q is None:
        return np.remainder(x1, x2)
    q *= x2
    return np.copysign(np.subtract(x1, q, out=q).astype(np.float32), x2)


@in_blocks
def floor_divide(x1: Any, x2: Any) -> Any:
    """Rounded down; where NumPy follows Python, the Array API standard has infinities kept."""
    q = _quotient(x1, x2)
    if q is not None:
        return q.astype(np.float32)
    out = np.floor_divide(x1, x2)
    if out.dtype.kind != "f":
        return out
    infinite = np.isinf(x1) | np.isinf(x2)
    return np.where(infinite, np.floor(np.divide(x1, x2)), out) if np.any(infinite) else out


def _quotient(x1: Any, x2: Any) -> Any:
    """Quotients of float32 rounded down, in float64 and exact; None where one may not be.

    A quotient of two numbers of 24 bits that is below 2**28 and no integer differs from the next
    integer by 2**-24 at least, so that 53 bits never round it there.
    """
    if x1.dtype != np.float32 or not (x1.ndim or x2.ndim):
        return None
    q = np.floor(np.divide(x1, x2, dtype=np.float64))
    ordinary = np.abs(q).max(initial=0.0) < _EXACT and np.isfinite(x2).all()
    return q if ordinary else None


@in_blocks
def logaddexp(x1: Any, x2: Any) -> Any:
    """The logarithm of a sum of exponentials; two equal infinities are not subtracted."""
    gap = np.abs(x1 - x2)
    gap = np.where(x1 == x2, x1.dtype.type(0), gap) if np.isnan(gap).any() else gap
    return np.maximum(x1, x2) + np.log1p(np.exp(-gap))
