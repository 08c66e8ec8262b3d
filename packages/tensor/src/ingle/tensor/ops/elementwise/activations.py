"""Activations made of straight pieces and of exponentials below zero: relu and its kin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Scalar
from ...dispatch import TensorLike, as_floating, handle_of, promote, run, run2, wrap
from ...errors import ArgumentError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_number, elementwise_rule
from ..movement.shapes import reshape
from .exponential import exp, expm1
from .extrema import clip, maximum, minimum
from .where import where

if TYPE_CHECKING:
    from ...operation import Op
    from ...tensor import Tensor

SELU_SCALE = 1.0507009873554804934193349852946
SELU_ALPHA = 1.6732632423543772848170429916717


def apply(op: Op, x: TensorLike, *numbers: float) -> Tensor:
    """Runs an activation on a float tensor (integers are cast) with its parameters."""
    handle = as_floating(x, op.operation.name)
    names = op.operation.tensors[1:]
    given = [as_number(n, op.operation.name, a) for n, a in zip(numbers, names, strict=True)]
    return run(op, (handle, *[Scalar(n, handle.dtype) for n in given]))[0]


def activation(
    name: str,
    public: Callable[..., Any],
    *,
    body: Callable[..., Any],
    vjp: Callable[..., Any],
    reference: Callable[..., Any] | str,
    parameters: tuple[str, ...] = (),
    calls: tuple[tuple[float, ...], ...] = ((),),
    domain: tuple[float, float] = (-4.0, 4.0),
    condition: float = 4.0,
    precision: Any = "keep",
) -> Operation:
    """An elementwise function of a float tensor and some numbers, with a body.

    The samples call it with each of `calls` as its numbers, off the multiples of 1/2, at which
    the kinks are.
    """

    def samples(draw: Draw) -> Iterator[Sample]:
        if not draw.dtype.is_floating:
            return
        for shape in ((), (0,), (3,), (2, 17), (33, 1, 5)):
            for numbers in calls:
                x = _off_kinks(draw.array(shape, low=domain[0], high=domain[1]))
                yield Sample((x, *numbers), condition=condition)

    return Operation(
        name,
        tensors=("x", *parameters),
        rule=elementwise_rule(name, ("float",)),
        traits=Traits("elementwise", precision=precision),
        vjp={"x": vjp},
        body=body,
        public=public,
        samples=samples,
        reference=reference,
    )


def _off_kinks(x: np.ndarray) -> np.ndarray:
    """Values within 1/16 of a multiple of 1/2 moved by 1/8."""
    near = np.abs(x * 2 - np.round(x.astype(np.float64) * 2)) < 0.125
    return np.asarray(np.where(near, x + x.dtype.type(0.125), x), x.dtype)


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
            x = _off_kinks(draw.array(shape))
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
def elu(x: TensorLike, /, alpha: float = 1.0) -> Tensor:
    """`x` above zero and `alpha * (exp(x) - 1)` below (Clevert et al., arXiv 1511.07289).

    >>> import ingle.tensor as it
    >>> it.elu(it.asarray([float("-inf"), 2.0])).tolist()
    [-1.0, 2.0]
    """
    return apply(_ELU, x, alpha)


_ELU = activation(
    "elu",
    elu,
    parameters=("alpha",),
    body=lambda x, alpha: where(x > 0, x, alpha * expm1(x)),
    vjp=lambda g, x, alpha: where(x > 0, g, g * alpha * exp(minimum(x, 0))),
    reference=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)),
    calls=((), (0.5,)),
).op()


@guarded
def celu(x: TensorLike, /, alpha: float = 1.0) -> Tensor:
    """`x` above zero and `alpha * (exp(x / alpha) - 1)` below (Barron, arXiv 1704.07483).

    Raises:
        ArgumentError: `alpha` is 0.

    >>> import ingle.tensor as it
    >>> it.celu(it.asarray([float("-inf"), 2.0]), 0.5).tolist()
    [-0.5, 2.0]
    """
    if not alpha:
        raise ArgumentError("celu: alpha divides and must not be 0; use relu")
    return apply(_CELU, x, alpha)


_CELU = activation(
    "celu",
    celu,
    parameters=("alpha",),
    body=lambda x, alpha: where(x > 0, x, alpha * expm1(x / alpha)),
    vjp=lambda g, x, alpha: where(x > 0, g, g * exp(minimum(x, 0) / alpha)),
    reference=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
    calls=((), (0.5,)),
).op()


def selu(x: TensorLike, /) -> Tensor:
    """`elu` with the constants that keep mean 0 and variance 1 (Klambauer et al., 1706.02515).

    >>> import ingle.tensor as it
    >>> round(it.selu(it.asarray(1.0)).item(), 4)
    1.0507
    """
    return apply(_SELU, x)


_SELU = activation(
    "selu",
    selu,
    body=lambda x: SELU_SCALE * where(x > 0, x, SELU_ALPHA * expm1(x)),
    vjp=lambda g, x: g * SELU_SCALE * where(x > 0, 1, SELU_ALPHA * exp(minimum(x, 0))),
    reference=lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x)),
).op()


@guarded
def hardtanh(x: TensorLike, /, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`x` kept between two bounds; at the bounds and beyond the gradient is 0.

    Raises:
        ArgumentError: `min_val` is larger than `max_val`.

    >>> import ingle.tensor as it
    >>> it.hardtanh(it.asarray([-3.0, 0.5])).tolist()
    [-1.0, 0.5]
    """
    if min_val > max_val:
        raise ArgumentError(f"hardtanh: min_val={min_val} is larger than max_val={max_val}")
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

    >>> import ingle.tensor as it
    >>> it.threshold(it.asarray([0.5, 2.0]), 1.0, -7.0).tolist()
    [-7.0, 2.0]
    """
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
