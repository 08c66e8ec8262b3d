"""Choosing between values under a mask, by bits: NumPy's own branch for every element.

Where a mask has no pattern, that branch is guessed wrong half of the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .blocks import in_blocks


@in_blocks
def select(mask: Any, x1: Any, x2: Any) -> Any:
    """`x1` where the mask holds, else `x2`; the three broadcast, and any may be a scalar."""
    if not mask.ndim or x1.dtype.itemsize > 8:
        return np.where(mask, x1, x2)
    if x1.shape == mask.shape and is_zero(x2):
        return kept(x1, mask)
    if x2.shape == mask.shape and is_zero(x1):
        return kept(x2, ~mask)
    bits = f"i{x1.dtype.itemsize}"
    a, b = x1.view(bits), x2.view(bits)
    out = np.bitwise_and(a ^ b, np.negative(mask.view(np.int8), dtype=bits))
    return np.bitwise_xor(out, b, out=out).view(x1.dtype)


def is_zero(x: Any) -> bool:
    """Whether it is a scalar of which every bit is zero."""
    return not x.ndim and not x.tobytes().strip(b"\0")


def kept(x: np.ndarray, mask: np.ndarray) -> Any:
    """The values under the mask and zeros elsewhere: an infinity times 0 were no zero."""
    if not mask.ndim:
        return x if mask else np.zeros_like(x)
    bits = np.negative(mask.view(np.int8), dtype=f"i{x.itemsize}")
    return np.bitwise_and(bits, x.view(bits.dtype), out=bits).view(x.dtype)
