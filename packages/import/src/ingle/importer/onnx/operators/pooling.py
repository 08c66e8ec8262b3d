"""Pooling."""

from __future__ import annotations

import math

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dtypes import integer_range

from ..registry import operator
from ..values import Host, bounded, ints
from ._windows import Window, padded, unfolded, windows


@operator("MaxPool")
def max_pool(
    x: Tensor, *, kernel_shape: list[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: list[int] | None = None, pads: list[int] | None = None, storage_order: int = 0,
    strides: list[int] | None = None, outputs: int,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The largest of each window, and its place in the whole input."""
    spans = windows(
        "MaxPool", x.shape[2:], kernel_shape, strides=strides, dilations=dilations, pads=pads,
        auto_pad=auto_pad, ceil_mode=ceil_mode,
    )  # fmt: skip
    fast = {1: it.max_pool1d, 2: it.max_pool2d, 3: it.max_pool3d}.get(len(spans))
    plain = all(w.before == w.behind and 2 * w.before <= w.kernel for w in spans)
    if fast is not None and plain and outputs == 1 and x.dtype.is_floating:
        found = fast(
            x, tuple(w.kernel for w in spans), stride=tuple(w.stride for w in spans),
            padding=tuple(w.before for w in spans), dilation=tuple(w.dilation for w in spans),
            ceil_mode=bool(ceil_mode),
        )  # fmt: skip
        if tuple(found.shape[2:]) == tuple(w.count for w in spans):
            return (found,)
    least = -math.inf if x.dtype.is_floating else integer_range(x.dtype)[0]
    cells = unfolded(padded(x, spans, least), spans)
    flat = it.reshape(cells, (*cells.shape[: 2 + len(spans)], -1))
    if outputs == 1:
        return (it.max(flat, axis=-1),)
    best = it.argmax(flat, axis=-1)
    return it.max(flat, axis=-1), _places(best, x.shape, spans, bool(storage_order))


def _places(best: Tensor, shape: tuple[int, ...], spans: list[Window], columns: bool) -> Tensor:
    """Places in windows as places in the flat input, whose last axis changes fastest."""
    kernel = [w.kernel for w in spans]
    inner = np.stack([g.reshape(-1) for g in np.indices(kernel)])
    total: Tensor | None = None
    weight = 1
    order = range(len(spans)) if columns else range(len(spans) - 1, -1, -1)
    for a in order:
        w = spans[a]
        steps = it.asarray(inner[a] * w.dilation, device=best.device)
        first = it.arange(w.count, dtype=it.int64, device=best.device) * w.stride - w.before
        at = it.reshape(first, (-1, *[1] * (len(spans) - 1 - a))) + it.reshape(
            it.take(steps, it.reshape(best, (-1,)), axis=0), best.shape
        )
        total = at * weight if total is None else total + at * weight
        weight *= shape[2 + a]
    assert total is not None
    lead = it.arange(shape[0] * shape[1], dtype=it.int64, device=best.device) * weight
    return total + it.reshape(lead, (shape[0], shape[1], *[1] * len(spans)))


@operator("AveragePool")
def average_pool(
    x: Tensor, *, kernel_shape: list[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
    count_include_pad: int = 0, dilations: list[int] | None = None, pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window; of what was added only where that is asked for."""
    spans = windows(
        "AveragePool", x.shape[2:], kernel_shape, strides=strides, dilations=dilations, pads=pads,
        auto_pad=auto_pad, ceil_mode=ceil_mode,
    )  # fmt: skip
    fast = {1: it.avg_pool1d, 2: it.avg_pool2d, 3: it.avg_pool3d}.get(len(spans))
    if fast is not None and all(
        w.before == w.behind and 2 * w.before <= w.kernel and w.dilation == 1 and not w.beyond
        for w in spans
    ):
        return fast(
            x, tuple(w.kernel for w in spans), stride=tuple(w.stride for w in spans),
            padding=tuple(w.before for w in spans), count_include_pad=bool(count_include_pad),
        )  # fmt: skip
    axes = tuple(range(-len(spans), 0))
    counts = np.ones(1)
    for w in spans:
        there = np.zeros(w.before + w.size + w.behind + w.beyond)
        first, end = (
            (0, w.before + w.size + w.behind)
            if count_include_pad
            else (w.before, w.before + w.size)
        )
        there[first:end] = 1
        places = np.arange(w.count)[:, None] * w.stride + np.arange(w.kernel) * w.dilation
        counts = np.multiply.outer(counts, there[places].sum(1))
    total = it.sum(unfolded(padded(x, spans, 0), spans), axis=axes)
    return total / it.asarray(counts[0], dtype=x.dtype, device=x.device)


@operator("LpPool")
def lp_pool(
    x: Tensor, *, kernel_shape: list[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: list[int] | None = None, p: float = 2, pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """The p-norm of each window."""
    spans = windows(
        "LpPool", x.shape[2:], kernel_shape, strides=strides, dilations=dilations, pads=pads,
        auto_pad=auto_pad, ceil_mode=ceil_mode,
    )  # fmt: skip
    cells = unfolded(padded(x, spans, 0), spans)
    return _norm(cells, p, tuple(range(-len(spans), 0)), False)


def _norm(x: Tensor, p: float, axes: tuple[int, ...], keep: bool) -> Tensor:
    if p == 1:
        return it.sum(it.abs(x), axis=axes, keepdims=keep)
    if p == 2:
        return it.sqrt(it.sum(x * x, axis=axes, keepdims=keep))
    return it.pow(it.sum(it.pow(it.abs(x), float(p)), axis=axes, keepdims=keep), 1.0 / p)


def _spatial(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return it.mean(x, axis=_spatial(x), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return it.max(x, axis=_spatial(x), keepdims=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    return _norm(x, p, _spatial(x), True)


@operator("MaxUnpool")
def max_unpool(
    x: Tensor, places: Tensor, output_shape: Host | None = None, *, kernel_shape: list[int],
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """Values back at the places that `MaxPool` found, zeros elsewhere."""
    n = len(kernel_shape)
    stride, ends = strides or [1] * n, pads or [0] * 2 * n
    sizes = [
        (x.shape[2 + a] - 1) * stride[a] + kernel_shape[a] - ends[a] - ends[a + n] for a in range(n)
    ]
    shape = (*x.shape[:2], *sizes)
    flat = it.zeros(math.prod(bounded("MaxUnpool", shape)), dtype=x.dtype, device=x.device)
    done = it.scatter_set(flat, it.reshape(places, (-1,)), it.reshape(x, (-1,)), axis=0)
    y = it.reshape(done, shape)
    if output_shape is None:
        return y
    wanted = ints(output_shape)
    return it.pad(y, [(0, b - a) for a, b in zip(y.shape, wanted, strict=True)])
