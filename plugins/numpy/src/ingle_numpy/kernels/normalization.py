"""Normalisation over the last axes and over batches, with their gradients, some rows at a time.

Half types are computed in float32. A weight or bias that is missing comes as the number 1 or 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from ..memory import empty
from .blocks import row_blocks
from .elementwise import is_half

Array = np.ndarray[Any, Any]


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if is_half(x) else x


def _layer_training(op: Op, x: Array, weight: Any, bias: Any) -> tuple[Array, Array, Array]:
    rows, statistics = _rows(op, x)
    weight, bias = (_wide(v).reshape(-1) for v in (weight, bias))
    out = empty(rows.shape, weight.dtype, op)
    mean = np.empty((len(rows), 1), weight.dtype)
    rstd = np.empty_like(mean)
    count = max(1, rows.shape[1])
    for here in row_blocks(*rows.shape):
        part, off = _wide(rows[here]), out[here]
        np.divide(part.sum(axis=1, keepdims=True), count, out=mean[here])
        np.subtract(part, mean[here], out=off)
        var = np.vecdot(off, off)[:, None] / count
        np.divide(1, np.sqrt(var + op.attributes["eps"]), out=rstd[here])
        off *= rstd[here]
        off *= weight
        off += bias
    shaped = out.astype(x.dtype, copy=False).reshape(x.shape)
    return shaped, mean.reshape(statistics), rstd.reshape(statistics)


def _layer_gradient(
    op: Op, g: Array, x: Array, weight: Any, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    rows, _ = _rows(op, x)
    along, weight = g.reshape(rows.shape), _wide(weight).reshape(-1)
    mean, rstd = mean.reshape(-1, 1), rstd.reshape(-1, 1)
    out = empty(rows.shape, mean.dtype, op)
    by_weight, by_bias = np.zeros((2, rows.shape[1]), mean.dtype)
    count = max(1, rows.shape[1])
    for here in row_blocks(*rows.shape):
        flow, hat = _wide(along[here]), _wide(rows[here]) - mean[here]
        hat *= rstd[here]
        by_weight += (flow * hat).sum(axis=0)
        by_bias += flow.sum(axis=0)
        # Both statistics depend on x: what is common to a constant and to `hat` falls out.
        part = np.multiply(flow, weight, out=out[here])
        level = part.sum(axis=1, keepdims=True) / count
        hat *= np.vecdot(part, hat)[:, None] / count
        part -= level
        part -= hat
        part *= rstd[here]
    shape = x.shape[x.ndim - op.attributes["axes"] :]
    found = (out.reshape(x.shape), by_weight.reshape(shape), by_bias.reshape(shape))
    return tuple(v.astype(x.dtype, copy=False) for v in found)  # type: ignore[return-value]


def _rms_training(op: Op, x: Array, weight: Any) -> tuple[Array, Array]:
    rows, statistics = _rows(op, x)
    weight = _wide(weight).reshape(-1)
    out = empty(rows.shape, weight.dtype, op)
    rrms = np.empty((len(rows), 1), weight.dtype)
    for here in row_blocks(*rows.shape):
        part = _wide(rows[here])
        mean = np.vecdot(part, part)[:, None] / max(1, rows.shape[1])
        np.divide(1, np.sqrt(mean + op.attributes["eps"]), out=rrms[here])
        np.multiply(part, rrms[here], out=out[here])
        out[here] *= weight
    return out.astype(x.dtype, copy=False).reshape(x.shape), rrms.reshape(statistics)


def _rows(op: Op, x: Array) -> tuple[Array, tuple[int, ...]]:
    """The last axes as one, all others as one; and the shape of what each row has one of."""
    axes = op.attributes["axes"]
    lead, last = x.shape[: x.ndim - axes], x.shape[x.ndim - axes :]
    return x.reshape(math.prod(lead), math.prod(last)), (*lead, *(1,) * axes)


def _batch_training(op: Op, x: Array, weight: Any, bias: Any) -> tuple[Array, Array, Array]:
    planes = _planes(x)
    mean, var = _batch_statistics(planes)
    rstd = 1 / np.sqrt(var + op.attributes["eps"])
    out = _scaled(x, mean, rstd, weight, bias)
    return out, mean.reshape(-1), var.reshape(-1)


def _batch_norm(op: Op, x: Array, mean: Array, var: Array, weight: Any, bias: Any) -> Array:
    scale = _wide(weight) / np.sqrt(var + op.attributes["eps"])
    shift = _wide(bias) - mean * scale
    return _scaled(x, np.zeros((1, 1), mean.dtype), scale.reshape(-1, 1), 1, shift)


def _batch_statistics(planes: Array) -> tuple[Array, Array]:
    """Mean and variance of each channel, (channels, 1)."""
    dtype = np.dtype(np.float32) if is_half(planes) else planes.dtype
    count = max(1, planes.shape[0] * planes.shape[2])
    blocks = list(row_blocks(len(planes), math.prod(planes.shape[1:])))
    mean, var = np.zeros((2, planes.shape[1], 1), dtype)
    for here in blocks:
        mean += planes[here].sum(axis=(0, 2), dtype=dtype).reshape(-1, 1)
    mean /= count
    for here in blocks:
        off = planes[here] - mean
        var += np.square(off, out=off).sum(axis=(0, 2)).reshape(-1, 1)
    var /= count
    return mean, var


def _scaled(x: Array, mean: Array, scale: Array, weight: Any, bias: Any) -> Array:
    """`(x - mean) * scale * weight + bias`, each a value for each channel, in x's dtype."""
    out = _like(x)
    source, target = _planes(x, out), _planes(out)
    weight, bias = (_wide(np.asarray(v, x.dtype)).reshape(-1, 1) for v in (weight, bias))
    for here in row_blocks(len(source), math.prod(source.shape[1:])):
        part = source[here] - mean
        part *= scale * weight
        part += bias
        target[here] = part
    return out


