"""Pooling: the largest element, or the average, of each window of an image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ...contract import Aval, Handle, Shape
from ...dispatch import TensorLike, handle_of, run, run1
from ...dtypes import DType, int32
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import REAL
from ..convolution._windows import Ints, Pairs, PerAxis, out_sizes, padded, per_axis, seen_by, taps
from ..creation.conversion import asarray
from ..creation.filled import full
from ..elementwise.extrema import maximum
from ..elementwise.where import where
from ..indexing.gathering import take
from ..movement.shapes import reshape

if TYPE_CHECKING:
    from ...tensor import Tensor


@overload
def max_pool1d(
    x: TensorLike, kernel_size: PerAxis, *, stride: PerAxis | None = ..., padding: PerAxis = ...,
    dilation: PerAxis = ..., ceil_mode: bool = ..., return_indices: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip


@overload
def max_pool1d(
    x: TensorLike, kernel_size: PerAxis, *, stride: PerAxis | None = ..., padding: PerAxis = ...,
    dilation: PerAxis = ..., ceil_mode: bool = ..., return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip


@guarded
def max_pool1d(
    x: TensorLike,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest element of each window of sequences; see `max_pool2d` for the arguments.

    Args:
        x: (batch, channels, length), or without the batch.

    >>> import ingle.tensor as it
    >>> it.max_pool1d(it.asarray([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[3.0, 2.0]]
    """
    options = (stride, padding, dilation, ceil_mode, return_indices)
    return _max(1, "max_pool1d", x, kernel_size, *options)


