"""Convolutions whose weight is kept as codes."""

from __future__ import annotations

from typing import Any, ClassVar

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike

from ..convolution import Conv1d, Conv2d, Conv3d
from .activations import DYNAMIC, STATIC, dynamic_scale, faked_dynamic, faked_static
from .base import QuantizedLayer, Range, recorded
from .config import QuantizationConfig

BYTES = QuantizationConfig("int8")


class _QuantizedConv(QuantizedLayer):
    _axes: ClassVar[int]

    def __init__(
        self,
        base: Any,
        config: QuantizationConfig = BYTES,
        *,
        input_range: Range | None = None,
    ) -> None:
        self.in_channels, self.out_channels = base.in_channels, base.out_channels
        self.kernel_size, self.stride, self.dilation = base.kernel_size, base.stride, base.dilation
        self.padding, self.groups = base.padding, base.groups
        self.padding_mode = base.padding_mode
        self._text = base.extra_repr()
        self._keep(base.weight, base.bias, config, input_range)

    def _conv(self, x: Tensor, weight: Tensor, bias: Any) -> Tensor:
        convolution = (it.conv1d, it.conv2d, it.conv3d)[self._axes - 1]
        return convolution(
            x, weight, bias, stride=self.stride, padding=self.padding, dilation=self.dilation,
            groups=self.groups, padding_mode=self.padding_mode,
        )  # fmt: skip

    def forward(self, x: TensorLike) -> Tensor:
        given = it.asarray(x)
        if self.config.activations is None:
            return self._conv(given, self.weight, self.bias)
        if self.config.integer_products and not recorded(given):
            return self._by_integers(given)
        if self.config.activations == "static":
            given = faked_static(given, *self._static())
        else:
            given = faked_dynamic(given, self._samples(given))
        return self._conv(given, self.weight, self.bias)

    def _samples(self, x: Tensor) -> tuple[int, ...]:
        """The axis along which each image has a scale of its own, if there is a batch."""
        return (0,) if x.ndim == self._axes + 2 else ()

    def _by_integers(self, x: Tensor) -> Tensor:
        # Sums of up to 1024 products of bytes are exact in float32, whose convolutions every
        # backend has; the border of zeros is right, as zero points come off before.
        wide = self.scale.dtype
        if self.config.activations == "dynamic":
            axes = self._samples(x)
            scale = dynamic_scale(x, axes) if axes else _of_all(x)
            codes = it.quantize(x, scale, dtype=DYNAMIC)
        else:
            scale, zero_point = self._static()
            given = it.quantize(x, scale, zero_point, dtype=STATIC)
            codes = it.astype(given, "int32") - zero_point
        sums = self._conv(it.astype(codes, wide), it.astype(self._codes(), wide), None)
        shape = (-1, *(1,) * self._axes)
        out = sums * (scale.astype(wide) * it.reshape(self.scale.raw, shape))
        if self.bias is not None:
            out = out + it.reshape(self.bias.raw, shape)
        return it.astype(out, x.dtype)

    def extra_repr(self) -> str:
        return f"{self._text}, {self._said()}"


def _of_all(x: Tensor) -> Tensor:
    return it.quantization_parameters(*it.quantization_range(x.detach()), dtype=DYNAMIC)[0]


class QuantizedConv1d(_QuantizedConv):
    """`QuantizedConv2d` over one axis.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> nn.QuantizedConv1d(nn.Conv1d(3, 8, 3))(it.ones((2, 3, 9))).shape
    (2, 8, 7)
    """

    _axes = 1


class QuantizedConv2d(_QuantizedConv):
    """A frozen convolution whose weight is kept as codes of few bits.

    With `activations` sums are of products of codes, and scaled behind the sum; `"dynamic"` takes
    one scale an image.

    Args:
        base: the layer whose values are taken.
        config: how; int8, with a scale for each channel that comes out, if not given.
        input_range: the smallest and the largest number that comes in, for `activations="static"`.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> layer = nn.QuantizedConv2d(nn.Conv2d(3, 8, 3))
    >>> layer(it.ones((2, 3, 8, 8))).shape, layer.codes.dtype, layer.scale.shape
    ((2, 8, 6, 6), int8, (8, 1, 1, 1))
    """

    _axes = 2


class QuantizedConv3d(_QuantizedConv):
    """`QuantizedConv2d` over three axes.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> nn.QuantizedConv3d(nn.Conv3d(3, 8, 3))(it.ones((2, 3, 5, 5, 5))).shape
    (2, 8, 3, 3, 3)
    """

    _axes = 3


CONVOLUTIONS = {Conv1d: QuantizedConv1d, Conv2d: QuantizedConv2d, Conv3d: QuantizedConv3d}
