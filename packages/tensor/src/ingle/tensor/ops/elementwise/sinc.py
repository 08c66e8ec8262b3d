"""The cardinal sine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...dispatch import TensorLike, as_floating, run1
from .._families import unary
from .._rules import widened
from ..special._polynomials import polynomial, sin_pi
from .arithmetic import abs
from .cast import astype
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor


def sinc(x: TensorLike, /) -> Tensor:
    """`sin(pi * x) / (pi * x)`, and 1 at 0: exactly 0 at all other whole numbers.

    Args:
        x: a real tensor; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.sinc(it.asarray([0.0, 2.0])).tolist()
    [1.0, 0.0]
    """
    return run1(_SINC, as_floating(x, "sinc"))


def _sinc(x: Tensor) -> Tensor:
    wide = widened(x)
    # Derivatives of the quotient would cancel near 0.
    near = abs(wide) < 0.5
    inside, outside = where(near, wide, 0), where(near, 1, wide)
    found = where(near, polynomial(inside * inside, _TAYLOR), sin_pi(outside) / (outside * math.pi))
    return astype(found, x.dtype)


_SINC = unary(
    "sinc",
    sinc,
    kinds=("float",),
    domain=(-4.0, 4.0),
    body=_sinc,
    reference=np.sinc,
    precision="high",
).op()


_TAYLOR = [(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(11, -1, -1)]