@overload
def max_pool2d(
    x: TensorLike, kernel_size: PerAxis, *, stride: PerAxis | None = ..., padding: PerAxis = ...,
    dilation: PerAxis = ..., ceil_mode: bool = ..., return_indices: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip


@overload
def max_pool2d(
    x: TensorLike, kernel_size: PerAxis, *, stride: PerAxis | None = ..., padding: PerAxis = ...,
    dilation: PerAxis = ..., ceil_mode: bool = ..., return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip


@guarded
def max_pool2d(
    x: TensorLike,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest element of each window of pictures; NaN where a window holds one.

    The gradient goes to the first of equal elements.

    Args:
        x: (batch, channels, height, width), or without the batch; real numbers.
        kernel_size: the window's size, for all image axes or for each.
        stride: how far the window moves; its size if not given.
        padding: how many elements, which never win, are added on each side: at most half of the
            window.
        dilation: the distance between the elements that a window sees.
        ceil_mode: whether a last window that reaches over the border counts, if it starts inside
            of the image or its padding.
        return_indices: whether to return also where the elements were found: int64 positions in
            row-major order of the image axes, as `max_unpool2d` takes them.

    Raises:
        ShapeError: ranks do not fit, or the window is larger than the padded image.

    >>> import ingle.tensor as it
    >>> it.max_pool2d(it.reshape(it.arange(16.0), (1, 4, 4)), 2).tolist()
    [[[5.0, 7.0], [13.0, 15.0]]]
    """
    options = (stride, padding, dilation, ceil_mode, return_indices)
    return _max(2, "max_pool2d", x, kernel_size, *options)


@overload
def max_pool3d(
    x: TensorLike, kernel_size: PerAxis, *, stride: PerAxis | None = ..., padding: PerAxis = ...,
    dilation: PerAxis = ..., ceil_mode: bool = ..., return_indices: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip


@overload
def max_pool3d(
    x: TensorLike, kernel_size: PerAxis, *, stride: PerAxis | None = ..., padding: PerAxis = ...,
    dilation: PerAxis = ..., ceil_mode: bool = ..., return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip


@guarded
def max_pool3d(
    x: TensorLike,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest element of each window of volumes; see `max_pool2d` for the arguments.

    Args:
        x: (batch, channels, depth, height, width), or without the batch.

    >>> import ingle.tensor as it
    >>> it.max_pool3d(it.ones((2, 3, 4, 4, 4)), 2).shape
    (2, 3, 2, 2, 2)
    """
    options = (stride, padding, dilation, ceil_mode, return_indices)
    return _max(3, "max_pool3d", x, kernel_size, *options)


def images_of(name: str, rank: int, x: TensorLike) -> tuple[Handle, bool]:
    """Images with a batch axis, and whether it had to be added."""
    handle = handle_of(x, name)
    if len(handle.shape) not in (rank + 1, rank + 2):
        raise ShapeError(
            f"{name}: x must be (batch, channels, *size) with {rank} image axes, or without the "
            f"batch, got shape {handle.shape}"
        )
    if handle.dtype.kind not in REAL:
        raise DTypeError(f"{name}: x must be real numbers, got {handle.dtype}; cast it first")
    alone = len(handle.shape) == rank + 1
    return (reshape(x, (1, *handle.shape))._handle if alone else handle), alone


def pool_attributes(
    name: str, size: Shape, kernel_size: object, stride: object, padding: object,
    dilation: object, ceil_mode: bool,
) -> dict[str, Any]:  # fmt: skip
    """The static attributes of a pooling from what the user wrote."""
    rank = len(size)
    kernel = per_axis(kernel_size, rank, name, "kernel_size")
    steps = kernel if stride is None else per_axis(stride, rank, name, "stride")
    around = per_axis(padding, rank, name, "padding", least=0)
    spread = per_axis(dilation, rank, name, "dilation")
    for p, k, d in zip(around, kernel, spread, strict=True):
        if p > (d * (k - 1) + 1) // 2:
            raise ArgumentError(
                f"{name}: padding={p} must be at most half of the window, which spans "
                f"{d * (k - 1) + 1} elements"
            )
    pairs = tuple(
        (p, p + (_overhang(n, k, s, p, d) if ceil_mode else 0))
        for n, k, s, p, d in zip(size, kernel, steps, around, spread, strict=True)
    )
    return {"kernel": kernel, "stride": steps, "padding": pairs, "dilation": spread}


def check_images(name: str, x: Aval, rank: int) -> None:
    """Refuses what is no batch of images of channels."""
    if x.ndim != rank + 2:
        raise ShapeError(
            f"{name}: x must be (batch, channels, *size) with {rank} image axes, got shape "
            f"{x.shape}"
        )


def pool_rule(
    name: str, x: Aval, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Aval:
    """The shape of a pooling's result."""
    check_images(name, x, len(kernel))
    out = out_sizes(f"{name}{x.ndim - 2}d", x.shape[2:], kernel, stride, padding, dilation)
    return Aval((*x.shape[:2], *out), x.dtype)


def lowest(dtype: DType) -> float | int:
    """What never wins a maximum."""
    return -float("inf") if dtype.is_inexact else int(np.iinfo(dtype.dtype).min)


CASES: tuple[tuple[Shape, PerAxis, dict[str, Any]], ...] = (
    ((2, 3, 8, 8), 2, {}),
    ((2, 1, 8, 5), (3, 2), {"stride": 2, "padding": (1, 0)}),
    ((3, 2, 17), 3, {"stride": 2, "ceil_mode": True}),
    ((1, 2, 3, 5, 3), (2, 3, 1), {"stride": 1, "padding": (1, 1, 0)}),
    ((0, 2, 5), 2, {}),
)
"""Shapes, windows and options that all poolings are checked with."""


def _max_rule(x: Aval, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints) -> Aval:
    return pool_rule("max_pool", x, kernel, stride, padding, dilation)


def _max_body(x: Tensor, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints) -> Tensor:
    out, *others = _parts(x, kernel, stride, padding, dilation, lowest(x.dtype))
    for part in others:
        out = maximum(out, part)
    return out


def _training_body(
    x: Tensor, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> tuple[Tensor, Tensor]:
    parts = _parts(x, kernel, stride, padding, dilation, lowest(x.dtype))
    out = _max_body(x, kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    index = full(out.shape, len(parts) - 1, dtype=int32, device=out.device)
    inside = full((1, 1, *x.shape[2:]), True, device=x.device)
    real = _parts(inside, kernel, stride, padding, dilation, False)
    for place in reversed(range(len(parts))):
        # Padding wins no tie. A NaN is the maximum, though it does not equal itself.
        part = parts[place]
        found = ((part == out) | ((part != part) & (out != out))) & real[place]
        index = where(found, place, index)
    return out, index


def _training_vjp(
    g: tuple[Tensor, Any], index: Tensor, x_aval: Aval, kernel: Ints, stride: Ints,
    padding: Pairs, dilation: Ints,
) -> Tensor:  # fmt: skip
    from .max_gradients import scatter_to_maxima

    return scatter_to_maxima(g[0], index, x_aval.shape[2:], kernel, stride, padding, dilation)


def _max_samples(draw: Draw) -> Iterator[Sample]:
    make = draw.apart if draw.dtype.is_inexact else draw.array
    if draw.dtype.kind in REAL:
        for shape, kernel, more in (*CASES, ((1, 2, 8), 3, {"dilation": 2, "padding": 1})):
            yield Sample((make(shape), kernel), more)


def _training_rule(x: Aval, **statics: Any) -> tuple[Aval, Aval]:
    out = _max_rule(x, **statics)
    return out, Aval(out.shape, int32)


def _training_samples(draw: Draw) -> Iterator[Sample]:
    # Only floats are recorded, and among integers the border's value can tie with the image's.
    if draw.dtype.is_floating:
        yield from _max_samples(draw)


_STATICS = ("kernel", "stride", "padding", "dilation")


def max_pool(x: TensorLike, kernel_size: PerAxis, **options: Any) -> Tensor:
    """`max_pool1d`, `max_pool2d` or `max_pool3d`, by the rank of images with a batch axis."""
    rank = len(handle_of(x, "max_pool").shape) - 2
    more = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, **options}
    out = _max(rank, f"max_pool{rank}d", x, kernel_size, **more, return_indices=False)
    assert not isinstance(out, tuple)
    return out


def max_pool_training(x: TensorLike, kernel_size: PerAxis, **options: Any) -> tuple[Tensor, ...]:
    """`max_pool` with the tap, counted in row-major order, at which each maximum was found."""
    name, shape = "max_pool_training", handle_of(x, "max_pool_training").shape
    more = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, **options}
    images, _ = images_of(name, len(shape) - 2, x)
    attributes = pool_attributes(name, shape[2:], kernel_size, **more)
    return run(MAX_POOL_TRAINING.op(**attributes), (images,))


MAX_POOL_TRAINING = Operation(
    "max_pool_training",
    tensors=("x",),
    statics=_STATICS,
    outputs=("out", "index"),
    rule=_training_rule,
    traits=Traits("opaque"),
    vjp={"x": _training_vjp},
    body=_training_body,
    public=max_pool_training,
    samples=_training_samples,
    reference="ingle.tensor.ops.pooling._reference:max_pool_training",
)
MAX_POOL = Operation(
    "max_pool",
    tensors=("x",),
    statics=_STATICS,
    rule=_max_rule,
    traits=Traits("opaque"),
    body=_max_body,
    training=MAX_POOL_TRAINING,
    public=max_pool,
    samples=_max_samples,
    reference="ingle.tensor.ops.pooling._reference:max_pool",
)


def _overhang(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How far the last window of ceil_mode reaches over the padded border."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1  # Negative: an image less than a window
    last = -(-room // stride) * stride
    # A window that would start in the padding behind the image is left out.
    if last < 0 or last >= size + padding:
        return 0
    return last - room


def _max(
    rank: int, name: str, x: TensorLike, kernel_size: object, stride: object, padding: object,
    dilation: object, ceil_mode: bool, return_indices: bool,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    images, alone = images_of(name, rank, x)
    size = images.shape[2:]
    statics = pool_attributes(name, size, kernel_size, stride, padding, dilation, ceil_mode)
    if not return_indices:
        out = run1(MAX_POOL.op(**statics), images)
        return reshape(out, out.shape[1:]) if alone else out
    out, tap = run(MAX_POOL_TRAINING.op(**statics), (images,))
    index = _positions(tap, size, **statics)
    return tuple(reshape(t, t.shape[1:]) if alone else t for t in (out, index))  # type: ignore[return-value]


def _positions(
    tap: Tensor, size: Shape, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Tensor:
    """Where in the row-major order of the image axes the taps of all windows lie."""
    first, offset = np.zeros((), np.int64), np.zeros((), np.int64)
    for n, m, k, s, (low, _), d in zip(
        size, tap.shape[2:], kernel, stride, padding, dilation, strict=True
    ):
        first = first[..., None] * n + np.arange(m) * s - low
        offset = offset[..., None] * n + np.arange(k) * d
    at = take(asarray(offset.ravel(), device=tap.device), tap, axis=0)
    return at + asarray(first, device=tap.device)


def _parts(
    x: Tensor, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints, value: float
) -> list[Tensor]:
    """What each tap of all windows sees of the padded images."""
    out = out_sizes("pool", x.shape[2:], kernel, stride, padding, dilation)
    image = padded(x, padding, value)
    return [seen_by(image, tap, out, stride, dilation) for tap in taps(kernel)]
