"""Fractional max pooling: windows at random distances, for sizes that shrink by any ratio.

Graham: Fractional max-pooling, arXiv 1412.6071. For an axis with n elements, m windows of k and a
random number u in [0, 1) window i < m - 1 starts at floor((i + u) a) - floor(u a), where
a = (n - k) / (m - 1), and the last one at n - k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ...contract import Aval, Handle
from ...dispatch import TensorLike, cast_handle, handle_of, run
from ...dtypes import float32, float64, int64
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import REAL
from ..convolution._windows import Ints, PerAxis, per_axis
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.rounding import floor
from ..elementwise.where import where
from ..images._places import add_at, read_at
from ..indexing.gathering import take_along_axis
from ..movement.shapes import permute_dims, reshape
from ..movement.slicing import slice_axis
from ..reductions.searching import argmax
from .max_pooling import images_of

if TYPE_CHECKING:
    from ...random import Generator
    from ...tensor import Tensor

Ratio = float | Sequence[float]


@overload
def fractional_max_pool2d(
    x: TensorLike, kernel_size: PerAxis, *, output_size: PerAxis | None = ...,
    output_ratio: Ratio | None = ..., return_indices: Literal[False] = ...,
    samples: TensorLike | None = ..., generator: Generator | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def fractional_max_pool2d(
    x: TensorLike, kernel_size: PerAxis, *, output_size: PerAxis | None = ...,
    output_ratio: Ratio | None = ..., return_indices: Literal[True],
    samples: TensorLike | None = ..., generator: Generator | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@guarded
def fractional_max_pool2d(
    x: TensorLike,
    kernel_size: PerAxis,
    *,
    output_size: PerAxis | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    samples: TensorLike | None = None,
    generator: Generator | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest elements of windows that lie at random distances over pictures.

    The gradient goes to the first of equal elements.

    Args:
        x: (batch, channels, height, width), or without the batch; real numbers.
        kernel_size: the window's size, for all image axes or for each.
        output_size: how many windows, for all image axes or for each.
        output_ratio: instead of `output_size`: what part of the image's size that is, in (0, 1).
        return_indices: whether to return also where the elements were found: int64 positions in
            row-major order of the image axes, as `max_unpool2d` takes them.
        samples: floats (batch, channels, 2) in [0, 1) that place the windows of each plane, for
            the image axes in order; drawn if not given.
        generator: to draw from; the default generator if not given.

    Raises:
        ArgumentError: not one of `output_size` and `output_ratio` is given, or it does not fit.
        ShapeError: ranks do not fit, or there are not enough elements for the windows.

    >>> import ingle.tensor as it
    >>> x = it.reshape(it.arange(25.0), (1, 5, 5))
    >>> it.fractional_max_pool2d(x, 2, output_size=1).tolist()
    [[[24.0]]]
    """
    options = (output_size, output_ratio, return_indices, samples, generator)
    return _fractional(2, x, kernel_size, *options)


