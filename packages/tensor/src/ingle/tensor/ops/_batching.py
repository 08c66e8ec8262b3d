"""Batching rules: operations over values that have a batch axis in front.

A rule gets a tuple that says which inputs have the axis, then the inputs and the attributes, all
meant for one element; its results have the axis in front. See `batch` of `Operation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..contract import Aval, Shape

if TYPE_CHECKING:
    from ..tensor import Tensor

Batched = tuple[bool, ...]


def repeated(x: Tensor, size: int) -> Tensor:
    """A value that is the same for all elements, with the batch axis."""
    from .movement.shapes import broadcast_to

    return broadcast_to(x, (size, *x.shape))


def summed(x: Tensor) -> Tensor:
    """The sum over the batch."""
    from .reductions.basic import sum as reduce_sum

    return reduce_sum(x, axis=0)


def with_axes(x: Tensor, ndim: int) -> Tensor:
    """A batch of values of `ndim` axes each, where axes are added in front of those there are."""
    from .movement.shapes import reshape

    missing = ndim + 1 - x.ndim
    return reshape(x, (x.shape[0], *(1,) * missing, *x.shape[1:])) if missing > 0 else x


def element(x: Tensor, i: int) -> Tensor:
    """One element of a batch."""
    from .movement.shapes import reshape
    from .movement.slicing import slice_axis

    return reshape(slice_axis(x, 0, i, 1), x.shape[1:])


def joined(parts: Sequence[Tensor], aval: Aval) -> Tensor:
    """Elements as a batch; an empty one of this shape and dtype without any."""
    from .creation.filled import zeros
    from .movement.joining import stack

    return stack(parts) if parts else zeros((0, *aval.shape), dtype=aval.dtype)


def all_batched(batched: Batched, tensors: Sequence[Tensor]) -> list[Tensor]:
    """All values with the batch axis, repeated where they had none."""
    size = next(x.shape[0] for x, b in zip(tensors, batched, strict=True) if b)
    return [x if b else repeated(x, size) for x, b in zip(tensors, batched, strict=True)]


def positions(indices: Tensor, length: int) -> Tensor:
    """Indices (batch, n) into axes of a length as places in all of the axes, one after another.

    Looked up in a table and not computed, so that negative indices count from the end and those
    out of range are refused as for one element.
    """
    from .creation.ranges import arange
    from .indexing.gathering import take_along_axis
    from .movement.shapes import reshape

    size = indices.shape[0]
    table = arange(size * length, dtype=indices.dtype, device=indices.device)
    return take_along_axis(reshape(table, (size, length)), indices, axis=1)


def reshape_batch(batched: Batched, x: Tensor, *, shape: Shape) -> Tensor:
    from .movement.shapes import reshape

    return reshape(x, (x.shape[0], *shape))


def permute_batch(batched: Batched, x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    from .movement.shapes import permute_dims

    return permute_dims(x, (0, *[a + 1 for a in axes]))


def broadcast_batch(batched: Batched, x: Tensor, *, shape: Shape) -> Tensor:
    from .movement.shapes import broadcast_to

    return broadcast_to(with_axes(x, len(shape)), (x.shape[0], *shape))


def concat_batch(batched: Batched, *arrays: Tensor, axis: int) -> Tensor:
    from .movement.joining import concat

    return concat(all_batched(batched, arrays), axis=axis + 1)


def slice_batch(batched: Batched, x: Tensor, *starts: Any, sizes: Shape, steps: Shape) -> Tensor:
    """Axes whose starts are the same for all are sliced, the others gathered."""
    from .indexing.gathering import take_along_axis
    from .movement.shapes import reshape
    from .movement.slicing import slice as slice_

    moving = [axis for axis, b in enumerate(batched[1:]) if b]
    size = x.shape[0] if batched[0] else starts[moving[0]].shape[0]
    if not batched[0]:
        x = repeated(x, size)
    kept = [0 if a in moving else s for a, s in enumerate(starts)]
    lengths = [x.shape[a + 1] if a in moving else n for a, n in enumerate(sizes)]
    strides = [1 if a in moving else s for a, s in enumerate(steps)]
    x = slice_(x, (0, *kept), (size, *lengths), (1, *strides))
    for axis in moving:
        places = _run_of(starts[axis], sizes[axis], steps[axis])
        shape = [size] + [1] * len(sizes)
        shape[axis + 1] = sizes[axis]
        x = take_along_axis(x, reshape(places, tuple(shape)), axis=axis + 1)
    return x


def _run_of(start: Tensor, size: int, step: int) -> Tensor:
    """Places (batch, size) from a start for each element."""
    from .creation.ranges import arange
    from .movement.shapes import reshape

    run = arange(size, dtype=start.dtype, device=start.device)
    return reshape(start, (start.shape[0], 1)) + run * step


def update_batch(batched: Batched, x: Tensor, y: Tensor, *starts: Any, steps: Shape) -> Tensor:
    """A slice of the whole batch, or where starts differ one replaced element by element."""
    from .indexing.scattering import scatter_set
    from .movement.shapes import reshape
    from .movement.slicing import slice_update

    if not any(batched[2:]):
        x, y = all_batched(batched[:2], (x, y))
        return slice_update(x, y, (0, *starts), (1, *steps))
    size = next(t.shape[0] for t, b in zip((x, y, *starts), batched, strict=True) if b)
    x, y = [t if b else repeated(t, size) for t, b in zip((x, y), batched[:2], strict=True)]
    shape = x.shape[1:]
    places: Any = None
    for axis, (start, b) in enumerate(zip(starts, batched[2:], strict=True)):
        along = _places_along(start if b else None, start, axis, x, y, steps)
        places = along if places is None else places * shape[axis] + along
    flat = reshape(places, (size, math.prod(y.shape[1:])))
    count = math.prod(shape)
    where = reshape(positions(flat, count), (flat.size,))
    done = scatter_set(reshape(x, (size * count,)), where, reshape(y, (flat.size,)), axis=0)
    return reshape(done, x.shape)


def _places_along(
    differing: Tensor | None, start: Any, axis: int, x: Tensor, y: Tensor, steps: Shape
) -> Tensor:
    """Places along one axis, checked and counted from 0, of the shape of `y`."""
    from .creation.filled import full
    from .creation.ranges import arange
    from .indexing.gathering import take
    from .movement.shapes import broadcast_to, reshape

    size, length, count = x.shape[0], x.shape[axis + 1], y.shape[axis + 1]
    if differing is None:
        differing = full((size,), 0, dtype="int64", device=x.device) + start
    run = _run_of(differing.astype("int64"), count, steps[axis])
    run = take(arange(length, dtype="int64", device=x.device), run)
    shape = [size] + [1] * (y.ndim - 1)
    shape[axis + 1] = count
    return broadcast_to(reshape(run, tuple(shape)), y.shape)


def take_batch(batched: Batched, x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    from .indexing.gathering import take, take_along_axis
    from .movement.axes import moveaxis
    from .movement.shapes import reshape

    if not batched[1]:
        return take(x, indices, axis=axis + 1)
    if not batched[0]:
        return moveaxis(take(x, indices, axis=axis), axis, 0)
    size, shape = indices.shape[0], x.shape[1:]
    count = math.prod(indices.shape[1:])
    around = [1] * len(shape)
    around[axis] = count
    found = take_along_axis(x, reshape(indices, (size, *around)), axis=axis + 1)
    return reshape(found, (size, *shape[:axis], *indices.shape[1:], *shape[axis + 1 :]))


def along_batch(batched: Batched, x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    from .indexing.gathering import take_along_axis

    x, indices = all_batched(batched, (x, indices))
    return take_along_axis(x, indices, axis=axis + 1)


def scatter_batch(public: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The rule of a scatter: the axes of the batch become one long axis."""

    def rule(batched: Batched, x: Tensor, indices: Tensor, updates: Tensor, *, axis: int) -> Tensor:
        from .movement.axes import moveaxis
        from .movement.shapes import reshape

        if not batched[1]:
            x, updates = all_batched((batched[0], batched[2]), (x, updates))
            return public(x, indices, updates, axis=axis + 1)
        x, indices, updates = all_batched(batched, (x, indices, updates))
        size, count = indices.shape[0], math.prod(indices.shape[1:])
        moved = moveaxis(x, axis + 1, 1)
        length, rest = moved.shape[1], moved.shape[2:]
        one = (size, *x.shape[1 : axis + 1], count, *x.shape[axis + 2 :])
        rows = reshape(moveaxis(reshape(updates, one), axis + 1, 1), (size * count, *rest))
        places = reshape(positions(reshape(indices, (size, count)), length), (size * count,))
        done = public(reshape(moved, (size * length, *rest)), places, rows, axis=0)
        return moveaxis(reshape(done, moved.shape), 1, axis + 1)

    return rule


