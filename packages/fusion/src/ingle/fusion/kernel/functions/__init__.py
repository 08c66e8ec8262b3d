"""Mathematical functions as code: one table from an operation's name to its expansion.

They are polynomials and tables written in the core operations, so that every target computes them
the same way. `ERRORS` says how exact they are; special values (NaN, infinities, signed zeros,
denormal numbers) are IEEE's.
"""

from __future__ import annotations

from collections.abc import Callable

from ..expression import Expression
from . import (
    exponential,
    inverse_trigonometric,
    logarithm,
    narrow,
    normal,
    power,
    rounding,
    short,
    special,
    trigonometric,
)

EXPANSIONS: dict[str, Callable[..., Expression]] = {
    **exponential.EXPANSIONS,
    **inverse_trigonometric.EXPANSIONS,
    **logarithm.EXPANSIONS,
    **narrow.EXPANSIONS,
    **normal.EXPANSIONS,
    **power.EXPANSIONS,
    **rounding.EXPANSIONS,
    **short.EXPANSIONS,
    **special.EXPANSIONS,
    **trigonometric.EXPANSIONS,
}
"""`(dtype of the result, *arguments)` to the expression that computes an operation."""

FUNCTIONS: dict[str, Callable[..., Expression]] = {
    **power.FUNCTIONS,
    **rounding.FUNCTIONS,
    **trigonometric.FUNCTIONS,
}
"""What `fallback` instructions name."""

ERRORS: dict[str, tuple[float, float]] = {
    "acos": (1.2, 1.2),
    "acosh": (0.6, 1.8),
    "asin": (1.7, 1.7),
    "asinh": (0.6, 1.8),
    "atan": (1.9, 0.7),
    "atan2": (2.0, 0.7),
    "atanh": (0.6, 1.9),
    "cos": (1.6, 0.8),
    "cosh": (1.4, 1.4),
    "erf": (1.9, 1.1),
    "erfc": (2.1, 3.5),
    "exp": (0.9, 0.9),
    "exp2": (1.0, 1.0),
    "expm1": (1.5, 1.9),
    "log": (0.9, 0.9),
    "log10": (1.0, 0.7),
    "log1p": (1.6, 1.4),
    "log2": (1.1, 0.8),
    "pow": (0.9, 1.1),
    "rsqrt": (1.5, 1.5),
    "sin": (1.6, 0.8),
    "sinh": (1.7, 1.7),
    "tan": (1.7, 1.1),
    "tanh": (1.4, 2.0),
}
"""The largest errors in ulp in float32 and float64 where products are fused with additions;
without that up to 0.4 more. `floor_div`, `rem`, `sign` and powers of integers are exact, and
`inverse_normal` has the bits of its operation's body."""