@overload
def fractional_max_pool3d(
    x: TensorLike, kernel_size: PerAxis, *, output_size: PerAxis | None = ...,
    output_ratio: Ratio | None = ..., return_indices: Literal[False] = ...,
    samples: TensorLike | None = ..., generator: Generator | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def fractional_max_pool3d(
    x: TensorLike, kernel_size: PerAxis, *, output_size: PerAxis | None = ...,
    output_ratio: Ratio | None = ..., return_indices: Literal[True],
    samples: TensorLike | None = ..., generator: Generator | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@guarded
def fractional_max_pool3d(
    x: TensorLike,
    kernel_size: PerAxis,
    *,
    output_size: PerAxis | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    samples: TensorLike | None = None,
    generator: Generator | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest elements of windows that lie at random distances over volumes.

    See `fractional_max_pool2d` for the arguments.

    Args:
        x: (batch, channels, depth, height, width), or without the batch.

    >>> import ingle.tensor as it
    >>> it.fractional_max_pool3d(it.ones((2, 3, 5, 6, 7)), 2, output_ratio=0.6).shape
    (2, 3, 3, 3, 4)
    """
    options = (output_size, output_ratio, return_indices, samples, generator)
    return _fractional(3, x, kernel_size, *options)


def _fractional(
    rank: int, x: TensorLike, kernel_size: object, output_size: object, output_ratio: object,
    return_indices: bool, samples: TensorLike | None, generator: Generator | None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    name = f"fractional_max_pool{rank}d"
    images, alone = images_of(name, rank, x)
    kernel = per_axis(kernel_size, rank, name, "kernel_size")
    size = _wanted(name, images.shape[2:], output_size, output_ratio)
    _check_fit(name, images.shape[2:], kernel, size)
    places = _samples_of(name, images, samples, alone, generator)
    op = FRACTIONAL_MAX_POOL.op(kernel=kernel, size=size)
    out, index = run(op, (images, places))
    if alone:
        out, index = reshape(out, out.shape[1:]), reshape(index, index.shape[1:])
    return (out, index) if return_indices else out


def _wanted(name: str, image: Ints, output_size: object, output_ratio: object) -> Ints:
    if (output_size is None) == (output_ratio is None):
        raise ArgumentError(
            f"{name}: give one of output_size and output_ratio, got output_size={output_size!r} "
            f"and output_ratio={output_ratio!r}"
        )
    if output_size is not None:
        return per_axis(output_size, len(image), name, "output_size")
    many = isinstance(output_ratio, Sequence)
    ratios: Any = output_ratio if many else (output_ratio,) * len(image)
    numbers = all(isinstance(r, (int, float)) and 0 < r < 1 for r in ratios)
    if len(ratios) != len(image) or not numbers:
        raise ArgumentError(
            f"{name}: output_ratio must be a number in (0, 1), or one for each of the "
            f"{len(image)} image axes, got {output_ratio!r}"
        )
    return tuple(int(n * r) for n, r in zip(image, ratios, strict=True))


def _check_fit(name: str, image: Ints, kernel: Ints, size: Ints) -> None:
    if any(m < 1 or m + k - 1 > n for n, k, m in zip(image, kernel, size, strict=True)):
        raise ShapeError(
            f"{name}: each image axis must have at least one window, and output_size + kernel_size "
            f"- 1 elements, got output_size {size} and kernel_size {kernel} for x of sizes {image}"
        )


def _samples_of(
    name: str, images: Handle, samples: TensorLike | None, alone: bool, generator: Generator | None
) -> Handle:
    shape = (*images.shape[:2], len(images.shape) - 2)
    if samples is None:
        from ...random.basic import uniform

        dtype = float64 if images.dtype is float64 else float32
        device = images.backend.device
        return uniform(shape, dtype=dtype, device=device, generator=generator)._handle
    given = handle_of(samples, name, "samples")
    if alone and given.shape == shape[1:]:
        given = reshape(samples, shape)._handle
    if given.shape != shape or not given.dtype.is_floating:
        raise ShapeError(
            f"{name}: samples must be floats of shape {shape}, got {given.dtype} of {given.shape}"
        )
    return cast_handle(given, float32) if given.dtype.itemsize == 2 else given


def fractional_max_pool(
    x: TensorLike, kernel_size: PerAxis, output_size: PerAxis, samples: TensorLike
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool2d` or `3d` with indices, by the rank of images with a batch axis."""
    rank = len(handle_of(x, "fractional_max_pool").shape) - 2
    handle_of(samples, "fractional_max_pool", "samples")
    found = _fractional(rank, x, kernel_size, output_size, None, True, samples, None)
    assert isinstance(found, tuple)
    return found


def _rule(x: Aval, samples: Aval, *, kernel: Ints, size: Ints) -> tuple[Aval, Aval]:
    if x.dtype.kind not in REAL:
        raise DTypeError(f"fractional_max_pool: x must be real numbers, got {x.dtype}; cast it")
    shape = (*x.shape[:2], *size)
    return Aval(shape, x.dtype), Aval(shape, int64)


def _starts(sample: Tensor, n: int, k: int, m: int) -> Tensor:
    """Where the windows of an axis start: (batch, channels, 1) to (batch, channels, windows)."""
    at = arange(m, dtype=sample.dtype, device=sample.device)
    step = (n - k) / (m - 1) if m > 1 else 0.0
    placed = floor((at + sample) * step) - floor(sample * step)
    return astype(where(at == m - 1, float(n - k), placed), int64)


def _body(x: Tensor, samples: Tensor, *, kernel: Ints, size: Ints) -> tuple[Tensor, Tensor]:
    rank, shape = len(size), (*x.shape[:2], *size)
    index: Tensor | None = None
    for axis, (n, k, m) in enumerate(zip(x.shape[2:], kernel, size, strict=True)):
        start = _starts(slice_axis(samples, 2, axis, 1), n, k, m)
        seen = reshape(start, (*start.shape, 1)) + arange(k, dtype=int64, device=x.device)
        # (batch, channels, windows, elements) of this axis, behind those of the axes before it.
        here = reshape(seen, (*x.shape[:2], *(1,) * 2 * axis, m, k))
        before = None if index is None else reshape(index * n, (*index.shape, 1, 1))
        index = here if before is None else before + here
    assert index is not None
    order = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 2 + 2 * rank, 2))
    index = reshape(permute_dims(index, order), (*shape, math.prod(kernel)))
    values = read_at(x, index)
    best = reshape(argmax(values, axis=-1), (*shape, 1))
    out, place = (reshape(take_along_axis(t, best, axis=-1), shape) for t in (values, index))
    return out, place


def _gradient(g: tuple[Tensor, Any], index: Tensor, x_aval: Aval) -> Tensor:
    return add_at(g[0], index, x_aval.shape[2:])


def _samples(draw: Draw) -> Iterator[Sample]:
    make = draw.apart if draw.dtype.is_inexact else draw.array
    if draw.dtype.kind not in REAL:
        return
    for (n, c, *image), kernel, size in (
        ((2, 3, 8, 8), 2, 5), ((1, 2, 5, 17), (2, 3), (3, 8)), ((1, 2, 5, 3, 8), 2, (3, 1, 5)),
        ((0, 2, 5, 5), 2, 2),
    ):  # fmt: skip
        shape = (*draw.shape((n, c)), *draw.shape(image, least=4))
        u = draw.array((*shape[:2], len(shape) - 2), low=0.0, high=1.0, dtype="float32")
        yield Sample((make(shape), kernel, size, u), gradient=(0,))


def _reference(x: Any, kernel_size: Any, output_size: Any, samples: Any) -> Any:
    rank = x.ndim - 2
    kernel, size = (v if isinstance(v, tuple) else (v,) * rank for v in (kernel_size, output_size))
    out: Any = np.zeros((*x.shape[:2], *size), x.dtype)
    index: Any = np.zeros(out.shape, np.int64)
    places = np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:])
    for plane in np.ndindex(*x.shape[:2]):
        for at in np.ndindex(*size):
            first = _first(x.shape[2:], kernel, size, at, samples[plane])
            piece = tuple(slice(s, s + k) for s, k in zip(first, kernel, strict=True))
            seen = x[plane][piece].ravel()
            out[(*plane, *at)] = seen.max()
            index[(*plane, *at)] = places[piece].ravel()[seen.argmax()]
    return out, index


def _first(image: Any, kernel: Any, size: Any, at: Any, u: Any) -> list[int]:
    return [
        n - k if i == m - 1
        else math.floor((i + r) * (n - k) / (m - 1)) - math.floor(r * (n - k) / (m - 1))
        for n, k, m, i, r in zip(image, kernel, size, at, u, strict=True)
    ]  # fmt: skip


FRACTIONAL_MAX_POOL = Operation(
    "fractional_max_pool",
    tensors=("x", "samples"),
    statics=("kernel", "size"),
    outputs=("out", "index"),
    rule=_rule,
    traits=Traits("opaque"),
    vjp={"x": _gradient},
    body=_body,
    public=fractional_max_pool,
    samples=_samples,
    reference=_reference,
)
