"""Convolution of each channel by itself: a multiplication and an addition for each tap.

There is no sum over channels here that a matrix product could do, so that gathering windows would
cost more than all of the arithmetic. Images stay in the memory layout that they come in, and are
taken a few at a time, so that the running sums stay in a core's own cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Ints = tuple[int, ...]
Array = np.ndarray[Any, Any]

_BLOCK = 1 << 19
"""Bytes of images taken at a time: padded image, sum and products lie in the cache together."""


def convolve(
    x: Array, weight: Array, *, stride: Ints, padding: Sequence[Ints], dilation: Ints
) -> Array:
    """(batch, channels, *size) with a kernel (channels, 1, *kernel) for each channel."""
    padded = _padded_size(x.shape[2:], padding)
    out = _out(padded, weight.shape[2:], stride, dilation)
    result = _like(x, (*x.shape[:2], *out))
    for here, image, product in _blocks(x, padded, out):
        total = result[here]
        _copy_inside(x[here], image, padding)
        for number, (tap, where) in enumerate(_taps(weight[here[1]], out, stride, dilation)):
            np.multiply(image[where], tap, out=product if number else total)
            if number:
                total += product
    return result


def spread(
    g: Array, weight: Array, *, size: Ints, stride: Ints, padding: Sequence[Ints], dilation: Ints
) -> Array:
    """The transpose of `convolve` in its images."""
    padded, out = _padded_size(size, padding), g.shape[2:]
    result = _like(g, (*g.shape[:2], *size))
    inside = tuple(slice(low, low + n) for n, (low, _) in zip(size, padding, strict=True))
    for here, image, product in _blocks(g, padded, out):
        image[...] = 0
        for tap, where in _taps(weight[here[1]], out, stride, dilation):
            np.multiply(g[here], tap, out=product)
            image[where] += product
        result[here] = image[(slice(None), slice(None), *inside)]
    return result


def correlate(
    x: Array, g: Array, *, kernel: Ints, stride: Ints, padding: Sequence[Ints], dilation: Ints
) -> Array:
    """The transpose of `convolve` in its weight: (channels, 1, *kernel)."""
    padded, out = _padded_size(x.shape[2:], padding), g.shape[2:]
    result = np.zeros((x.shape[1], 1, *kernel), x.dtype)
    axes = (0, *range(2, x.ndim))
    for here, image, product in _blocks(x, padded, out):
        _copy_inside(x[here], image, padding)
        for tap, where in _taps(result[here[1]], out, stride, dilation):
            np.multiply(image[where], g[here], out=product)
            tap += product.sum(axis=axes).reshape(tap.shape)
    return result


def _blocks(
    x: Array, padded: Ints, out: Ints
) -> Iterator[tuple[tuple[slice, slice], Array, Array]]:
    """Images, or channels of one where it is large, with room for them padded and for products.

    The room is the same each time, and zero where nothing was written.
    """
    batch, channels = x.shape[:2]
    plane = max(1, math.prod(padded) * x.itemsize)
    images = max(1, min(batch, _BLOCK // max(1, plane * channels)))
    some = channels if _channels_innermost(x) or images > 1 else max(1, _BLOCK // plane)
    some = min(some, channels)
    image, product = (_like(x, (images, some, *size), 0) for size in (padded, out))
    for start in range(0, batch, images):
        for first in range(0, channels, max(1, some)):
            here = slice(start, start + images), slice(first, first + some)
            n, c = len(x[here[0]]), min(some, channels - first)
            yield here, image[:n, :c], product[:n, :c]


def _taps(
    weight: Any, out: Ints, stride: Ints, dilation: Ints
) -> Iterator[tuple[Array, tuple[slice, ...]]]:
    """For each tap its weights, to broadcast over images, and what it sees of padded images."""
    kernel = weight.shape[2:]
    for at in itertools.product(*map(range, kernel)):
        where = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(at, dilation, out, stride, strict=True)
        )
        tap = weight[(slice(None), 0, *(slice(t, t + 1) for t in at))]
        yield tap, (slice(None), slice(None), *where)


def _padded_size(size: Ints, padding: Sequence[Ints]) -> Ints:
    return tuple(low + n + high for n, (low, high) in zip(size, padding, strict=True))


def _out(padded: Ints, kernel: Ints, stride: Ints, dilation: Ints) -> Ints:
    return tuple(
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(padded, kernel, stride, dilation, strict=True)
    )


def _channels_innermost(x: Array) -> bool:
    return x.strides[1] == x.itemsize and x.shape[1] > 1


def _like(x: Array, shape: Ints, fill: int | None = None) -> Array:
    """An array that lies in memory as images do: channels innermost if they are there."""
    last = _channels_innermost(x)
    stored = (shape[0], *shape[2:], shape[1]) if last else shape
    made = np.empty(stored, x.dtype) if fill is None else np.full(stored, fill, x.dtype)
    return np.moveaxis(made, -1, 1) if last else made


def _copy_inside(source: Array, wide: Array, padding: Sequence[Ints]) -> None:
    """Copies images to the middle of larger ones; negative widths cut off."""
    places = [
        (slice(max(0, -low), n - max(0, -high)), slice(max(0, low), m - max(0, high)))
        for n, m, (low, high) in zip(source.shape[2:], wide.shape[2:], padding, strict=True)
    ]
    everything = (slice(None), slice(None))
    wide[(*everything, *(b for _, b in places))] = source[(*everything, *(a for a, _ in places))]
