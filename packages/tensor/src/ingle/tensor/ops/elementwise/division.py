"""The remainder of C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import Operand, call2
from .._families import division
from ..special.erf import copysign
from .arithmetic import remainder
from .rounding import round
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor


def fmod(x1: Operand, x2: Operand, /) -> Tensor:
    """What is left of `x1` after dividing by `x2`, with the sign of `x1`, as in C; exact.

    `remainder` has the sign of `x2`.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one real dtype.

    >>> import ingle.tensor as it
    >>> it.fmod(it.asarray([-7.0, 7.0]), 3).tolist()
    [-1.0, 1.0]
    """
    return call2(_FMOD, x1, x2)


def _fmod(x1: Any, x2: Any) -> Any:
    dtype = (x2 if isinstance(x1, (int, float)) else x1).dtype
    if dtype.is_floating:
        return copysign(remainder(abs(x1), abs(x2)), x1)
    # The lowest integer has no absolute value, so the remainder's sign is changed instead.
    rest = remainder(x1, x2)
    return where((rest != 0) & ((rest < 0) != (x1 < 0)), rest - x2, rest)


def _by_divisor(g: Tensor, x1: Any, x2: Any, out: Tensor) -> Tensor:
    # Without the rest the quotient is whole but for its rounding.
    return -g * round((x1 - out) / x2)


_FMOD = division(
    "fmod",
    fmod,
    vjp={"x1": lambda g: g, "x2": _by_divisor},
    body=_fmod,
    reference=np.fmod,
    # The rest jumps where the quotient is whole: finite differences may step over it.
    gradient_samples=False,
    condition=8,
).op()