def matmul_batch(batched: Batched, x1: Tensor, x2: Tensor) -> Tensor:
    """Stacks of matrices; a vector is a matrix of one row or column."""
    from .linear_algebra.products import matmul
    from .movement.shapes import reshape

    row, column = x1.ndim - batched[0] == 1, x2.ndim - batched[1] == 1
    if row:
        x1 = reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1]))
    if column:
        x2 = reshape(x2, (*x2.shape, 1))
    ndim = max(x1.ndim - batched[0], x2.ndim - batched[1])
    a, b = [with_axes(x, ndim) if f else x for x, f in zip((x1, x2), batched, strict=True)]
    out = matmul(a, b)
    shape = out.shape[:-2] + (() if row else out.shape[-2:-1]) + (() if column else out.shape[-1:])
    return reshape(out, shape)


def solve_batch(batched: Batched, x1: Tensor, x2: Tensor) -> Tensor:
    from .linear_algebra.linear_systems import solve

    ndim = max(x1.ndim - batched[0], x2.ndim - batched[1])
    a, b = [with_axes(x, ndim) if f else x for x, f in zip((x1, x2), batched, strict=True)]
    return solve(a, b)


def full_batch(batched: Batched, fill_value: Tensor, *, shape: Shape, dtype: Any) -> Tensor:
    from .elementwise.cast import astype

    return broadcast_batch(batched, astype(fill_value, dtype), shape=shape)


def conv_batch(
    batched: Batched, x: Tensor, weight: Tensor, *, groups: int, **window: Any
) -> Tensor:
    """The batch joins the images, or the groups where each element has its own weight."""
    from .convolution.forward import conv
    from .movement.shapes import permute_dims, reshape

    if not batched[1]:
        size, images = x.shape[:2]
        merged = reshape(x, (size * images, *x.shape[2:]))
        out = conv(merged, weight, groups=groups, **window)
        return reshape(out, (size, images, *out.shape[1:]))
    if not batched[0]:
        x = repeated(x, weight.shape[0])
    size, images, channels = x.shape[:3]
    order = (1, 0, *range(2, x.ndim))
    beside = reshape(permute_dims(x, order), (images, size * channels, *x.shape[3:]))
    features = weight.shape[1]
    stacked = reshape(weight, (size * features, *weight.shape[2:]))
    out = conv(beside, stacked, groups=size * groups, **window)
    return permute_dims(reshape(out, (images, size, features, *out.shape[2:])), order)
