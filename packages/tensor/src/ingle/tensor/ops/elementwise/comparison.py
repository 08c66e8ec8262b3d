"""Comparisons of pairs of elements; the result is bool and has no gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...dispatch import Operand, TensorLike, call1, call2
from ...dtypes import STORAGE, bool_
from .._families import PLAIN, PREDICATE, binary, unary
from .._rules import NUMERIC, ORDERED

if TYPE_CHECKING:
    from ...tensor import Tensor

_ANY = ("bool", *NUMERIC)


def equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether the elements of each pair are equal; NaN equals nothing.

    Args:
        x1, x2: tensors of shapes that broadcast; one of them may be a number.

    >>> import ingle.tensor as it
    >>> it.equal(it.asarray([1, 2]), 2).tolist()
    [False, True]
    """
    return call2(_EQUAL, x1, x2)


_EQUAL = binary(
    "equal",
    equal,
    vjp={},
    kinds=(*_ANY, STORAGE),
    result=bool_,
    reference=np.equal,
    storage=True,
    **PREDICATE,
).op()


def not_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether the elements of each pair differ; NaN differs from everything.

    Args:
        x1, x2: tensors of shapes that broadcast; one of them may be a number.

    >>> import ingle.tensor as it
    >>> it.not_equal(it.asarray([1, 2]), 2).tolist()
    [True, False]
    """
    return call2(_NOT_EQUAL, x1, x2)


def _not_equal(x1: Tensor, x2: Tensor) -> Tensor:
    return ~equal(x1, x2)


_NOT_EQUAL = binary(
    "not_equal",
    not_equal,
    vjp={},
    kinds=(*_ANY, STORAGE),
    result=bool_,
    body=_not_equal,
    reference=np.not_equal,
    storage=True,
    **PREDICATE,
).op()


def less(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether `x1 < x2` for each pair of elements; false for NaN.

    Args:
        x1, x2: tensors of shapes that broadcast; one of them may be a number.

    >>> import ingle.tensor as it
    >>> it.less(it.asarray([1, 2, 3]), 2).tolist()
    [True, False, False]
    """
    return call2(_LESS, x1, x2)


_LESS = binary(
    "less", less, vjp={}, kinds=ORDERED, result=bool_, reference=np.less, **PREDICATE
).op()


def _less_equal(x1: Tensor, x2: Tensor) -> Tensor:
    return less(x1, x2) | equal(x1, x2)


def less_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether `x1 <= x2` for each pair of elements; false for NaN.

    Args:
        x1, x2: tensors of shapes that broadcast; one of them may be a number.

    >>> import ingle.tensor as it
    >>> it.less_equal(it.asarray([1, 2, 3]), 2).tolist()
    [True, True, False]
    """
    return call2(_LESS_EQUAL, x1, x2)


_LESS_EQUAL = binary(
    "less_equal",
    less_equal,
    vjp={},
    kinds=ORDERED,
    result=bool_,
    body=_less_equal,
    reference=np.less_equal,
    **PREDICATE,
).op()


def greater(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether `x1 > x2` for each pair of elements; false for NaN.

    Args:
        x1, x2: tensors of shapes that broadcast; one of them may be a number.

    >>> import ingle.tensor as it
    >>> it.greater(it.asarray([1, 2, 3]), 2).tolist()
    [False, False, True]
    """
    return call2(_GREATER, x1, x2)


_GREATER = binary(
    "greater",
    greater,
    vjp={},
    kinds=ORDERED,
    result=bool_,
    body=lambda x1, x2: less(x2, x1),
    reference=np.greater,
    **PREDICATE,
).op()


def greater_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether `x1 >= x2` for each pair of elements; false for NaN.

    Args:
        x1, x2: tensors of shapes that broadcast; one of them may be a number.

    >>> import ingle.tensor as it
    >>> it.greater_equal(it.asarray([1, 2, 3]), 2).tolist()
    [False, True, True]
    """
    return call2(_GREATER_EQUAL, x1, x2)


_GREATER_EQUAL = binary(
    "greater_equal",
    greater_equal,
    vjp={},
    kinds=ORDERED,
    result=bool_,
    body=lambda x1, x2: _less_equal(x2, x1),
    reference=np.greater_equal,
    **PREDICATE,
).op()


def isnan(x: TensorLike, /) -> Tensor:
    """Whether each element is NaN.

    >>> import ingle.tensor as it
    >>> it.isnan(it.asarray([1.0, float("nan")])).tolist()
    [False, True]
    """
    return call1(_ISNAN, x)


_ISNAN = unary(
    "isnan",
    isnan,
    zero_gradient=True,
    result=bool_,
    body=lambda x: not_equal(x, x),
    reference=np.isnan,
    **PLAIN,
).op()


def isinf(x: TensorLike, /) -> Tensor:
    """Whether each element is infinite; a complex one is if one of its parts is.

    >>> import ingle.tensor as it
    >>> it.isinf(it.asarray([1.0, float("-inf")])).tolist()
    [False, True]
    """
    return call1(_ISINF, x)


def _is_infinite(x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        from .complex import imag, real

        return isinf(real(x)) | isinf(imag(x))
    return equal(_abs(x), float("inf"))


_ISINF = unary(
    "isinf",
    isinf,
    zero_gradient=True,
    result=bool_,
    body=_is_infinite,
    reference=np.isinf,
    **PREDICATE,
).op()


def isfinite(x: TensorLike, /) -> Tensor:
    """Whether each element is neither infinite nor NaN.

    >>> import ingle.tensor as it
    >>> it.isfinite(it.asarray([1.0, float("inf"), float("nan")])).tolist()
    [True, False, False]
    """
    return call1(_ISFINITE, x)


def _is_finite(x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        from .complex import imag, real

        return isfinite(real(x)) & isfinite(imag(x))
    return less(_abs(x), float("inf"))


_ISFINITE = unary(
    "isfinite",
    isfinite,
    zero_gradient=True,
    result=bool_,
    body=_is_finite,
    reference=np.isfinite,
    **PREDICATE,
).op()


def signbit(x: TensorLike, /) -> Tensor:
    """Whether the sign bit is set: for negative elements and for -0.0.

    >>> import ingle.tensor as it
    >>> it.signbit(it.asarray([-1.0, -0.0, 0.0])).tolist()
    [True, True, False]
    """
    return call1(_SIGNBIT, x)


_SIGNBIT = unary(
    "signbit",
    signbit,
    zero_gradient=True,
    kinds=("float",),
    result=bool_,
    # 1 / -0.0 is -inf; the sign of NaN is not looked at.
    body=lambda x: less(x, 0) | (equal(x, 0) & less(1 / x, 0)),
    reference=np.signbit,
).op()


def _abs(x: Tensor) -> Tensor:
    from .arithmetic import abs as absolute

    return absolute(x)
