"""Sampling by definition, on float64 arrays: a loop over places and over the elements near them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np


def grid_sample(
    x: Any, grid: Any, *, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Any:  # fmt: skip
    size, out = x.shape[2:], grid.shape[1:-1]
    result = np.zeros((*x.shape[:2], *out), x.dtype)
    for at in np.ndindex(x.shape[0], *out):
        place = []
        for n, c in zip(size, grid[at][::-1], strict=True):
            c = (c + 1) / 2 * (n - 1) if align_corners else ((c + 1) * n - 1) / 2
            place.append(c if mode == "bicubic" else _inside(c, n, padding_mode, align_corners))
        for near in itertools.product(*(_near(c, mode) for c in place)):
            ends = [
                _inside(float(j), n, padding_mode, align_corners)
                for (j, _), n in zip(near, size, strict=True)
            ]
            if all(0 <= j < n for j, n in zip(ends, size, strict=True)):
                weight = math.prod(w for _, w in near)
                result[(at[0], slice(None), *at[1:])] += (
                    weight * x[(at[0], slice(None), *map(round, ends))]
                )
    return result


def _inside(c: float, n: int, border: str, corners: bool) -> float:
    if border == "zeros":
        return c
    if border == "reflection":
        low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
        while high > low and not low <= c <= high:
            c = 2 * low - c if c < low else 2 * high - c
    return min(max(c, 0.0), n - 1.0)


def _near(c: float, mode: str) -> list[tuple[int, float]]:
    if mode == "nearest":
        return [(round(c), 1.0)]
    first = math.floor(c)
    reach = 2 if mode == "bicubic" else 1
    return [(j, _weight(abs(c - j), mode)) for j in range(first - reach + 1, first + reach + 1)]


def _weight(d: float, mode: str) -> float:
    if mode == "bilinear":
        return 1 - d
    a = -0.75
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def affine_grid(theta: Any, size: Any, *, align_corners: bool = False) -> Any:
    out = size[2:]
    result = np.zeros((size[0], *out, len(out)), theta.dtype)
    for at in np.ndindex(*out):
        point = [
            (2 * i / (n - 1) - 1 if n > 1 else 0.0) if align_corners else (2 * i + 1) / n - 1
            for i, n in zip(at, out, strict=True)
        ]
        result[(slice(None), *at)] = theta @ np.array([*point[::-1], 1.0])
    return result


def deform_conv2d(
    x: Any, offset: Any, weight: Any, bias: Any = None, *, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, mask: Any = None,
) -> Any:  # fmt: skip
    (sy, sx), (py, px), (dy, dx) = (
        v if isinstance(v, tuple) else (v, v) for v in (stride, padding, dilation)
    )
    batch, channels, height, width = x.shape
    features, each, kh, kw = weight.shape
    groups, bands = channels // each, offset.shape[1] // (2 * kh * kw)
    out = np.zeros((batch, features, *offset.shape[2:]), x.dtype)
    for b, f, oy, ox in np.ndindex(*out.shape):
        for c, i, j in np.ndindex(each, kh, kw):
            channel = f // (features // groups) * each + c
            tap = (channel // (channels // bands)) * kh * kw + i * kw + j
            y = oy * sy - py + i * dy + offset[b, 2 * tap, oy, ox]
            z = ox * sx - px + j * dx + offset[b, 2 * tap + 1, oy, ox]
            seen = 0.0
            for (p, u), (q, v) in itertools.product(_near(y, "bilinear"), _near(z, "bilinear")):
                if 0 <= p < height and 0 <= q < width:
                    seen += u * v * x[b, channel, p, q]
            scale = 1.0 if mask is None else mask[b, tap, oy, ox]
            out[b, f, oy, ox] += weight[f, c, i, j] * seen * scale
    return out if bias is None else out + bias[:, None, None]
