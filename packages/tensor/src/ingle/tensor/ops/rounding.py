"""Rounding to whole numbers. Integers stay as they are, and gradients are zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..dispatch import TensorLike, handle_of, run1, wrap
from ..operation import Op
from ._families import unary
from ._rules import INEXACT

if TYPE_CHECKING:
    from ..tensor import Tensor


def floor(x: TensorLike, /) -> Tensor:
    """The largest whole number that is not above each element.

    >>> import ingle.tensor as it
    >>> it.floor(it.asarray([1.5, -1.5])).tolist()
    [1.0, -2.0]
    """
    return _rounded(_FLOOR, x)


def ceil(x: TensorLike, /) -> Tensor:
    """The smallest whole number that is not below each element.

    >>> import ingle.tensor as it
    >>> it.ceil(it.asarray([1.5, -1.5])).tolist()
    [2.0, -1.0]
    """
    return _rounded(_CEIL, x)


def trunc(x: TensorLike, /) -> Tensor:
    """Each element without its fraction: rounded towards zero.

    >>> import ingle.tensor as it
    >>> it.trunc(it.asarray([1.5, -1.5])).tolist()
    [1.0, -1.0]
    """
    return _rounded(_TRUNC, x)


def round(x: TensorLike, /) -> Tensor:
    """The nearest whole number, the even one of two; each part of complex elements.

    >>> import ingle.tensor as it
    >>> it.round(it.asarray([0.5, 1.5, -1.7])).tolist()
    [0.0, 2.0, -2.0]
    """
    return _rounded(_ROUND, x)


def _rounded(op: Op, x: TensorLike) -> Tensor:
    handle = handle_of(x, op.operation.name)
    return wrap(handle) if handle.dtype.is_integer else run1(op, handle)


_FLOOR = unary("floor", floor, zero_gradient=True, kinds=("float",), reference=np.floor).op()
_CEIL = unary("ceil", ceil, zero_gradient=True, kinds=("float",), reference=np.ceil).op()
_TRUNC = unary("trunc", trunc, zero_gradient=True, kinds=("float",), reference=np.trunc).op()
_ROUND = unary("round", round, zero_gradient=True, kinds=INEXACT, reference=np.round).op()
