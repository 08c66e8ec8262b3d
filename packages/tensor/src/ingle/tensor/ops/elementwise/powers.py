"""Powers and roots."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
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
)
from ...dtype_functions import finfo
from ...errors import ArgumentError, DTypeError
from .._families import PLAIN, binary, unary
from .._rules import INEXACT, conj
from .arithmetic import positive, reciprocal
from .complex import real
from .exponential import log
from .logical import logical_not
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor


def pow(x1: Operand, x2: Operand, /) -> Tensor:
    """`x1` to the power of `x2`; an integer to a negative power is cut towards zero.

    The exponents 1, 2, 3, 4, -1, 0.5 and -0.5 as numbers become products, quotients and roots,
    which are much faster.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one numeric dtype.

    Raises:
        ArgumentError: an integer tensor to a negative number; cast it to a float dtype first.

    >>> import ingle.tensor as it
    >>> it.pow(it.asarray([1.0, 2.0, 3.0]), 2).tolist()
    [1.0, 4.0, 9.0]
    """
    if isinstance(x2, (int, float)) and not isinstance(x2, bool):
        handle = handle_of(x1, "pow", "x1")
        if handle.dtype.is_integer and isinstance(x2, int) and x2 < 0:
            raise ArgumentError(
                f"pow: x2 must not be negative for integers x1 ({handle.dtype}), got {x2}; cast x1 "
                "first with x1.astype('float32')"
            )
        if handle.dtype.kind == "bool":
            raise DTypeError(f"pow: x1 must be numbers, got bool {handle.shape}; cast it first")
        short = _SHORT.get(x2)
        if short is not None and (handle.dtype.is_inexact or isinstance(x2, int)):
            return short(x1)
    return call2(_POW, x1, x2)


def _pow_by_base(g: Tensor, x1: Tensor, x2: Any) -> Tensor:
    if isinstance(x2, (int, float, complex)):
        return g * conj(x1 ** (x2 - 1) * x2) if x2 != 0 else g * 0
    # The power 0 is 1 everywhere, but 0 * 0 ** -1 is NaN. Elsewhere this rule has to be right for
    # exponents around 0, too, because its derivative by the exponent is not 0.
    tiny = finfo(x1.dtype).smallest_normal
    still = (x2 == 0) & logical_not(abs(x1) >= tiny)
    return where(still, 0, g * conj(x2 * pow(where(still, 1, x1), x2 - 1)))


def _pow_by_exponent(g: Tensor, x1: Any, x2: Tensor, out: Tensor) -> Tensor:
    base_log: Any
    # 0 to a positive power is 0 around it as well, but log 0 is -inf, and so is its derivative.
    still = (real(x2) >= 0) & (x1 == 0)
    if isinstance(x1, (int, float, complex)):
        base_log = _log_of_number(complex(x1) if out.dtype.is_complex else x1)
    else:
        base_log = log(where(still, 1, x1))
    return where(still, 0, g * conj(out * base_log))


def _log_of_number(x: complex) -> complex:
    if x == 0:
        return -math.inf
    if isinstance(x, complex):
        return cmath.log(x)
    return math.log(x) if x > 0 else math.nan


_POW = binary(
    "pow",
    pow,
    vjp={"x1": _pow_by_base, "x2": _pow_by_exponent},
    low=0.5,
    high=3.0,
    number=3,
    reference=np.power,
    precision="high",
    condition=8,
    cost="expensive",
).op()


def square(x: TensorLike, /) -> Tensor:
    """Each element times itself.

    >>> import ingle.tensor as it
    >>> it.square(it.asarray([2, -3])).tolist()
    [4, 9]
    """
    return call1(_SQUARE, x)


_SQUARE = unary(
    "square",
    square,
    vjp=lambda g, x: g * conj(x * 2),
    body=lambda x: x * x,
    reference=np.square,
    **PLAIN,
).op()


def sqrt(x: TensorLike, /) -> Tensor:
    """The square root, correctly rounded; NaN below 0. Integers become the default float dtype.

    >>> import ingle.tensor as it
    >>> it.sqrt(it.asarray([9, 16])).tolist()
    [3.0, 4.0]
    """
    return run1(_SQRT, as_floating(x, "sqrt"))


_SQRT = unary(
    "sqrt",
    sqrt,
    vjp=lambda g, out: g / conj(out * 2),
    kinds=INEXACT,
    domain=(0.1, 4.0),
    reference=np.sqrt,
    cost="root",
    exactly_rounded=True,
).op()


def rsqrt(x: TensorLike, /) -> Tensor:
    """`1 / sqrt(x)`: inf at 0, NaN below. Integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.rsqrt(it.asarray([4.0])).tolist()
    [0.5]
    """
    return run1(_RSQRT, as_floating(x, "rsqrt"))


_RSQRT = unary(
    "rsqrt",
    rsqrt,
    vjp=lambda g, out: g * conj(out * out * out * -0.5),
    kinds=INEXACT,
    domain=(0.1, 4.0),
    body=lambda x: 1 / sqrt(x),
    reference=lambda x: 1 / np.sqrt(x),
    cost="root",
).op()


def hypot(x1: Operand, x2: Operand, /) -> Tensor:
    """`sqrt(x1² + x2²)` without overflow in between; its gradient at (0, 0) is 0.

    >>> import ingle.tensor as it
    >>> it.hypot(it.asarray([3.0]), it.asarray([4.0])).tolist()
    [5.0]
    """
    return call2_floating(_HYPOT, x1, x2)


def _hypot(x1: Any, x2: Any) -> Tensor:
    from .extrema import maximum, minimum

    a, b = abs(x1), abs(x2)
    large, small = maximum(a, b), minimum(a, b)
    ratio = where(large == 0, 0.0, small / large)
    return where((a == math.inf) | (b == math.inf), math.inf, large * sqrt(1 + ratio * ratio))


def _hypot_vjp(g: Tensor, x: Any, out: Tensor) -> Tensor:
    return where(out == 0, 0, g * (x / out))


_HYPOT = binary(
    "hypot",
    hypot,
    vjp={
        "x1": lambda g, x1, out: _hypot_vjp(g, x1, out),
        "x2": lambda g, x2, out: _hypot_vjp(g, x2, out),
    },
    kinds=("float",),
    body=_hypot,
    reference=np.hypot,
).op()


_SHORT: dict[float, Callable[[Any], Tensor]] = {
    1: positive,
    2: square,
    3: lambda x: square(x) * x,
    4: lambda x: square(square(x)),
    -1: reciprocal,
    0.5: sqrt,
    -0.5: rsqrt,
}
