"""Undoing max pooling: each maximum back at the place where it was found, zeros elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle
from ...dispatch import TensorLike, handle_of, run2
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import NUMERIC, as_shape
from ..convolution._windows import Ints, PerAxis, per_axis
from ..images._places import read_at, write_at
from ..movement.shapes import reshape

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def max_unpool1d(
    x: TensorLike,
    indices: TensorLike,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts maxima of sequences back where they were; see `max_unpool2d` for the arguments.

    Args:
        x: (batch, channels, length), or without the batch.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[1.0, 3.0, 4.0, 2.0]])
    >>> it.max_unpool1d(*it.max_pool1d(x, 2, return_indices=True), 2).tolist()
    [[0.0, 3.0, 4.0, 0.0]]
    """
    return _unpool(1, x, indices, kernel_size, stride, padding, output_size)


@guarded
def max_unpool2d(
    x: TensorLike,
    indices: TensorLike,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts maxima of pictures back where they were found, with zeros elsewhere.

    Where several have one place the last stays; the gradient goes to all of them.

    Args:
        x: (batch, channels, height, width), or without the batch: the maxima.
        indices: integers of the same shape, as `max_pool2d` returns them: positions in row-major
            order of the result's image axes.
        kernel_size, stride, padding: of the pooling; they say how large the result is.
        output_size: the image sizes of the result, where the pooling's input had others than
            (size - 1) * stride - 2 * padding + kernel_size; batch and channels may stand in front.

    Raises:
        ShapeError: `x` and `indices` differ, or ranks do not fit.
        OutOfRangeError: an index points outside of the result.

    >>> import ingle.tensor as it
    >>> it.max_unpool2d(it.ones((1, 1, 1)), it.asarray([[[2]]]), 2).tolist()
    [[[0.0, 0.0], [1.0, 0.0]]]
    """
    return _unpool(2, x, indices, kernel_size, stride, padding, output_size)


@guarded
def max_unpool3d(
    x: TensorLike,
    indices: TensorLike,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts maxima of volumes back where they were; see `max_unpool2d` for the arguments.

    Args:
        x: (batch, channels, depth, height, width), or without the batch.

    >>> import ingle.tensor as it
    >>> x = it.ones((1, 2, 4, 4, 4))
    >>> it.max_unpool3d(*it.max_pool3d(x, 2, return_indices=True), 2).shape
    (1, 2, 4, 4, 4)
    """
    return _unpool(3, x, indices, kernel_size, stride, padding, output_size)


def _unpool(
    rank: int, x: TensorLike, indices: TensorLike, kernel_size: object, stride: object,
    padding: object, output_size: Sequence[int] | None,
) -> Tensor:  # fmt: skip
    name = f"max_unpool{rank}d"
    values, places = _checked(name, x, indices)
    shape = values.shape
    if len(shape) not in (rank + 1, rank + 2):
        raise ShapeError(
            f"{name}: x must be (batch, channels, *size) with {rank} image axes, or without the "
            f"batch, got shape {shape}"
        )
    kernel = per_axis(kernel_size, rank, name, "kernel_size")
    steps = kernel if stride is None else per_axis(stride, rank, name, "stride")
    around = per_axis(padding, rank, name, "padding", least=0)
    size = tuple(
        (n - 1) * s - 2 * p + k
        for n, k, s, p in zip(shape[-rank:], kernel, steps, around, strict=True)
    )
    if output_size is not None:
        size = as_shape(output_size, name, "output_size")[-rank:]
    if len(size) != rank or min(size) < 0:
        raise ArgumentError(
            f"{name}: output_size must give {rank} sizes, none negative, got {output_size!r} "
            f"(which means {size})"
        )
    if len(shape) == rank + 2:
        return run2(MAX_UNPOOL.op(size=size), values, places)
    one = (reshape(t, (1, *shape))._handle for t in (x, indices))
    out = run2(MAX_UNPOOL.op(size=size), *one)
    return reshape(out, out.shape[1:])


def _checked(name: str, x: TensorLike, indices: TensorLike) -> tuple[Handle, Handle]:
    values, places = handle_of(x, name), handle_of(indices, name, "indices")
    if places.shape != values.shape:
        raise ShapeError(
            f"{name}: indices must have the shape {values.shape} of x, got {places.shape}"
        )
    if not places.dtype.is_integer:
        raise DTypeError(f"{name}: indices must be integers, got {places.dtype}")
    if values.dtype.kind not in NUMERIC:
        raise DTypeError(f"{name}: x must be numbers, got {values.dtype}; cast it first")
    return values, places


@guarded
def max_unpool(x: TensorLike, indices: TensorLike, output_size: Sequence[int]) -> Tensor:
    """`max_unpool1d`, `2d` or `3d` to image sizes, by the rank of images with a batch axis."""
    handles = _checked("max_unpool", x, indices)
    return run2(MAX_UNPOOL.op(size=as_shape(output_size, "max_unpool", "output_size")), *handles)


def _rule(x: Aval, indices: Aval, *, size: Ints) -> Aval:
    return Aval((*x.shape[:2], *size), x.dtype)


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind not in NUMERIC:
        return
    cases: tuple[tuple[Ints, Ints], ...] = (
        ((2, 3, 2, 3), (5, 8)), ((3, 2, 8), (17,)), ((0, 2, 3), (5,)),
    )  # fmt: skip
    for shape, size in ((draw.shape(a), draw.shape(b)) for a, b in cases):
        planes, each = math.prod(shape[:2]), math.prod(shape[2:])
        places = draw.rng.permuted(np.tile(np.arange(math.prod(size)), (planes, 1)), axis=1)
        yield Sample((draw.array(shape), places[:, :each].reshape(shape), size))


def _reference(x: Any, indices: Any, output_size: Any) -> Any:
    out = np.zeros((*x.shape[:2], math.prod(output_size)), x.dtype)
    for at in np.ndindex(*x.shape):
        out[(*at[:2], int(indices[at]))] = x[at]
    return out.reshape(*x.shape[:2], *output_size)


MAX_UNPOOL = Operation(
    "max_unpool",
    tensors=("x", "indices"),
    statics=("size",),
    rule=_rule,
    traits=Traits("opaque"),
    vjp={"x": lambda g, indices: read_at(g, indices)},
    body=lambda x, indices, *, size: write_at(x, indices, size),
    public=max_unpool,
    samples=_samples,
    reference=_reference,
)
