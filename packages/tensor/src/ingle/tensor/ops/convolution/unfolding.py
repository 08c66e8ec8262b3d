"""Windows of images as columns (unfold), and columns added back to images (fold)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Shape
from ...dispatch import TensorLike, handle_of, run1
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import NUMERIC, as_shape, widened
from ..creation.filled import zeros
from ..elementwise.cast import astype
from ..movement.joining import stack
from ..movement.shapes import reshape
from ..movement.slicing import slice_axis
from ._windows import (
    Ints,
    Pairs,
    PerAxis,
    cropped,
    out_sizes,
    padded,
    padded_sizes,
    per_axis,
    put_back,
    seen_by,
    taps,
)

if TYPE_CHECKING:
    from ...tensor import Tensor


def _samples(draw: Draw, folds: bool) -> Iterator[Sample]:
    if draw.dtype.kind not in NUMERIC:
        return
    for shape, kernel, more, out in _CASES:
        if folds:
            n, channels = draw.shape(shape[:2])
            columns = (n, channels * math.prod(kernel), math.prod(out))
            yield Sample((draw.array(columns), shape[2:], kernel), more)
        else:
            yield Sample((draw.array(shape), kernel), more)


_STATICS = ("kernel", "stride", "padding", "dilation")


@guarded
def unfold(
    x: TensorLike,
    kernel_size: PerAxis,
    *,
    dilation: PerAxis = 1,
    padding: PerAxis = 0,
    stride: PerAxis = 1,
) -> Tensor:
    """Each window of images as a column: what a convolution multiplies its weights with.

    Args:
        x: (batch, channels, *size) with any number of image axes; or (channels, *size) where
            `kernel_size` has a number for each image axis.
        kernel_size: the window's size, for all image axes or for each.
        dilation: the distance between the elements that a window sees.
        padding: how many zeros are added on each side.
        stride: how far the window moves.

    Returns:
        (batch, channels * elements of the window, windows): channels outermost, windows in
        row-major order.

    Raises:
        ShapeError: ranks do not fit, or the window is larger than the padded image.

    >>> import ingle.tensor as it
    >>> it.unfold(it.reshape(it.arange(4.0), (1, 1, 4)), 2).tolist()
    [[[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]]
    """
    images, alone = _images(x, kernel_size)
    rank = len(images.shape) - 2
    statics = _statics("unfold", rank, kernel_size, dilation, padding, stride)
    out = run1(UNFOLD.op(**statics), images)
    return reshape(out, out.shape[1:]) if alone else out


def _images(x: TensorLike, kernel_size: object) -> tuple[Handle, bool]:
    handle = handle_of(x, "unfold")
    rank = len(kernel_size) if isinstance(kernel_size, Sequence) else len(handle.shape) - 2
    if rank < 1 or len(handle.shape) not in (rank + 1, rank + 2):
        raise ShapeError(
            f"unfold: x must be (batch, channels, *size), or without the batch where kernel_size "
            f"has a number for each image axis, got shape {handle.shape} and "
            f"kernel_size={kernel_size!r}"
        )
    alone = len(handle.shape) == rank + 1
    return (reshape(x, (1, *handle.shape))._handle if alone else handle), alone


def _unfold_rule(x: Aval, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints) -> Aval:
    _require_numbers("unfold", x)
    out = out_sizes("unfold", x.shape[2:], kernel, stride, padding, dilation)
    return Aval((x.shape[0], x.shape[1] * math.prod(kernel), math.prod(out)), x.dtype)


def _unfold_body(
    x: Tensor, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Tensor:
    out = out_sizes("unfold", x.shape[2:], kernel, stride, padding, dilation)
    image = padded(x, padding)
    parts = [seen_by(image, tap, out, stride, dilation) for tap in taps(kernel)]
    shape = (x.shape[0], x.shape[1] * len(parts), math.prod(out))
    return reshape(stack(parts, axis=2), shape)


def _unfold_vjp(
    g: Tensor, x_aval: Aval, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Tensor:
    op = FOLD.op(
        size=x_aval.shape[2:], kernel=kernel, stride=stride, padding=padding, dilation=dilation
    )
    return run1(op, g._handle)


def _unfold_reference(x: Any, kernel_size: Any, **more: Any) -> Any:
    around = more.get("padding", 0)
    sides = [(p, p) for p in ((around,) * (x.ndim - 2) if isinstance(around, int) else around)]
    image: Any = np.pad(x, [(0, 0), (0, 0), *sides])
    found = list(_places(x.shape[2:], kernel_size, **more))
    out: Any = np.zeros(
        (*x.shape[:2], math.prod(kernel_size), 1 + max(w for _, w, _ in found)), x.dtype
    )
    for tap, window, place in found:
        out[:, :, tap, window] = image[(..., *place)]
    return out.reshape(x.shape[0], x.shape[1] * out.shape[2], out.shape[3])


UNFOLD = Operation(
    "unfold",
    tensors=("x",),
    statics=_STATICS,
    rule=_unfold_rule,
    traits=Traits("opaque"),
    vjp={"x": _unfold_vjp},
    body=_unfold_body,
    public=unfold,
    samples=partial(_samples, folds=False),
    reference=_unfold_reference,
)


@guarded
def fold(
    x: TensorLike,
    output_size: Sequence[int],
    kernel_size: PerAxis,
    *,
    dilation: PerAxis = 1,
    padding: PerAxis = 0,
    stride: PerAxis = 1,
) -> Tensor:
    """Columns added up to images, each at the place of its window: the transpose of `unfold`.

    Args:
        x: (batch, channels * elements of the window, windows), or without the batch.
        output_size: the image sizes of the result, which say how many image axes there are.
        kernel_size, dilation, padding, stride: as for `unfold`.

    Returns:
        (batch, channels, *output_size).

    Raises:
        ShapeError: `x` does not have as many columns as there are windows.

    >>> import ingle.tensor as it
    >>> it.fold(it.ones((1, 2, 3)), (4,), 2).tolist()
    [[[1.0, 2.0, 2.0, 1.0]]]
    """
    columns = handle_of(x, "fold")
    if not isinstance(output_size, Sequence):
        raise ArgumentError(
            f"fold: output_size must give a size for each image axis, got {output_size!r}"
        )
    size = as_shape(output_size, "fold", "output_size")
    if isinstance(kernel_size, Sequence) and len(kernel_size) != len(size):
        raise ArgumentError(
            f"fold: output_size and kernel_size must have as many sizes, got {output_size!r} and "
            f"{kernel_size!r}"
        )
    if len(columns.shape) not in (2, 3) or not size:
        raise ShapeError(
            f"fold: x must be (batch, channels * window, windows), or without the batch, and "
            f"output_size have an axis, got shape {columns.shape} and {size}"
        )
    alone = len(columns.shape) == 2
    if alone:
        columns = reshape(x, (1, *columns.shape))._handle
    statics = _statics("fold", len(size), kernel_size, dilation, padding, stride)
    out = run1(FOLD.op(size=size, **statics), columns)
    return reshape(out, out.shape[1:]) if alone else out


def _fold_rule(
    x: Aval, *, size: Ints, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Aval:
    _require_numbers("fold", x)
    windows = math.prod(out_sizes("fold", size, kernel, stride, padding, dilation))
    elements = math.prod(kernel)
    if x.shape[2] != windows or x.shape[1] % elements:
        raise ShapeError(
            f"fold: for output_size {size}, kernel_size {kernel}, stride {stride}, padding "
            f"{padding} and dilation {dilation} x must be (batch, channels * {elements}, "
            f"{windows}), got shape {x.shape}"
        )
    return Aval((x.shape[0], x.shape[1] // elements, *size), x.dtype)


def _fold_body(
    x: Tensor, *, size: Ints, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Tensor:
    out = out_sizes("fold", size, kernel, stride, padding, dilation)
    batch, channels = x.shape[0], x.shape[1] // math.prod(kernel)
    columns = reshape(widened(x), (batch, channels, math.prod(kernel), *out))
    whole = padded_sizes(size, padding)
    total = zeros((batch, channels, *whole), dtype=columns.dtype, device=x.device)
    for place, tap in enumerate(taps(kernel)):
        part = reshape(slice_axis(columns, 2, place, 1), (batch, channels, *out))
        total = total + put_back(part, tap, whole, stride, dilation)
    return astype(cropped(total, padding), x.dtype)


def _fold_vjp(g: Tensor, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints) -> Tensor:
    op = UNFOLD.op(kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    return run1(op, g._handle)


def _fold_reference(x: Any, output_size: Any, kernel_size: Any, **more: Any) -> Any:
    around = more.get("padding", 0)
    sides = [(p, p) for p in ((around,) * len(output_size) if isinstance(around, int) else around)]
    channels = x.shape[1] // math.prod(kernel_size)
    images = np.zeros((x.shape[0], channels, *output_size), x.dtype)
    total: Any = np.pad(images, [(0, 0), (0, 0), *sides])
    columns = x.reshape(x.shape[0], channels, math.prod(kernel_size), x.shape[2])
    for tap, window, place in _places(output_size, kernel_size, **more):
        total[(..., *place)] += columns[:, :, tap, window]
    inside = tuple(slice(low, low + n) for (low, _), n in zip(sides, output_size, strict=True))
    return total[(..., *inside)]


FOLD = Operation(
    "fold",
    tensors=("x",),
    statics=("size", *_STATICS),
    rule=_fold_rule,
    traits=Traits("opaque", precision="high"),
    vjp={"x": _fold_vjp},
    body=_fold_body,
    public=fold,
    samples=partial(_samples, folds=True),
    reference=_fold_reference,
)


def _statics(
    name: str, rank: int, kernel_size: object, dilation: object, padding: object, stride: object
) -> dict[str, Any]:
    given = {"dilation": dilation, "padding": padding, "stride": stride}
    for argument, value in given.items():
        if isinstance(value, Sequence) and len(value) != rank:
            raise ArgumentError(
                f"{name}: {argument} must have a number for each of the {rank} axes of "
                f"kernel_size={kernel_size!r}, got {value!r}"
            )
    around = per_axis(padding, rank, name, "padding", least=0)
    return {
        "kernel": per_axis(kernel_size, rank, name, "kernel_size"),
        "stride": per_axis(stride, rank, name, "stride"),
        "padding": tuple((p, p) for p in around),
        "dilation": per_axis(dilation, rank, name, "dilation"),
    }


def _require_numbers(name: str, x: Aval) -> None:
    if x.dtype.kind not in NUMERIC:
        raise DTypeError(f"{name}: x must be numbers, got {x.dtype}; cast with x.astype('float32')")


_CASES: tuple[tuple[Shape, Ints, dict[str, Any], Ints], ...] = (
    ((2, 3, 5, 8), (2, 3), {}, (4, 6)),
    ((2, 1, 8), (3,), {"stride": 2, "padding": 1}, (4,)),
    ((1, 2, 5, 5), (2, 2), {"dilation": (2, 1), "stride": (1, 3)}, (3, 2)),
    ((1, 2, 3, 5, 3), (2, 2, 1), {"padding": (1, 0, 0)}, (4, 4, 3)),
    ((0, 2, 5), (2,), {}, (4,)),
)
"""Images, windows, options, and how many windows fit."""


def _places(
    size: Shape, kernel: Ints, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """For each tap and window the padded element that it sees, by definition."""
    rank = len(size)
    steps, spread, around = (
        (v,) * rank if isinstance(v, int) else tuple(v) for v in (stride, dilation, padding)
    )
    out = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(size, around, spread, kernel, steps, strict=True)
    ]
    for window, at in enumerate(np.ndindex(*out)):
        for tap, inside in enumerate(np.ndindex(*kernel)):
            yield tap, window, tuple(
                o * s + t * d for o, s, t, d in zip(at, steps, inside, spread, strict=True)
            )  # fmt: skip
