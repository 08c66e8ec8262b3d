"""Layers that change the size of images, and that take them apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError
from ingle.tensor.random import Generator

from ._arguments import Sizes, channel_groups, make, size, sizes
from .init import Init, KaimingUniform, Uniform
from .module import Module
from .parameter import Parameter

Factor = float | Sequence[float]


class Upsample(Module):
    """Interpolates to another size over the axes behind (N, C).

    Args:
        size: of these axes, one number for all or one for each, or
        scale_factor: what their sizes are multiplied by.
        mode: `"nearest"`, `"linear"`, `"bilinear"`, `"bicubic"`, `"trilinear"`; see
            `ingle.tensor.interpolate`.
        align_corners: whether the outermost elements stay at the ends.
        recompute_scale_factor: whether the factor is computed again from the rounded size.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Upsample
    >>> Upsample(scale_factor=2)(it.asarray([[[1.0, 3.0]]])).tolist()
    [[[1.0, 1.0, 3.0, 3.0]]]
    """

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: Factor | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        if (size is None) is (scale_factor is None):
            raise ArgumentError(
                f"{type(self).__name__}: give either size or scale_factor, got size={size} and "
                f"scale_factor={scale_factor}"
            )
        self.size, self.scale_factor = size, scale_factor
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: TensorLike) -> Tensor:
        return it.interpolate(
            x, self.size, self.scale_factor, mode=self.mode, align_corners=self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        where = f"size={self.size}"
        if self.size is None:
            where = f"scale_factor={self.scale_factor}"
        return f"{where}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of images by the nearest element.

    >>> import ingle.tensor as it
    >>> from ingle.nn import UpsamplingNearest2d
    >>> UpsamplingNearest2d(scale_factor=2)(it.ones((1, 3, 4, 5))).shape
    (1, 3, 8, 10)
    """

    def __init__(self, size: Sizes | None = None, scale_factor: Factor | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images, bilinear with aligned corners.

    >>> import ingle.tensor as it
    >>> from ingle.nn import UpsamplingBilinear2d
    >>> UpsamplingBilinear2d((1, 3))(it.asarray([[[[1.0, 2.0]]]])).tolist()
    [[[[1.0, 1.5, 2.0]]]]
    """

    def __init__(self, size: Sizes | None = None, scale_factor: Factor | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Module):
    """(N, C * r * r, H, W) to (N, C, H * r, W * r); Shi et al. (CVPR 2016).

    >>> import ingle.tensor as it
    >>> from ingle.nn import PixelShuffle
    >>> PixelShuffle(2)(it.ones((1, 8, 3, 4))).shape
    (1, 2, 6, 8)
    """

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = size("PixelShuffle", "upscale_factor", upscale_factor)

    def forward(self, x: TensorLike) -> Tensor:
        return it.pixel_shuffle(x, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(N, C, H * r, W * r) to (N, C * r * r, H, W), the inverse of `PixelShuffle`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import PixelUnshuffle
    >>> PixelUnshuffle(2)(it.ones((1, 2, 6, 8))).shape
    (1, 8, 3, 4)
    """

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = size("PixelUnshuffle", "downscale_factor", downscale_factor)

    def forward(self, x: TensorLike) -> Tensor:
        return it.pixel_unshuffle(x, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Deals the channels of (N, C, ...) out among groups; Zhang et al. (CVPR 2018).

    >>> import ingle.tensor as it
    >>> from ingle.nn import ChannelShuffle
    >>> ChannelShuffle(2)(it.reshape(it.arange(4), (1, 4, 1, 1))).ravel().tolist()
    [0, 2, 1, 3]
    """

    def __init__(self, groups: int) -> None:
        self.groups = size("ChannelShuffle", "groups", groups)

    def forward(self, x: TensorLike) -> Tensor:
        return it.channel_shuffle(x, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Unfold(Module):
    """The windows of images as columns: (N, C, H, W) to (N, C * window, number of windows).

    Args:
        kernel_size: of the windows.
        dilation, padding, stride: as in convolutions.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Unfold
    >>> Unfold(2)(it.ones((1, 3, 4, 5))).shape
    (1, 12, 12)
    """

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        name = type(self).__name__
        self.kernel_size = sizes(name, "kernel_size", kernel_size, 2)
        self.dilation = sizes(name, "dilation", dilation, 2)
        self.padding = sizes(name, "padding", padding, 2, 0)
        self.stride = sizes(name, "stride", stride, 2)

    def forward(self, x: TensorLike) -> Tensor:
        return it.unfold(
            x, self.kernel_size, dilation=self.dilation, padding=self.padding, stride=self.stride
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Unfold):
    """Adds columns up to images, the transpose of `Unfold`.

    Args:
        output_size: of the images.
        kernel_size, dilation, padding, stride: as in `Unfold`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Fold
    >>> Fold((4, 5), 2)(it.ones((1, 12, 12))).shape
    (1, 3, 4, 5)
    """

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = sizes("Fold", "output_size", output_size, 2)

    def forward(self, x: TensorLike) -> Tensor:
        return it.fold(
            x, self.output_size, self.kernel_size, dilation=self.dilation, padding=self.padding,
            stride=self.stride,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"


class DeformConv2d(Module):
    """A convolution whose samples are moved by offsets; Dai et al. (ICCV 2017), Zhu et al. (2019).

    `forward(x, offset, mask=None)`; the arguments are those of torchvision's layer.

    Args:
        in_channels, out_channels: numbers of channels.
        kernel_size, stride, padding, dilation: along both axes.
        groups: how many independent blocks the channels fall into.
        bias: whether there is one.
        weight_init, bias_init: first values; uniform within 1 / sqrt(fan_in) if not given.
        device, dtype: of the parameters.
        generator: of the first values.

    >>> import ingle.tensor as it
    >>> from ingle.nn import DeformConv2d
    >>> DeformConv2d(3, 4, 3, padding=1)(it.ones((1, 3, 5, 6)), it.zeros((1, 18, 5, 6))).shape
    (1, 4, 5, 6)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        weight_init: Init | None = None,
        bias_init: Init | None = None,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        name = "DeformConv2d"
        self.in_channels = size(name, "in_channels", in_channels)
        self.out_channels = size(name, "out_channels", out_channels)
        self.groups = channel_groups(name, groups, in_channels, out_channels)
        self.kernel_size = sizes(name, "kernel_size", kernel_size, 2)
        self.stride = sizes(name, "stride", stride, 2)
        self.padding = sizes(name, "padding", padding, 2, 0)
        self.dilation = sizes(name, "dilation", dilation, 2)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        bound, place = 1.0 / math.sqrt(math.prod(shape[1:])), (dtype, device, generator)
        self.weight = make(weight_init, KaimingUniform(math.sqrt(5.0)), shape, *place)
        self.bias: Parameter | None = None
        if bias:
            self.bias = make(bias_init, Uniform(-bound, bound), (out_channels,), *place)

    def forward(self, x: TensorLike, offset: TensorLike, mask: TensorLike | None = None) -> Tensor:
        return it.deform_conv2d(
            x, offset, self.weight, self.bias, stride=self.stride, padding=self.padding,
            dilation=self.dilation, mask=mask,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}"
        )
