"""Polynomials, and what special functions need besides: sines of multiples of pi."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..elementwise.rounding import floor, round
from ..elementwise.trigonometry import sin

if TYPE_CHECKING:
    from ...tensor import Tensor


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """The value of a polynomial by Horner's rule; the coefficient of the highest power is first."""
    total: Any = coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total


def sin_pi(x: Tensor) -> Tensor:
    """`sin(pi * x)` without rounding what is a whole turn; exactly 0 for whole numbers."""
    whole = round(x)
    odd = whole - floor(whole * 0.5) * 2
    return sin((x - whole) * math.pi) * (1 - odd * 2)
