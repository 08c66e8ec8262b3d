"""Functions that take NaN for missing numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..operation import Traits
from ..sample import Checked, Draw, Sample


def _with_gaps(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers apart from one another, some of them missing if they are floats."""
    x = draw.apart(shape) if draw.dtype.is_floating else draw.array(shape)
    gaps = draw.array(shape, dtype="bool") & draw.array(shape, dtype="bool")
    return np.where(gaps, np.nan, x).astype(x.dtype) if draw.dtype.is_inexact else x


def _odd(draw: Draw) -> Iterator[Sample]:
    # The reference computes in double precision, whose largest number is another one.
    ends = {"posinf": 5.0, "neginf": -5.0} if draw.dtype.is_floating else {}
    if draw.dtype.kind != "bool":
        yield Sample((draw.array((3, 5)),), ends)
        yield Sample((_with_gaps(draw, (17,)),), {"nan": 2.0, **ends}, gradient=False)
    if draw.dtype.is_floating:
        odd = np.asarray([np.nan, np.inf, -np.inf, 1], draw.dtype.dtype)
        yield Sample((odd,), {"posinf": 9.0, "neginf": -7.0}, gradient=False)


def _replaced(x: Any, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


Checked(ops.nan_to_num, samples=_odd, reference=_replaced, traits=Traits("elementwise"))


def _reduced(draw: Draw) -> Iterator[Sample]:
    yield Sample((_with_gaps(draw, (2, 17)),), gradient=False, condition=8)
    yield Sample((_with_gaps(draw, (3, 5, 2)),), {"axis": (0, 2)}, gradient=False, condition=8)
    yield Sample((draw.array((5, 3)),), {"axis": 0, "keepdims": True}, condition=8)


Checked(ops.nansum, samples=_reduced, reference=np.nansum)
Checked(ops.nanmean, samples=_reduced, reference=np.nanmean)


def _lines(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_complex or draw.dtype.kind == "bool":
        return
    for shape, options in (
        ((5,), {}), ((3, 8), {"axis": 0}), ((2, 3, 5), {"axis": 1, "keepdims": True}),
    ):  # fmt: skip
        yield Sample((_with_gaps(draw, shape),), options, gradient=False)
    if draw.dtype.is_floating:
        yield Sample((draw.apart((3, 5)),), {"axis": 1})


def _median(x: Any, **options: Any) -> Any:
    return np.nanquantile(x, 0.5, method="lower", **options)


Checked(ops.nanmedian, samples=_lines, reference=_median)


def _shares(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        half = draw.dtype.itemsize == 2
        for q, options in (
            (0.5, {}), ([0.0, 0.25, 1.0], {"axis": 0}), (0.75, {"axis": 1, "keepdims": True}),
            (0.25, {"interpolation": "lower"}),
        ):  # fmt: skip
            x = _with_gaps(draw, (3, 5))
            yield Sample((x, q), options, condition=8, gradient=False)
        yield Sample((draw.apart((3, 5)), 0.3), condition=8, gradient=not half)


def _quantile(x: Any, q: Any, interpolation: Any = "linear", **options: Any) -> Any:
    find = np.nanquantile if np.size(x) else np.quantile  # of nothing the first one forgets q
    return find(x, q, method=interpolation, **options)


Checked(ops.nanquantile, samples=_shares, reference=_quantile)
