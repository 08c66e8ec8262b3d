"""Convolution and its two gradients: blocks of windows, each one matrix product.

Channels are innermost in memory here, whatever order they come in: a window is then a few long
runs, and a block of windows times the weights is one large product. Results are views with the
channels back in second place, which NumPy's elementwise functions keep as they are, so that a chain
of layers never transposes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ingle.tensor.operation import Op

from ..memory import empty, zeros
from . import depthwise

Ints = tuple[int, ...]
Array = np.ndarray[Any, Any]

_BLOCK = 1 << 21
"""Bytes of windows gathered at a time: about what stays in a core's own cache."""


class Block(NamedTuple):
    """The windows of some rows of some images, a matrix for each group: (groups, places, taps)."""

    batch: slice
    rows: slice
    matrix: Array


def _conv(op: Op, x: Array, weight: Array) -> Array:
    return _in_float32(_convolve, x, weight, **op.attributes)


def _weight_gradient(op: Op, x: Array, g: Array) -> Array:
    return _in_float32(_correlate, x, g, **op.attributes)


def _input_gradient(op: Op, g: Array, weight: Array) -> Array:
    stride, groups = op.attributes["stride"], op.attributes["groups"]
    # Gathering windows of g costs O values a position; scattering costs C, two to four times each.
    wide = weight.shape[0] <= 4 * groups * weight.shape[1]
    road = _gathered_gradient if wide and set(stride) == {1} else _scattered_gradient
    return _in_float32(road, g, weight, **op.attributes)


def _in_float32(compute: Callable[..., Array], a: Array, b: Array, /, **attributes: Any) -> Array:
    """Half types have no BLAS, and sums of their products belong in float32."""
    if a.dtype.itemsize > 2:
        return compute(a, b, **attributes)
    wide = compute(a.astype(np.float32), b.astype(np.float32), **attributes)
    return wide.astype(a.dtype)


def _convolve(
    x: Array, weight: Array, *, stride: Ints, padding: Sequence[Ints], dilation: Ints, groups: int
) -> Array:
    if weight.shape[0] == groups > 1 == weight.shape[1]:
        return depthwise.convolve(x, weight, stride=stride, padding=padding, dilation=dilation)
    windows = _windows(_channels_last(x, padding), weight.shape[2:], stride, dilation)
    batch, *out = windows.shape[: x.ndim - 1]
    result = empty((batch, *out, weight.shape[0]), x.dtype, "conv")
    taps = _taps_first(weight, groups)
    for block in _blocks(windows, len(out), groups):
        np.matmul(block.matrix, taps, out=_by_group(result[block.batch, block.rows], groups))
    return np.moveaxis(result, -1, 1)


def _correlate(
    x: Array, g: Array, *, kernel: Ints, stride: Ints, padding: Sequence[Ints], dilation: Ints,
    groups: int,
) -> Array:  # fmt: skip
    if x.shape[1] == g.shape[1] == groups > 1:
        return depthwise.correlate(
            x, g, kernel=kernel, stride=stride, padding=padding, dilation=dilation
        )
    windows = _windows(_channels_last(x, padding), kernel, stride, dilation)
    last = np.ascontiguousarray(np.moveaxis(g, 1, -1))
    channels, features = x.shape[1] // groups, g.shape[1] // groups
    total = np.zeros((groups, math.prod(kernel) * channels, features), x.dtype)
    for block in _blocks(windows, len(kernel), groups):
        total += np.matmul(
            np.swapaxes(block.matrix, 1, 2), _by_group(last[block.batch, block.rows], groups)
        )
    shaped = total.reshape(groups, *kernel, channels, features)
    order = (0, shaped.ndim - 1, shaped.ndim - 2, *range(1, len(kernel) + 1))
    return shaped.transpose(order).reshape(groups * features, channels, *kernel)


