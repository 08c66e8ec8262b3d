"""Pooling and unfolding: a strided slice of the padded image for each position of the window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from .selecting import kept

Ints = tuple[int, ...]
Array = np.ndarray[Any, Any]


def _max_pool(op: Op, x: Array) -> Array:
    parts = _parts(op, _padded(x, op.attributes["padding"], _lowest(x)))
    out = np.array(next(parts)[1])
    for _, part in parts:
        np.maximum(out, part, out=out)
    return out


def _max_pool_training(op: Op, x: Array) -> tuple[Array, Array]:
    parts = [part for _, part in _parts(op, _padded(x, op.attributes["padding"], _lowest(x)))]
    out = _max_pool(op, x)
    nan = np.isnan(out) if x.dtype.kind in "fV" else np.zeros((), np.bool_)
    # The place of the first maximum is the number of parts before it: counted in one byte where
    # that is enough, which is several times faster than writing places under a mask.
    pending = np.ones_like(out, np.bool_)
    index = np.zeros_like(out, np.int8 if len(parts) < 128 else np.int32)
    some_nan = nan.any()
    padded = any(map(any, op.attributes["padding"]))
    inside = _padded(np.ones((1, 1, *x.shape[2:]), np.bool_), op.attributes["padding"], False)
    real = [part for _, part in _parts(op, inside)]
    for place, part in enumerate(parts[:-1]):
        other = part != out
        if padded:
            # The lowest number may be in the image too: padding wins no tie.
            other |= ~real[place]
        pending &= other
        if some_nan:
            pending &= ~(nan & (part != part))
        np.add(index, pending.view(np.int8), out=index)
    return out, index.astype(np.int32, copy=False)


def _max_pool_gradient(op: Op, g: Array, index: Array) -> Array:
    size, padding = op.attributes["size"], op.attributes["padding"]
    # The index lies in memory as the images did; two layouts in one loop are several times slower.
    aligned = np.empty_like(index, g.dtype)
    aligned[...] = g
    total = _image(aligned, size, padding, 0)
    for place, part in _parts(op, total):
        part += kept(aligned, index == place)
    return _cropped(total, size, padding)


def _max_pool_select(op: Op, x: Array, index: Array) -> Array:
    parts = _parts(op, _padded(x, op.attributes["padding"], 0))
    out = np.array(next(parts)[1])
    for place, part in parts:
        np.copyto(out, part, where=index == place)
    return out


def _avg_pool(op: Op, x: Array) -> Array:
    padded = _padded(_wide(x), op.attributes["padding"], 0)
    parts = _parts(op, padded)
    out = np.array(next(parts)[1])
    for _, part in parts:
        out += part
    out /= _counts(op, x.shape[2:], out.dtype)
    return out.astype(x.dtype, copy=False)


def _avg_pool_gradient(op: Op, g: Array) -> Array:
    size, padding = op.attributes["size"], op.attributes["padding"]
    wide = _wide(g)
    share = wide / _counts(op, size, wide.dtype)
    total = _image(share, size, padding, 0)
    for _, part in _parts(op, total):
        part += share
    return _cropped(total, size, padding).astype(g.dtype, copy=False)


def _unfold(op: Op, x: Array) -> Array:
    image = _padded(x, op.attributes["padding"], 0)
    columns = np.stack([part for _, part in _parts(op, image)], axis=2)
    return columns.reshape(x.shape[0], x.shape[1] * columns.shape[2], math.prod(columns.shape[3:]))


def _fold(op: Op, x: Array) -> Array:
    size, padding, kernel = (op.attributes[n] for n in ("size", "padding", "kernel"))
    batch, channels = x.shape[0], x.shape[1] // math.prod(kernel)
    wide = _wide(x) if x.dtype.kind in "fV" else x
    padded = [low + n + high for n, (low, high) in zip(size, padding, strict=True)]
    total = np.zeros((batch, channels, *padded), wide.dtype)
    columns = wide.reshape(batch, channels, math.prod(kernel), x.shape[2])
    for place, part in _parts(op, total):
        part += columns[:, :, place].reshape(part.shape)
    return _cropped(total, size, padding).astype(x.dtype, copy=False)


def _parts(op: Op, image: Array) -> Iterator[tuple[int, Array]]:
    """For each position of the window, in row-major order, the elements that it sees, as a view."""
    a = op.attributes
    kernel, stride = a["kernel"], a["stride"]
    dilation = a.get("dilation", (1,) * len(kernel))
    sizes = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(image.shape[2:], kernel, stride, dilation, strict=True)
    ]
    for place, at in enumerate(itertools.product(*map(range, kernel))):
        where = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(at, dilation, sizes, stride, strict=True)
        )
        yield place, image[(slice(None), slice(None), *where)]


def _counts(op: Op, size: Ints, dtype: Any) -> Array:
    """How many elements each window averages, as an array that broadcasts."""
    a = op.attributes
    total = np.ones((1, 1), dtype)
    for n, k, s, (low, high), (before, after) in zip(
        size, a["kernel"], a["stride"], a["padding"], a["counted"], strict=True
    ):
        first = np.arange((n + low + high - k) // s + 1) * s - low
        count = np.minimum(first + k, n + after) - np.maximum(first, -before)
        total = total[..., None] * count.astype(dtype)
    return total


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def _lowest(x: Array) -> Any:
    return np.iinfo(x.dtype).min if x.dtype.kind in "iu" else x.dtype.type(-math.inf)


def _image(like: Array, size: Ints, padding: Sequence[Ints], value: Any) -> Array:
    """An array (batch, channels, *padded size) of one value, lying in memory as `like` does."""
    padded = [low + n + high for n, (low, high) in zip(size, padding, strict=True)]
    batch, channels = like.shape[:2]
    if like.strides[1] == like.itemsize:
        return np.moveaxis(np.full((batch, *padded, channels), value, like.dtype), -1, 1)
    return np.full((batch, channels, *padded), value, like.dtype)


def _padded(x: Array, padding: Sequence[Ints], value: Any) -> Array:
    if not any(map(any, padding)):
        return x
    image = _image(x, x.shape[2:], padding, value)
    _cropped(image, x.shape[2:], padding)[...] = x
    return image


def _cropped(image: Array, size: Ints, padding: Sequence[Ints]) -> Array:
    inside = tuple(slice(low, low + n) for n, (low, _) in zip(size, padding, strict=True))
    return image[(slice(None), slice(None), *inside)]


KERNELS: dict[str, Callable[..., Any]] = {
    "max_pool": _max_pool,
    "max_pool_training": _max_pool_training,
    "max_pool_gradient": _max_pool_gradient,
    "max_pool_select": _max_pool_select,
    "unfold": _unfold,
    "fold": _fold,
    "avg_pool": _avg_pool,
    "avg_pool_gradient": _avg_pool_gradient,
}
