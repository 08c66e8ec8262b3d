"""Pooling to a wanted size: windows that cover the image evenly and may overlap by one element.

Window o of an axis with n elements and m windows covers those from floor(o n / m) up to, but not
including, ceil((o + 1) n / m), as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Shape
from ...dispatch import TensorLike, handle_of, run1
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import MOST, as_int, widened
from ..convolution._windows import Ints
from ..creation.conversion import asarray
from ..creation.filled import zeros
from ..elementwise.cast import astype
from ..elementwise.where import where
from ..indexing.gathering import take
from ..movement.shapes import broadcast_to, reshape
from ..reductions.basic import sum
from .max_pooling import images_of

if TYPE_CHECKING:
    from ...tensor import Tensor

Size = int | Sequence[int | None]
SHORT = 16
"""Elements of a window up to which each is an operation of its own."""


@guarded
def adaptive_avg_pool1d(x: TensorLike, output_size: Size) -> Tensor:
    """The averages of windows that cover sequences evenly; see `adaptive_avg_pool2d`.

    Args:
        x: (batch, channels, length), or without the batch.

    >>> import ingle.tensor as it
    >>> it.adaptive_avg_pool1d(it.asarray([[1.0, 2.0, 3.0]]), 2).tolist()
    [[1.5, 2.5]]
    """
    return _average(1, x, output_size)


@guarded
def adaptive_avg_pool2d(x: TensorLike, output_size: Size) -> Tensor:
    """The averages of windows that cover pictures evenly, as many as asked for.

    Args:
        x: (batch, channels, height, width), or without the batch; floats.
        output_size: how many windows, for all image axes or for each; None keeps an axis' size.

    Returns:
        (batch, channels, *output_size).

    Raises:
        ShapeError: ranks do not fit, or an axis without elements is to be averaged.

    >>> import ingle.tensor as it
    >>> it.adaptive_avg_pool2d(it.ones((8, 64, 13, 9)), (7, None)).shape
    (8, 64, 7, 9)
    """
    return _average(2, x, output_size)


@guarded
def adaptive_avg_pool3d(x: TensorLike, output_size: Size) -> Tensor:
    """The averages of windows that cover volumes evenly; see `adaptive_avg_pool2d`.

    Args:
        x: (batch, channels, depth, height, width), or without the batch.

    >>> import ingle.tensor as it
    >>> it.adaptive_avg_pool3d(it.ones((2, 3, 5, 6, 7)), 1).shape
    (2, 3, 1, 1, 1)
    """
    return _average(3, x, output_size)


def _average(rank: int, x: TensorLike, output_size: Size) -> Tensor:
    name = f"adaptive_avg_pool{rank}d"
    images, alone = images_of(name, rank, x)
    out = run1(ADAPTIVE_AVG_POOL.op(size=wanted_size(name, images, output_size)), images)
    return reshape(out, out.shape[1:]) if alone else out


def wanted_size(name: str, images: Handle, output_size: object) -> Ints:
    size = images.shape[2:]
    many = isinstance(output_size, Sequence) and not isinstance(output_size, str)
    each: Any = output_size if many else (output_size,) * len(size)
    if len(each) != len(size):
        raise ArgumentError(
            f"{name}: output_size must be a number or one for each of the {len(size)} image axes, "
            f"got {output_size!r}"
        )
    wanted = tuple(
        n if m is None else as_int(m, name, "output_size") for m, n in zip(each, size, strict=True)
    )
    if not wanted or min(wanted) < 0 or max(wanted) > MOST:
        raise ArgumentError(
            f"{name}: output_size must be one size for each image axis, none negative or above "
            f"{MOST}, got {output_size!r} for x of image sizes {size}"
        )
    return wanted


def shape_rule(name: str, x: Aval, size: Ints) -> Aval:
    if any(n == 0 < m for n, m in zip(x.shape[2:], size, strict=True)):
        raise ShapeError(f"{name}{len(size)}d: x {x.shape} has no elements to make {size} of")
    return Aval((*x.shape[:2], *size), x.dtype)


def windows_of(size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each window of an axis starts, and how many elements it has."""
    at = np.arange(count)
    start = at * size // max(1, count)
    return start, -((-(at + 1) * size) // max(1, count)) - start


def adaptive_avg_pool(x: TensorLike, output_size: Size) -> Tensor:
    """`adaptive_avg_pool1d`, `2d` or `3d`, by the rank of images with a batch axis."""
    return _average(len(handle_of(x, "adaptive_avg_pool").shape) - 2, x, output_size)


def _average_rule(x: Aval, *, size: Ints) -> Aval:
    if not x.dtype.is_floating:
        raise DTypeError(
            f"adaptive_avg_pool{len(size)}d: x must be floats, got {x.dtype}; "
            "cast with x.astype('float32')"
        )
    return shape_rule("adaptive_avg_pool", x, size)


def _average_body(x: Tensor, *, size: Ints) -> Tensor:
    out = widened(x)
    whole = tuple([axis for axis, count in enumerate(size, 2) if count == 1])
    if whole:  # One sum for all axes that one window covers, before what is left of them.
        elements = math.prod(x.shape[axis] for axis in whole)
        out = sum(out, axis=whole, keepdims=True) / elements
    for axis, count in enumerate(size, 2):
        out = _average_along(out, axis, count)
    return astype(out, x.dtype)


def _average_along(x: Tensor, axis: int, count: int) -> Tensor:
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    if n == count:
        return x
    if count and n % count == 0:
        each = n // count
        return sum(reshape(x, (*before, count, each, *after)), axis=axis + 1) / each
    start, length = windows_of(n, count)
    counts = astype(asarray(length, device=x.device), x.dtype)
    return _window_sums(x, axis, start, length) / reshape(counts, (count, *(1,) * len(after)))


def _window_sums(x: Tensor, axis: int, first: np.ndarray, length: np.ndarray) -> Tensor:
    """Sums over windows of an axis: of short ones, an element of all windows at a time."""
    rest = (1,) * (x.ndim - axis - 1)
    if int(length.max(initial=1)) > SHORT:
        return _long_sums(x, axis, first, length)
    total: Tensor | None = None
    for tap in range(max(1, int(length.max(initial=1)))):
        index = np.minimum(first + tap, max(0, x.shape[axis] - 1))
        part = take(x, asarray(index, device=x.device), axis=axis)
        inside = tap < length
        if not inside.all():
            part = where(reshape(asarray(inside, device=x.device), (*inside.shape, *rest)), part, 0)
        total = part if total is None else total + part
    assert total is not None
    return total


def _long_sums(x: Tensor, axis: int, first: np.ndarray, length: np.ndarray) -> Tensor:
    """The same by one gather: each tap of its own would be an operation more in the plan."""
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    taps = np.arange(int(length.max()))
    index = np.minimum(first[:, None] + taps, x.shape[axis] - 1)
    parts = take(x, asarray(index.ravel(), device=x.device), axis=axis)
    parts = reshape(parts, (*before, *index.shape, *after))
    inside = reshape(
        asarray(taps < length[:, None], device=x.device), (*index.shape, *(1,) * len(after))
    )
    return sum(where(inside, parts, 0), axis=axis + 1)


def _average_gradient(g: Tensor, x_aval: Aval, size: Ints) -> Tensor:
    wide = widened(g)
    for axis, n in enumerate(x_aval.shape[2:], 2):
        wide = _spread_along(wide, axis, n)
    return astype(wide, g.dtype)


def _spread_along(g: Tensor, axis: int, n: int) -> Tensor:
    """The transpose of `_average_along`: each element takes its share of the windows over it."""
    count = g.shape[axis]
    if n == count:
        return g
    before, after = g.shape[:axis], g.shape[axis + 1 :]
    last = (1,) * len(after)
    if not count:
        return zeros((*before, n, *after), dtype=g.dtype, device=g.device)
    if n % count == 0:
        each = n // count
        wide = reshape(g / each, (*before, count, 1, *after))
        return reshape(broadcast_to(wide, (*before, count, each, *after)), (*before, n, *after))
    start, length = windows_of(n, count)
    shares = g / reshape(astype(asarray(length, device=g.device), g.dtype), (count, *last))
    # The windows over an element follow each other: from the first that ends behind it.
    at = np.arange(n)
    first = np.searchsorted(start + length, at, side="right")
    behind = np.searchsorted(start, at, side="right")
    return _window_sums(shares, axis, first, behind - first)


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for shape, size in CASES:
            yield Sample((draw.array(shape), size), condition=4)


def _reference(x: Any, output_size: Any) -> Any:
    wanted = wanted_by(x.shape[2:], output_size)
    out: Any = np.zeros((*x.shape[:2], *wanted), x.dtype)
    for at, piece in clipped_windows(x.shape[2:], wanted):
        out[(..., *at)] = np.mean(x[(..., *piece)], axis=tuple(range(2, x.ndim)))
    return out


ADAPTIVE_AVG_POOL = Operation(
    "adaptive_avg_pool",
    tensors=("x",),
    statics=("size",),
    rule=_average_rule,
    traits=Traits("opaque", precision="high"),
    vjp={"x": _average_gradient},
    body=_average_body,
    public=adaptive_avg_pool,
    samples=_samples,
    reference=_reference,
)


CASES: tuple[tuple[Shape, Size], ...] = (
    ((2, 3, 8, 8), 2),
    ((2, 1, 8, 5), (3, 8)),
    ((3, 2, 17), 5),
    ((1, 2, 3, 5, 2), (2, None, 3)),
    ((0, 2, 5), 2),
    ((2, 2, 5), 0),
    ((1, 2, 37), 2),
    ((1, 1, 2, 53), (2, 3)),
)
"""Shapes and sizes that both adaptive poolings are checked with."""


def wanted_by(size: Shape, output_size: Any) -> list[int]:
    """The image sizes of the result, by definition."""
    each = output_size if isinstance(output_size, tuple) else (output_size,) * len(size)
    return [n if m is None else m for m, n in zip(each, size, strict=True)]


def clipped_windows(size: Shape, wanted: Sequence[int]) -> Iterator[tuple[Any, Any]]:
    """Each place of the result with the piece of the image it stands for, by definition."""
    for at in np.ndindex(*wanted):
        yield (
            at,
            tuple(
                slice(math.floor(o * n / m), math.ceil((o + 1) * n / m))
                for o, n, m in zip(at, size, wanted, strict=True)
            ),
        )
