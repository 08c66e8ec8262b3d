"""Functions of `math` for numbers of the host that a recording can follow.

Python's `math` takes floats and leaves no trace of what it was asked. So this module has the
functions of `math` for numbers that a recording follows: counters, learning rates, random places.
NumPy's functions of single numbers are followed as they are, and `on_host` makes one step of any
function of numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from .followed import is_followed, spelled, tried
from .tape import FUNCTIONS, MATHEMATICAL


def _mathematical(name: str) -> Callable[..., float]:
    function = FUNCTIONS[name]

    @functools.wraps(function)
    def compute(*args: Any) -> Any:
        tape = next((x.tape for x in args if is_followed(x)), None)
        if tape is None:
            return function(*args)
        value = tried(function, args)
        text = f"{name}({', '.join(spelled(tape, x) for x in args)})"
        if type(value) is bool:
            tape.guard(text if value else f"not {text}")
            return value
        return tape.note(text, value, *args)

    compute.__doc__ = f"`math.{name}` of numbers that a recording may follow."
    return compute


sqrt, cbrt, exp, exp2, expm1, log, log2, log10, log1p = map(_mathematical, MATHEMATICAL[:9])
sin, cos, tan, asin, acos, atan = map(_mathematical, MATHEMATICAL[9:15])
sinh, cosh, tanh, asinh, acosh, atanh = map(_mathematical, MATHEMATICAL[15:21])
erf, erfc, gamma, lgamma, degrees, radians, fabs = map(_mathematical, MATHEMATICAL[21:28])
pow, atan2, hypot, fmod, remainder, copysign, ldexp = map(_mathematical, MATHEMATICAL[28:35])
floor, ceil, trunc, isfinite, isinf, isnan = map(_mathematical, MATHEMATICAL[35:])
e, inf, nan, pi, tau = math.e, math.inf, math.nan, math.pi, math.tau
