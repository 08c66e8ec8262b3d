"""Taps of windows that see nothing but padding, which no product has to multiply.

A kernel whose taps lie far apart reaches over the border of a small image: of three taps, 12 places
apart, on 33 places the outer ones see padding from a third of all windows. So windows are divided
into *bands* along the first image axis, whose windows see the same taps of that axis, and a band is
a product with the part of the weight that it sees. Along further axes bands would save as much
again, and lose it to products of few columns and to copies of the weight.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

LEAST_SAVED = 8
"""One multiplication in so many has to fall away, or windows stay together."""
MOST_BANDS = 9
"""As many as five taps have at most; each is a product of its own."""
IMAGES = 16
"""Of how many images a batch is taken to be: how many there are must not decide over sums, which
would give an image other bits beside other images."""
MOVING = 128
"""Multiplications in whose time an element of the weight is copied and packed once more."""


class Band(NamedTuple):
    """Windows side by side, and the taps that they see.

    Attributes:
        first, windows: the first window, and how many there are.
        tap, taps: the first tap, and how many there are; none where windows see padding only.
    """

    first: int
    windows: int
    tap: int
    taps: int


def bands(size: int, taps: int, windows: int, stride: int, spread: int, start: int) -> list[Band]:
    """The bands of windows along an axis; one for all where that saves little.

    Args:
        size: places of the axis.
        taps, windows: how many.
        stride, spread: how far windows, and taps of one, lie apart.
        start: where the first window's first tap lies.
    """
    whole = [Band(0, windows, 0, taps)]
    # Sizes may be of a family of shapes: they are compared before each window is looked at.
    reach = abs(spread) * (taps - 1)
    if reach * MOST_BANDS < windows or taps > MOST_BANDS:
        return whole
    lost = sum(_unseen(size, windows, stride, start + t * spread) for t in range(taps))
    if LEAST_SAVED * lost < taps * windows:
        return whole
    found, first = [], 0
    seen = [_seen(size, taps, start + p * stride, spread) for p in range(windows)]
    for (tap, count), run in groupby(seen):
        width = len(list(run))
        found.append(Band(first, width, tap, count))
        first += width
    return found if len(found) <= MOST_BANDS else whole


def pays(divided: list[Band], taps: int, others: int) -> bool:
    """Whether the multiplications that bands save take longer than dividing the weight.

    Args:
        divided: the bands.
        taps: along their axis.
        others: windows along further axes, of one image.
    """
    saved = sum(band.windows * (taps - band.taps) for band in divided)
    return IMAGES * others * saved > MOVING * sum(band.taps for band in divided)


def _unseen(size: int, windows: int, stride: int, place: int) -> int:
    """From how many windows a tap sees padding, whose place in the first is given."""
    before = max(0, -(place // stride))
    until = max(0, -((place - size) // stride))
    return min(windows, before) + max(0, windows - until)


def _seen(size: int, taps: int, place: int, spread: int) -> tuple[int, int]:
    """The first tap that sees the image from a place, and how many do."""
    inside = [t for t in range(taps) if 0 <= place + t * spread < size]
    return (inside[0], len(inside)) if inside else (0, 0)
