"""Circular and hyperbolic functions and their inverses; angles are in radians.

Integers are cast to the default float dtype. Complex functions have the branch cuts of the C
standard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import Operand, TensorLike, as_floating, call2_floating, run1
from .._families import binary, unary
from .._rules import INEXACT, conj
from .powers import sqrt
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor


def sin(x: TensorLike, /) -> Tensor:
    """The sine; NaN for infinite elements.

    >>> import ingle.tensor as it
    >>> it.sin(it.asarray([0.0])).tolist()
    [0.0]
    """
    return run1(_SIN, as_floating(x, "sin"))


_SIN = unary(
    "sin", sin, vjp=lambda g, x: g * conj(cos(x)), kinds=INEXACT, reference=np.sin, cost="expensive"
).op()


def cos(x: TensorLike, /) -> Tensor:
    """The cosine; NaN for infinite elements.

    >>> import ingle.tensor as it
    >>> it.cos(it.asarray([0.0])).tolist()
    [1.0]
    """
    return run1(_COS, as_floating(x, "cos"))


_COS = unary(
    "cos",
    cos,
    vjp=lambda g, x: -g * conj(sin(x)),
    kinds=INEXACT,
    reference=np.cos,
    cost="expensive",
).op()


def tan(x: TensorLike, /) -> Tensor:
    """The tangent; NaN for infinite elements.

    >>> import ingle.tensor as it
    >>> it.tan(it.asarray([0.0])).tolist()
    [0.0]
    """
    return run1(_TAN, as_floating(x, "tan"))


_TAN = unary(
    "tan",
    tan,
    vjp=lambda g, out: g * conj(1 + out * out),
    kinds=INEXACT,
    domain=(-1.2, 1.2),
    reference=np.tan,
    cost="expensive",
).op()


def asin(x: TensorLike, /) -> Tensor:
    """The angle in [-pi/2, pi/2] whose sine is x; NaN outside of [-1, 1].

    >>> import ingle.tensor as it
    >>> it.asin(it.asarray([0.0])).tolist()
    [0.0]
    """
    return run1(_ASIN, as_floating(x, "asin"))


_ASIN = unary(
    "asin",
    asin,
    vjp=lambda g, x: g / _slope_of_asin(x),
    kinds=INEXACT,
    domain=(-0.9, 0.9),
    reference=np.arcsin,
    cost="expensive",
).op()


def acos(x: TensorLike, /) -> Tensor:
    """The angle in [0, pi] whose cosine is x; NaN outside of [-1, 1].

    >>> import ingle.tensor as it
    >>> it.acos(it.asarray([1.0])).tolist()
    [0.0]
    """
    return run1(_ACOS, as_floating(x, "acos"))


_ACOS = unary(
    "acos",
    acos,
    vjp=lambda g, x: -g / _slope_of_asin(x),
    kinds=INEXACT,
    domain=(-0.9, 0.9),
    reference=np.arccos,
    cost="expensive",
).op()


def atan(x: TensorLike, /) -> Tensor:
    """The angle in [-pi/2, pi/2] whose tangent is x.

    >>> import ingle.tensor as it
    >>> it.atan(it.asarray([0.0])).tolist()
    [0.0]
    """
    return run1(_ATAN, as_floating(x, "atan"))


_ATAN = unary(
    "atan",
    atan,
    vjp=lambda g, x: g / conj(1 + x * x),
    kinds=INEXACT,
    reference=np.arctan,
    cost="expensive",
).op()


def atan2(x1: Operand, x2: Operand, /) -> Tensor:
    """The angle in [-pi, pi] of the point with ordinate `x1` and abscissa `x2`.

    >>> import ingle.tensor as it
    >>> it.atan2(it.asarray([0.0]), it.asarray([2.0])).tolist()
    [0.0]
    """
    return call2_floating(_ATAN2, x1, x2)


def _distance(x1: Any, x2: Any) -> Tensor:
    """The squared distance from the origin, where the angle is taken to stand still."""
    squared = x1 * x1 + x2 * x2
    return where(squared == 0, 1, squared)


_ATAN2 = binary(
    "atan2",
    atan2,
    vjp={
        "x1": lambda g, x1, x2: g * (x2 / _distance(x1, x2)),
        "x2": lambda g, x1, x2: -g * (x1 / _distance(x1, x2)),
    },
    kinds=("float",),
    low=0.25,
    low2=-2.0,
    reference=np.arctan2,
    cost="expensive",
).op()


def sinh(x: TensorLike, /) -> Tensor:
    """The hyperbolic sine.

    >>> import ingle.tensor as it
    >>> it.sinh(it.asarray([0.0])).tolist()
    [0.0]
    """
    return run1(_SINH, as_floating(x, "sinh"))


_SINH = unary(
    "sinh",
    sinh,
    vjp=lambda g, x: g * conj(cosh(x)),
    kinds=INEXACT,
    reference=np.sinh,
    cost="expensive",
).op()


def cosh(x: TensorLike, /) -> Tensor:
    """The hyperbolic cosine.

    >>> import ingle.tensor as it
    >>> it.cosh(it.asarray([0.0])).tolist()
    [1.0]
    """
    return run1(_COSH, as_floating(x, "cosh"))


_COSH = unary(
    "cosh",
    cosh,
    vjp=lambda g, x: g * conj(sinh(x)),
    kinds=INEXACT,
    reference=np.cosh,
    cost="expensive",
).op()


def tanh(x: TensorLike, /) -> Tensor:
    """The hyperbolic tangent.

    >>> import ingle.tensor as it
    >>> it.tanh(it.asarray([0.0])).tolist()
    [0.0]
    """
    return run1(_TANH, as_floating(x, "tanh"))


_TANH = unary(
    "tanh",
    tanh,
    vjp=lambda g, out: g * conj(1 - out * out),
    kinds=INEXACT,
    reference=np.tanh,
    cost="expensive",
).op()


def asinh(x: TensorLike, /) -> Tensor:
    """The number whose hyperbolic sine is x.

    >>> import ingle.tensor as it
    >>> it.asinh(it.asarray([0.0])).tolist()
    [0.0]
    """
    return run1(_ASINH, as_floating(x, "asinh"))


_ASINH = unary(
    "asinh",
    asinh,
    vjp=lambda g, x: g / conj(sqrt(x * x + 1)),
    kinds=INEXACT,
    domain=(-0.9, 0.9),
    reference=np.arcsinh,
    cost="expensive",
).op()


def acosh(x: TensorLike, /) -> Tensor:
    """The number that is not negative and whose hyperbolic cosine is x; NaN below 1.

    >>> import ingle.tensor as it
    >>> it.acosh(it.asarray([1.0])).tolist()
    [0.0]
    """
    return run1(_ACOSH, as_floating(x, "acosh"))


_ACOSH = unary(
    "acosh",
    acosh,
    vjp=lambda g, x: g / conj(sqrt(x - 1) * sqrt(x + 1)),
    kinds=INEXACT,
    domain=(1.25, 4.0),
    reference=np.arccosh,
    cost="expensive",
).op()


def atanh(x: TensorLike, /) -> Tensor:
    """The number whose hyperbolic tangent is x; NaN outside of [-1, 1].

    >>> import ingle.tensor as it
    >>> it.atanh(it.asarray([0.0])).tolist()
    [0.0]
    """
    return run1(_ATANH, as_floating(x, "atanh"))


_ATANH = unary(
    "atanh",
    atanh,
    vjp=lambda g, x: g / conj((1 - x) * (1 + x)),
    kinds=INEXACT,
    domain=(-0.9, 0.9),
    reference=np.arctanh,
    cost="expensive",
).op()


def _slope_of_asin(x: Tensor) -> Tensor:
    # (1 - x)(1 + x) does not cancel near 1 as 1 - x² does.
    slope: Tensor = conj(sqrt((1 - x) * (1 + x)))
    return slope
