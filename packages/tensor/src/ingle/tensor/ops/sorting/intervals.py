"""Which of some intervals of equal width elements lie in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import handle_of, run2
from ...dtypes import float32, float64, int64
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from ..elementwise.cast import astype
from ..elementwise.extrema import minimum
from ..elementwise.where import where
from ..indexing.gathering import take

if TYPE_CHECKING:
    from ...dtypes import DType
    from ...tensor import Tensor


def are_even(low: float, high: float, count: int, dtype: DType) -> bool:
    """Whether rounding moves no edge, and no quotient, by as much as a fourth of an interval, and
    neither the width nor intervals to it leave the range of the dtype's normal numbers."""
    if dtype not in (float32, float64) or not low < high:
        return False
    width, of = high - low, np.finfo(dtype.dtype)
    if not count * float(of.smallest_normal) < width < float(of.max):
        return False
    return 8 * float(of.eps) * count * (1 + max(abs(low), abs(high)) / width) < 0.25


def interval_of(x: Tensor, edges: Tensor, /) -> Tensor:
    """For each element the interval that holds it: with its left edge, the last with both.

    Args:
        x: float32 or float64 of any shape.
        edges: of the same dtype, ascending along one axis in almost equal steps: see
            `are_even`. What lies outside is in the interval after the last.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.ops.sorting.intervals import interval_of
    >>> interval_of(it.asarray([0.0, 0.7, 1.0, 2.0]), it.asarray([0.0, 0.5, 1.0])).tolist()
    [0, 1, 1, 2]
    """
    return run2(INTERVAL_OF.op(), handle_of(x, "interval_of"), handle_of(edges, "interval_of"))


def _rule(x: Aval, edges: Aval) -> Aval:
    if x.dtype not in (float32, float64) or edges.dtype is not x.dtype:
        raise DTypeError(
            f"interval_of: x and edges must be of one of float32 and float64, got {x.dtype} and "
            f"{edges.dtype}"
        )
    if edges.ndim != 1 or edges.shape[0] < 2:
        raise ShapeError(f"interval_of: edges must be two and more, got shape {edges.shape}")
    return Aval(x.shape, int64)


def _body(x: Tensor, edges: Tensor) -> Tensor:
    """By a product, which is right but for one interval, and a look at the edges beside it."""
    count = edges.shape[0] - 1
    low, high = edges[0], edges[-1]
    inside = (x >= low) & (x <= high)
    known = where(inside, x, low)
    place = minimum(astype((known - low) * (count / (high - low)), int64), count - 1)
    place = place - astype(known < take(edges, place), int64)
    place = place + astype(known >= take(edges, place + 1), int64)
    return where(inside, minimum(place, count - 1), count)


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype not in (float32, float64):
        return
    for low, high, count in ((-1.0, 1.5, 7), (0.1, 0.2, 1), (-3.0, 0.0, 100), (9.0, 10.0, 33)):
        edges = np.linspace(low, high, count + 1).astype(draw.dtype.dtype)
        x = draw.array((60,), low=low - 0.1, high=high + 0.1)
        odd = np.array([np.nan, np.inf, -np.inf, low, high, 0.0], draw.dtype.dtype)
        beside = [np.nextafter(edges, edges.dtype.type(to)) for to in (-1e9, 1e9)]
        x = np.concatenate([x, odd, edges, *beside])
        yield Sample((x, edges), gradient=False, exact=True)
    edges = np.linspace(-1, 1, 5).astype(draw.dtype.dtype)
    for shape in (draw.shape((2, 3)), (0,), ()):
        yield Sample((draw.array(shape), edges), gradient=False, exact=True)


def _reference(x: Any, edges: Any) -> Any:
    count = len(edges) - 1
    place = np.searchsorted(edges, x, side="right") - 1
    place = np.where(x == edges[-1], count - 1, place)
    return np.where((place < 0) | (place >= count), count, place).astype(np.int64)


INTERVAL_OF = Operation(
    "interval_of",
    tensors=("x", "edges"),
    rule=_rule,
    traits=Traits("opaque", indexes_inside=True),
    vjp={},
    body=_body,
    public=interval_of,
    samples=_samples,
    reference=_reference,
)
