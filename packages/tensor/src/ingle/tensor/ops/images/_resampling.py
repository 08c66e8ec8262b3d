"""Tables of resampling along an axis: which elements a result is made of, with which weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...dtypes import float64
from ..creation.conversion import asarray
from ..elementwise.cast import astype
from ..indexing.gathering import take
from ..movement.shapes import reshape

if TYPE_CHECKING:
    from ...tensor import Tensor

Array = np.ndarray[Any, Any]


class Table(NamedTuple):
    """Element i of the result is the sum over k of weights[i, k] * x[places[i, k]]."""

    places: Array
    weights: Array | None
    """None where every weight is 1."""


class Grid(NamedTuple):
    """How positions of a result with `wanted` elements map to an axis with `size` of them.

    Attributes:
        size, wanted: elements before and after.
        scale: the distance of neighbours, in elements of the axis.
        corners: whether the centres of the outermost elements fall together, instead of their
            outer borders.
    """

    size: int
    wanted: int
    scale: float
    corners: bool

    def centres(self) -> Array:
        """Where the results' centres lie, in elements of the axis."""
        at = np.arange(self.wanted, dtype=np.float64)
        return at * self.scale if self.corners else (at + 0.5) * self.scale - 0.5


@lru_cache(maxsize=512)
def table(method: str, grid: Grid, antialias: bool) -> Table:
    """The table of a method: nearest, nearest-exact, linear, cubic or lanczos."""
    if method in ("nearest", "nearest-exact"):
        shift = 0.5 if method == "nearest-exact" else 0.0
        at = np.floor((np.arange(grid.wanted) + shift) * grid.scale).astype(np.int64)
        return Table(np.minimum(at, grid.size - 1)[:, None], None)
    if antialias:
        return _averaged(method, grid)
    centre = grid.centres()
    if method == "linear":
        centre = np.clip(centre, 0.0, grid.size - 1)
    reach = _REACH[method]
    first = np.floor(centre).astype(np.int64)
    at = first[:, None] + np.arange(1 - reach, reach + 1)
    # The fraction first: the distances of the taps from it are then the same for all rows.
    weight = _FILTERS[method](np.arange(1 - reach, reach + 1) - (centre - first)[:, None])
    if method == "lanczos":
        weight = weight / weight.sum(axis=1, keepdims=True)
    return Table(np.clip(at, 0, grid.size - 1), weight)


def _averaged(method: str, grid: Grid) -> Table:
    """Filters as wide as the results lie apart, cut off at the border and normalised."""
    wide = max(grid.scale, 1.0)
    reach = _REACH[method] * wide
    # As in PyTorch aligned corners change the scale here, but not where the first result lies.
    centre = (np.arange(grid.wanted) + 0.5) * grid.scale - 0.5
    low = np.maximum((centre - reach + 1.0).astype(np.int64), 0)
    high = np.minimum((centre + reach + 1.0).astype(np.int64), grid.size)
    taps = np.arange(max(1, int((high - low).max(initial=1))))
    at = low[:, None] + taps
    smooth = _FILTERS["cubic-smooth" if method == "cubic" else method]
    weight = smooth((at - centre[:, None]) / wide) * (at < high[:, None])
    total = weight.sum(axis=1, keepdims=True)
    return Table(np.minimum(at, grid.size - 1), weight / np.where(total == 0, 1.0, total))


def _linear(t: Array) -> Array:
    return np.maximum(1.0 - np.abs(t), 0.0)


def _cubic(a: float) -> Callable[[Array], Array]:
    """The convolution kernel of Keys (IEEE TASSP 29, 1981) with its free parameter."""

    def weights(t: Array) -> Array:
        d = np.abs(t)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = (((d - 5) * d + 8) * d - 4) * a
        return np.where(d < 1, near, np.where(d < 2, far, 0.0))

    return weights


def _lanczos(t: Array) -> Array:
    return np.where(np.abs(t) < 3, np.sinc(t) * np.sinc(t / 3), 0.0)


_REACH = {"linear": 1, "cubic": 2, "lanczos": 3}
_FILTERS: dict[str, Callable[[Array], Array]] = {
    "linear": _linear,
    "cubic": _cubic(-0.75),
    "cubic-smooth": _cubic(-0.5),
    "lanczos": _lanczos,
}


@lru_cache(maxsize=512)
def transposed(method: str, grid: Grid, antialias: bool) -> Table:
    """The table of the transposed map: which results an element went into."""
    index, weight = table(method, grid, antialias)
    count = len(index)
    weights = np.ones(index.shape) if weight is None else weight
    pair = (index * count + np.arange(count)[:, None]).ravel()
    # A border that was clipped meets the same element several times.
    pairs, where = np.unique(pair, return_inverse=True)
    merged = np.bincount(where.ravel(), weights.ravel(), len(pairs))
    element, result = np.divmod(pairs, count)
    starts = np.searchsorted(element, np.arange(grid.size))
    number = np.arange(len(pairs)) - starts[element]
    shape = (grid.size, int(number.max(initial=0)) + 1)
    back, share = np.zeros(shape, np.int64), np.zeros(shape)
    back[element, number], share[element, number] = result, merged
    return Table(back, share)


def resampled(x: Tensor, axis: int, by: Table) -> Tensor:
    """A table applied along one axis."""
    rest = x.ndim - axis - 1
    if by.weights is None:
        return take(x, asarray(by.places[:, 0], device=x.device), axis=axis)
    total: Tensor | None = None
    for at, weight in zip(by.places.T, by.weights.T, strict=True):
        seen = take(x, asarray(np.ascontiguousarray(at), device=x.device), axis=axis)
        share = asarray(np.ascontiguousarray(weight), dtype=float64, device=x.device)
        part = seen * reshape(astype(share, x.dtype), (len(at), *(1,) * rest))
        total = part if total is None else total + part
    assert total is not None
    return total


def scale_of(size: int, count: int, factor: float | None, corners: bool) -> float:
    """The distance of neighbouring results, in elements of the axis."""
    if corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    if factor is not None and factor > 0:
        return 1.0 / factor
    return size / count if count else math.inf
