"""The gradients of convolution, each an operation; the three are each other's gradient rules.

A backend that has only convolution gets them from their bodies: that of the input is a
convolution of g, spread out by the stride, with the mirrored kernel; that of the weight is one of
the images with g as the kernel, in which stride and dilation change places (Dumoulin and Visin:
A guide to convolution arithmetic for deep learning, arXiv 1603.07285).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, promote, run, run2
from ...errors import ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import conj
from ..movement.joining import stack
from ..movement.shapes import permute_dims, reshape
from ..movement.slicing import slice
from ..reductions.basic import sum
from ._windows import (
    Ints,
    Pairs,
    PerAxis,
    cropped,
    out_sizes,
    padded,
    per_axis,
    put_back,
    seen_by,
    taps,
)
from .forward import CONV, Padding, check_floats, window_attributes

if TYPE_CHECKING:
    from ...tensor import Tensor


def _samples(draw: Draw, of_input: bool) -> Iterator[Sample]:
    if not draw.dtype.is_inexact:
        return
    shapes: tuple[tuple[Ints, Ints, Ints, dict[str, Any]], ...] = (
        ((2, 3, 8, 8), (2, 5, 6, 6), (5, 3, 3, 3), {}),
        ((2, 1, 8, 5), (2, 3, 8, 5), (3, 1, 5, 5), {"padding": 2}),
        ((3, 2, 17), (3, 2, 6), (2, 2, 3), {"stride": 2, "padding": ((0, 1),), "dilation": 3}),
        ((2, 4, 5, 8), (2, 2, 3, 10), (2, 2, 2, 3),
         {"groups": 2, "stride": (2, 1), "padding": (1, 2)}),
        ((2, 2, 8), (2, 2, 5), (2, 2, 1), {"stride": 2, "padding": 1}),
    )  # fmt: skip
    for (_, *x), (_, *g), weight, more in shapes:
        n = draw.size(2)
        if of_input:
            yield Sample((draw.array((n, *g)), draw.array(weight), (*x[1:],)), more, condition=8)
        else:
            images, out = draw.array((n, *x)), draw.array((n, *g))
            yield Sample((images, out, weight[2:]), more, condition=32)


_STATICS = ("stride", "padding", "dilation", "groups")
_BY_WEIGHT = Traits("contraction", precision="low", bound="compute", layer=1)
_OF_WEIGHT = Traits("contraction", precision="low", bound="compute", layer=2)


@guarded
def conv_input_gradient(
    g: TensorLike,
    weight: TensorLike,
    size: PerAxis,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `conv` in its images: what a gradient g of the result means for them.

    Args:
        g: (batch, features, *out).
        weight: (features, channels / groups, *kernel).
        size: the image sizes of the convolution's input.
        stride, padding, dilation, groups: as for `conv`.

    Returns:
        (batch, channels, *size).

    >>> import ingle.tensor as it
    >>> g = it.asarray([[[1.0, 1.0]]])
    >>> it.conv_input_gradient(g, it.asarray([[[2.0, 3.0]]]), 3).tolist()
    [[[2.0, 5.0, 3.0]]]
    """
    name = "conv_input_gradient"
    kernel = image_axes(name, g, weight, "weight")
    attributes = window_attributes(name, kernel, stride, padding, dilation, groups)
    op = CONV_INPUT_GRADIENT.op(size=per_axis(size, len(kernel), name, "size", 0), **attributes)
    return run(op, promote(name, ("g", g), ("weight", weight)))[0]


