"""The inverse of the normal distribution's integral, and the logarithm it is made with.

Step by step what the room's body does, so that all backends draw the same numbers bit for bit; but
the tails are computed only where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingle.tensor.ops.random.normal import CENTRAL, FAR, LOG_2, NEAR, SQRT_HALF_BITS

from .blocks import in_blocks

Array = np.ndarray[Any, Any]
Ratio = tuple[Sequence[float], Sequence[float]]


@in_blocks
def inverse_normal(p: Any) -> Any:
    """Of a float32 or float64 array, by three rational functions."""
    q = p - 0.5
    r = 0.180625 - q * q
    out = np.asarray(q * _ratio(r, CENTRAL)).reshape(-1)
    tails = np.flatnonzero(~(r >= 0))
    if tails.size:
        out[tails] = _tail(p.reshape(-1)[tails])
    return out.reshape(p.shape)


def _tail(p: Array) -> Any:
    below = p < 0.5
    s = np.sqrt(-polynomial_log(np.where(below, p, 1.0 - p)))
    outer = _ratio(s - 1.6, NEAR)
    far = np.flatnonzero(~(s <= 5.0))
    if far.size:
        outer[far] = _ratio(s[far] - 5.0, FAR)
    return np.where(below, -outer, outer)


@in_blocks
def polynomial_log(x: Any) -> Any:
    """The natural logarithm of positive, normal floats; see the room."""
    wide = x.dtype == np.float64
    integer, bits = (np.int64, 52) if wide else (np.int32, 23)
    i = x.view(integer) - integer(SQRT_HALF_BITS[wide])
    m = ((i & integer((1 << bits) - 1)) + integer(SQRT_HALF_BITS[wide])).view(x.dtype)
    e = (i >> integer(bits)).astype(x.dtype)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = _horner(z, [2.0 / k for k in range(23 if wide else 11, 1, -2)]) * z
    high, low = LOG_2[wide]
    return e * high + (s * 2.0 + (s * series + e * low))


def _ratio(x: Array, ratio: Ratio) -> Any:
    over = _horner(x, ratio[0])
    over /= _horner(x, ratio[1])
    return over


def _horner(x: Any, coefficients: Sequence[float]) -> Any:
    total = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        total = total * x
        total += c
    return total


KERNELS: dict[str, Callable[..., Any]] = {
    "inverse_normal": lambda op, p: inverse_normal(p),
    "polynomial_log": lambda op, x: polynomial_log(x),
}
