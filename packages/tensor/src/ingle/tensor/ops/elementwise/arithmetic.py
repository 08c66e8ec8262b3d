"""Addition, multiplication, division, and what else arithmetic has of one or two operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import (
    Operand,
    TensorLike,
    as_floating,
    call1,
    call2,
    call2_floating,
    handle_of,
    run1,
    wrap,
)
from ...dtypes import real_dtype
from ...errors import DTypeError
from ...operation import Laws
from .._families import PLAIN, binary, division, unary
from .._rules import INEXACT, NUMERIC, conj
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor


def add(x1: Operand, x2: Operand, /) -> Tensor:
    """The sum of each pair of elements.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one numeric dtype.

    >>> import ingle.tensor as it
    >>> it.add(it.asarray([1, 2]), 10).tolist()
    [11, 12]
    """
    return call2(_ADD, x1, x2)


_ADD = binary(
    "add",
    add,
    vjp={"x1": lambda g: g, "x2": lambda g: g},
    reference=np.add,
    laws=Laws(neutral=-0.0, commutes=True),
    **PLAIN,
).op()


def subtract(x1: Operand, x2: Operand, /) -> Tensor:
    """`x1 - x2` for each pair of elements.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one numeric dtype.

    >>> import ingle.tensor as it
    >>> it.subtract(it.asarray([5, 7]), it.asarray([1, 2])).tolist()
    [4, 5]
    """
    return call2(_SUBTRACT, x1, x2)


_SUBTRACT = binary(
    "subtract",
    subtract,
    vjp={"x1": lambda g: g, "x2": lambda g: -g},
    reference=np.subtract,
    laws=Laws(neutral=0),
    **PLAIN,
).op()


def multiply(x1: Operand, x2: Operand, /) -> Tensor:
    """The product of each pair of elements.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one numeric dtype.

    >>> import ingle.tensor as it
    >>> it.multiply(it.asarray([1.5, 2.0]), 2).tolist()
    [3.0, 4.0]
    """
    return call2(_MULTIPLY, x1, x2)


_MULTIPLY = binary(
    "multiply",
    multiply,
    vjp={"x1": lambda g, x2: g * conj(x2), "x2": lambda g, x1: g * conj(x1)},
    reference=np.multiply,
    laws=Laws(neutral=1, commutes=True),
    **PLAIN,
).op()


def divide(x1: Operand, x2: Operand, /) -> Tensor:
    """The quotient of each pair of elements; integers are cast to the default float dtype.

    Args:
        x1, x2: tensors that broadcast, or one of them a number.

    >>> import ingle.tensor as it
    >>> it.divide(it.asarray([1, 3]), 2).tolist()
    [0.5, 1.5]
    """
    return call2_floating(_DIVIDE, x1, x2)


_DIVIDE = binary(
    "divide",
    divide,
    vjp={
        "x1": lambda g, x2: g / conj(x2),
        "x2": lambda g, x2, out: -g * conj(out / x2),
    },
    kinds=INEXACT,
    low=0.5,
    reference=np.divide,
    laws=Laws(neutral=1, by_inverse="multiply"),
    cost="root",
    exactly_rounded=True,
).op()


def floor_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """The quotient rounded towards minus infinity, as Python's `//`; an integer by 0 gives 0.

    Other than Python's, an infinite number stays infinite, and a finite one by infinity is 0.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one real dtype.

    >>> import ingle.tensor as it
    >>> it.floor_divide(it.asarray([7, -7]), 2).tolist()
    [3, -4]
    """
    return call2(_FLOOR_DIVIDE, x1, x2)


def _floor_divide_reference(x1: Any, x2: Any) -> Any:
    # At infinities NumPy follows Python, the Array API standard has the quotient rounded down.
    infinite = np.isinf(x1) | np.isinf(x2)
    return np.where(infinite, np.floor(np.divide(x1, x2)), np.floor_divide(x1, x2))


_FLOOR_DIVIDE = division(
    "floor_divide",
    floor_divide,
    vjp={},
    reference=_floor_divide_reference,
    discontinuous=True,
).op()


def remainder(x1: Operand, x2: Operand, /) -> Tensor:
    """What is left of `x1` by `x2`, with the sign of `x2`, as Python's `%`; 0 for an integer by 0.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one real dtype.

    >>> import ingle.tensor as it
    >>> it.remainder(it.asarray([7, -7]), 3).tolist()
    [1, 2]
    """
    return call2(_REMAINDER, x1, x2)


def _remainder_by_divisor(g: Tensor, x1: Any, x2: Any) -> Tensor:
    return -g * floor_divide(x1, x2)


_REMAINDER = division(
    "remainder",
    remainder,
    vjp={"x1": lambda g: g, "x2": _remainder_by_divisor},
    reference=np.remainder,
    # The remainder jumps where the quotient is whole: finite differences may step over it.
    gradient_samples=False,
    condition=8,
    discontinuous=True,
).op()


def negative(x: TensorLike, /) -> Tensor:
    """`-x` for each element.

    >>> import ingle.tensor as it
    >>> it.negative(it.asarray([1, -2])).tolist()
    [-1, 2]
    """
    return call1(_NEGATIVE, x)


_NEGATIVE = unary(
    "negative", negative, vjp=lambda g: -g, reference=np.negative, laws=Laws(negates=True), **PLAIN
).op()


def positive(x: TensorLike, /) -> Tensor:
    """The tensor itself.

    Raises:
        DTypeError: `x` is bool.

    >>> import ingle.tensor as it
    >>> it.positive(it.asarray([1, -2])).tolist()
    [1, -2]
    """
    handle = handle_of(x, "positive")
    if handle.dtype.kind not in NUMERIC:
        raise DTypeError(
            f"positive: x must be numbers, got {handle.dtype}; cast first with x.astype('int64')"
        )
    return wrap(handle)


def abs(x: TensorLike, /) -> Tensor:
    """The absolute value, real for complex elements; its gradient at 0 is 0.

    >>> import ingle.tensor as it
    >>> it.abs(it.asarray([-1.5, 2.0])).tolist()
    [1.5, 2.0]
    """
    return call1(_ABS, x)


_ABS = unary(
    "abs",
    abs,
    vjp=lambda g, x: g * sign(x),
    result=real_dtype,
    reference=np.abs,
    laws=Laws(even=True),
    **PLAIN,
).op()


def sign(x: TensorLike, /) -> Tensor:
    """-1, 0 or 1 by the sign of each element, NaN for NaN; `x / abs(x)` for complex elements.

    >>> import ingle.tensor as it
    >>> it.sign(it.asarray([-3, 0, 5])).tolist()
    [-1, 0, 1]
    """
    return call1(_SIGN, x)


def _sign_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor | None:
    if not x.dtype.is_complex:
        return None
    from .complex import real

    # The direction of x turns with what is perpendicular to it, the faster the smaller x is.
    turned = (g - out * real(g * conj(out))) / abs(x)
    return where(x == 0, 0, turned)


_SIGN = unary(
    "sign",
    sign,
    vjp=_sign_vjp,
    reference=np.sign,
    gradient_samples=False,
    cost="cheap",
    discontinuous=True,
).op()


def reciprocal(x: TensorLike, /) -> Tensor:
    """`1 / x` for each element; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.reciprocal(it.asarray([4.0])).tolist()
    [0.25]
    """
    return run1(_RECIPROCAL, as_floating(x, "reciprocal"))


_RECIPROCAL = unary(
    "reciprocal",
    reciprocal,
    vjp=lambda g, out: -g * conj(out * out),
    kinds=INEXACT,
    domain=(0.25, 4.0),
    body=lambda x: 1 / x,
    reference=np.reciprocal,
    cost="root",
).op()
