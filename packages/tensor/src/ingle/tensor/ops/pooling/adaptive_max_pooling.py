"""Adaptive pooling by the largest element, with the places where they were found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ...contract import Aval, Shape
from ...dispatch import TensorLike, handle_of, run, run1
from ...dtypes import int64
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import REAL
from ..convolution._windows import Ints
from ..creation.conversion import asarray
from ..elementwise.extrema import maximum
from ..elementwise.where import where
from ..images._places import add_at
from ..indexing.gathering import take, take_along_axis
from ..movement.shapes import permute_dims, reshape
from ..reductions.basic import max as reduce_max
from ..reductions.searching import argmax
from .adaptive_pooling import (
    CASES,
    SHORT,
    Size,
    clipped_windows,
    shape_rule,
    wanted_by,
    wanted_size,
    windows_of,
)
from .max_pooling import MAX_POOL, images_of, lowest, pool_attributes

if TYPE_CHECKING:
    from ...tensor import Tensor

MOST_TAPS = 16
"""Elements of a window up to which each is compared by itself."""


@overload
def adaptive_max_pool1d(
    x: TensorLike, output_size: Size, *, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    x: TensorLike, output_size: Size, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@guarded
def adaptive_max_pool1d(
    x: TensorLike, output_size: Size, *, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest elements of windows that cover sequences evenly; see `adaptive_max_pool2d`.

    Args:
        x: (batch, channels, length), or without the batch.

    >>> import ingle.tensor as it
    >>> it.adaptive_max_pool1d(it.asarray([[1.0, 4.0, 3.0]]), 2).tolist()
    [[4.0, 4.0]]
    """
    return _largest(1, x, output_size, return_indices)


