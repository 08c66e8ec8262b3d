"""Softmax along an axis, its logarithm, and the softmax of the negated values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, as_floating, run1
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import elementwise_rule, normalize_axis, widened
from ..elementwise.arithmetic import negative
from ..elementwise.cast import astype
from ..elementwise.exponential import exp, log
from ..reductions.basic import max, sum
from ..special.short import short_exp

if TYPE_CHECKING:
    from ...tensor import Tensor


def _samples(logarithm: bool, draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        yield Sample((draw.array((3, 5)),))
        wide = draw.array((2, 17, 3), low=-30, high=30)
        # The logarithm of a sum just above 1 is as exact as that sum.
        yield Sample((wide,), {"axis": 1}, magnitude=1.0 if logarithm else 0.0)
        yield Sample((draw.array((0, 3)),))
        yield Sample((draw.array((3, 0)),))


def _rule(name: str, x: Aval, *, axis: int) -> Aval:
    return elementwise_rule(name, ("float",))(x)  # type: ignore[return-value]


def softmax(x: TensorLike, /, *, axis: int = -1) -> Tensor:
    """`exp(x) / sum(exp(x))` along an axis, without overflow.

    Args:
        x: a float tensor; integers are cast to the default float dtype.
        axis: along which the result sums to 1.

    >>> import ingle.tensor as it
    >>> it.softmax(it.asarray([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    return _along(SOFTMAX, x, axis)


def _softmax(x: Tensor, *, axis: int) -> Tensor:
    if not x.shape[axis]:
        return x
    shifted = _shifted(x, axis)
    if shifted.dtype is x.dtype:
        e = exp(shifted)
        return e / sum(e, axis=axis, keepdims=True)
    # One division a row instead of one an element: a half type shows no difference.
    e = short_exp(shifted)
    return astype(e * (1.0 / sum(e, axis=axis, keepdims=True)), x.dtype)


def _softmax_vjp(g: Tensor, out: Tensor, axis: int) -> Tensor:
    return out * (g - sum(g * out, axis=axis, keepdims=True))


def _softmax_reference(x: Any, axis: int = -1) -> Any:
    from scipy.special import softmax as oracle

    return oracle(x, axis=axis) if x.size else np.asarray(x)


SOFTMAX = Operation(
    "softmax",
    tensors=("x",),
    statics=("axis",),
    rule=partial(_rule, "softmax"),
    traits=Traits("opaque", precision="high"),
    vjp={"x": _softmax_vjp},
    body=_softmax,
    batch=("axis",),
    public=softmax,
    samples=partial(_samples, False),
    reference=_softmax_reference,
)


def log_softmax(x: TensorLike, /, *, axis: int = -1) -> Tensor:
    """`log(softmax(x))` along an axis, without overflow and without the logarithm of a zero.

    Args:
        x: a float tensor; integers are cast to the default float dtype.
        axis: along which the exponentials of the result sum to 1.

    >>> import ingle.tensor as it
    >>> it.log_softmax(it.asarray([0.0, -1000.0])).tolist()
    [0.0, -1000.0]
    """
    return _along(LOG_SOFTMAX, x, axis)


def _log_softmax(x: Tensor, *, axis: int) -> Tensor:
    if not x.shape[axis]:
        return x
    shifted = _shifted(x, axis)
    return astype(shifted - log(sum(exp(shifted), axis=axis, keepdims=True)), x.dtype)


def _log_softmax_vjp(g: Tensor, out: Tensor, axis: int) -> Tensor:
    return g - exp(out) * sum(g, axis=axis, keepdims=True)


def _log_softmax_reference(x: Any, axis: int = -1) -> Any:
    from scipy.special import log_softmax as oracle

    return oracle(x, axis=axis) if x.size else np.asarray(x)


LOG_SOFTMAX = Operation(
    "log_softmax",
    tensors=("x",),
    statics=("axis",),
    rule=partial(_rule, "log_softmax"),
    traits=Traits("opaque", precision="high"),
    vjp={"x": _log_softmax_vjp},
    body=_log_softmax,
    batch=("axis",),
    public=log_softmax,
    samples=partial(_samples, True),
    reference=_log_softmax_reference,
)


@guarded
def softmin(x: TensorLike, /, *, axis: int = -1) -> Tensor:
    """`softmax(-x)`: the smallest value gets the largest share.

    Args:
        x: floats; integers are cast.
        axis: the axis along which the results sum to 1.

    >>> import ingle.tensor as it
    >>> it.softmin(it.asarray([0.0, 1000.0])).tolist()
    [1.0, 0.0]
    """
    return softmax(negative(x), axis=axis)


def _along(operation: Operation, x: TensorLike, axis: int) -> Tensor:
    handle = as_floating(x, operation.name)
    place = normalize_axis(axis, len(handle.shape), operation.name)
    return run1(operation.op(axis=place), handle)


def _shifted(x: Tensor, axis: int) -> Tensor:
    wide = widened(x)
    return wide - max(wide, axis=axis, keepdims=True)
