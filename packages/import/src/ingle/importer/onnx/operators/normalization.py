"""Normalizations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import UnsupportedError
from ..registry import operator


def _per_channel(x: Tensor, ndim: int) -> Tensor:
    return it.reshape(x, (1, -1, *[1] * (ndim - 2)))


@operator("BatchNormalization", 14)
def batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Normalized by statistics that are kept, or in training by those of the batch."""
    if not training_mode:
        if len({t.dtype for t in (x, scale, bias, mean, var)}) == 1 and x.ndim > 1:
            return (it.batch_norm(x, mean, var, scale, bias, eps=epsilon), mean, var)
        return _normalized(x, scale, bias, mean, var, epsilon), mean, var
    axes = tuple(a for a in range(x.ndim) if a != 1)
    now, spread = it.mean(x, axis=axes), it.var(x, axis=axes)
    y = _normalized(x, scale, bias, now, spread, epsilon)
    return (
        y,
        mean * momentum + (now * (1 - momentum)).astype(mean.dtype),
        var * momentum + (spread * (1 - momentum)).astype(var.dtype),
    )


def _normalized(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, epsilon: float
) -> Tensor:
    mean, var, scale, bias = (_per_channel(t, x.ndim) for t in (mean, var, scale, bias))
    return ((x - mean) / it.sqrt(var + epsilon) * scale + bias).astype(x.dtype)


@operator("BatchNormalization", 7)
def batch_norm_before_14(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *, epsilon: float = 1e-5,
    momentum: float = 0.9, spatial: int = 1, outputs: int,
) -> tuple[Tensor, ...]:  # fmt: skip
    """In training where more than one result is used; the last two are the batch's statistics."""
    if outputs == 1:
        if spatial:
            return batch_norm(x, scale, bias, mean, var, epsilon=epsilon)
        return ((x - mean) / it.sqrt(var + epsilon) * scale + bias,)
    axes = tuple(a for a in range(x.ndim) if a != 1) if spatial else (0,)
    now, spread = it.mean(x, axis=axes), it.var(x, axis=axes)
    y, *_ = batch_norm_before_14(
        x, scale, bias, now, spread, epsilon=epsilon, spatial=spatial, outputs=1
    )
    kept = (old * momentum + new * (1 - momentum) for old, new in ((mean, now), (var, spread)))
    return (y, *kept, now, spread)


@operator("BatchNormalization", 1)
def batch_norm_before_7(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *, epsilon: float = 1e-5,
    momentum: float = 0.9, spatial: int = 1, is_test: int = 0,
    consumed_inputs: list[int] | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """In training unless `is_test` is set, however many results are used."""
    return batch_norm_before_14(
        x, scale, bias, mean, var, epsilon=epsilon, momentum=momentum, spatial=spatial,
        outputs=1 if is_test else 5,
    )  # fmt: skip


@operator("InstanceNormalization")
def instance_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5,
    consumed_inputs: list[int] | None = None,
) -> Tensor:  # fmt: skip
    axes = tuple(range(2, x.ndim))
    mean, var = it.mean(x, axis=axes, keepdims=True), it.var(x, axis=axes, keepdims=True)
    return (x - mean) / it.sqrt(var + epsilon) * _per_channel(scale, x.ndim) + _per_channel(
        bias, x.ndim
    )


@operator("LayerNormalization")
def layer_norm(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, *, axis: int = -1,
    epsilon: float = 1e-5, stash_type: int = 1, outputs: int,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Normalized over the axes from `axis` on, with the mean and the inverse deviation."""
    at = axis % x.ndim
    if outputs == 1 and tuple(scale.shape) == tuple(x.shape[at:]) and x.dtype is scale.dtype:
        return (it.layer_norm(x, x.shape[at:], scale, bias, eps=epsilon),)
    axes = tuple(range(at, x.ndim))
    wide = x.astype(it.float32) if stash_type == 1 and x.dtype is not it.float64 else x
    mean, var = it.mean(wide, axis=axes, keepdims=True), it.var(wide, axis=axes, keepdims=True)
    inverse = 1 / it.sqrt(var + epsilon)
    y = ((wide - mean) * inverse).astype(x.dtype) * scale
    return y if bias is None else y + bias, mean, inverse


@operator("GroupNormalization", 21)
def group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int,
    stash_type: int = 1,
) -> Tensor:  # fmt: skip
    return it.group_norm(x, num_groups, scale, bias, eps=epsilon)


@operator("GroupNormalization", 18)
def group_norm_before_21(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int
) -> Tensor:
    """Scale and bias are those of groups."""
    each = x.shape[1] // num_groups
    return it.group_norm(x, num_groups, it.repeat(scale, each), it.repeat(bias, each), eps=epsilon)


@operator("RMSNormalization")
def rms_norm(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    at = axis % x.ndim
    if tuple(scale.shape) == tuple(x.shape[at:]) and x.dtype is scale.dtype:
        return it.rms_norm(x, x.shape[at:], scale, eps=epsilon)
    axes = tuple(range(at, x.ndim))
    wide = x.astype(it.float32) if stash_type == 1 and x.dtype is not it.float64 else x
    square = it.mean(wide * wide, axis=axes, keepdims=True)
    return (wide / it.sqrt(square + epsilon)).astype(x.dtype) * scale


@operator("MeanVarianceNormalization")
def mean_variance_norm(x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    over = tuple(axes)
    mean = it.mean(x, axis=over, keepdims=True)
    spread = it.sqrt(it.mean(x * x, axis=over, keepdims=True) - mean * mean)
    return (x - mean) / (spread + 1e-9)


@operator("LpNormalization")
def lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Divided by the norm along an axis; zeros stay zeros."""
    if p not in (1, 2):
        raise UnsupportedError(f"LpNormalization: p must be 1 or 2, got {p}")
    if p == 1:
        norm = it.sum(it.abs(x), axis=axis, keepdims=True)
    else:
        norm = it.sqrt(it.sum(x * x, axis=axis, keepdims=True))
    nothing = norm == 0
    return it.where(nothing, it.zeros_like(x), x / it.where(nothing, it.ones_like(norm), norm))


@operator("LRN")
def local_response_norm(
    x: Tensor, *, size: int, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """Divided by a power of the squares of neighbouring channels."""
    before, behind = (size - 1) // 2, math.ceil((size - 1) / 2)
    widths = [(0, 0)] * x.ndim
    widths[1] = before, behind
    square = it.pad(x * x, widths)
    total = square[:, : x.shape[1]]
    for i in range(1, size):
        total = total + square[:, i : i + x.shape[1]]
    return x / it.pow(bias + alpha / size * total, beta)
