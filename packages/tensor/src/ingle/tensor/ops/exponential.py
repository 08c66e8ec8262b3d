"""Exponentials, logarithms and square roots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..dispatch import TensorLike, as_floating, call1, run1
from ._families import unary
from ._rules import INEXACT, conj

if TYPE_CHECKING:
    from ..tensor import Tensor


def exp(x: TensorLike, /) -> Tensor:
    """e to the power of each element; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.exp(it.asarray([0.0])).tolist()
    [1.0]
    """
    return run1(_EXP, as_floating(x, "exp"))


def log(x: TensorLike, /) -> Tensor:
    """The natural logarithm: -inf at 0, NaN below; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.log(it.asarray([1.0])).tolist()
    [0.0]
    """
    return run1(_LOG, as_floating(x, "log"))


def sqrt(x: TensorLike, /) -> Tensor:
    """The square root, correctly rounded; NaN below 0. Integers become the default float dtype.

    >>> import ingle.tensor as it
    >>> it.sqrt(it.asarray([9, 16])).tolist()
    [3.0, 4.0]
    """
    return run1(_SQRT, as_floating(x, "sqrt"))


def square(x: TensorLike, /) -> Tensor:
    """Each element times itself.

    >>> import ingle.tensor as it
    >>> it.square(it.asarray([2, -3])).tolist()
    [4, 9]
    """
    return call1(_SQUARE, x)


_EXP = unary(
    "exp", exp, vjp=lambda g, out: g * conj(out), kinds=INEXACT, reference=np.exp, precision="high"
).op()
_LOG = unary(
    "log",
    log,
    vjp=lambda g, x: g / conj(x),
    kinds=INEXACT,
    domain=(0.1, 4.0),
    reference=np.log,
    precision="high",
).op()
_SQRT = unary(
    "sqrt",
    sqrt,
    vjp=lambda g, out: g / conj(out * 2),
    kinds=INEXACT,
    domain=(0.1, 4.0),
    reference=np.sqrt,
).op()
_SQUARE = unary("square", square, vjp=lambda g, x: g * conj(x * 2), reference=np.square).op()
