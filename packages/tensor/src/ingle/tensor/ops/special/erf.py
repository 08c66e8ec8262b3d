"""Special functions: the error function; and what belongs to a float's bits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import Operand, TensorLike, as_floating, call2_floating, run1
from .._families import binary, unary
from ..elementwise.arithmetic import multiply
from ..elementwise.comparison import signbit
from ..elementwise.exponential import exp
from ..elementwise.where import where

if TYPE_CHECKING:
    from ...tensor import Tensor


def erf(x: TensorLike, /) -> Tensor:
    """The error function: 2/sqrt(pi) times the integral of exp(-t²) from 0 to x.

    Integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.erf(it.asarray([0.0, 10.0])).tolist()
    [0.0, 1.0]
    """
    return run1(_ERF, as_floating(x, "erf"))


_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)

_ERF = unary(
    "erf",
    erf,
    vjp=lambda g, x: g * (exp(-(x * x)) * _TWO_OVER_ROOT_PI),
    kinds=("float",),
    domain=(-4.0, 4.0),
    reference="scipy.special:erf",
    precision="high",
    cost="expensive",
).op()


def copysign(x1: Operand, x2: Operand, /) -> Tensor:
    """The magnitude of `x1` with the sign of `x2`, that of -0.0 included.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one float dtype.

    >>> import ingle.tensor as it
    >>> it.copysign(it.asarray([1.0, 2.0]), it.asarray([-0.0, 3.0])).tolist()
    [-1.0, 2.0]
    """
    return call2_floating(_COPYSIGN, x1, x2)


def _copysign(x1: Any, x2: Any) -> Tensor:
    direction: Any
    if isinstance(x2, (int, float)):
        direction = math.copysign(1.0, x2)
    else:
        direction = where(signbit(x2), -1.0, 1.0).astype(x2.dtype)
    return multiply(abs(x1), direction)


def _copysign_vjp(g: Tensor, x1: Tensor, out: Tensor) -> Tensor:
    return where(x1 == 0, 0, where(signbit(x1) == signbit(out), g, -g))


_COPYSIGN = binary(
    "copysign",
    copysign,
    vjp={"x1": _copysign_vjp},
    kinds=("float",),
    body=_copysign,
    reference=np.copysign,
).op()


def nextafter(x1: Operand, x2: Operand, /) -> Tensor:
    """The neighbour of `x1` in its dtype in the direction of `x2`; `x2` if the two are equal.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one float dtype.

    >>> import ingle.tensor as it
    >>> it.nextafter(it.asarray([1.0]), 2.0).tolist()
    [1.0000001192092896]
    """
    return call2_floating(_NEXTAFTER, x1, x2)


def _nextafter_reference(x1: Any, x2: Any) -> Any:
    # Its steps are those of the result's dtype: integers have become the default float dtype.
    dtype = x1.dtype if x1.dtype.kind in "fV" else np.dtype(np.float32)
    return np.nextafter(np.asarray(x1, dtype), np.asarray(x2, dtype))


_NEXTAFTER = binary(
    "nextafter",
    nextafter,
    vjp={"x1": lambda g: g},
    kinds=("float",),
    # The steps are too small for finite differences.
    gradient_samples=False,
    exact=True,
    reference=_nextafter_reference,
).op()
