"""Mean, variance and standard deviation over axes."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, as_floating
from ...errors import ArgumentError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import INEXACT, widened
from ..elementwise.cast import astype
from ..elementwise.powers import sqrt, square
from ..elementwise.where import where
from .basic import Axis, reduction, reduction_rule, run_reduction, spread, sum

if TYPE_CHECKING:
    from ...tensor import Tensor


def mean(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean over axes; NaN for no elements. Half types are summed in float32.

    Args:
        x: a numeric tensor; integers are cast to the default float dtype.
        axis: an axis, several, or None for all.
        keepdims: keep reduced axes with size 1.

    >>> import ingle.tensor as it
    >>> it.mean(it.asarray([[1.0, 2.0], [3.0, 5.0]]), axis=1).tolist()
    [1.5, 4.0]
    """
    return run_reduction(_MEAN, as_floating(x, "mean"), axis, keepdims)


def _mean(x: Tensor, *, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    total = sum(widened(x), axis=axis, keepdims=keepdims)
    return astype(total / _count(x, axis), x.dtype)


def _mean_vjp(g: Tensor, x_aval: Aval, axis: tuple[int, ...]) -> Tensor:
    return spread(g / _count(x_aval, axis), x_aval, axis)


_MEAN = reduction(
    "mean",
    mean,
    kinds=INEXACT,
    vjp=_mean_vjp,
    body=_mean,
    reference=np.mean,
    precision="high",
    condition=4,
)


def _samples(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((2, 17)),), condition=4)
    yield Sample((draw.array((3, 5, 8)),), {"axis": (0, 2), "correction": 1}, condition=4)
    yield Sample((draw.array((5, 3)),), {"axis": -1, "keepdims": True}, condition=4)
    # Far from zero a variance from the sum of squares would cancel.
    yield Sample((draw.array((33,), low=999, high=1001),), gradient=False, condition=16)


def _reference(function: Any) -> Any:
    def reference(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
        return function(x, axis=axis, ddof=correction, keepdims=keepdims)

    return reference


def _deviation(name: str, public: Any, *, vjp: Any, body: Any, reference: Any) -> Operation:
    return Operation(
        name,
        tensors=("x",),
        statics=("axis", "keepdims", "correction"),
        rule=partial(reduction_rule, name, ("float",), True, None),
        traits=Traits("reduction", precision="high"),
        vjp={"x": vjp},
        body=body,
        public=public,
        samples=_samples,
        reference=_reference(reference),
    )


def var(
    x: TensorLike, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance over axes: the sum of squared distances from the mean, by `n - correction`.

    Args:
        x: a real tensor; integers are cast to the default float dtype.
        axis: an axis, several, or None for all.
        correction: 0 for the variance of these n elements, 1 to estimate that of what they were
            drawn from (which is PyTorch's default).
        keepdims: keep reduced axes with size 1.

    >>> import ingle.tensor as it
    >>> it.var(it.asarray([1.0, 2.0, 3.0]), correction=1).item()
    1.0
    """
    number = _number(correction, "var")
    return run_reduction(_VAR, as_floating(x, "var"), axis, keepdims, correction=number)


def _var(x: Tensor, *, axis: tuple[int, ...], keepdims: bool, correction: float) -> Tensor:
    wide = widened(x)
    off = wide - mean(wide, axis=axis, keepdims=True)
    total = sum(square(off), axis=axis, keepdims=keepdims)
    return astype(total / _left(x, axis, correction), x.dtype)


def _var_vjp(
    g: Tensor, x: Tensor, x_aval: Aval, axis: tuple[int, ...], correction: float
) -> Tensor:
    scale = spread(g * 2 / _left(x_aval, axis, correction), x_aval, axis)
    return scale * (x - mean(x, axis=axis, keepdims=True))


_VAR = _deviation("var", var, vjp=_var_vjp, body=_var, reference=np.var)


def std(
    x: TensorLike, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation over axes, the root of `var`; where it is 0, so is its gradient.

    Args:
        x: a real tensor; integers are cast to the default float dtype.
        axis: an axis, several, or None for all.
        correction: see `var`.
        keepdims: keep reduced axes with size 1.

    >>> import ingle.tensor as it
    >>> it.std(it.asarray([1.0, 3.0])).item()
    1.0
    """
    number = _number(correction, "std")
    return run_reduction(_STD, as_floating(x, "std"), axis, keepdims, correction=number)


def _std(x: Tensor, *, axis: tuple[int, ...], keepdims: bool, correction: float) -> Tensor:
    found = var(widened(x), axis=axis, keepdims=keepdims, correction=correction)
    return astype(sqrt(found), x.dtype)


def _std_vjp(
    g: Tensor, x: Tensor, out: Tensor, x_aval: Aval, axis: tuple[int, ...], correction: float
) -> Tensor:
    inverse = where(out == 0, 0, g / out) / _left(x_aval, axis, correction)
    return spread(inverse, x_aval, axis) * (x - mean(x, axis=axis, keepdims=True))


_STD = _deviation("std", std, vjp=_std_vjp, body=_std, reference=np.std)


def _number(correction: object, name: str) -> float:
    if isinstance(correction, bool) or not isinstance(correction, (int, float)):
        raise ArgumentError(f"{name}: correction must be a number, got {correction!r}")
    return float(correction)


def _count(x: Aval | Tensor, axis: tuple[int, ...]) -> int:
    return math.prod(x.shape[a] for a in axis)


def _left(x: Aval | Tensor, axis: tuple[int, ...], correction: float) -> float:
    # Whole numbers stay whole: a count may be a size that is not known yet.
    whole = int(correction) if correction.is_integer() else correction
    return builtins.max(_count(x, axis) - whole, 0)
