"""Normalisation of each image by itself: in groups of channels, or channel by channel."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Shape
from ...dispatch import TensorLike, handle_of, run
from ...errors import ArgumentError, ShapeError
from ...operation import Operation
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_int, widened
from ..elementwise.cast import astype
from ..elementwise.powers import square
from ..movement.shapes import broadcast_to, reshape
from .batch import batch_norm
from .gradients import group_norm_gradient, normalized_groups
from .layer import (
    TRAITS,
    affine,
    checked_eps,
    layer_norm_training,
    norm_operands,
    plus,
    require_float,
    statistics_dtype,
)

if TYPE_CHECKING:
    from ...tensor import Tensor


def _training_rule(
    x: Aval, weight: Aval, bias: Aval, *, groups: int, eps: float
) -> tuple[Aval, ...]:
    require_float("group_norm", x)
    statistic = Aval((x.shape[0], groups), statistics_dtype(x.dtype))
    return x, statistic, statistic


def _training(
    x: Tensor, weight: Tensor | float, bias: Tensor | float, *, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    each = math.prod(x.shape[1:]) // groups if groups else 0
    rows = reshape(widened(x), (x.shape[0], groups, each))
    _, mean, rstd = layer_norm_training(rows, each, eps=eps)
    # Anew from x by channels, as scale and shift are, instead of what rows of groups would keep:
    # one value of the size of x less to write and to read.
    hat = normalized_groups(x, *(reshape(s, rows.shape[:2]) for s in (mean, rstd)))
    scale, shift = (
        v if isinstance(v, float) else reshape(v, (*v.shape, *(1,) * (x.ndim - 2)))
        for v in (weight, bias)
    )
    out = astype(affine(hat, scale, shift), x.dtype)
    return out, reshape(mean, rows.shape[:2]), reshape(rstd, rows.shape[:2])


def _vjp(
    g: tuple[Tensor | None, Tensor | None, Tensor | None], x: Tensor, weight: Tensor | float,
    mean: Tensor, rstd: Tensor, groups: int, needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    by_x = by_weight = by_bias = None
    if g[0] is not None:
        by_x, by_weight, by_bias = group_norm_gradient(g[0], x, weight, mean, rstd, groups)
    if needs[0] and (g[1] is not None or g[2] is not None):
        each = math.prod(x.shape[1:]) // groups if groups else 0
        rows, one = (x.shape[0], groups, each), (x.shape[0], groups, 1)
        more = None if g[1] is None else broadcast_to(reshape(g[1], one) / max(1, each), rows)
        if g[2] is not None:
            # rstd = (var + eps)^(-1/2), so that d rstd / d x = -rstd^2 * hat / count.
            scale = reshape(g[2] * square(rstd) * rstd / -max(1, each), one)
            more = plus(more, (reshape(widened(x), rows) - reshape(mean, one)) * scale)
        by_x = plus(by_x, None if more is None else astype(reshape(more, x.shape), x.dtype))
    return by_x, by_weight if needs[1] else None, by_bias if needs[2] else None


def _samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    shapes: tuple[tuple[Shape, int], ...] = (
        ((3, 8), 2), ((2, 3, 5), 3), ((2, 8, 3, 5), 1), ((0, 2, 3), 2),
    )  # fmt: skip
    for shape, groups in shapes:
        c = shape[1:2]
        yield Sample((draw.array(shape), groups), condition=32)
        yield Sample((draw.array(shape), groups, draw.array(c), draw.array(c)), condition=32)


def _reference(
    x: Any, num_groups: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    if not x.size:
        return np.zeros(x.shape)
    each = x.shape[1] // num_groups
    parts = []
    for start in range(0, x.shape[1], each):
        group = x[:, start : start + each]
        axes = tuple(range(1, x.ndim))
        off = group - group.mean(axis=axes, keepdims=True)
        parts.append(off / np.sqrt(np.mean(off * off, axis=axes, keepdims=True) + eps))
    last = np.moveaxis(np.concatenate(parts, axis=1), 1, -1)
    last = last * (1.0 if weight is None else weight) + (0.0 if bias is None else bias)
    return np.moveaxis(last, -1, 1)


def _training_reference(
    x: Any, num_groups: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    count = math.prod(x.shape[1:]) // num_groups if num_groups else 0
    rows = x.reshape(x.shape[0], num_groups, count)
    mean = rows.sum(axis=2) / max(1, count)  # of nothing it is 0 here, where NumPy has NaN
    var = np.square(rows - mean[..., None]).sum(axis=2) / max(1, count)
    return _reference(x, num_groups, weight, bias, eps), mean, 1 / np.sqrt(var + eps)


@guarded
def group_norm(
    x: TensorLike,
    num_groups: int,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Shifts and scales groups of channels to mean 0 and variance 1 (Wu and He, arXiv 1803.08494).

    Each image of the batch is normalised by itself.

    Args:
        x: (batch, channels, ...), floats.
        num_groups: into how many groups the channels are cut, each normalised as a whole.
        weight, bias: (channels,): what the result is multiplied by and what is added.
        eps: added to the variance, which is the mean of squares (no correction).

    Raises:
        ShapeError: the groups do not divide the channels; weight or bias is not (channels,).

    >>> import ingle.tensor as it
    >>> it.group_norm(it.asarray([[1.0, 3.0, 5.0, 5.0]]), 2, eps=0.25).tolist()[0][2:]
    [0.0, 0.0]
    """
    groups = as_int(num_groups, "group_norm", "num_groups")
    return _grouped("group_norm", x, groups, weight, bias, eps)


