"""Distinct elements, or distinct slices of an axis: unique and unique_consecutive."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...dispatch import TensorLike, handle_of, refuse_storage, wrap
from ...dtypes import int64
from .._guarding import guarded
from .._rules import normalize_axis
from ..creation.filled import full, zeros
from ..elementwise.cast import astype
from ..elementwise.complex import imag, real
from ..indexing.gathering import take, take_along_axis
from ..indexing.nonzero import nonzero
from ..indexing.scatter_reductions import put_along_axis
from ..movement.axes import moveaxis
from ..movement.joining import concat, stack
from ..movement.shapes import reshape
from ..movement.slicing import slice_axis
from ..reductions.basic import any as any_of
from ..scans.cumulative import cumulative_sum
from .sets import unique_all
from .sort import argsort

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def unique(
    x: TensorLike,
    /,
    *,
    axis: int | None = None,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Tensor | tuple[Tensor, ...]:
    """The distinct elements in ascending order, or the distinct slices along an axis.

    Slices are ordered like words: by their first element, of equal ones by the second, and so on.
    NaN are distinct from each other. Without an axis it is `unique_all` with a choice of results.

    Args:
        x: a tensor.
        axis: along which slices are compared; None for single elements.
        return_index: also return where each occurs first.
        return_inverse: also return which of them each element or slice is.
        return_counts: also return how often each occurs.

    Returns:
        The distinct ones, or a tuple of them and of what else was asked for, in that order.

    >>> import ingle.tensor as it
    >>> it.unique(it.asarray([[2, 1], [0, 5], [2, 1]]), axis=0).tolist()
    [[0, 5], [2, 1]]
    """
    tensor = _comparable("unique", x)
    if axis is None:
        values, *rest = unique_all(tensor)
    else:
        place = normalize_axis(axis, tensor.ndim, "unique")
        _, *rest = unique_all(_ranks(_rows(tensor, place)))
        values = take(tensor, rest[0], axis=place)
    asked = return_index, return_inverse, return_counts
    found = [part for part, wanted in zip(rest, asked, strict=True) if wanted]
    return (values, *found) if found else values


@guarded
def unique_consecutive(
    x: TensorLike,
    /,
    *,
    axis: int | None = None,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Tensor | tuple[Tensor, ...]:
    """The elements without those that equal the one before, or the slices along an axis.

    Args:
        x: a tensor.
        axis: along which slices are compared; None for single elements in row-major order.
        return_inverse: also return which of them each element or slice belongs to.
        return_counts: also return how many in a row are equal.

    Returns:
        What is left, or a tuple of it and of what else was asked for, in that order.

    >>> import ingle.tensor as it
    >>> it.unique_consecutive(it.asarray([1, 1, 2, 1]), return_counts=True)[1].tolist()
    [2, 1, 1]
    """
    tensor = _comparable("unique_consecutive", x)
    if axis is None:
        rows, place = reshape(tensor, (math.prod(tensor.shape), 1)), 0
        source, shape = reshape(tensor, (rows.shape[0],)), tensor.shape
    else:
        place = normalize_axis(axis, tensor.ndim, "unique_consecutive")
        rows, source = _rows(tensor, place), tensor
        shape = rows.shape[:1]
    size = rows.shape[0]
    after, before = (slice_axis(rows, 0, i, max(size - 1, 0)) for i in (min(size, 1), 0))
    first = full((min(size, 1),), True, device=rows.device)
    new = concat([first, any_of(after != before, axis=1)])
    (starts,) = nonzero(new)
    found = [take(source, starts, axis=place)]
    if return_inverse:
        found.append(reshape(cumulative_sum(astype(new, int64)) - 1, shape))
    if return_counts:
        end = full((1,), size, dtype=int64, device=rows.device)
        found.append(slice_axis(concat([starts, end]), 0, 1, starts.shape[0]) - starts)
    return tuple(found) if len(found) > 1 else found[0]


def _comparable(name: str, x: TensorLike) -> Tensor:
    handle = handle_of(x, name)
    refuse_storage(name, "x", handle.dtype)
    return wrap(handle)


def _rows(x: Tensor, axis: int) -> Tensor:
    """The slices along an axis as rows."""
    lead = moveaxis(x, axis, 0)
    return reshape(lead, (lead.shape[0], math.prod(lead.shape[1:])))


def _ranks(rows: Tensor) -> Tensor:
    """A number for each row, in the order of the rows and equal for equal ones.

    Columns get the numbers of their elements; then two columns of numbers become one at a time.
    """
    if rows.dtype.is_complex:
        parts = stack([real(rows), imag(rows)], axis=2)
        rows = reshape(parts, (rows.shape[0], 2 * rows.shape[1]))
    size, width = rows.shape
    if not size or not width:
        return zeros((size,), dtype=int64, device=rows.device)
    numbers = _dense(rows)
    while width > 1:
        if width % 2:
            column = zeros((size, 1), dtype=int64, device=rows.device)
            numbers, width = concat([numbers, column], axis=1), width + 1
        numbers = _dense(numbers[:, ::2] * size + numbers[:, 1::2])
        width //= 2
    return reshape(numbers, (size,))


def _dense(x: Tensor) -> Tensor:
    """The place of each element among the distinct ones of its column."""
    order = argsort(x, axis=0)
    ordered = take_along_axis(x, order, axis=0)
    rest = x.shape[0] - 1
    new = slice_axis(ordered, 0, 1, rest) != slice_axis(ordered, 0, 0, rest)
    begin = zeros((1, x.shape[1]), dtype=int64, device=x.device)
    group = concat([begin, cumulative_sum(astype(new, int64), axis=0)], axis=0)
    return put_along_axis(zeros(x.shape, dtype=int64, device=x.device), order, group, axis=0)