def _planes(x: Array, like: Array | None = None) -> Array:
    """(batch, channels, size), or (places, channels, 1) where channels are innermost.

    They are so in x, or in the array that the result has to be arranged like; of that one, or of
    an array that is contiguous in either way, it is a view.
    """
    last = np.moveaxis(x, 1, -1)
    if (last if like is None else np.moveaxis(like, 1, -1)).flags.c_contiguous:
        return last.reshape(math.prod(last.shape[:-1]), x.shape[1], 1)
    return x.reshape(*x.shape[:2], math.prod(x.shape[2:]))


def _batch_gradient(
    op: Op, g: Array, x: Array, weight: Any, mean: Array, var: Array
) -> tuple[Array, Array, Array]:
    out = _like(x)
    source, flow, target = _planes(x, out), _planes(_aligned(g, out), out), _planes(out)
    mean, count = mean.reshape(-1, 1), max(1, source.shape[0] * source.shape[2])
    rstd = 1 / np.sqrt(var.reshape(-1, 1) + op.attributes["eps"])
    by_weight, by_bias = np.zeros((2, *mean.shape), mean.dtype)
    blocks = list(row_blocks(len(source), math.prod(source.shape[1:])))
    for here in blocks:
        part, hat = _wide(flow[here]), source[here] - mean
        by_bias += part.sum(axis=(0, 2)).reshape(-1, 1)
        by_weight += np.multiply(hat, part, out=hat).sum(axis=(0, 2)).reshape(-1, 1)
    by_weight *= rstd
    scale = rstd * _wide(weight).reshape(-1, 1)
    # Both statistics depend on x: what g has in common with a constant and with x falls out.
    level, along = by_bias / count, rstd * by_weight / count
    for here in blocks:
        hat = source[here] - mean
        hat *= along
        hat += level
        np.subtract(flow[here], hat, out=hat)
        target[here] = np.multiply(hat, scale, out=hat)
    weights, biases = (v.reshape(-1).astype(x.dtype, copy=False) for v in (by_weight, by_bias))
    return out, weights, biases


def _like(x: Array) -> Array:
    """Room for a result that lies in memory as `x` does: channels innermost, or in order."""
    last = np.moveaxis(x, 1, -1)
    if last.flags.c_contiguous:
        return np.moveaxis(empty(last.shape, x.dtype, "batch_norm"), -1, 1)
    return empty(x.shape, x.dtype, "batch_norm")


