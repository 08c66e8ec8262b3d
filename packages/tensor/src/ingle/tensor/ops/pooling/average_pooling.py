"""Average pooling and its gradient, which are each other's gradient rules."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ...contract import Aval, Shape
from ...dispatch import TensorLike, handle_of, run1
from ...dtypes import float32
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_shape, widened
from ..convolution._windows import (
    Ints,
    Pairs,
    PerAxis,
    cropped,
    out_sizes,
    padded,
    padded_sizes,
    put_back,
    seen_by,
    taps,
)
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.extrema import maximum, minimum
from ..movement.padding import pad
from ..movement.shapes import broadcast_to, reshape
from .max_pooling import CASES, check_images, images_of, pool_attributes

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def avg_pool1d(
    x: TensorLike,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The average of each window of sequences; see `avg_pool2d` for the arguments.

    Args:
        x: (batch, channels, length), or without the batch.

    >>> import ingle.tensor as it
    >>> it.avg_pool1d(it.asarray([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[2.0, 1.0]]
    """
    options = (stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _average(1, "avg_pool1d", x, kernel_size, *options)


@guarded
def avg_pool2d(
    x: TensorLike,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The average of each window of pictures.

    Args:
        x: (batch, channels, height, width), or without the batch; floats.
        kernel_size: the window's size, for all image axes or for each.
        stride: how far the window moves; its size if not given.
        padding: how many zeros are added on each side: at most half of the window.
        ceil_mode: whether a last window that reaches over the border counts, if it starts inside
            of the image or its padding. What it sees beyond the padding never counts.
        count_include_pad: whether the zeros of the padding count as elements.
        divisor_override: what the sum of each window is divided by, instead of the number of its
            elements.

    Raises:
        ShapeError: ranks do not fit, or the window is larger than the padded image.

    >>> import ingle.tensor as it
    >>> it.avg_pool2d(it.ones((1, 2, 2)), 2, padding=1, count_include_pad=False).tolist()
    [[[1.0, 1.0], [1.0, 1.0]]]
    """
    options = (stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _average(2, "avg_pool2d", x, kernel_size, *options)


@guarded
def avg_pool3d(
    x: TensorLike,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The average of each window of volumes; see `avg_pool2d` for the arguments.

    Args:
        x: (batch, channels, depth, height, width), or without the batch.

    >>> import ingle.tensor as it
    >>> it.avg_pool3d(it.ones((2, 3, 4, 4, 4)), 2).shape
    (2, 3, 2, 2, 2)
    """
    options = (stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _average(3, "avg_pool3d", x, kernel_size, *options)


def _rule(x: Aval, *, kernel: Ints, stride: Ints, padding: Pairs, counted: Pairs) -> Aval:
    check_images("avg_pool", x, len(kernel))
    name = f"avg_pool{len(kernel)}d"
    _require_floats(name, x)
    out = out_sizes(name, x.shape[2:], kernel, stride, padding, (1,) * len(kernel))
    return Aval((*x.shape[:2], *out), x.dtype)


def _samples(draw: Draw, gradient: bool) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    cases = (*CASES, ((2, 2, 8), 3, {"stride": 2, "padding": 1, "count_include_pad": False}))
    for written, kernel, more in cases:
        shape = draw.shape(written)
        if not gradient:
            yield Sample((draw.array(shape), kernel), more, condition=4)
            continue
        attributes = _attributes(
            "avg_pool", shape[2:], kernel, more.get("stride"), more.get("padding", 0),
            more.get("ceil_mode", False), True,
        )  # fmt: skip
        out = _rule(Aval(shape, float32), **attributes).shape
        yield Sample((draw.array(out), shape[2:], kernel), more, condition=4)


_STATICS = ("kernel", "stride", "padding", "counted")


def avg_pool(x: TensorLike, kernel_size: PerAxis, **options: Any) -> Tensor:
    """`avg_pool1d`, `avg_pool2d` or `avg_pool3d`, by the rank of images with a batch axis."""
    rank = len(handle_of(x, "avg_pool").shape) - 2
    more = {"stride": None, "padding": 0, "ceil_mode": False, "count_include_pad": True,
            "divisor_override": None, **options}  # fmt: skip
    return _average(rank, f"avg_pool{rank}d", x, kernel_size, **more)


def _body(x: Tensor, *, kernel: Ints, stride: Ints, padding: Pairs, counted: Pairs) -> Tensor:
    size, ones = x.shape[2:], (1,) * len(kernel)
    out = out_sizes("avg_pool", size, kernel, stride, padding, ones)
    image = padded(widened(x), padding)
    parts = [seen_by(image, tap, out, stride, ones) for tap in taps(kernel)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return astype(total / _counts(size, kernel, stride, padding, counted, total), x.dtype)


def _vjp(
    g: Tensor, x_aval: Aval, kernel: Ints, stride: Ints, padding: Pairs, counted: Pairs
) -> Tensor:
    op = AVG_POOL_GRADIENT.op(
        size=x_aval.shape[2:], kernel=kernel, stride=stride, padding=padding, counted=counted
    )
    return run1(op, g._handle)


AVG_POOL = Operation(
    "avg_pool",
    tensors=("x",),
    statics=_STATICS,
    rule=_rule,
    traits=Traits("opaque", precision="high"),
    vjp={"x": _vjp},
    body=_body,
    public=avg_pool,
    samples=partial(_samples, gradient=False),
    reference="ingle.tensor.ops.pooling._reference:avg_pool",
)


def avg_pool_gradient(g: TensorLike, size: PerAxis, kernel_size: PerAxis, **options: Any) -> Tensor:
    """What a gradient g of a pooling's result means for its images of the given sizes."""
    name = "avg_pool_gradient"
    sizes = as_shape(size, name, "size")
    if isinstance(kernel_size, (list, tuple)) and len(kernel_size) != len(sizes):
        raise ArgumentError(
            f"{name}: size and kernel_size must have as many numbers, got {size} and {kernel_size}"
        )
    more = {"stride": None, "padding": 0, "ceil_mode": False, "count_include_pad": True, **options}
    attributes = _attributes(name, sizes, kernel_size, **more)
    return run1(AVG_POOL_GRADIENT.op(size=sizes, **attributes), handle_of(g, name, "g"))


def _gradient_rule(
    g: Aval, *, size: Ints, kernel: Ints, stride: Ints, padding: Pairs, counted: Pairs
) -> Aval:
    name = "avg_pool_gradient"
    _require_floats(name, g, "g")
    out = out_sizes(name, size, kernel, stride, padding, (1,) * len(kernel))
    if g.shape[2:] != out:
        raise ShapeError(f"{name}: g must end in {out} for size {size}, got shape {g.shape}")
    return Aval((*g.shape[:2], *size), g.dtype)


def _gradient_body(
    g: Tensor, *, size: Ints, kernel: Ints, stride: Ints, padding: Pairs, counted: Pairs
) -> Tensor:
    wide, ones = widened(g), (1,) * len(kernel)
    share = wide / _counts(size, kernel, stride, padding, counted, wide)
    whole = padded_sizes(size, padding)
    if kernel == stride:  # Each element is in one window at most.
        return astype(cropped(_repeated(share, kernel, whole), padding), g.dtype)
    parts = [put_back(share, tap, whole, stride, ones) for tap in taps(kernel)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return astype(cropped(total, padding), g.dtype)


def _repeated(share: Tensor, kernel: Ints, whole: Ints) -> Tensor:
    """Each window's share at all places of it; zeros at those of `whole` behind the windows."""
    lead, out = share.shape[:2], share.shape[2:]
    apart = [n for size in out for n in (size, 1)]
    side_by_side = [n for pair in zip(out, kernel, strict=True) for n in pair]
    wide = broadcast_to(reshape(share, (*lead, *apart)), (*lead, *side_by_side))
    sizes = tuple([n * k for n, k in zip(out, kernel, strict=True)])
    behind = [(0, n - size) for n, size in zip(whole, sizes, strict=True)]
    return pad(reshape(wide, (*lead, *sizes)), ((0, 0), (0, 0), *behind))


def _gradient_vjp(
    v: Tensor, kernel: Ints, stride: Ints, padding: Pairs, counted: Pairs
) -> Tensor:  # fmt: skip
    op = AVG_POOL.op(kernel=kernel, stride=stride, padding=padding, counted=counted)
    return run1(op, v._handle)


AVG_POOL_GRADIENT = Operation(
    "avg_pool_gradient",
    tensors=("g",),
    statics=("size", *_STATICS),
    rule=_gradient_rule,
    traits=Traits("opaque", precision="high"),
    vjp={"g": _gradient_vjp},
    body=_gradient_body,
    public=avg_pool_gradient,
    samples=partial(_samples, gradient=True),
    reference="ingle.tensor.ops.pooling._reference:avg_pool_gradient",
)


def _average(
    rank: int, name: str, x: TensorLike, kernel_size: object, stride: object, padding: object,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    images, alone = images_of(name, rank, x)
    size = images.shape[2:]
    attributes = _attributes(
        name, size, kernel_size, stride, padding, ceil_mode, count_include_pad
    )  # fmt: skip
    if divisor_override == 0:
        raise ArgumentError(f"{name}: divisor_override must not be 0")
    if divisor_override is not None:  # Every place counts, also beyond the padding.
        attributes["counted"] = attributes["padding"]
    out = run1(AVG_POOL.op(**attributes), images)
    if divisor_override is not None:
        out = out * (math.prod(attributes["kernel"]) / divisor_override)
    return reshape(out, out.shape[1:]) if alone else out


def _attributes(
    name: str, size: Shape, kernel_size: object, stride: object, padding: object,
    ceil_mode: bool, count_include_pad: bool,
) -> dict[str, Any]:  # fmt: skip
    found = pool_attributes(name, size, kernel_size, stride, padding, 1, ceil_mode)
    del found["dilation"]
    # The padding in front is never longer than asked for; that behind may be, by ceil_mode.
    counted = tuple((low, low) if count_include_pad else (0, 0) for low, _ in found["padding"])
    return {**found, "counted": counted}


def _require_floats(name: str, x: Aval, argument: str = "x") -> None:
    if not x.dtype.is_floating:
        raise DTypeError(f"{name}: {argument} must be floats, got {x.dtype}; cast it to float32")


def _counts(
    size: Ints, kernel: Ints, stride: Ints, padding: Pairs, counted: Pairs, like: Tensor
) -> Any:
    """How many elements each window averages: a number, or a tensor where they differ."""
    rank = len(size)
    if padding == counted:
        return math.prod(kernel)
    total: Any = 1
    for axis, (n, k, s, (low, high), (before, after)) in enumerate(
        zip(size, kernel, stride, padding, counted, strict=True)
    ):
        windows = (n + low + high - k) // s + 1
        first = arange(windows, dtype=float32, device=like.device) * s - low
        count = minimum(first + k, n + after) - maximum(first, -before)
        shape = tuple(windows if i == axis else 1 for i in range(rank))
        total = total * astype(reshape(count, shape), like.dtype)
    return total
