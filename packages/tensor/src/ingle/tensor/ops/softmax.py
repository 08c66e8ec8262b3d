"""Softmax along an axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dispatch import TensorLike, as_floating, run1
from ..operation import Operation, Traits
from ..sample import Draw, Sample
from ._rules import elementwise_rule, normalize_axis
from .exponential import exp
from .reductions import max, sum

if TYPE_CHECKING:
    from ..tensor import Tensor


def softmax(x: TensorLike, /, *, axis: int = -1) -> Tensor:
    """`exp(x) / sum(exp(x))` along an axis, without overflow.

    Args:
        x: a float tensor; integers are cast to the default float dtype.
        axis: along which the result sums to 1.

    >>> import ingle.tensor as it
    >>> it.softmax(it.asarray([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    handle = as_floating(x, "softmax")
    return run1(SOFTMAX.op(axis=normalize_axis(axis, len(handle.shape), "softmax")), handle)


def _body(x: Tensor, *, axis: int) -> Tensor:
    if not x.shape[axis]:
        return x
    e = exp(x - max(x, axis=axis, keepdims=True))
    return e / sum(e, axis=axis, keepdims=True)


def _vjp(g: Tensor, out: Tensor, axis: int) -> Tensor:
    return out * (g - sum(g * out, axis=axis, keepdims=True))


def _samples(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((3, 5)),))
    yield Sample((draw.array((2, 17, 3), low=-30, high=30),), {"axis": 1})
    yield Sample((draw.array((0, 3)),))


def _reference(x: Any, axis: int = -1) -> Any:
    from scipy.special import softmax as scipy_softmax

    return scipy_softmax(x, axis=axis) if x.size else np.asarray(x)


SOFTMAX = Operation(
    "softmax",
    tensors=("x",),
    statics=("axis",),
    rule=lambda x, *, axis: elementwise_rule("softmax", ("float",))(x),
    traits=Traits("opaque", precision="high"),
    vjp={"x": _vjp},
    body=_body,
    public=softmax,
    samples=_samples,
    reference=_reference,
)