def _aligned(g: Array, like: Array) -> Array:
    """The same values, lying in memory as `like` does."""
    if g.strides == like.strides:
        return g
    copied = np.empty_like(like, g.dtype)
    copied[...] = g
    return copied


def _group_training(op: Op, x: Array, weight: Any, bias: Any) -> tuple[Array, Array, Array]:
    source, weight, bias = _groups(op, x, weight, bias)
    out, count = np.empty_like(source), max(1, math.prod(source.shape[2:]))
    mean = np.empty((*source.shape[:2], 1, 1), weight.dtype)
    rstd = np.empty_like(mean)
    for here in _group_blocks(source):
        off = _wide(source[here])
        mean[here] = off.sum(axis=(2, 3), keepdims=True) / count
        off = off - mean[here]
        var = np.square(off).sum(axis=(2, 3), keepdims=True) / count
        rstd[here] = 1 / np.sqrt(var + op.attributes["eps"])
        off *= weight[here[1]] * rstd[here]
        off += bias[here[1]]
        out[here] = off
    return out.reshape(x.shape), mean[..., 0, 0], rstd[..., 0, 0]


def _group_gradient(
    op: Op, g: Array, x: Array, weight: Any, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    source, weight, _ = _groups(op, x, weight, mean.dtype.type(0))
    along, out = g.reshape(source.shape), np.empty_like(source)
    mean, rstd = mean[..., np.newaxis, np.newaxis], rstd[..., np.newaxis, np.newaxis]
    by_weight, by_bias = np.zeros((2, *weight.shape), mean.dtype)
    count = max(1, math.prod(source.shape[2:]))
    for here in _group_blocks(source):
        flow, hat = _wide(along[here]), source[here] - mean[here]
        hat *= rstd[here]
        share, level = np.vecdot(flow, hat)[..., np.newaxis], flow.sum(axis=3, keepdims=True)
        by_weight[here[1]] += share.sum(axis=0)
        by_bias[here[1]] += level.sum(axis=0)
        scale = weight[here[1]]
        hat *= (share * scale).sum(axis=2, keepdims=True) / count
        hat += (level * scale).sum(axis=2, keepdims=True) / count
        part = flow * scale
        part -= hat
        part *= rstd[here]
        out[here] = part
    channels = x.shape[1]
    weights, biases = (
        v.reshape(channels).astype(x.dtype, copy=False) for v in (by_weight, by_bias)
    )
    return out.reshape(x.shape), weights, biases


def _groups(op: Op, x: Array, weight: Any, bias: Any) -> tuple[Array, Array, Array]:
    """(batch, groups, channels of a group, size); weight and bias to broadcast with it."""
    groups = op.attributes["groups"]
    each = x.shape[1] // groups if groups else 0
    source = x.reshape(x.shape[0], groups, each, math.prod(x.shape[2:]))
    scale, shift = (
        np.broadcast_to(_wide(v), x.shape[1:2]).reshape(groups, each, 1) for v in (weight, bias)
    )
    return source, scale, shift


def _group_blocks(source: Array) -> Iterator[tuple[slice, slice]]:
    batch, groups, *group = source.shape
    for images in row_blocks(batch, math.prod(source.shape[1:])):
        for here in row_blocks(groups, math.prod(group) * len(source[images])):
            yield images, here


KERNELS: dict[str, Callable[..., Any]] = {
    "batch_norm": _batch_norm,
    "batch_norm_gradient": _batch_gradient,
    "batch_norm_training": _batch_training,
    "group_norm": lambda op, *operands: _group_training(op, *operands)[0],
    "group_norm_gradient": _group_gradient,
    "group_norm_training": _group_training,
    "layer_norm": lambda op, *operands: _layer_training(op, *operands)[0],
    "layer_norm_gradient": _layer_gradient,
    "layer_norm_training": _layer_training,
    "rms_norm": lambda op, *operands: _rms_training(op, *operands)[0],
    "rms_norm_training": _rms_training,
}
