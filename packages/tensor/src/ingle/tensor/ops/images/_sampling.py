"""Images read between their elements, at places that are tensors themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...contract import Shape
from ...dtypes import int64
from ..creation.ranges import arange
from ..elementwise.arithmetic import abs, remainder
from ..elementwise.cast import astype
from ..elementwise.extrema import clip
from ..elementwise.rounding import floor, round
from ..elementwise.where import where
from ..indexing.gathering import take
from ..movement.shapes import broadcast_to, permute_dims, reshape
from ..movement.slicing import slice_axis

if TYPE_CHECKING:
    from ...tensor import Tensor

Tap = tuple["Tensor", "Tensor | None"]
"""For all places one element of an axis, and its weight; None where that is 1."""


def sampled(x: Tensor, places: Sequence[Tensor], mode: str, border: str, corners: bool) -> Tensor:
    """Images (batch, channels, *size) at places: (batch, *out, channels).

    Args:
        x: floats.
        places: for each image axis a tensor (batch, *out), in elements from the first one's centre.
        mode: `"nearest"`, `"bilinear"` (for any number of axes) or `"bicubic"`.
        border: what lies beyond: `"zeros"`, `"border"` or `"reflection"`.
        corners: whether a reflection's axis lies in the outermost elements' centres, instead of
            at their outer borders.
    """
    (batch, channels, *size), out = x.shape, places[0].shape
    rank, count = len(size), math.prod(out)
    last = permute_dims(x, (0, *range(2, 2 + rank), 1))
    rows = reshape(last, (batch * math.prod(size), channels))
    first = arange(batch, dtype=int64, device=x.device) * math.prod(size)
    image = broadcast_to(reshape(first, (batch, *(1,) * (len(out) - 1))), out)
    axes = []
    for place, n, further in zip(places, size, _steps_of(size), strict=True):
        taps = _taps(place, n, mode, border, corners)
        axes.append([_flat(tap, further, count, x) for tap in taps])
    return reshape(_summed(rows, reshape(image, (count,)), axes), (*out, channels))


def _steps_of(size: Sequence[int]) -> list[int]:
    """How many elements a step along each image axis passes over."""
    return [math.prod(size[axis + 1 :]) for axis in range(len(size))]


def _flat(tap: Tap, further: int, count: int, x: Tensor) -> Tap:
    """A tap of all places side by side: how far its element is, and weights for all channels."""
    at, weight = tap
    distance = reshape(at if further == 1 else at * further, (count,))
    if weight is None:
        return distance, None
    return distance, reshape(astype(weight, x.dtype), (count, 1))


def _summed(rows: Tensor, before: Tensor, axes: Sequence[Sequence[Tap]]) -> Tensor:
    """The elements that count, times their weights: axis by axis, the last one innermost.

    Weights of an axis are applied to sums along those behind it, which takes fewer operations than
    a product of weights for each element.
    """
    if not axes:
        return take(rows, before, axis=0)
    total: Tensor | None = None
    for distance, weight in axes[0]:
        seen = _summed(rows, before + distance, axes[1:])
        part = seen if weight is None else seen * weight
        total = part if total is None else total + part
    assert total is not None, "an axis has taps"
    return total


def _taps(place: Tensor, size: int, mode: str, border: str, corners: bool) -> list[Tap]:
    """The elements of an axis that count at each place, with weights."""
    if mode == "bicubic":
        # Each tap for itself meets the border; all four are computed together.
        place = _finite(place, -2.0 * size - 8, 3.0 * size + 8)
        first = floor(place)
        weights = _cubic(place - first)
        ahead = arange(4, dtype=place.dtype, device=place.device) - 1
        near = _within(first + reshape(ahead, (4, *(1,) * place.ndim)), size, border, corners)
        index, inside = _element(near, size, border)
        taps: list[Tap] = []
        for number, weight in enumerate(weights):
            if inside is not None:
                weight = where(_numbered(inside, number), weight, 0)
            taps.append((_numbered(index, number), weight))
        return taps
    place = _finite(_within(place, size, border, corners), -4.0, size + 3.0)
    if mode == "nearest":
        return [_tap(round(place), None, size, border)]
    first = floor(place)
    far = place - first
    return [_tap(first, 1 - far, size, border), _tap(first + 1, far, size, border)]


def _within(place: Tensor, size: int, border: str, corners: bool) -> Tensor:
    """A place beyond the border led back inside, unless zeros are there."""
    if border == "zeros":
        return place
    if border == "reflection":
        low, span = (0.0, size - 1.0) if corners else (-0.5, float(size))
        if not span:
            return place * 0
        folded = remainder(abs(place - low), 2 * span)
        place = span - abs(folded - span) + low
    return clip(place, 0, size - 1)


def _finite(place: Tensor, low: float, high: float) -> Tensor:
    """Numbers that integers can hold; NaN is a place far outside."""
    return clip(where(place == place, place, low), low, high)


def _tap(at: Tensor, weight: Tensor | None, size: int, border: str) -> Tap:
    index, inside = _element(at, size, border)
    if inside is not None:
        weight = astype(inside, at.dtype) if weight is None else where(inside, weight, 0)
    return index, weight


def _element(at: Tensor, size: int, border: str) -> tuple[Tensor, Tensor | None]:
    """The element at a whole place, and whether there is one; None if there always is."""
    index = astype(clip(at, 0, size - 1), int64)
    return index, (at >= 0) & (at < size) if border == "zeros" else None


def _numbered(x: Tensor, number: int) -> Tensor:
    """One of the taps that are computed together."""
    return reshape(slice_axis(x, 0, number, 1), x.shape[1:])


def _cubic(t: Tensor) -> list[Tensor]:
    """Keys' weights, a = -0.75, of four neighbours, for distances in [0, 1) from the second."""
    a = -0.75

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return (((d - 5) * d + 8) * d - 4) * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def out_of(last: Tensor, shape: Shape) -> Tensor:
    """Samples (batch, *out, channels) with the channels back in second place, as a shape."""
    rank = last.ndim - 2
    return reshape(permute_dims(last, (0, rank + 1, *range(1, rank + 1))), shape)
