"""Interpolation by definition, on float64 arrays: a matrix for each image axis, element by element.

Each row of a matrix samples the filter at the distances between the result's centre and all
elements of the axis, continued at the border by its last element (or, with antialias, cut off).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def interpolate(
    x: Any, *, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool = False, antialias: bool = False,
) -> Any:  # fmt: skip
    for axis in range(2, x.ndim):
        n = x.shape[axis]
        factor = scale_factor[axis - 2] if isinstance(scale_factor, tuple) else scale_factor
        if factor is not None:
            m, step = math.floor(n * factor), 1 / factor
        else:
            m = size[axis - 2] if isinstance(size, tuple) else size
            step = n / m
        if align_corners:
            step = (n - 1) / (m - 1) if m > 1 else 0.0
        rows = [_row(i, n, step, mode, align_corners, antialias) for i in range(m)]
        if mode.startswith("nearest"):
            x = np.take(x, [int(np.argmax(row)) for row in rows], axis=axis)
        else:
            x = np.moveaxis(np.tensordot(np.array(rows), x, axes=(1, axis)), 0, axis)
    return x


def _row(i: int, n: int, step: float, mode: str, corners: bool, antialias: bool) -> Any:
    row = np.zeros(n)
    if mode.startswith("nearest"):
        row[min(n - 1, math.floor((i + (0.5 if mode == "nearest-exact" else 0.0)) * step))] = 1.0
        return row
    name = "linear" if mode.endswith("linear") else mode
    centre = i * step if corners else (i + 0.5) * step - 0.5
    if antialias:
        centre = (i + 0.5) * step - 0.5
        wide = max(1.0, step)
        for j in range(n):
            row[j] = _weight(abs(j - centre) / wide, name, -0.5)
        return row / row.sum()
    if name == "linear":
        centre = min(max(centre, 0.0), n - 1.0)
    for j in range(-8, n + 8):
        row[min(max(j, 0), n - 1)] += _weight(abs(j - centre), name, -0.75)
    return row / row.sum()


def _weight(d: float, name: str, a: float) -> float:
    if name == "linear":
        return max(0.0, 1.0 - d)
    if name == "bicubic":
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0
    if d >= 3:
        return 0.0
    return 1.0 if d == 0 else 3 * math.sin(math.pi * d) * math.sin(math.pi * d / 3) / (
        math.pi * d
    ) ** 2  # fmt: skip