def _rule(x: Aval, weight: Aval, bias: Aval, *, groups: int, eps: float) -> Aval:
    require_float("group_norm", x)
    return x


def _body(*operands: Any, groups: int, eps: float) -> Tensor:
    return _training(*operands, groups=groups, eps=eps)[0]


def group_norm_training(
    x: TensorLike,
    num_groups: int,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    *,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """`group_norm` with each group's mean and inverse of the standard deviation."""
    name, shape = "group_norm", handle_of(x, "group_norm").shape
    groups = as_int(num_groups, name, "num_groups")
    _check_groups(name, shape, groups)
    _check_channels(name, shape, weight=weight, bias=bias)
    op = GROUP_NORM_TRAINING.op(groups=groups, eps=checked_eps(name, eps))
    return run(op, norm_operands(name, x, weight, bias))


GROUP_NORM_TRAINING = Operation(
    "group_norm_training",
    tensors=("x", "weight", "bias"),
    statics=("groups", "eps"),
    outputs=("out", "mean", "rstd"),
    rule=_training_rule,
    traits=TRAITS,
    vjp={("x", "weight", "bias"): _vjp},
    body=_training,
    public=group_norm_training,
    samples=_samples,
    reference=_training_reference,
)
GROUP_NORM = Operation(
    "group_norm",
    tensors=("x", "weight", "bias"),
    statics=("groups", "eps"),
    rule=_rule,
    traits=TRAITS,
    body=_body,
    training=GROUP_NORM_TRAINING,
    public=group_norm,
    samples=_samples,
    reference=_reference,
)


@guarded
def instance_norm(
    x: TensorLike,
    running_mean: TensorLike | None = None,
    running_var: TensorLike | None = None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    *,
    use_input_stats: bool = True,
    eps: float = 1e-5,
) -> Tensor:
    """Shifts and scales each channel of each image to mean 0 and variance 1 (arXiv 1607.08022).

    Args:
        x: (batch, channels, ...), floats.
        running_mean, running_var: (channels,): what to normalise with instead, if not
            `use_input_stats`; they are only read.
        weight, bias: (channels,): what the result is multiplied by and what is added.
        use_input_stats: whether each channel of each image has its own statistics.
        eps: added to the variance.

    Raises:
        ShapeError: a statistic, weight or bias is not (channels,); or a channel has a single value.
        ArgumentError: statistics are needed and not given.

    >>> import ingle.tensor as it
    >>> it.instance_norm(it.asarray([[[1.0, 3.0], [4.0, 8.0]]]), eps=0.0).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """
    name = "instance_norm"
    shape = handle_of(x, name).shape
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ArgumentError(
                f"{name}: without use_input_stats it needs running_mean and running_var"
            )
        named = {"running_mean": running_mean, "running_var": running_var}
        _check_channels(name, shape, **named, weight=weight, bias=bias)
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    if len(shape) < 3 or math.prod(shape[2:]) == 1:
        raise ShapeError(
            f"{name}: x must be (batch, channels, *size) with more than one value a channel, got "
            f"shape {shape}"
        )
    return _grouped(name, x, shape[1], weight, bias, eps)


def _grouped(
    name: str, x: TensorLike, groups: int, weight: TensorLike | None, bias: TensorLike | None,
    eps: float,
) -> Tensor:  # fmt: skip
    shape = handle_of(x, name).shape
    _check_groups(name, shape, groups)
    _check_channels(name, shape, weight=weight, bias=bias)
    op = GROUP_NORM.op(groups=groups, eps=checked_eps(name, eps))
    return run(op, norm_operands(name, x, weight, bias))[0]


def _check_groups(name: str, shape: Shape, groups: int) -> None:
    if len(shape) < 2 or (groups < 1 and shape[1]) or (groups and shape[1] % groups):
        raise ShapeError(
            f"{name}: x must be (batch, channels, ...) with channels that num_groups={groups} "
            f"divides, got shape {shape}"
        )


def _check_channels(name: str, shape: Shape, **operands: TensorLike | None) -> None:
    for argument, value in operands.items():
        if value is not None and handle_of(value, name, argument).shape != shape[1:2]:
            raise ShapeError(
                f"{name}: {argument} must have one value for each of the channels (axis 1) of x "
                f"{shape}, got shape {handle_of(value, name, argument).shape}"
            )