def _input_shape(
    g: Aval, weight: Aval, *, size: Ints, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Aval:
    name = "conv_input_gradient"
    check_floats(name, "g", g.dtype)
    out = out_sizes(name, size, weight.shape[2:], stride, padding, dilation, "weight")
    if g.shape[1] != weight.shape[0] or weight.shape[0] % groups or g.shape[2:] != out:
        raise ShapeError(
            f"{name}: for weight {weight.shape}, size {size}, stride {stride}, padding {padding}, "
            f"dilation {dilation} and groups {groups} g must be (batch, {weight.shape[0]}, "
            f"{', '.join(map(str, out))}), got {g.shape}"
        )
    return Aval((g.shape[0], weight.shape[1] * groups, *size), g.dtype)


def _input_body(
    g: Tensor, weight: Tensor, *, size: Ints, stride: Ints, padding: Pairs, dilation: Ints,
    groups: int,
) -> Tensor:  # fmt: skip
    rank, (features, channels) = len(size), weight.shape[:2]
    spread = tuple((n - 1) * s + 1 for n, s in zip(g.shape[2:], stride, strict=True))
    image = put_back(g, (0,) * rank, spread, stride, (1,) * rank)
    around = tuple(
        (d * (k - 1) - low, n + low - wide)
        for d, k, (low, _), n, wide in zip(
            dilation, weight.shape[2:], padding, size, spread, strict=True
        )
    )
    image = cropped(image, tuple((max(0, -low), max(0, -high)) for low, high in around))
    grouped = reshape(weight, (groups, features // groups, *weight.shape[1:]))
    swapped = permute_dims(grouped, (0, 2, 1, *range(3, 3 + rank)))
    kernel = _mirrored(reshape(swapped, (groups * channels, features // groups, *weight.shape[2:])))
    zeros = tuple((max(0, low), max(0, high)) for low, high in around)
    return _convolve(image, kernel, (1,) * rank, zeros, dilation, groups)


def _mirrored(weight: Tensor) -> Tensor:
    kernel = weight.shape[2:]
    starts = (0, 0, *(k - 1 for k in kernel))
    return slice(weight, starts, weight.shape, (1, 1, *(-1 for _ in kernel)))


# In the rules v is the cotangent: g is an input of the operations here.
def _input_by_g(
    v: Tensor, weight: Tensor, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Tensor:
    return _convolve(v, conj(weight), stride, padding, dilation, groups)


def _input_by_weight(
    v: Tensor, g: Tensor, weight_aval: Aval, stride: Ints, padding: Pairs, dilation: Ints,
    groups: int,
) -> Tensor:  # fmt: skip
    return weight_gradient(v, conj(g), weight_aval.shape[2:], stride, padding, dilation, groups)


CONV_INPUT_GRADIENT = Operation(
    "conv_input_gradient",
    tensors=("g", "weight"),
    statics=("size", *_STATICS),
    rule=_input_shape,
    traits=_BY_WEIGHT,
    vjp={"g": _input_by_g, "weight": _input_by_weight},
    body=_input_body,
    public=conv_input_gradient,
    samples=partial(_samples, of_input=True),
    reference="ingle.tensor.ops.convolution._reference:conv_input_gradient",
)


@guarded
def conv_weight_gradient(
    x: TensorLike,
    g: TensorLike,
    kernel: PerAxis,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `conv` in its weight: what a gradient g of the result means for it.

    Args:
        x: (batch, channels, *size).
        g: (batch, features, *out).
        kernel: the sizes of the kernel.
        stride, padding, dilation, groups: as for `conv`.

    Returns:
        (features, channels / groups, *kernel).

    >>> import ingle.tensor as it
    >>> x = it.asarray([[[1.0, 2.0, 4.0]]])
    >>> it.conv_weight_gradient(x, it.asarray([[[1.0, 1.0]]]), 2).tolist()
    [[[3.0, 6.0]]]
    """
    name = "conv_weight_gradient"
    taps = per_axis(kernel, len(image_axes(name, g, x, "x")), name, "kernel")
    attributes = window_attributes(name, taps, stride, padding, dilation, groups)
    op = CONV_WEIGHT_GRADIENT.op(kernel=taps, **attributes)
    return run(op, promote(name, ("x", x), ("g", g)))[0]


def _weight_shape(
    x: Aval, g: Aval, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Aval:
    name = "conv_weight_gradient"
    check_floats(name, "x", x.dtype)
    out = out_sizes(name, x.shape[2:], kernel, stride, padding, dilation, "kernel")
    if g.shape[0] != x.shape[0] or g.shape[2:] != out or g.shape[1] % groups or x.shape[1] % groups:
        raise ShapeError(
            f"{name}: for x {x.shape}, kernel {kernel}, stride {stride}, padding {padding}, "
            f"dilation {dilation} and groups {groups} g must be ({x.shape[0]}, features, "
            f"{', '.join(map(str, out))}), got {g.shape}"
        )
    return Aval((g.shape[1], x.shape[1] // groups, *kernel), g.dtype)


def _weight_body(
    x: Tensor, g: Tensor, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints,
    groups: int,
) -> Tensor:  # fmt: skip
    batch, channels, *size = x.shape
    if groups == channels == g.shape[1] > 1:
        return _depthwise_weight(x, g, kernel, stride, padding, dilation)
    # Batch and channels change places, within each group.
    grouped = reshape(x, (batch, groups, channels // groups, *size))
    order = (2, 1, 0, *range(3, grouped.ndim))
    images = reshape(permute_dims(grouped, order), (channels // groups, groups * batch, *size))
    swap = (1, 0, *range(2, g.ndim))
    out = _convolve(images, permute_dims(g, swap), dilation, padding, stride, groups)
    # Where the last stride did not reach the border the result is longer than the kernel.
    whole = slice(out, (0,) * out.ndim, (*out.shape[:2], *kernel))
    return permute_dims(whole, swap)


def _depthwise_weight(
    x: Tensor, g: Tensor, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Tensor:
    """Each channel by itself: for each tap the sum of what it sees times g."""
    dtype, rank = x.dtype, len(kernel)
    image = padded(x, padding)
    if dtype.itemsize == 2:  # summed in float32, rounded once
        image, g = image.astype("float32"), g.astype("float32")
    seen = [seen_by(image, tap, g.shape[2:], stride, dilation) for tap in taps(kernel)]
    # First over lines, whose places side by side are summed side by side; a line alone is short.
    lines = tuple(range(2, 1 + rank)) or (2,)
    total = stack([sum(part * g, axis=lines) for part in seen])
    total = sum(sum(total, axis=-1) if rank > 1 else total, axis=1)
    return reshape(permute_dims(total, (1, 0)), (x.shape[1], 1, *kernel)).astype(dtype)


def _weight_by_x(
    v: Tensor, g: Tensor, x_aval: Aval, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Tensor:
    return input_gradient(conj(g), v, x_aval.shape[2:], stride, padding, dilation, groups)


def _weight_by_g(
    v: Tensor, x: Tensor, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Tensor:
    return _convolve(conj(x), v, stride, padding, dilation, groups)


CONV_WEIGHT_GRADIENT = Operation(
    "conv_weight_gradient",
    tensors=("x", "g"),
    statics=("kernel", *_STATICS),
    rule=_weight_shape,
    traits=_OF_WEIGHT,
    vjp={"x": _weight_by_x, "g": _weight_by_g},
    body=_weight_body,
    public=conv_weight_gradient,
    samples=partial(_samples, of_input=False),
    reference="ingle.tensor.ops.convolution._reference:conv_weight_gradient",
)


def input_gradient(
    g: Tensor, weight: Tensor, size: Ints, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Tensor:
    """`conv_input_gradient` with attributes that were checked before."""
    op = CONV_INPUT_GRADIENT.op(
        size=size, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    return run2(op, g._handle, weight._handle)


def weight_gradient(
    x: Tensor, g: Tensor, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Tensor:
    """`conv_weight_gradient` with attributes that were checked before."""
    op = CONV_WEIGHT_GRADIENT.op(
        kernel=kernel, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    return run2(op, x._handle, g._handle)


def image_axes(name: str, g: TensorLike, other: TensorLike, argument: str) -> Ints:
    """The sizes of the other operand along the image axes, which both operands have."""
    a, b = handle_of(g, name, "g").shape, handle_of(other, name, argument).shape
    if len(a) != len(b) or len(a) < 3:
        raise ShapeError(
            f"{name}: g and {argument} need two axes and the image axes each, got {a} and {b}"
        )
    return b[2:]


def _convolve(
    x: Tensor, weight: Tensor, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Tensor:
    op = CONV.op(stride=stride, padding=padding, dilation=dilation, groups=groups)
    return run2(op, x._handle, weight._handle)
