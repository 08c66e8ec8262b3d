"""Elements of a tensor in other places: strides, sliding windows, and where a mask says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...dispatch import TensorLike, handle_of, promote_tensors, wrap
from ...dtypes import int64
from ...errors import ArgumentError, DTypeError, ShapeError
from .._guarding import guarded
from .._rules import as_int, as_ints, as_shape, broadcast_shapes, normalize_axis
from ..creation.filled import zeros
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.where import where
from ..indexing.gathering import take
from ..scans.cumulative import cumulative_sum
from .axes import moveaxis
from .shapes import broadcast_to, reshape

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def as_strided(
    x: TensorLike, size: Sequence[int], strides: Sequence[int], offset: int = 0, /
) -> Tensor:
    """The elements of a tensor at `offset + sum(index * strides)` in row-major order.

    Positions count elements of `x` as if it lay in rows, whatever memory looks like. Elements that
    occur several times get the sum of their gradients.

    Args:
        x: a tensor.
        size: of the result.
        strides: how many elements a step along each axis is; may be 0 or negative.
        offset: the position of the first element.

    Raises:
        ArgumentError: a position lies outside of `x`.

    >>> import ingle.tensor as it
    >>> it.as_strided(it.arange(5), (3, 2), (1, 2)).tolist()
    [[0, 2], [1, 3], [2, 4]]
    """
    name = "as_strided"
    handle = handle_of(x, name)
    sizes, steps = as_shape(size, name, "size"), as_ints(strides, name, "strides")
    first = as_int(offset, name, "offset")
    if len(sizes) != len(steps):
        raise ArgumentError(
            f"{name}: strides must have a number for each of size={sizes}, got {steps}"
        )
    count = math.prod(handle.shape)
    reach = [(n - 1) * s for n, s in zip(sizes, steps, strict=True)]
    least, most = (first + sum(f(r, 0) for r in reach) for f in (min, max))
    if 0 in sizes:
        return zeros(sizes, dtype=handle.dtype, device=wrap(handle).device)
    if least < 0 or most >= count:
        raise ArgumentError(
            f"{name}: size={sizes}, strides={steps} and offset={first} reach from element {least} "
            f"to {most}; they must stay within the {count} elements of x, of shape {handle.shape}"
        )
    device = wrap(handle).device
    places = arange(first, first + 1, dtype=int64, device=device)
    for n, s in zip(sizes, steps, strict=True):
        places = reshape(places, (*places.shape, 1)) + arange(n, dtype=int64, device=device) * s
    return take(reshape(x, (count,)), reshape(places, sizes), axis=0)


@guarded
def sliding_window_view(
    x: TensorLike,
    window_shape: int | Sequence[int],
    /,
    *,
    axis: int | Sequence[int] | None = None,
    step: int | Sequence[int] = 1,
) -> Tensor:
    """Windows that slide along axes, with the elements of each along new axes at the end.

    Args:
        x: a tensor.
        window_shape: the windows' size along each of the axes.
        axis: which axes; all if not given. One that is named twice has windows of windows.
        step: how far windows move along each axis; one number for all of them.

    Returns:
        Along each axis the windows, `(size - window) // step + 1`, and behind all axes the sizes of
        a window.

    Raises:
        ShapeError: a window is larger than the axis.

    >>> import ingle.tensor as it
    >>> it.sliding_window_view(it.arange(4), 2).tolist()
    [[0, 1], [1, 2], [2, 3]]
    >>> it.sliding_window_view(it.arange(5), 3, step=2).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    name = "sliding_window_view"
    out = wrap(handle_of(x, name))
    windows = as_ints(window_shape, name, "window_shape")
    axes = tuple(range(out.ndim)) if axis is None else as_ints(axis, name, "axis")
    places = [normalize_axis(a, out.ndim, name) for a in axes]
    steps = as_ints(step, name, "step")
    steps = steps * len(windows) if len(steps) == 1 else steps
    if not len(windows) == len(places) == len(steps):
        raise ArgumentError(
            f"{name}: window_shape={windows} and step={steps} must have a number for each of the "
            f"axes {tuple(places)}"
        )
    for place, window, by in zip(places, windows, steps, strict=True):
        size = out.shape[place]
        if not 0 <= window <= size or by < 1:
            raise ShapeError(
                f"{name}: window_shape={window} with step={by} does not fit axis {place} of shape "
                f"{out.shape}; it must be from 0 to {size}, and step at least 1"
            )
        starts = arange(0, size - window + 1, by, dtype=int64, device=out.device)
        within = arange(window, dtype=int64, device=out.device)
        out = moveaxis(take(out, reshape(starts, (-1, 1)) + within, axis=place), place + 1, -1)
    return out


@guarded
def masked_scatter(x: TensorLike, mask: TensorLike, source: TensorLike, /) -> Tensor:
    """`x` with the elements of another tensor, one after the other, where a mask is true.

    Args:
        x: a tensor.
        mask: a bool tensor that broadcasts to the shape of `x`.
        source: a tensor of any shape, promoted to one dtype with `x`: its elements in row-major
            order go to the true places in row-major order. What is left over is not used.

    Raises:
        OutOfRangeError: the mask is true more often than there are elements.

    >>> import ingle.tensor as it
    >>> it.masked_scatter(it.zeros(4), it.asarray([True, False, True, False]), it.ones(3)).tolist()
    [1.0, 0.0, 1.0, 0.0]
    """
    name = "masked_scatter"
    chosen = wrap(handle_of(mask, name, "mask"))
    if chosen.dtype.kind != "bool":
        raise DTypeError(f"{name}: mask must be bool, got {chosen.dtype}; compare first")
    a, b = promote_tensors(name, ("x", x), ("source", source))
    if broadcast_shapes(name, chosen.shape, a.shape, arguments=("mask", "x")) != a.shape:
        raise ShapeError(f"{name}: mask {chosen.shape} must broadcast to the shape {a.shape} of x")
    flat = reshape(broadcast_to(chosen, a.shape), (-1,))
    values = reshape(b, (-1,))
    number = cumulative_sum(astype(flat, int64))
    if not b.size:  # Then every true place is one too many.
        values, number = zeros((1,), dtype=b.dtype, device=b.device), number + 1
    found = take(values, where(flat, number - 1, 0), axis=0)
    return reshape(where(flat, found, reshape(a, (-1,))), a.shape)
