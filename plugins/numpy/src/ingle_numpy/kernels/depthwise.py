"""Convolution of each channel by itself: for each channel a vector times a matrix of taps.

What a tap sees of a padded image is the image shifted: laid out flat it is one long run, with some
elements between the rows that belong to no result, so that a matrix of taps is copied in few long
runs. With a stride, each phase of the image (every second element, say) is an image of its own.
Images are taken a few at a time, so that their matrices stay in a core's own cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Ints = tuple[int, ...]
Array = np.ndarray[Any, Any]
Here = tuple[slice, slice]

_BLOCK = 1 << 20
"""Bytes of taps taken at a time."""


class Layout:
    """How images and results lie flat.

    Attributes:
        grid: the size of a phase of the padded image.
        length: from the first to the last result, as they lie among the elements of a phase.
        wide: the same up to the end of the last result's row.
        taps: for each tap its indices, its phase and where in the phase it begins.
    """

    def __init__(
        self, size: Ints, kernel: Ints, stride: Ints, padding: Sequence[Ints], dilation: Ints
    ) -> None:
        sides = list(zip(size, kernel, stride, padding, dilation, strict=True))
        self.size, self.stride, self.padding = size, stride, padding
        self.grid = tuple(-(-(low + n + high) // s) for n, _, s, (low, high), _ in sides)
        self.out = tuple((low + n + high - d * (k - 1) - 1) // s + 1
                         for n, k, s, (low, high), d in sides)  # fmt: skip
        steps = [math.prod(self.grid[i + 1 :]) for i in range(len(size))]
        self.wide = self.out[0] * steps[0]
        self.length = 1 + sum((n - 1) * step for n, step in zip(self.out, steps, strict=True))
        self.taps: list[tuple[Any, Any, slice]] = []
        for at in itertools.product(*map(range, kernel)):
            places = [t * d for t, d in zip(at, dilation, strict=True)]
            phase = tuple(p % s for p, s in zip(places, stride, strict=True))
            begin = sum(p // s * step for p, s, step in zip(places, stride, steps, strict=True))
            self.taps.append((at, phase, slice(begin, begin + self.length)))

    def phases(self, x: Array) -> Array:
        """Padded images as (*phases, batch, channels, elements)."""
        image = np.zeros((*x.shape[:2], *(g * s for g, s in self._sides())), x.dtype)
        before, after = self._inside()
        image[after] = x[before]
        split = image.reshape(*x.shape[:2], *itertools.chain(*self._sides()))
        rank = len(self.size)
        order = (*range(3, 3 + 2 * rank, 2), 0, 1, *range(2, 2 + 2 * rank, 2))
        return split.transpose(order).reshape(*self.stride, *x.shape[:2], math.prod(self.grid))

    def images(self, phases: Array) -> Array:
        """What `phases` makes, back as images without their padding."""
        rank, batch = len(self.size), phases.shape[-3:-1]
        split = phases.reshape(*self.stride, *batch, *self.grid)
        order = (rank, rank + 1, *itertools.chain(*((rank + 2 + i, i) for i in range(rank))))
        whole = split.transpose(order).reshape(*batch, *(g * s for g, s in self._sides()))
        found = np.zeros((*batch, *self.size), phases.dtype)
        before, after = self._inside()
        found[before] = whole[after]
        return found

    def columns(self, x: Array) -> Array:
        """What each tap sees: (batch, channels, taps, elements)."""
        phases = self.phases(x)
        found = np.empty((*x.shape[:2], len(self.taps), self.length), x.dtype)
        for number, (_, phase, where) in enumerate(self.taps):
            found[:, :, number] = phases[phase][..., where]
        return found

    def spread(self, g: Array) -> Array:
        """Results as they lie among the elements of a phase, zeros between them."""
        wide = np.zeros((*g.shape[:2], self.out[0], *self.grid[1:]), g.dtype)
        wide[self._results()] = g
        return wide.reshape(*g.shape[:2], -1)[..., : self.length]

    def gathered(self, total: Array) -> Array:
        """The inverse of `spread`, for whole rows."""
        wide = total.reshape(*total.shape[:2], self.out[0], *self.grid[1:])
        return np.asarray(wide[self._results()])

    def _results(self) -> tuple[Any, ...]:
        return (..., *(slice(n) for n in self.out))

    def _inside(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Where images lie without and with their padding; negative widths cut off."""
        sides = list(zip(self.size, self.padding, strict=True))
        before = [slice(max(0, -low), n - max(0, -high)) for n, (low, high) in sides]
        after = [slice(max(0, low), low + n + min(0, high)) for n, (low, high) in sides]
        return (..., *before), (..., *after)

    def _sides(self) -> Iterator[tuple[int, int]]:
        return zip(self.grid, self.stride, strict=True)


