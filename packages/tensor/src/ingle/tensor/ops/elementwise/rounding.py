"""Rounding to whole numbers. Integers stay as they are, and gradients are zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...dispatch import TensorLike, handle_of, refuse_storage, run1, wrap
from ...operation import Op
from .._families import unary
from .._guarding import guarded
from .._rules import INEXACT

if TYPE_CHECKING:
    from ...tensor import Tensor


def floor(x: TensorLike, /) -> Tensor:
    """The largest whole number that is not above each element.

    >>> import ingle.tensor as it
    >>> it.floor(it.asarray([1.5, -1.5])).tolist()
    [1.0, -2.0]
    """
    return _rounded(_FLOOR, x)


_FLOOR = unary(
    "floor",
    floor,
    zero_gradient=True,
    kinds=("float",),
    reference=np.floor,
    discontinuous=True,
    exactly_rounded=True,
).op()


def ceil(x: TensorLike, /) -> Tensor:
    """The smallest whole number that is not below each element.

    >>> import ingle.tensor as it
    >>> it.ceil(it.asarray([1.5, -1.5])).tolist()
    [2.0, -1.0]
    """
    return _rounded(_CEIL, x)


_CEIL = unary(
    "ceil",
    ceil,
    zero_gradient=True,
    kinds=("float",),
    reference=np.ceil,
    discontinuous=True,
    exactly_rounded=True,
).op()


def trunc(x: TensorLike, /) -> Tensor:
    """Each element without its fraction: rounded towards zero.

    >>> import ingle.tensor as it
    >>> it.trunc(it.asarray([1.5, -1.5])).tolist()
    [1.0, -1.0]
    """
    return _rounded(_TRUNC, x)


_TRUNC = unary(
    "trunc",
    trunc,
    zero_gradient=True,
    kinds=("float",),
    reference=np.trunc,
    discontinuous=True,
    exactly_rounded=True,
).op()


@guarded
def round(x: TensorLike, /, *, decimals: int = 0) -> Tensor:
    """The nearest whole number, the even one of two; each part of complex elements.

    Args:
        x: a numeric tensor.
        decimals: how many digits behind the point to keep; negative for zeros before it, of
            integers, too. Computed in float64; a digit 5 is binary and so seldom a tie.

    >>> import ingle.tensor as it
    >>> it.round(it.asarray([0.5, 1.5, -1.7])).tolist()
    [0.0, 2.0, -2.0]
    >>> it.round(it.asarray([1250, 1350]), decimals=-2).tolist()
    [1200, 1400]
    """
    if not decimals:
        return _rounded(_ROUND, x)
    from .decimals import rounded

    handle = handle_of(x, "round")
    refuse_storage("round", "x", handle.dtype)
    return rounded(wrap(handle), decimals)


_ROUND = unary(
    "round",
    round,
    zero_gradient=True,
    kinds=INEXACT,
    reference=np.round,
    discontinuous=True,
    exactly_rounded=True,
).op()


def _rounded(op: Op, x: TensorLike) -> Tensor:
    handle = handle_of(x, op.operation.name)
    return wrap(handle) if handle.dtype.is_integer else run1(op, handle)
