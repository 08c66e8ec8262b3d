"""Lines between values: slopes, integrals, interpolation; and rounding to digits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..operation import Traits
from ..sample import Checked, Draw, Sample


def _points(draw: Draw, size: int) -> np.ndarray:
    """Coordinates in ascending order."""
    return np.cumsum(draw.array((size,), low=0.5, high=1.5, dtype="float64")).astype(
        draw.dtype.dtype
    )


def _areas(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((17,)),), {"dx": 0.5}, condition=16)
    yield Sample((draw.array((3, 5)),), {"axis": 0}, condition=8)
    yield Sample((draw.array((0, 3)),), {"axis": 0})
    if draw.dtype.is_floating:
        n = draw.size(8, least=1)
        yield Sample((draw.array((2, n)), _points(draw, n)), condition=32, magnitude=8.0)


def _trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    wide = y if y.dtype.kind == "c" else y.astype(np.float64)
    return np.trapezoid(wide, x, dx, axis)


Checked(ops.trapezoid, samples=_areas, reference=_trapezoid)


def _grids(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact:
        return
    n, m = draw.size(5, least=3), draw.size(8, least=3)
    yield Sample((draw.array((n,)),), {"spacing": 0.5}, condition=8, magnitude=4.0)
    x = draw.array((n, m))
    yield Sample((x,), {"edge_order": 2, "spacing": [2.0, 0.25]}, condition=16, magnitude=8.0)
    if draw.dtype.is_floating:
        own = {"spacing": [_points(draw, m)], "axis": 1, "edge_order": 2}
        yield Sample((x,), own, condition=64, gradient=(0,), magnitude=8.0)


def _gradient(x: Any, spacing: Any = 1.0, axis: Any = None, edge_order: int = 1) -> Any:
    wide = x if x.dtype.kind == "c" else x.astype(np.float64)
    steps = spacing if isinstance(spacing, list) else [spacing]
    numpy: Any = np
    found = numpy.gradient(wide, *steps, axis=axis, edge_order=edge_order)
    return found if isinstance(found, tuple) else (found,)


Checked(ops.gradient, samples=_grids, reference=_gradient)


def _blends(draw: Draw) -> Iterator[Sample]:
    a, b = draw.array((3, 5)), draw.array((5,))
    if draw.dtype.is_inexact:
        yield Sample((a, b, draw.array((3, 1), low=-1.0)), condition=8, magnitude=4.0)
        yield Sample((draw.array((17,)), draw.array((17,)), 0.75), condition=8, magnitude=4.0)


Checked(ops.lerp, samples=_blends, reference=lambda a, b, w: a + w * (b - a))


def _digits(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_inexact:
        x = draw.array((17,), low=-90.0, high=90.0)
        for decimals in (2, -1):
            yield Sample((x,), {"decimals": decimals}, gradient=False)
    elif draw.dtype.is_integer:
        x = draw.array((17,), low=-99, high=99)
        yield Sample((x,), {"decimals": -1})
        yield Sample((x,), {"decimals": 2})


def _rounded(x: Any, decimals: int) -> Any:
    return np.round(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64), decimals)


Checked(
    ops.round, name="round_decimals", samples=_digits, reference=_rounded,
    traits=Traits("opaque"), differentiable=False,
)  # fmt: skip