@overload
def adaptive_max_pool2d(
    x: TensorLike, output_size: Size, *, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool2d(
    x: TensorLike, output_size: Size, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@guarded
def adaptive_max_pool2d(
    x: TensorLike, output_size: Size, *, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest elements of windows that cover pictures evenly, as many as asked for.

    NaN where a window holds one. The gradient goes to the first of equal elements.

    Args:
        x: (batch, channels, height, width), or without the batch; real numbers.
        output_size: how many windows, for all image axes or for each; None keeps an axis' size.
        return_indices: whether to return also where the elements were found: int64 positions in
            row-major order of the image axes, as `max_unpool2d` takes them.

    Returns:
        (batch, channels, *output_size), or a pair of such tensors.

    Raises:
        ShapeError: ranks do not fit, or an axis has no elements.

    >>> import ingle.tensor as it
    >>> x = it.reshape(it.arange(12.0), (1, 3, 4))
    >>> values, indices = it.adaptive_max_pool2d(x, (1, 2), return_indices=True)
    >>> values.tolist(), indices.tolist()
    ([[[9.0, 11.0]]], [[[9, 11]]])
    """
    return _largest(2, x, output_size, return_indices)


@overload
def adaptive_max_pool3d(
    x: TensorLike, output_size: Size, *, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool3d(
    x: TensorLike, output_size: Size, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@guarded
def adaptive_max_pool3d(
    x: TensorLike, output_size: Size, *, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest elements of windows that cover volumes evenly; see `adaptive_max_pool2d`.

    Args:
        x: (batch, channels, depth, height, width), or without the batch.

    >>> import ingle.tensor as it
    >>> it.adaptive_max_pool3d(it.ones((2, 3, 5, 6, 7)), (2, 2, None)).shape
    (2, 3, 2, 2, 7)
    """
    return _largest(3, x, output_size, return_indices)


def _largest(
    rank: int, x: TensorLike, output_size: Size, return_indices: bool
) -> Tensor | tuple[Tensor, Tensor]:
    name = f"adaptive_max_pool{rank}d"
    images, alone = images_of(name, rank, x)
    size = wanted_size(name, images, output_size)
    shape = images.shape[2:]
    if not return_indices and _are_alike(shape, size):
        kernel = tuple([n // m for n, m in zip(shape, size, strict=True)])
        if math.prod(kernel) <= MOST_TAPS:
            attributes = pool_attributes(name, shape, kernel, None, 0, 1, False)
            out = run1(MAX_POOL.op(**attributes), images)
            return reshape(out, out.shape[1:]) if alone else out
    found = run(ADAPTIVE_MAX_POOL.op(size=size), (images,))
    out, index = (reshape(t, t.shape[1:]) if alone else t for t in found)
    return (out, index) if return_indices else out


def _are_alike(shape: Shape, size: Ints) -> bool:
    """Whether all windows have one size, and none shares an element with another."""
    return 0 not in (*shape, *size) and not any(n % m for n, m in zip(shape, size, strict=True))


def adaptive_max_pool(x: TensorLike, output_size: Size) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool1d`, `2d` or `3d` with indices, by the rank of images with a batch axis."""
    rank = len(handle_of(x, "adaptive_max_pool").shape) - 2
    found = _largest(rank, x, output_size, True)
    assert isinstance(found, tuple)
    return found


def _max_rule(x: Aval, *, size: Ints) -> tuple[Aval, Aval]:
    out = shape_rule("adaptive_max_pool", x, size)
    return out, Aval(out.shape, int64)


def _max_body(x: Tensor, *, size: Ints) -> tuple[Tensor, Tensor]:
    rank, images = len(size), x.shape[2:]
    if _are_alike(images, size):
        return _alike(x, size)
    index, inside = np.zeros((), np.int64), np.ones((), np.bool_)
    seen = x
    for axis, (n, count) in enumerate(zip(images, size, strict=True)):
        start, length = windows_of(n, count)
        taps = np.arange(int(length.max(initial=1)))
        at = np.minimum(start[:, None] + taps, max(0, n - 1))
        seen = take(seen, asarray(at, device=x.device), axis=2 + 2 * axis)
        index = index[..., None, None] * n + at
        inside = inside[..., None, None] & (taps < length[:, None])
    order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    elements = math.prod(index.shape[1::2])
    flat = (*size, elements)
    table = asarray(index.transpose(order).reshape(flat), device=x.device)
    mask = asarray(inside.transpose(order).reshape(flat), device=x.device)
    windowed = permute_dims(seen, (0, 1, *(2 + a for a in order)))
    shape = (*x.shape[:2], *size)
    kept = where(mask, reshape(windowed, (*x.shape[:2], *flat)), lowest(x.dtype))
    best = reshape(argmax(kept, axis=-1), (*shape, 1))
    places = take_along_axis(reshape(table, (1, 1, *flat)), best, axis=-1)
    return _largest_of(x, size), reshape(places, shape)


def _largest_of(x: Tensor, size: Ints) -> Tensor:
    """The largest elements alone, which is all that is computed where nobody asks for places."""
    for axis, count in enumerate(size, 2):
        start, length = windows_of(x.shape[axis], count)
        longest = int(length.max(initial=1))
        # The last element of a window stands in for what a longer one has behind it.
        at = np.minimum(start[:, None] + np.minimum(np.arange(longest), length[:, None] - 1),
                        max(0, x.shape[axis] - 1))  # fmt: skip
        if longest > SHORT:
            x = reduce_max(take(x, asarray(at, device=x.device), axis=axis), axis=axis + 1)
        else:
            x = reduce(maximum, [take(x, asarray(i, device=x.device), axis=axis) for i in at.T])
    return x


def _alike(x: Tensor, size: Ints) -> tuple[Tensor, Tensor]:
    """Of windows that are alike, one axis after the other, the last one first: of each row of a
    window its first largest element, then the first row with the largest of these."""
    images, counts = [*x.shape[2:]], [*size]
    while len(counts) > 1 and counts[-1] == 1:
        # Windows of whole rows are windows along the rows one behind the other.
        images[-2:] = [images[-2] * images[-1]]
        counts.pop()
    values, index = reshape(x, (*x.shape[:2], *images)), None
    for axis in range(1 + len(counts), 1, -1):
        n, count = values.shape[axis], counts[axis - 2]
        before, behind = values.shape[:axis], values.shape[axis + 1 :]
        windows = reshape(values, (*before, count, n // count, *behind))
        first = (np.arange(count) * (n // count)).reshape(count, *[1] * len(behind))
        here = argmax(windows, axis=axis + 1) + asarray(first, device=x.device)
        values = take_along_axis(values, here, axis=axis)
        if index is None:
            index = here
        else:
            along = take_along_axis(index, here, axis=axis)
            index = here * math.prod(images[axis - 1 :]) + along
    assert index is not None, "images have an axis"
    shape = (*x.shape[:2], *size)
    return reshape(values, shape), reshape(index, shape)


def _max_gradient(g: tuple[Tensor, Any], index: Tensor, x_aval: Aval) -> Tensor:
    return add_at(g[0], index, x_aval.shape[2:])


def _samples(draw: Draw) -> Iterator[Sample]:
    make = draw.apart if draw.dtype.is_inexact else draw.array
    if draw.dtype.kind in REAL:
        for shape, size in CASES:
            yield Sample((make(shape), size))


def _reference(x: Any, output_size: Any) -> Any:
    wanted = wanted_by(x.shape[2:], output_size)
    out: Any = np.zeros((*x.shape[:2], *wanted), x.dtype)
    index: Any = np.zeros(out.shape, np.int64)
    places = np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:])
    for at, piece in clipped_windows(x.shape[2:], wanted):
        seen = x[(..., *piece)].reshape(*x.shape[:2], places[piece].size)
        out[(..., *at)] = np.max(seen, axis=-1)
        index[(..., *at)] = places[piece].ravel()[np.argmax(seen, axis=-1)]
    return out, index


ADAPTIVE_MAX_POOL = Operation(
    "adaptive_max_pool",
    tensors=("x",),
    statics=("size",),
    outputs=("out", "index"),
    rule=_max_rule,
    traits=Traits("opaque"),
    vjp={"x": _max_gradient},
    body=_max_body,
    public=adaptive_max_pool,
    samples=_samples,
    reference=_reference,
)
