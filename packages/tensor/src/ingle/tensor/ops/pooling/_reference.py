"""Pooling by definition, on float64 arrays: a loop over the windows, each clipped to the image."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np


def max_pool(x: Any, kernel_size: Any, **options: Any) -> Any:
    return max_pool_training(x, kernel_size, **options)[0]


def max_pool_training(x: Any, kernel_size: Any, **options: Any) -> tuple[Any, Any]:
    out, windows = _windows(x.shape[2:], kernel_size, **options)
    values = np.zeros((*x.shape[:2], *out), x.dtype)
    index = np.zeros(values.shape, np.int32)
    for at, places, taps, _ in windows:
        seen = np.stack([x[(..., *place)] for place in places])
        best = np.argmax(seen, axis=0)
        values[(..., *at)] = np.max(seen, axis=0)
        index[(..., *at)] = np.asarray(taps, np.int32)[best]
    return values, index


def max_pool_gradient(g: Any, index: Any, size: Any, kernel_size: Any, **options: Any) -> Any:
    _, windows = _windows(size, kernel_size, **options)
    total = np.zeros((*g.shape[:2], *size), g.dtype)
    for at, places, taps, _ in windows:
        for place, tap in zip(places, taps, strict=True):
            total[(..., *place)] += np.where(index[(..., *at)] == tap, g[(..., *at)], 0)
    return total


def max_pool_select(x: Any, index: Any, kernel_size: Any, **options: Any) -> Any:
    _, windows = _windows(x.shape[2:], kernel_size, **options)
    found = np.zeros(index.shape, x.dtype)
    for at, places, taps, _ in windows:
        for place, tap in zip(places, taps, strict=True):
            found[(..., *at)] += np.where(index[(..., *at)] == tap, x[(..., *place)], 0)
    return found


def avg_pool(x: Any, kernel_size: Any, **options: Any) -> Any:
    out, windows = _windows(x.shape[2:], kernel_size, **options)
    values = np.zeros((*x.shape[:2], *out), x.dtype)
    for at, places, _, count in windows:
        values[(..., *at)] = sum(x[(..., *place)] for place in places) / count
    return values


def avg_pool_gradient(g: Any, size: Any, kernel_size: Any, **options: Any) -> Any:
    _, windows = _windows(size, kernel_size, **options)
    total = np.zeros((*g.shape[:2], *size), g.dtype)
    for at, places, _, count in windows:
        for place in places:
            total[(..., *place)] += g[(..., *at)] / count
    return total


def _windows(
    size: Any, kernel_size: Any, *, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> tuple[tuple[int, ...], Iterator[Any]]:  # fmt: skip
    """The result's image sizes, and for each window: where it goes, the places inside of the
    image that it sees, their taps, and how many elements an average counts."""
    rank = len(size)
    kernel, steps, around, spread = (
        (v,) * rank if isinstance(v, int) else tuple(v)
        for v in (kernel_size, kernel_size if stride is None else stride, padding, dilation)
    )
    rounded = math.ceil if ceil_mode else math.floor
    out = [
        rounded((n + 2 * p - d * (k - 1) - 1) / s) + 1
        for n, k, s, p, d in zip(size, kernel, steps, around, spread, strict=True)
    ]
    if ceil_mode:
        out = [
            o - 1 if (o - 1) * s >= n + p else o
            for o, s, n, p in zip(out, steps, size, around, strict=True)
        ]

    def walk() -> Iterator[Any]:
        for at in np.ndindex(*out):
            first = [o * s - p for o, s, p in zip(at, steps, around, strict=True)]
            places, taps = [], []
            for number, tap in enumerate(np.ndindex(*kernel)):
                place = [f + t * d for f, t, d in zip(first, tap, spread, strict=True)]
                if all(0 <= i < n for i, n in zip(place, size, strict=True)):
                    places.append(tuple(place))
                    taps.append(number)
            ends = [
                min(f + k, n + p) for f, k, n, p in zip(first, kernel, size, around, strict=True)
            ]
            whole = math.prod(e - f for e, f in zip(ends, first, strict=True))
            yield at, places, taps, whole if count_include_pad else len(places)

    return tuple(out), walk()
