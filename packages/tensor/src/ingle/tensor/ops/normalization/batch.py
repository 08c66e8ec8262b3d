"""Normalisation of each channel over batches, and over images."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, run
from ...errors import ArgumentError, ShapeError
from ...operation import Operation
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import widened
from ..elementwise.cast import astype
from ..elementwise.powers import rsqrt
from ..movement.shapes import broadcast_to, reshape
from .gradients import batch_norm_gradient
from .layer import (
    TRAITS,
    Axes,
    affine,
    checked_eps,
    norm_operands,
    normalized,
    plus,
    require_float,
    statistics_dtype,
)

if TYPE_CHECKING:
    from ...tensor import Tensor


def _batch_reference(
    x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5
) -> Any:
    last = np.moveaxis(x, 1, -1)
    out = (last - mean) / np.sqrt(var + eps)
    out = out * (1.0 if weight is None else weight) + (0.0 if bias is None else bias)
    return np.moveaxis(out, -1, 1)


@guarded
def batch_norm(
    x: TensorLike,
    running_mean: TensorLike | None,
    running_var: TensorLike | None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    *,
    training: bool = False,
    eps: float = 1e-5,
) -> Tensor:
    """Shifts and scales each channel to mean 0 and variance 1 (Ioffe and Szegedy, 1502.03167).

    Args:
        x: (batch, channels, ...), floats.
        running_mean, running_var: (channels,): the statistics to normalise with; those of the
            batch if they are None or `training`.
        weight, bias: (channels,): what the result is multiplied by and what is added.
        training: whether to take the statistics of the batch. The running ones are only read:
            `batch_norm_training` also returns those of the batch, to update them with.
        eps: added to the variance.

    Raises:
        ShapeError: a statistic, weight or bias is not (channels,); or a channel has a single
            value in training.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[1.0, 5.0], [3.0, 5.0]])
    >>> it.batch_norm(x, it.asarray([2.0, 5.0]), it.ones(2), eps=0.0).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    if training or (running_mean is None and running_var is None):
        return batch_norm_training(x, weight, bias, eps=eps)[0]
    if running_mean is None or running_var is None:
        raise ArgumentError("batch_norm: give both running_mean and running_var, or neither")
    named = {"running_mean": running_mean, "running_var": running_var}
    _check_channels(x, **named, weight=weight, bias=bias)
    first, *rest = norm_operands("batch_norm", x, weight, bias)
    dtype = statistics_dtype(first.dtype)
    inputs = (first, *(astype(v, dtype)._handle for v in named.values()), *rest)
    return run(BATCH_NORM.op(eps=checked_eps("batch_norm", eps)), inputs)[0]


def _batch_rule(
    x: Aval, mean: Aval, var: Aval, weight: Aval, bias: Aval, *, eps: float
) -> Aval:  # fmt: skip
    require_float("batch_norm", x)
    return x


def _batch_norm(
    x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | float, bias: Tensor | float, *,
    eps: float,
) -> Tensor:  # fmt: skip
    n = x.ndim
    scale = rsqrt(var + eps)
    if not isinstance(weight, float):
        scale = scale * widened(weight)
    # Both steps of the whole are one multiplication and one addition a value.
    shift = -mean * scale
    if not isinstance(bias, float):
        shift = shift + widened(bias)
    return astype(widened(x) * _channels(scale, n) + _channels(shift, n), x.dtype)


def _batch_samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    for shape in ((17, 3), (8, 2, 5), (3, 5, 2, 3)):
        c = shape[1:2]
        statistics = draw.array(c), draw.array(c, low=0.5)
        yield Sample((draw.array(shape), *statistics), condition=16)
        yield Sample((draw.array(shape), *statistics, draw.array(c), draw.array(c)), condition=16)


BATCH_NORM = Operation(
    "batch_norm",
    tensors=("x", "mean", "var", "weight", "bias"),
    statics=("eps",),
    rule=_batch_rule,
    traits=TRAITS,
    body=_batch_norm,
    public=batch_norm,
    samples=_batch_samples,
    reference=_batch_reference,
)