def convolve(
    x: Array, weight: Array, *, stride: Ints, padding: Sequence[Ints], dilation: Ints
) -> Array:
    """(batch, channels, *size) with a kernel (channels, 1, *kernel) for each channel."""
    layout = Layout(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    result = _like(x, (*x.shape[:2], *layout.out))
    rows = weight.reshape(weight.shape[0], 1, len(layout.taps))
    for here in _blocks(x, layout):
        columns = layout.columns(x[here])
        whole = np.empty((*columns.shape[:2], 1, layout.wide), x.dtype)
        np.matmul(rows[here[1]], columns, out=whole[..., : layout.length])
        result[here] = layout.gathered(whole[:, :, 0])
    return result


def spread(
    g: Array, weight: Array, *, size: Ints, stride: Ints, padding: Sequence[Ints], dilation: Ints
) -> Array:
    """The transpose of `convolve` in its images."""
    layout = Layout(size, weight.shape[2:], stride, padding, dilation)
    result = _like(g, (*g.shape[:2], *size))
    for here in _blocks(g, layout):
        flow = layout.spread(g[here])
        phases = np.zeros((*stride, *flow.shape[:2], math.prod(layout.grid)), g.dtype)
        product = np.empty_like(flow)
        for at, phase, where in layout.taps:
            np.multiply(flow, weight[(here[1], 0, *at)][:, np.newaxis], out=product)
            phases[phase][..., where] += product
        result[here] = layout.images(phases)
    return result


def correlate(
    x: Array, g: Array, *, kernel: Ints, stride: Ints, padding: Sequence[Ints], dilation: Ints
) -> Array:
    """The transpose of `convolve` in its weight: (channels, 1, *kernel)."""
    layout = Layout(x.shape[2:], kernel, stride, padding, dilation)
    result = np.zeros((x.shape[1], len(layout.taps)), x.dtype)
    for here in _blocks(x, layout):
        flow = layout.spread(g[here])[..., np.newaxis]
        result[here[1]] += np.matmul(layout.columns(x[here]), flow)[..., 0].sum(axis=0)
    return result.reshape(x.shape[1], 1, *kernel)


def _blocks(x: Array, layout: Layout) -> Iterator[Here]:
    """Images, or channels of one where it is large."""
    batch, channels = x.shape[:2]
    plane = max(1, len(layout.taps) * layout.wide * x.itemsize)
    images = max(1, min(batch, _BLOCK // (plane * max(1, channels))))
    some = channels if images > 1 else max(1, _BLOCK // plane)
    if _channels_innermost(x):
        some = max(some, 16)  # a line of the cache holds so many
    for start in range(0, batch, images):
        for first in range(0, channels, max(1, some)):
            yield slice(start, start + images), slice(first, first + some)


def _channels_innermost(x: Array) -> bool:
    return x.strides[1] == x.itemsize and x.shape[1] > 1


def _like(x: Array, shape: Ints) -> Array:
    """An array that lies in memory as images do: channels innermost if they are there."""
    if not _channels_innermost(x):
        return np.empty(shape, x.dtype)
    return np.moveaxis(np.empty((shape[0], *shape[2:], shape[1]), x.dtype), -1, 1)
