"""Convolutions and what undoes them."""

from __future__ import annotations

import math

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..registry import operator
from ..values import Host, ints
from ._windows import Window, padded, windows
from .products import shifted


@operator("Conv")
def conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """A convolution over any number of axes up to three."""
    spans = _spans("Conv", x, weight, auto_pad, dilations, kernel_shape, pads, strides)
    if all(w.before == w.behind for w in spans):
        added: tuple[int, ...] = tuple(w.before for w in spans)
    else:
        x, added = padded(x, spans, 0, whole=False), (0,) * len(spans)
    return it.conv(
        x, weight, bias, stride=tuple(w.stride for w in spans), padding=added,
        dilation=tuple(w.dilation for w in spans), groups=group,
    )  # fmt: skip


def _spans(
    name: str, x: Tensor, weight: Tensor, auto_pad: str, dilations: list[int] | None,
    kernel_shape: list[int] | None, pads: list[int] | None, strides: list[int] | None,
) -> list[Window]:  # fmt: skip
    if x.ndim != weight.ndim or x.ndim < 3:
        raise ModelError(f"{name}: the input is {x.shape} and the weight {weight.shape}")
    kernel = list(weight.shape[2:])
    if kernel_shape and list(kernel_shape) != kernel:
        raise ModelError(f"{name}: kernel_shape is {kernel_shape}, the weight's {kernel}")
    return windows(
        name,
        x.shape[2:],
        kernel,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
    )


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None, output_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """What the gradient of a convolution by its input is."""
    n, kernel = x.ndim - 2, list(weight.shape[2:])
    stride, dilation = strides or [1] * n, dilations or [1] * n
    extra = output_padding or [0] * n
    whole = [(x.shape[2 + a] - 1) * stride[a] + dilation[a] * (kernel[a] - 1) + 1 for a in range(n)]
    ends = pads or [0] * 2 * n
    cuts = [(ends[a], ends[a + n]) for a in range(n)]
    if output_shape or auto_pad.startswith("SAME"):
        wanted = output_shape or [x.shape[2 + a] * stride[a] for a in range(n)]
        wanted = wanted[-n:]
        cuts = []
        for a in range(n):
            total = whole[a] + extra[a] - wanted[a]
            # What is missing is added behind; what is too much is cut at both ends.
            less, more = (total // 2, total - total // 2) if total > 0 else (0, total)
            cuts.append((less, more) if auto_pad == "SAME_UPPER" or total < 0 else (more, less))
    transpose = {1: it.conv_transpose1d, 2: it.conv_transpose2d, 3: it.conv_transpose3d}.get(n)
    if transpose is None:
        raise ModelError(f"ConvTranspose: {n} spatial axes; one to three are supported")
    y = transpose(x, weight, stride=tuple(stride), groups=group, dilation=tuple(dilation))
    widths = [
        (0, 0),
        (0, 0),
        *((max(-a, 0), extra[i] + max(-b - extra[i], 0)) for i, (a, b) in enumerate(cuts)),
    ]
    y = it.pad(y, widths) if any(a or b for a, b in widths) else y
    key = tuple(
        slice(
            max(cuts[a][0], 0), max(cuts[a][0], 0) + whole[a] + extra[a] - cuts[a][0] - cuts[a][1]
        )
        for a in range(n)
    )
    y = y[(slice(None), slice(None), *key)]
    return y if bias is None else y + it.reshape(bias, (-1, *[1] * n))


@operator("ConvInteger")
def conv_integer(
    x: Tensor, weight: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, *,
    auto_pad: str = "NOTSET", dilations: list[int] | None = None, group: int = 1,
    kernel_shape: list[int] | None = None, pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """A convolution of eight-bit integers in int32, exact."""
    zero = (
        None
        if w_zero is None or w_zero.ndim == 0
        else it.reshape(w_zero, (-1, *[1] * (weight.ndim - 1)))
    )
    return integer_conv(
        shifted(x, x_zero, 0), shifted(weight, w_zero if zero is None else zero, 0),
        auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
        strides=strides,
    )  # fmt: skip


def integer_conv(
    x: Tensor, weight: Tensor, *, auto_pad: str, dilations: list[int] | None, group: int,
    kernel_shape: list[int] | None, pads: list[int] | None, strides: list[int] | None,
) -> Tensor:  # fmt: skip
    """By way of float64, which holds every sum of products that int32 does."""
    y = conv(
        x.astype(it.float64), weight.astype(it.float64), auto_pad=auto_pad, dilations=dilations,
        group=group, kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    return y.astype(it.int32)


@operator("DeformConv")
def deform_conv(
    x: Tensor, weight: Tensor, offset: Tensor, bias: Tensor | None = None,
    mask: Tensor | None = None, *, dilations: list[int] | None = None, group: int = 1,
    kernel_shape: list[int] | None = None, offset_group: int = 1, pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """A convolution whose windows are read at places that are values."""
    spans = _spans("DeformConv", x, weight, "NOTSET", dilations, kernel_shape, pads, strides)
    if any(w.before != w.behind for w in spans):
        x = padded(x, spans, 0, whole=False)
        added: tuple[int, ...] = (0,) * len(spans)
    else:
        added = tuple(w.before for w in spans)
    return it.deform_conv2d(
        x, offset, weight, bias, stride=tuple(w.stride for w in spans), padding=added,
        dilation=tuple(w.dilation for w in spans), mask=mask,
    )  # fmt: skip


@operator("Col2Im")
def col2im(
    x: Tensor, image_shape: Host, block_shape: Host, *, dilations: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """Blocks added up to an image, over any number of axes."""
    sizes, block = tuple(ints(image_shape)), ints(block_shape)
    spans = windows("Col2Im", sizes, block, strides=strides, dilations=dilations, pads=pads)
    n, inside = x.shape[0], math.prod(block)
    channels = x.shape[1] // inside
    whole = [w.size + w.before + w.behind for w in spans]
    place = np.zeros((1, 1), np.int64)
    for w, size in zip(spans, whole, strict=True):
        # Rows are places in a block, columns are blocks: the last axis changes fastest.
        one = np.arange(w.kernel)[:, None] * w.dilation + np.arange(w.count) * w.stride
        place = (place[:, None, :, None] * size + one[None, :, None, :]).reshape(
            place.shape[0] * w.kernel, place.shape[1] * w.count
        )
    blocks = it.reshape(x, (n * channels, inside * x.shape[2]))
    places = it.asarray(place.reshape(-1), device=x.device)
    image = it.scatter_add(
        it.zeros((n * channels, math.prod(whole)), dtype=x.dtype, device=x.device),
        places,
        blocks,
        axis=1,
    )
    image = it.reshape(image, (n, channels, *whole))
    return image[(slice(None), slice(None), *(slice(w.before, w.before + w.size) for w in spans))]


@operator("CausalConvWithState")
def causal_conv_with_state(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, past: Tensor | None = None, *,
    activation: str = "none",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A convolution of each channel over what came before, and the end that the next call needs."""
    n, channels, kernel = x.shape[0], x.shape[1], weight.shape[-1]
    if past is None:
        past = it.zeros((n, channels, kernel - 1), dtype=x.dtype, device=x.device)
    line = it.concat([past, x], axis=-1)
    y = it.conv(line, weight, bias, groups=channels)
    if activation not in ("none", "silu", "swish"):
        raise ModelError(f"CausalConvWithState: activation {activation!r} is none of ONNX's")
    return y if activation == "none" else it.silu(y), line[:, :, line.shape[-1] - kernel + 1 :]