@guarded
def batch_norm_training(
    x: TensorLike,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    *,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm` with the batch's own statistics, which it returns too.

    Args:
        x: (batch, channels, ...), floats; more than one value a channel.
        weight, bias: (channels,).
        eps: added to the variance.

    Returns:
        The normalised tensor, and each channel's mean and variance (the mean of squares, without
        correction; in float32 for half types).

    Raises:
        ShapeError: a channel has fewer than two values.

    >>> import ingle.tensor as it
    >>> out, mean, var = it.batch_norm_training(it.asarray([[1.0], [3.0]]), eps=0.0)
    >>> out.tolist(), mean.tolist(), var.tolist()
    ([[-1.0], [1.0]], [2.0], [1.0])
    """
    _check_channels(x, weight=weight, bias=bias)
    shape = handle_of(x, "batch_norm_training").shape
    if shape[0] * math.prod(shape[2:]) < 2:
        raise ShapeError(
            f"batch_norm_training: x needs more than one value for each channel, got {shape}; "
            "use a larger batch, or eval mode"
        )
    op = BATCH_NORM_TRAINING.op(eps=checked_eps("batch_norm", eps))
    out, mean, var = run(op, norm_operands("batch_norm", x, weight, bias))
    return out, mean, var


def _others(ndim: int) -> Axes:
    return (0, *range(2, ndim))


def _batch_training_rule(x: Aval, weight: Aval, bias: Aval, *, eps: float) -> tuple[Aval, ...]:
    require_float("batch_norm", x)
    statistic = Aval(x.shape[1:2], statistics_dtype(x.dtype))
    return x, statistic, statistic


def _batch_training(
    x: Tensor, weight: Tensor | float, bias: Tensor | float, *, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    hat, mean, var = normalized(x, _others(x.ndim), eps)
    out = affine(hat, _channels(weight, x.ndim), _channels(bias, x.ndim))
    flat = x.shape[1:2]
    return astype(out, x.dtype), reshape(mean, flat), reshape(var, flat)


def _batch_vjp(
    g: tuple[Tensor | None, Tensor | None, Tensor | None], x: Tensor, weight: Tensor | float,
    mean: Tensor, var: Tensor, needs: tuple[bool, bool, bool], eps: float,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    by_x = by_weight = by_bias = None
    if g[0] is not None:
        by_x, by_weight, by_bias = batch_norm_gradient(g[0], x, weight, mean, var, eps)
    if needs[0] and (g[1] is not None or g[2] is not None):
        n = x.ndim
        count = max(1, math.prod(x.shape[a] for a in _others(n)))
        more = None if g[1] is None else broadcast_to(_channels(g[1] / count, n), x.shape)
        if g[2] is not None:
            off = widened(x) - _channels(mean, n)
            more = plus(more, off * _channels(g[2] * (2.0 / count), n))
        by_x = plus(by_x, None if more is None else astype(more, x.dtype))
    return by_x, by_weight if needs[1] else None, by_bias if needs[2] else None


def _training_samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    for shape in ((17, 3), (8, 2, 5), (3, 5, 2, 3)):
        c = shape[1:2]
        yield Sample((draw.array(shape),), condition=64)
        yield Sample((draw.array(shape), draw.array(c), draw.array(c)), condition=64)


def _training_reference(x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5) -> Any:
    axes = (0, *range(2, x.ndim))
    mean, var = np.mean(x, axis=axes), np.var(x, axis=axes)
    return _batch_reference(x, mean, var, weight, bias, eps=eps), mean, var


BATCH_NORM_TRAINING = Operation(
    "batch_norm_training",
    tensors=("x", "weight", "bias"),
    statics=("eps",),
    outputs=("out", "mean", "var"),
    rule=_batch_training_rule,
    traits=TRAITS,
    vjp={("x", "weight", "bias"): _batch_vjp},
    body=_batch_training,
    public=batch_norm_training,
    samples=_training_samples,
    reference=_training_reference,
)


def _check_channels(x: TensorLike, **operands: TensorLike | None) -> None:
    shape = handle_of(x, "batch_norm").shape
    if len(shape) < 2:
        raise ShapeError(f"batch_norm: x must be (batch, channels, ...), got shape {shape}")
    for argument, value in operands.items():
        if value is not None and handle_of(value, "batch_norm", argument).shape != shape[1:2]:
            raise ShapeError(
                f"batch_norm: {argument} must have one value for each of the {shape[1]} channels "
                f"(axis 1) of x {shape}, got shape "
                f"{handle_of(value, 'batch_norm', argument).shape}"
            )


def _channels(v: Tensor | float, ndim: int) -> Any:
    """A value for each channel, to broadcast over images; a number as it is."""
    return v if isinstance(v, float) else reshape(v, (v.shape[0], *(1,) * (ndim - 2)))
