"""Reshaping, permuting, broadcasting."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ...contract import Aval, Handle, Shape
from ...dispatch import TensorLike, handle_of, run1, wrap
from ...errors import AxisError, ShapeError
from ...operation import Op, Operation, Traits
from ...sample import Draw, Sample
from .._batching import broadcast_batch, permute_batch, reshape_batch
from .._rules import as_ints, as_shape, broadcast_shapes, normalize_axis, sum_to

if TYPE_CHECKING:
    from ...tensor import Tensor

MOVEMENT = Traits("movement", family="movement")


def reshape(x: TensorLike, /, shape: int | Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The same elements in row-major order in another shape.

    Args:
        x: a tensor.
        shape: the new shape; one size may be -1 and is then computed.
        copy: accepted for the standard's sake; tensors never change, so it makes no difference.

    Raises:
        ShapeError: the shapes have different numbers of elements.

    >>> import ingle.tensor as it
    >>> it.reshape(it.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    handle = handle_of(x, "reshape")
    sizes = as_ints(shape, "reshape", "shape")
    return reshaped(handle, _filled_in(sizes, handle.shape) if -1 in sizes else sizes)


def _filled_in(shape: Shape, old: Shape) -> Shape:
    count, rest = math.prod(old), math.prod([n for n in shape if n != -1])
    if shape.count(-1) > 1 or rest <= 0 or count % rest:
        raise ShapeError(
            f"reshape: cannot find the size -1 of {shape} for a tensor of shape {old} "
            f"({count} elements)"
        )
    return tuple([count // rest if n == -1 else n for n in shape])


def _reshape_rule(x: Aval, *, shape: Shape) -> Aval:
    if math.prod(shape) != math.prod(x.shape):
        raise ShapeError(
            f"reshape: shape must have as many elements as x {x.shape}, {math.prod(x.shape)}, got "
            f"{shape} with {math.prod(shape)}"
        )
    return Aval(shape, x.dtype)


def _reshape_samples(draw: Draw) -> Iterator[Sample]:
    a, b, c = draw.shape((2, 3, 5))
    yield Sample((draw.array((a, b, c)), (c, a * b)))
    yield Sample((draw.array((4 * a,)), (2, -1)))
    yield Sample((draw.array((0, b)), (b, 0)))
    yield Sample((draw.array((1,)), ()))


RESHAPE = Operation(
    "reshape",
    tensors=("x",),
    statics=("shape",),
    rule=_reshape_rule,
    traits=MOVEMENT,
    vjp={"x": lambda g, x_aval: reshape(g, x_aval.shape)},
    batch=reshape_batch,
    public=reshape,
    samples=_reshape_samples,
    reference=np.reshape,
)


def reshaped(handle: Handle, shape: Shape) -> Tensor:
    """`reshape` to a tuple of integers, all of them known."""
    return wrap(handle) if shape == handle.shape else run1(_reshape_op(shape), handle)


def permute_dims(x: TensorLike, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order: axis i of the result is axis `axes[i]` of `x`.

    Args:
        x: a tensor.
        axes: each axis of `x` once.

    >>> import ingle.tensor as it
    >>> it.permute_dims(it.zeros((2, 3, 5)), (2, 0, 1)).shape
    (5, 2, 3)
    """
    handle = handle_of(x, "permute_dims")
    op = _permute_op(as_ints(axes, "permute_dims", "axes"), len(handle.shape))
    return wrap(handle) if op is None else run1(op, handle)


@lru_cache(maxsize=4096)
def _permute_op(axes: tuple[int, ...], ndim: int) -> Op | None:
    """The operation; None if all axes stay where they are."""
    order = tuple(normalize_axis(a, ndim, "permute_dims", "axes") for a in axes)
    if sorted(order) != list(range(ndim)):
        raise AxisError(f"permute_dims: axes={axes} must name each of {ndim} axes once")
    return None if order == tuple(range(ndim)) else PERMUTE_DIMS.op(axes=order)


def _permute_rule(x: Aval, *, axes: tuple[int, ...]) -> Aval:
    return Aval(tuple(x.shape[a] for a in axes), x.dtype)


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=lambda i: axes[i]))


def _permute_samples(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((2, 3, 5)), (2, 0, 1)))
    yield Sample((draw.array((3, 0)), (-1, 0)))
    yield Sample((draw.array((17, 2)), (1, 0)))


PERMUTE_DIMS = Operation(
    "permute_dims",
    tensors=("x",),
    statics=("axes",),
    rule=_permute_rule,
    traits=MOVEMENT,
    vjp={"x": lambda g, axes: permute_dims(g, _inverse(axes))},
    batch=permute_batch,
    public=permute_dims,
    samples=_permute_samples,
    reference=np.transpose,
)


def broadcast_to(x: TensorLike, /, shape: int | Sequence[int]) -> Tensor:
    """The tensor repeated along axes of size 1 and along new leading axes.

    Args:
        x: a tensor.
        shape: one that the shape of `x` broadcasts to.

    >>> import ingle.tensor as it
    >>> it.broadcast_to(it.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    handle = handle_of(x, "broadcast_to")
    target = as_ints(shape, "broadcast_to", "shape")
    return wrap(handle) if target == handle.shape else run1(_broadcast_op(target), handle)


@lru_cache(maxsize=4096)
def _broadcast_op(shape: Shape) -> Op:
    return BROADCAST_TO.op(shape=as_shape(shape, "broadcast_to"))


def _broadcast_rule(x: Aval, *, shape: Shape) -> Aval:
    if broadcast_shapes("broadcast_to", x.shape, shape, arguments=("x", "shape")) != shape:
        raise ShapeError(
            f"broadcast_to: shape must be one that x {x.shape} broadcasts to, got {shape}"
        )
    return Aval(shape, x.dtype)


def _broadcast_samples(draw: Draw) -> Iterator[Sample]:
    a, b, c = draw.shape((2, 3, 5))
    yield Sample((draw.array((b, 1)), (a, b, c)))
    yield Sample((draw.array(()), (b,)))
    yield Sample((draw.array((1, b)), (0, b)))


BROADCAST_TO = Operation(
    "broadcast_to",
    tensors=("x",),
    statics=("shape",),
    rule=_broadcast_rule,
    traits=MOVEMENT,
    vjp={"x": lambda g, x_aval: sum_to(g, x_aval.shape)},
    batch=broadcast_batch,
    public=broadcast_to,
    samples=_broadcast_samples,
    reference=np.broadcast_to,
)


# These functions are called more than any other. What depends on their static arguments alone,
# the checks included, is worth remembering.


@lru_cache(maxsize=4096)
def _reshape_op(shape: Shape) -> Op:
    return RESHAPE.op(shape=as_shape(shape, "reshape"))