def _gathered_gradient(
    g: Array, weight: Array, *, size: Ints, stride: Ints, padding: Sequence[Ints], dilation: Ints,
    groups: int,
) -> Array:  # fmt: skip
    """For stride 1: the convolution of g with the mirrored kernel, inputs and outputs swapped."""
    kernel, features = weight.shape[2:], weight.shape[0]
    grouped = weight.reshape(groups, features // groups, *weight.shape[1:])
    mirrored = np.flip(grouped.swapaxes(1, 2), tuple(range(3, grouped.ndim)))
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    around = [
        (r - low, n + low - out)
        for r, (low, _), n, out in zip(reach, padding, size, g.shape[2:], strict=True)
    ]
    swapped = mirrored.reshape(groups * weight.shape[1], features // groups, *kernel)
    return _convolve(
        g, swapped, stride=stride, padding=around, dilation=dilation, groups=groups
    )  # fmt: skip


def _scattered_gradient(
    g: Array, weight: Array, *, size: Ints, stride: Ints, padding: Sequence[Ints], dilation: Ints,
    groups: int,
) -> Array:  # fmt: skip
    """Each output's share of every tap, added to the place it was read from."""
    kernel, channels = weight.shape[2:], weight.shape[1]
    if weight.shape[0] == groups > 1 == channels:
        return depthwise.spread(
            g, weight, size=size, stride=stride, padding=padding, dilation=dilation
        )
    last = np.ascontiguousarray(np.moveaxis(g, 1, -1))
    batch, *out, _ = last.shape
    padded = [low + n + high for n, (low, high) in zip(size, padding, strict=True)]
    total = zeros((batch, *padded, groups, channels), g.dtype, "conv_input_gradient")
    taps = np.swapaxes(_taps_first(weight, groups), 1, 2)
    step = _images_at_once(math.prod(out) * math.prod(kernel) * channels * groups, g.itemsize)
    for start in range(0, batch, step):
        images = slice(start, start + step)
        shares = np.matmul(_by_group(last[images], groups), taps)
        shares = shares.reshape(groups, len(last[images]), *out, *kernel, channels)
        shares = np.moveaxis(shares, 0, -2)
        for tap in itertools.product(*map(range, kernel)):
            where = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(tap, dilation, out, stride, strict=True)
            )
            everything = (slice(None),) * (len(out) + 1)
            total[(images, *where)] += shares[(*everything, *tap)]
    inside = tuple(
        slice(low, low + n) for n, (low, _) in zip(size, padding, strict=True)
    )  # fmt: skip
    whole = total[(slice(None), *inside)].reshape(batch, *size, groups * channels)
    return np.moveaxis(whole, -1, 1)


def _channels_last(x: Array, padding: Sequence[Ints]) -> Array:
    """The image axes padded with zeros (cropped where negative), channels innermost, contiguous."""
    last = np.moveaxis(x, 1, -1)
    if not any(map(any, padding)):
        return np.ascontiguousarray(last)
    crop = tuple(slice(max(0, -low), n - max(0, -high)) for (low, high), n in _sides(last, padding))
    last = last[(slice(None), *crop)]
    widths = [(max(0, low), max(0, high)) for low, high in padding]
    shape = [a + n + b for (a, b), n in _sides(last, widths)]
    padded = zeros((last.shape[0], *shape, last.shape[-1]), x.dtype, "padding of conv")
    inside = tuple(slice(a, a + n) for (a, _), n in _sides(last, widths))
    padded[(slice(None), *inside)] = last
    return padded


def _sides(last: Array, padding: Sequence[Ints]) -> Iterator[tuple[Ints, int]]:
    return zip(padding, last.shape[1:-1], strict=True)


def _windows(x: Array, kernel: Ints, stride: Ints, dilation: Ints) -> Array:
    """A view (batch, *out, *kernel, channels) of every window of a channels-last array."""
    out = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[1:-1], kernel, stride, dilation, strict=True)
    ]
    first, *image, last = x.strides
    steps = [a * s for a, s in zip(image, stride, strict=True)]
    taps = [a * d for a, d in zip(image, dilation, strict=True)]
    return as_strided(
        x, (x.shape[0], *out, *kernel, x.shape[-1]), (first, *steps, *taps, last), writeable=False
    )


def _images_at_once(elements: int, itemsize: int) -> int:
    return max(1, _BLOCK // max(1, elements * itemsize))


def _blocks(windows: Array, rank: int, groups: int) -> Iterator[Block]:
    """The windows copied out in blocks of whole images, or of rows where an image is large.

    Each block is copied into the same buffer: it is gone when the next one comes.
    """
    batch, rows = windows.shape[:2]
    taps = windows.reshape(*windows.shape[:-1], groups, windows.shape[-1] // groups)
    places, tap = range(rank + 1), (*range(1 + rank, 1 + 2 * rank), taps.ndim - 1)
    # Whichever copies the longer runs: along a kernel's row and its channels, or, where these are
    # a handful of values, along a row of the output.
    by_tap = taps.shape[2 * rank] * taps.shape[-1] < 8
    order = (taps.ndim - 2, *tap, *places) if by_tap else (taps.ndim - 2, *places, *tap)
    each = math.prod(windows.shape[1:])
    images = min(batch, _images_at_once(each, windows.itemsize))
    height = rows if images > 1 else _images_at_once(each // max(1, rows), windows.itemsize)
    buffer = np.empty(images * min(height, rows) * (each // max(1, rows)), windows.dtype)
    for start in range(0, batch, max(1, images)):
        for top in range(0, rows, height or 1):
            here = slice(start, start + images), slice(top, top + height)
            source = taps[here].transpose(order)
            block = buffer[: source.size].reshape(source.shape)
            np.copyto(block, source)
            width = math.prod(taps.shape[axis] for axis in tap)
            count = math.prod(taps[here].shape[: rank + 1])
            matrix = block.reshape((groups, width, count) if by_tap else (groups, count, width))
            yield Block(*here, matrix.swapaxes(1, 2) if by_tap else matrix)


def _taps_first(weight: Array, groups: int) -> Array:
    """Weights as one matrix for each group: (groups, taps x channels, features)."""
    grouped = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    order = (0, *range(3, grouped.ndim), 2, 1)
    taps = math.prod(weight.shape[1:])
    return grouped.transpose(order).reshape(groups, taps, grouped.shape[1])


def _by_group(last: Array, groups: int) -> Array:
    """A contiguous channels-last array as (groups, places, channels of a group), a view."""
    places, width = math.prod(last.shape[:-1]), last.shape[-1]
    return last.reshape(places, groups, width // groups).transpose(1, 0, 2)


KERNELS: dict[str, Callable[..., Any]] = {
    "conv": _conv,
    "conv_input_gradient": _input_gradient,
    "conv_weight_gradient": _weight_gradient,
}
