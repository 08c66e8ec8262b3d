"""Exponentials and logarithms. Integers are cast to the default float dtype."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import Operand, TensorLike, as_floating, call2_floating, run1
from .._families import binary, unary
from .._rules import INEXACT, conj
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor

_LN2 = math.log(2)
_LN10 = math.log(10)


def exp(x: TensorLike, /) -> Tensor:
    """e to the power of each element.

    >>> import ingle.tensor as it
    >>> it.exp(it.asarray([0.0])).tolist()
    [1.0]
    """
    return run1(_EXP, as_floating(x, "exp"))


_EXP = unary(
    "exp",
    exp,
    vjp=lambda g, out: g * conj(out),
    kinds=INEXACT,
    reference=np.exp,
    precision="high",
    cost="expensive",
).op()


def exp2(x: TensorLike, /) -> Tensor:
    """2 to the power of each element.

    >>> import ingle.tensor as it
    >>> it.exp2(it.asarray([3.0, -1.0])).tolist()
    [8.0, 0.5]
    """
    return run1(_EXP2, as_floating(x, "exp2"))


def _exp2(x: Tensor) -> Tensor:
    from .powers import pow

    # Other than exp(x * log(2)) it does not round what is multiplied.
    return pow(2.0, x)


_EXP2 = unary(
    "exp2",
    exp2,
    vjp=lambda g, out: g * (out * _LN2),
    kinds=("float",),
    domain=(-8.0, 8.0),
    body=_exp2,
    reference=np.exp2,
    precision="high",
).op()


def expm1(x: TensorLike, /) -> Tensor:
    """`exp(x) - 1`, exact to the last places where x is small.

    >>> import ingle.tensor as it
    >>> it.expm1(it.asarray([0.0])).tolist()
    [0.0]
    """
    return run1(_EXPM1, as_floating(x, "expm1"))


_EXPM1 = unary(
    "expm1",
    expm1,
    vjp=lambda g, out: g * conj(out + 1),
    kinds=INEXACT,
    reference=np.expm1,
    precision="high",
    cost="expensive",
).op()


def log(x: TensorLike, /) -> Tensor:
    """The natural logarithm: -inf at 0, NaN below.

    >>> import ingle.tensor as it
    >>> it.log(it.asarray([1.0])).tolist()
    [0.0]
    """
    return run1(_LOG, as_floating(x, "log"))


_LOG = unary(
    "log",
    log,
    vjp=lambda g, x: g / conj(x),
    kinds=INEXACT,
    domain=(0.1, 4.0),
    reference=np.log,
    precision="high",
    cost="expensive",
).op()


def log1p(x: TensorLike, /) -> Tensor:
    """`log(1 + x)`, exact to the last places where x is small.

    >>> import ingle.tensor as it
    >>> it.log1p(it.asarray([0.0])).tolist()
    [0.0]
    """
    return run1(_LOG1P, as_floating(x, "log1p"))


_LOG1P = unary(
    "log1p",
    log1p,
    vjp=lambda g, x: g / conj(x + 1),
    kinds=INEXACT,
    domain=(-0.75, 4.0),
    reference=np.log1p,
    precision="high",
    cost="expensive",
).op()


def log2(x: TensorLike, /) -> Tensor:
    """The logarithm to base 2.

    >>> import ingle.tensor as it
    >>> it.log2(it.asarray([8.0])).tolist()
    [3.0]
    """
    return run1(_LOG2, as_floating(x, "log2"))


_LOG2 = unary(
    "log2",
    log2,
    vjp=lambda g, x: g / conj(x * _LN2),
    kinds=INEXACT,
    domain=(0.1, 4.0),
    body=lambda x: log(x) / _LN2,
    reference=np.log2,
    precision="high",
    cost="expensive",
).op()


def log10(x: TensorLike, /) -> Tensor:
    """The logarithm to base 10.

    >>> import ingle.tensor as it
    >>> it.log10(it.asarray([1.0])).tolist()
    [0.0]
    """
    return run1(_LOG10, as_floating(x, "log10"))


_LOG10 = unary(
    "log10",
    log10,
    vjp=lambda g, x: g / conj(x * _LN10),
    kinds=INEXACT,
    domain=(0.1, 4.0),
    body=lambda x: log(x) / _LN10,
    reference=np.log10,
    precision="high",
    cost="expensive",
).op()


def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """`log(exp(x1) + exp(x2))` without overflow.

    >>> import ingle.tensor as it
    >>> it.logaddexp(it.asarray([1000.0]), float("-inf")).tolist()
    [1000.0]
    """
    return call2_floating(_LOGADDEXP, x1, x2)


def _logaddexp(x1: Any, x2: Any) -> Tensor:
    from .extrema import maximum

    # Two equal infinities differ by NaN, not by 0.
    distance = where(x1 == x2, 0.0, abs(x1 - x2))
    return maximum(x1, x2) + log1p(exp(-distance))


def _share(g: Tensor, x: Any, other: Any) -> Tensor:
    from .smooth_activations import sigmoid

    # Two equal infinities differ by NaN; only there is the difference replaced, since between
    # finite ties its derivative counts.
    endless = (x == other) & (abs(x) == math.inf)
    return g * sigmoid(where(endless, 0.0, x) - where(endless, 0.0, other))


_LOGADDEXP = binary(
    "logaddexp",
    logaddexp,
    vjp={
        "x1": lambda g, x1, x2: _share(g, x1, x2),
        "x2": lambda g, x1, x2: _share(g, x2, x1),
    },
    kinds=("float",),
    body=_logaddexp,
    reference=np.logaddexp,
    precision="high",
).op()
