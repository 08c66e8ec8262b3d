"""Addition, subtraction, multiplication and division."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..dispatch import Operand, TensorLike, call1, call2, promote, run2
from ..dtypes import default_float
from ._families import binary, unary
from ._rules import INEXACT, conj

if TYPE_CHECKING:
    from ..tensor import Tensor


def add(x1: Operand, x2: Operand, /) -> Tensor:
    """The sum of each pair of elements.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one numeric dtype.

    >>> import ingle.tensor as it
    >>> it.add(it.asarray([1, 2]), 10).tolist()
    [11, 12]
    """
    return call2(_ADD, x1, x2)


def subtract(x1: Operand, x2: Operand, /) -> Tensor:
    """`x1 - x2` for each pair of elements.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one numeric dtype.

    >>> import ingle.tensor as it
    >>> it.subtract(it.asarray([5, 7]), it.asarray([1, 2])).tolist()
    [4, 5]
    """
    return call2(_SUBTRACT, x1, x2)


def multiply(x1: Operand, x2: Operand, /) -> Tensor:
    """The product of each pair of elements.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one numeric dtype.

    >>> import ingle.tensor as it
    >>> it.multiply(it.asarray([1.5, 2.0]), 2).tolist()
    [3.0, 4.0]
    """
    return call2(_MULTIPLY, x1, x2)


def divide(x1: Operand, x2: Operand, /) -> Tensor:
    """The quotient of each pair of elements; integers are cast to the default float dtype.

    Args:
        x1, x2: tensors that broadcast, or one of them a number.

    >>> import ingle.tensor as it
    >>> it.divide(it.asarray([1, 3]), 2).tolist()
    [0.5, 1.5]
    """
    a, b = promote("divide", ("x1", x1), ("x2", x2))
    if not a.dtype.is_inexact:
        a, b = promote("divide", ("x1", x1), ("x2", x2), dtype=default_float())
    return run2(_DIVIDE, a, b)


def negative(x: TensorLike, /) -> Tensor:
    """`-x` for each element.

    >>> import ingle.tensor as it
    >>> it.negative(it.asarray([1, -2])).tolist()
    [-1, 2]
    """
    return call1(_NEGATIVE, x)


_ADD = binary(
    "add", add, vjp={"x1": lambda g: g, "x2": lambda g: g}, reference=np.add
).op()  # fmt: skip
_SUBTRACT = binary(
    "subtract", subtract, vjp={"x1": lambda g: g, "x2": lambda g: -g}, reference=np.subtract
).op()
_MULTIPLY = binary(
    "multiply",
    multiply,
    vjp={"x1": lambda g, x2: g * conj(x2), "x2": lambda g, x1: g * conj(x1)},
    reference=np.multiply,
).op()
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
).op()
_NEGATIVE = unary("negative", negative, vjp=lambda g: -g, reference=np.negative).op()
