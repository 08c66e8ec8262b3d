"""Images read between their elements, at places that are tensors themselves."""

from __future__ import annotations

import itertools
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
from ..movement.shapes import permute_dims, reshape

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
    image = reshape(first, (batch, *(1,) * (len(out) - 1)))
    axes = [_taps(c, n, mode, border, corners) for c, n in zip(places, size, strict=True)]
    total: Tensor | None = None
    for taps in itertools.product(*axes):
        index, weight = taps[0]
        for (at, share), n in zip(taps[1:], size[1:], strict=True):
            index = index * n + at
            weight = share if weight is None else weight if share is None else weight * share
        seen = take(rows, reshape(index + image, (count,)), axis=0)
        part = seen if weight is None else seen * reshape(astype(weight, x.dtype), (count, 1))
        total = part if total is None else total + part
    assert total is not None
    return reshape(total, (*out, channels))


def _taps(place: Tensor, size: int, mode: str, border: str, corners: bool) -> list[Tap]:
    """The elements of an axis that count at each place, with weights."""
    if mode == "bicubic":
        # Each tap for itself meets the border.
        place = _finite(place, -2.0 * size - 8, 3.0 * size + 8)
        first = floor(place)
        weights = _cubic(place - first)
        near = [_within(first + (k - 1), size, border, corners) for k in range(4)]
        return [_tap(at, w, size, border) for at, w in zip(near, weights, strict=True)]
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
    index = astype(clip(at, 0, size - 1), int64)
    if border == "zeros":
        inside = (at >= 0) & (at < size)
        weight = astype(inside, at.dtype) if weight is None else where(inside, weight, 0)
    return index, weight


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
