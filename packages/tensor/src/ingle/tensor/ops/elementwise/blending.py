"""From one value to another: lerp and heaviside."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import Operand, TensorLike, as_floating, call2, handle_of, promote, wrap
from ...dtypes import default_float
from ...errors import DTypeError
from .._families import binary
from .._guarding import guarded
from .._rules import ORDERED
from .arithmetic import abs
from .cast import astype
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def lerp(start: TensorLike, /, end: TensorLike, weight: Operand) -> Tensor:
    """`start + weight * (end - start)`, which is exactly `end` where the weight is 1.

    Args:
        start, end: tensors; integers are cast to the default float dtype.
        weight: a number, or a tensor that broadcasts with them.

    >>> import ingle.tensor as it
    >>> it.lerp(it.asarray([0.0, 10.0]), it.asarray([4.0, 20.0]), 0.25).tolist()
    [1.0, 12.5]
    """
    operands = ("start", start), ("end", end), ("weight", weight)
    handle_of(start, "lerp", "start")
    dtype = promote("lerp", *operands)[0].dtype
    to = dtype if dtype.is_inexact else default_float()
    a, b = (astype(wrap(as_floating(x, "lerp", n)), to) for n, x in operands[:2])
    gap = b - a
    if isinstance(weight, (bool, int, float, complex)):
        near = builtins.abs(weight) < 0.5
        return a + gap * weight if near else b - gap * (1 - weight)
    w = astype(wrap(as_floating(weight, "lerp", "weight")), to)
    return where(abs(w) < 0.5, a + gap * w, b - gap * (1 - w))


def heaviside(x1: TensorLike, x2: Operand, /) -> Tensor:
    """0 where `x1` is negative, 1 where it is positive, `x2` where it is 0; NaN stays.

    Args:
        x1: a real tensor, of integers as well. It has no gradient.
        x2: a tensor that broadcasts with it, or a number.

    Raises:
        DTypeError: `x1` is complex.

    >>> import ingle.tensor as it
    >>> it.heaviside(it.asarray([-1.5, 0.0, 2.0]), 0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    dtype = handle_of(x1, "heaviside", "x1").dtype
    if dtype.is_complex:
        raise DTypeError(f"heaviside: x1 must be real numbers, got {dtype}; use real(x)")
    return call2(_HEAVISIDE, x1, x2)


def _heaviside(x1: Any, x2: Any) -> Tensor:
    return where(x1 == 0, x2, where(x1 == x1, astype(x1 > 0, x1.dtype), x1))


def _heaviside_reference(x1: Any, x2: Any) -> Any:
    # NumPy's own gives floats for integers.
    to = np.result_type(x1, x2)
    return np.heaviside(np.asarray(x1, np.float64), np.asarray(x2, np.float64)).astype(to)


_HEAVISIDE = binary(
    "heaviside",
    heaviside,
    vjp={"x2": lambda g, x1: where(x1 == 0, g, 0)},
    kinds=ORDERED,
    body=_heaviside,
    reference=_heaviside_reference,
).op()
