"""Sums, means and maxima of bags of rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch import TensorLike, handle_of, wrap
from ...dtypes import int64
from ...errors import ArgumentError, DTypeError, ShapeError
from .._guarding import guarded
from .._rules import as_int, normalize_axis
from ..creation.filled import zeros
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.where import where
from ..indexing.scatter_reductions import scatter_reduce
from ..movement.shapes import reshape
from ..reductions.basic import sum
from ..reductions.statistics import mean
from ..sorting.searchsorted import searchsorted
from .embedding import embedding

if TYPE_CHECKING:
    from ...tensor import Tensor

_MODES = {"sum": "sum", "mean": "mean", "max": "amax"}


@guarded
def embedding_bag(
    indices: TensorLike,
    weight: TensorLike,
    offsets: TensorLike | None = None,
    *,
    mode: str = "mean",
    per_sample_weights: TensorLike | None = None,
    padding_idx: int | None = None,
    include_last_offset: bool = False,
) -> Tensor:
    """For each bag of indices the sum, mean or maximum of the rows of a table; 0 for an empty bag.

    Args:
        indices: integers in [0, rows): of shape (bags, n), each row a bag; or of one axis, cut
            into bags by `offsets`.
        weight: (rows, features).
        offsets: for indices of one axis, where each bag begins: ascending integers, of which the
            first is 0.
        mode: `"sum"`, `"mean"` or `"max"`.
        per_sample_weights: of the shape of the indices: multiply the rows, for `"sum"` only.
        padding_idx: a row that does not count and gets no gradient.
        include_last_offset: whether the last offset is where the last bag ends, as in compressed
            rows of sparse matrices, instead of where another one begins.

    Returns:
        (bags, features).

    Raises:
        OutOfRangeError: an index points outside of the table.

    >>> import ingle.tensor as it
    >>> table = it.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> it.embedding_bag(it.asarray([[0, 1], [2, 2]]), table).tolist()
    [[2.0, 3.0], [5.0, 6.0]]
    >>> cut = it.asarray([0, 1])
    >>> it.embedding_bag(it.asarray([0, 1, 2]), table, cut, mode="sum").tolist()
    [[1.0, 2.0], [8.0, 10.0]]
    """
    name = "embedding_bag"
    if mode not in _MODES:
        raise ArgumentError(f"{name}: mode must be 'sum', 'mean' or 'max', got {mode!r}")
    places, table = handle_of(indices, name, "indices"), handle_of(weight, name, "weight")
    if len(table.shape) != 2:
        raise ShapeError(f"{name}: weight must be (rows, features), got shape {table.shape}")
    if not places.dtype.is_integer:
        raise DTypeError(f"{name}: indices must be integers, got {places.dtype}")
    flat, bags, count = _bags(name, wrap(places), offsets, include_last_offset)
    rows = embedding(flat, weight, padding_idx=padding_idx)
    if per_sample_weights is not None:
        rows = rows * _factors(name, per_sample_weights, places.shape, mode, rows)
    if len(places.shape) == 2 and padding_idx is None and mode != "max" and places.shape[1]:
        bag = reshape(rows, (*places.shape, table.shape[1]))
        return sum(bag, axis=1) if mode == "sum" else mean(bag, axis=1)
    if padding_idx is not None:
        number = as_int(padding_idx, name, "padding_idx")
        skipped = normalize_axis(number, table.shape[0], name, "padding_idx")
        # One bag more than there are collects what does not count, and is cut off again.
        bags = where(flat == skipped, count, bags)
    start = zeros((count + 1, table.shape[1]), dtype=rows.dtype, device=rows.device)
    return scatter_reduce(start, bags, rows, _MODES[mode], include_self=False)[:count]


def _bags(
    name: str, indices: Tensor, offsets: TensorLike | None, with_end: bool
) -> tuple[Tensor, Tensor, int]:
    """The indices in a row, the number of the bag of each, and how many bags there are."""
    if indices.ndim == 2:
        if offsets is not None:
            raise ArgumentError(f"{name}: indices of 2 axes are bags already; leave out offsets")
        count, n = indices.shape
        numbers = arange(count * n, dtype=int64, device=indices.device)
        return reshape(indices, (count * n,)), numbers // n if n else numbers, count
    if indices.ndim != 1 or offsets is None:
        raise ShapeError(
            f"{name}: indices must be (bags, n), or of one axis with offsets, got shape "
            f"{indices.shape} and " + ("no offsets" if offsets is None else "offsets")
        )
    starts = handle_of(offsets, name, "offsets")
    if len(starts.shape) != 1 or not starts.dtype.is_integer:
        raise ShapeError(
            f"{name}: offsets must be integers of one axis, got {starts.dtype} of {starts.shape}"
        )
    begin = astype(wrap(starts), int64)
    numbers = arange(indices.shape[0], dtype=int64, device=indices.device)
    if not with_end:
        return indices, searchsorted(begin, numbers, side="right") - 1, starts.shape[0]
    count = starts.shape[0] - 1
    if count < 0:
        raise ShapeError(f"{name}: offsets must have at least the end with include_last_offset")
    # What lies behind the end goes where rows that do not count go.
    return indices, searchsorted(begin, numbers, side="right") - 1, count


def _factors(
    name: str, weights: TensorLike, shape: tuple[int, ...], mode: str, rows: Tensor
) -> Tensor:
    handle = handle_of(weights, name, "per_sample_weights")
    if mode != "sum" or handle.shape != shape:
        raise ArgumentError(
            f"{name}: per_sample_weights need mode='sum' and the shape {shape} of the indices, "
            f"got mode={mode!r} and shape {handle.shape}"
        )
    return astype(reshape(wrap(handle), (rows.shape[0], 1)), rows.dtype)
