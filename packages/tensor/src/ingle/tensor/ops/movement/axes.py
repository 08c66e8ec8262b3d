"""Axes added, dropped, merged and moved, without touching the elements' order in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...contract import Shape
from ...dispatch import TensorLike, handle_of
from ...errors import ArgumentError, AxisError, ShapeError
from .. import _rules
from .._guarding import guarded
from .._rules import as_ints, normalize_axes, normalize_axis
from .shapes import broadcast_to, permute_dims, reshape

if TYPE_CHECKING:
    from ...tensor import Tensor


def squeeze(x: TensorLike, /, axis: int | Sequence[int] | None = None) -> Tensor:
    """The tensor without axes of size 1.

    Args:
        x: a tensor.
        axis: which axes to drop; None for all of size 1.

    Raises:
        ShapeError: an axis to drop has another size than 1.

    >>> import ingle.tensor as it
    >>> it.squeeze(it.zeros((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    shape = handle_of(x, "squeeze").shape
    if axis is None:
        drop: tuple[int, ...] = tuple(i for i, n in enumerate(shape) if n == 1)
    else:
        drop = normalize_axes(axis, len(shape), "squeeze")
    wide = [i for i in drop if shape[i] != 1]
    if wide:
        raise ShapeError(
            f"squeeze: axis {wide[0]} of shape {shape} has size {shape[wide[0]]}, only axes of "
            "size 1 can be dropped"
        )
    return reshape(x, tuple(n for i, n in enumerate(shape) if i not in drop))


def expand_dims(x: TensorLike, /, axis: int | Sequence[int] = 0) -> Tensor:
    """The tensor with new axes of size 1, which are the axes `axis` of the result.

    Args:
        x: a tensor.
        axis: one axis or several; negative ones count from the end of the result.

    >>> import ingle.tensor as it
    >>> it.expand_dims(it.zeros((2, 3)), axis=1).shape
    (2, 1, 3)
    """
    shape = handle_of(x, "expand_dims").shape
    ndim = len(shape) + (len(axis) if isinstance(axis, (tuple, list)) else 1)
    new = normalize_axes(axis, ndim, "expand_dims")
    sizes = iter(shape)
    return reshape(x, tuple(1 if i in new else next(sizes) for i in range(ndim)))


def moveaxis(
    x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int], /
) -> Tensor:
    """The tensor with some axes moved to other places; the others keep their order.

    Args:
        x: a tensor.
        source: the axes to move.
        destination: where each of them goes.

    Raises:
        AxisError: there is no such axis, or `source` and `destination` name not as many.

    >>> import ingle.tensor as it
    >>> it.moveaxis(it.zeros((2, 3, 5)), 0, -1).shape
    (3, 5, 2)
    """
    ndim = len(handle_of(x, "moveaxis").shape)
    old = _in_order(source, ndim, "source")
    new = _in_order(destination, ndim, "destination")
    if len(old) != len(new):
        raise AxisError(
            f"moveaxis: source and destination must name as many axes, got {source} and "
            f"{destination}"
        )
    order = [i for i in range(ndim) if i not in old]
    for to, axis in sorted(zip(new, old, strict=True)):
        order.insert(to, axis)
    return permute_dims(x, order)


def _in_order(axes: int | Sequence[int], ndim: int, argument: str) -> list[int]:
    normalize_axes(axes, ndim, "moveaxis", argument)
    return [a % ndim for a in as_ints(axes, "moveaxis", argument)]


def swapaxes(x: TensorLike, axis1: int, axis2: int, /) -> Tensor:
    """The tensor with two axes exchanged.

    Args:
        x: a tensor.
        axis1, axis2: the axes; negative ones count from the end.

    >>> import ingle.tensor as it
    >>> it.swapaxes(it.zeros((2, 3, 5)), 0, 2).shape
    (5, 3, 2)
    """
    ndim = len(handle_of(x, "swapaxes").shape)
    a = normalize_axis(axis1, ndim, "swapaxes", "axis1")
    b = normalize_axis(axis2, ndim, "swapaxes", "axis2")
    order = list(range(ndim))
    order[a], order[b] = b, a
    return permute_dims(x, order)


@guarded
def flatten(x: TensorLike, /, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Neighbouring axes as one, in row-major order; a 0-d tensor gets one axis of size 1.

    Args:
        x: a tensor.
        start_axis, end_axis: the first and the last of the axes to merge.

    Raises:
        AxisError: `start_axis` comes after `end_axis`.

    >>> import ingle.tensor as it
    >>> it.flatten(it.zeros((2, 3, 5)), 1).shape
    (2, 15)
    """
    shape = handle_of(x, "flatten").shape
    if not shape:
        return reshape(x, (1,))
    first = normalize_axis(start_axis, len(shape), "flatten", "start_axis")
    last = normalize_axis(end_axis, len(shape), "flatten", "end_axis")
    if first > last:
        raise AxisError(
            f"flatten: start_axis={start_axis} comes after end_axis={end_axis} in shape {shape}"
        )
    merged = math.prod(shape[first : last + 1])
    return reshape(x, (*shape[:first], merged, *shape[last + 1 :]))


@guarded
def broadcast_arrays(*arrays: TensorLike) -> tuple[Tensor, ...]:
    """Each tensor broadcast to the shape that all have in common.

    Args:
        arrays: tensors of shapes that broadcast.

    Raises:
        ShapeError: the shapes do not broadcast.

    >>> import ingle.tensor as it
    >>> [x.shape for x in it.broadcast_arrays(it.zeros((3, 1)), it.zeros(2))]
    [(3, 2), (3, 2)]
    """
    shapes = [handle_of(x, "broadcast_arrays", f"arrays[{i}]").shape for i, x in enumerate(arrays)]
    if not shapes:
        return ()
    names = [f"arrays[{i}]" for i in range(len(shapes))]
    common = _rules.broadcast_shapes("broadcast_arrays", *shapes, arguments=names)
    return tuple([broadcast_to(x, common) for x in arrays])


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """The shape that tensors of some shapes broadcast to; that of none is ().

    Args:
        shapes: sequences of sizes, none of them negative.

    Raises:
        ShapeError: the shapes do not broadcast.

    >>> import ingle.tensor as it
    >>> it.broadcast_shapes((3, 1), (2,))
    (3, 2)
    """
    name = "broadcast_shapes"
    names = [f"shapes[{i}]" for i in range(len(shapes))]
    for argument, shape in zip(names, shapes, strict=True):
        if not isinstance(shape, (tuple, list)):
            raise ArgumentError(f"{name}: {argument} must be a tuple of sizes, got {shape!r:.60}")
    sizes = [_rules.as_shape(s, name, n) for s, n in zip(shapes, names, strict=True)]
    return _rules.broadcast_shapes(name, *sizes, arguments=names) if sizes else ()
