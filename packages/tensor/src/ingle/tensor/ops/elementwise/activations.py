"""Activations made of straight pieces: relu and its kin."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import TensorLike, handle_of, promote, run2, wrap
from ...dtypes import DType, integer_range
from ...errors import ArgumentError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import elementwise_rule
from ..movement.shapes import reshape
from ._activation import activation, apply, off_kinks
from .extrema import clip, maximum, minimum
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor


def _all_of(dtype: DType, *values: float) -> bool:
    """Whether it is an integer dtype that holds all of these numbers."""
    if not dtype.is_integer:
        return False
    least, most = integer_range(dtype)
    return all(value == value // 1 and least <= value <= most for value in values)


def relu(x: TensorLike, /) -> Tensor:
    """`max(x, 0)`; NaN stays NaN, and integers integers. The gradient at 0 is 0.

    >>> import ingle.tensor as it
    >>> it.relu(it.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    handle = handle_of(x, "relu")
    return maximum(wrap(handle), 0) if handle.dtype.is_integer else apply(_RELU, x)


_RELU = activation(
    "relu",
    relu,
    body=lambda x: maximum(x, 0),
    # A NaN is not below zero: it lets the gradient through, as it went through itself.
    vjp=lambda g, out: where(out <= 0, 0, g),
    reference=partial(np.maximum, 0),
).op()


def relu6(x: TensorLike, /) -> Tensor:
    """`min(max(x, 0), 6)`, also of integers.

    Krizhevsky: Convolutional deep belief networks on CIFAR-10, 2010.

    >>> import ingle.tensor as it
    >>> it.relu6(it.asarray([-1.0, 2.0, 8.0])).tolist()
    [0.0, 2.0, 6.0]
    """
    handle = handle_of(x, "relu6")
    return clip(wrap(handle), 0, 6) if handle.dtype.is_integer else apply(_RELU6, x)


_RELU6 = activation(
    "relu6",
    relu6,
    body=lambda x: clip(x, 0, 6),
    vjp=lambda g, x: where((x <= 0) | (x >= 6), 0, g),
    reference=lambda x: np.clip(x, 0, 6),
    domain=(-3.0, 9.0),
).op()


@guarded
def leaky_relu(x: TensorLike, /, negative_slope: float = 0.01) -> Tensor:
    """`x` above zero and `negative_slope * x` below (Maas et al.: Rectifier nonlinearities, 2013).

    >>> import ingle.tensor as it
    >>> it.leaky_relu(it.asarray([-1.0, 2.0]), 0.25).tolist()
    [-0.25, 2.0]
    """
    return apply(_LEAKY_RELU, x, negative_slope)


_LEAKY_RELU = activation(
    "leaky_relu",
    leaky_relu,
    parameters=("negative_slope",),
    body=lambda x, negative_slope: where(x > 0, x, x * negative_slope),
    vjp=lambda g, x, negative_slope: where(x > 0, g, g * negative_slope),
    reference=lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
    calls=((), (0.25,)),
).op()


def prelu(x: TensorLike, /, weight: TensorLike) -> Tensor:
    """`x` above zero and `weight * x` below (He et al.: Delving deep into rectifiers, 2015).

    Args:
        x: a float tensor.
        weight: one value, or one for each channel (axis 1).

    Raises:
        ShapeError: `weight` has neither one value nor as many as `x` has channels.

    >>> import ingle.tensor as it
    >>> it.prelu(it.asarray([[-1.0, 2.0]]), it.asarray([0.5, 0.5])).tolist()
    [[-0.5, 2.0]]
    """
    a, w = handle_of(x, "prelu"), handle_of(weight, "prelu", "weight")
    channels = a.shape[1] if len(a.shape) > 1 else 1
    if len(w.shape) > 1 or w.shape not in ((), (1,), (channels,)):
        raise ShapeError(
            f"prelu: weight must have one value or one for each of the {channels} channels of x "
            f"{a.shape}, got shape {w.shape}"
        )
    spread = (w.shape[0], *(1,) * (len(a.shape) - 2)) if w.shape and len(a.shape) > 1 else ()
    left, right = promote("prelu", ("x", x), ("weight", reshape(weight, spread)))
    return run2(_PRELU, left, right)


def _prelu_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for shape, weight in (((3,), ()), ((2, 5, 3), (5,)), ((2, 17), (1,)), ((0, 3), (3,))):
            x = off_kinks(draw.array(shape))
            yield Sample((x, draw.array(weight, low=0.1, high=0.9)), condition=2)


def _prelu_reference(x: Any, weight: Any) -> Any:
    by_channel = (weight.size, *(1,) * (x.ndim - 2)) if weight.ndim and x.ndim > 1 else ()
    return np.where(x > 0, x, weight.reshape(by_channel) * x)


_PRELU = Operation(
    "prelu",
    tensors=("x", "weight"),
    rule=elementwise_rule("prelu", ("float",)),
    traits=Traits("elementwise"),
    vjp={
        "x": lambda g, x, weight: where(x > 0, g, g * weight),
        "weight": lambda g, x: where(x > 0, 0, g * x),
    },
    body=lambda x, weight: where(x > 0, x, x * weight),
    public=prelu,
    samples=_prelu_samples,
    reference=_prelu_reference,
).op()


@guarded
def hardtanh(x: TensorLike, /, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`x` kept between two bounds; at the bounds and beyond the gradient is 0.

    Integers stay integers where both bounds are numbers of their dtype.

    Raises:
        ArgumentError: `min_val` is larger than `max_val`.

    >>> import ingle.tensor as it
    >>> it.hardtanh(it.asarray([-3.0, 0.5])).tolist()
    [-1.0, 0.5]
    """
    if min_val > max_val:
        raise ArgumentError(f"hardtanh: min_val={min_val} is larger than max_val={max_val}")
    handle = handle_of(x, "hardtanh")
    if _all_of(handle.dtype, min_val, max_val):
        return clip(wrap(handle), int(min_val), int(max_val))
    return apply(_HARD_TANH, x, min_val, max_val)


_HARD_TANH = activation(
    "hardtanh",
    hardtanh,
    parameters=("min_val", "max_val"),
    body=lambda x, min_val, max_val: clip(x, min_val, max_val),
    vjp=lambda g, x, min_val, max_val: where((x <= min_val) | (x >= max_val), 0, g),
    reference=lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val),
    calls=((), (-2.0, 0.5)),
).op()


def hardsigmoid(x: TensorLike, /) -> Tensor:
    """`x / 6 + 1/2` kept between 0 and 1.

    >>> import ingle.tensor as it
    >>> it.hardsigmoid(it.asarray([-3.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return apply(_HARD_SIGMOID, x)


_HARD_SIGMOID = activation(
    "hardsigmoid",
    hardsigmoid,
    body=lambda x: clip(x + 3, 0, 6) / 6,
    vjp=lambda g, x: where((x <= -3) | (x >= 3), 0, g / 6),
    reference=lambda x: np.clip(x / 6 + 0.5, 0, 1),
).op()


def hardswish(x: TensorLike, /) -> Tensor:
    """`x * hardsigmoid(x)` (Howard et al.: Searching for MobileNetV3, arXiv 1905.02244).

    >>> import ingle.tensor as it
    >>> it.hardswish(it.asarray([-1.5, 0.0, 4.0])).tolist()
    [-0.375, 0.0, 4.0]
    """
    return apply(_HARD_SWISH, x)


_HARD_SWISH = activation(
    "hardswish",
    hardswish,
    body=lambda x: x * (clip(x + 3, 0, 6) / 6),
    vjp=lambda g, x: where(x <= -3, 0, where(x >= 3, g, g * (x / 3 + 0.5))),
    reference=lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
).op()


@guarded
def hardshrink(x: TensorLike, /, lambd: float = 0.5) -> Tensor:
    """`x`, but 0 between `-lambd` and `lambd`.

    >>> import ingle.tensor as it
    >>> it.hardshrink(it.asarray([-0.25, 2.0])).tolist()
    [0.0, 2.0]
    """
    return apply(_HARD_SHRINK, x, lambd)


_HARD_SHRINK = activation(
    "hardshrink",
    hardshrink,
    parameters=("lambd",),
    body=lambda x, lambd: where((x >= -lambd) & (x <= lambd), 0, x),
    vjp=lambda g, x, lambd: where((x >= -lambd) & (x <= lambd), 0, g),
    reference=lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x),
    calls=((), (1.5,)),
).op()


@guarded
def softshrink(x: TensorLike, /, lambd: float = 0.5) -> Tensor:
    """`x` moved towards 0 by `lambd`, and 0 where it is smaller.

    Raises:
        ArgumentError: `lambd` is negative.

    >>> import ingle.tensor as it
    >>> it.softshrink(it.asarray([-0.25, 2.0])).tolist()
    [0.0, 1.5]
    """
    if lambd < 0:
        raise ArgumentError(f"softshrink: lambd must not be negative, got {lambd}")
    return apply(_SOFT_SHRINK, x, lambd)


def _softshrink(x: Any, lambd: float = 0.5) -> Any:
    return np.sign(x) * np.maximum(np.abs(x) - lambd, 0)


_SOFT_SHRINK = activation(
    "softshrink",
    softshrink,
    parameters=("lambd",),
    # Both sides are 0 in between; a NaN stays one.
    body=lambda x, lambd: maximum(x - lambd, 0) + minimum(x + lambd, 0),
    vjp=lambda g, x, lambd: where((x >= -lambd) & (x <= lambd), 0, g),
    reference=_softshrink,
    calls=((), (1.5,)),
).op()


@guarded
def threshold(x: TensorLike, /, threshold: float, value: float) -> Tensor:
    """`x` where it is larger than `threshold`, else `value`.

    Integers stay integers where both numbers are of their dtype.

    >>> import ingle.tensor as it
    >>> it.threshold(it.asarray([0.5, 2.0]), 1.0, -7.0).tolist()
    [-7.0, 2.0]
    """
    handle = handle_of(x, "threshold")
    if _all_of(handle.dtype, threshold, value):
        whole = wrap(handle)
        return where(whole <= int(threshold), int(value), whole)
    return apply(_THRESHOLD, x, threshold, value)


_THRESHOLD = activation(
    "threshold",
    threshold,
    parameters=("threshold", "value"),
    body=lambda x, threshold, value: where(x <= threshold, value, x),
    vjp=lambda g, x, threshold: where(x <= threshold, 0, g),
    reference=lambda x, threshold, value: np.where(x <= threshold, value, x),
    calls=((1.0, -7.0),),
).op()
