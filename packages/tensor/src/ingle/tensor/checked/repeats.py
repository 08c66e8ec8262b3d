"""Distinct elements and slices, and membership."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..operation import Traits
from ..sample import Checked, Draw, Sample

_OPAQUE = Traits("opaque", dynamic_shape=True)


def _few(draw: Draw, shape: tuple[int, ...], high: int = 4) -> np.ndarray:
    numbers = draw.integers(shape, 2 if draw.dtype.kind == "bool" else high)
    return np.asarray(numbers, draw.dtype.dtype)


def _members(draw: Draw) -> Iterator[Sample]:
    for a, b, options in (
        ((3, 5), (8,), {}), ((17,), (2, 17), {"invert": True}), ((), (3,), {}), ((3,), (0,), {}),
    ):  # fmt: skip
        yield Sample((_few(draw, a, 9), _few(draw, b, 9)), options)
    if draw.dtype.is_inexact:
        odd = np.asarray([np.nan, np.inf, -0.0, 3.0, *range(20)], draw.dtype.dtype)
        yield Sample((odd[:5], odd))


Checked(
    ops.isin, samples=_members, reference=np.isin, traits=Traits("opaque"), differentiable=False
)


def _slices(draw: Draw) -> Iterator[Sample]:
    all_of = {"return_index": True, "return_inverse": True, "return_counts": True}
    yield Sample((_few(draw, (17,)),), {"return_counts": True}, gradient=False)
    yield Sample((_few(draw, (8, 2), 2),), {"axis": 0, **all_of}, gradient=False)
    yield Sample((_few(draw, (2, 8, 3), 2),), {"axis": 1, "return_inverse": True}, gradient=False)


def _unique(x: Any, axis: int | None = None, **options: Any) -> Any:
    if x.dtype.kind == "V":  # NumPy cannot order bfloat16
        values, *rest = np.unique(x.astype(np.float32), axis=axis, equal_nan=False, **options)
        return values.astype(x.dtype), *rest
    return np.unique(x, axis=axis, equal_nan=False, **options)


def _runs(draw: Draw) -> Iterator[Sample]:
    both = {"return_inverse": True, "return_counts": True}
    yield Sample((_few(draw, (17,), 2),), both, gradient=False)
    yield Sample((_few(draw, (3, 5), 2),), {"return_inverse": True}, gradient=False)
    yield Sample((_few(draw, (2, 8), 2),), {"axis": 1, **both}, gradient=False)
    yield Sample((_few(draw, (0,)),), {"return_counts": True}, gradient=False)


def _consecutive(
    x: Any, axis: int | None = None, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    rows = x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    kept = [i for i in range(len(rows)) if not i or (rows[i] != rows[i - 1]).any()]
    values = x.reshape(-1)[kept] if axis is None else np.take(x, kept, axis)
    found = [values]
    if return_inverse:
        inverse = np.searchsorted(kept, np.arange(len(rows)), side="right") - 1
        found.append(inverse.reshape(x.shape) if axis is None else inverse)
    if return_counts:
        found.append(np.diff([*kept, len(rows)]) if kept else np.zeros(0, np.int64))
    return tuple(found) if len(found) > 1 else values


Checked(ops.unique, samples=_slices, reference=_unique, traits=_OPAQUE, differentiable=False)
Checked(
    ops.unique_consecutive, samples=_runs, reference=_consecutive, traits=_OPAQUE,
    differentiable=False,
)  # fmt: skip
