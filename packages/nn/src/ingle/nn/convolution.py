"""Convolution layers over one, two and three axes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError
from ingle.tensor.random import Generator

from ._arguments import Sizes, channel_groups, make, size, sizes
from .init import Init, KaimingUniform, Uniform
from .module import Module
from .parameter import Parameter


class _Conv(Module):
    _axes: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        weight_init: Init | None = None,
        bias_init: Init | None = None,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        name, n = type(self).__name__, self._axes
        self.in_channels = size(name, "in_channels", in_channels)
        self.out_channels = size(name, "out_channels", out_channels)
        self.kernel_size = sizes(name, "kernel_size", kernel_size, n)
        self.stride = sizes(name, "stride", stride, n)
        self.dilation = sizes(name, "dilation", dilation, n)
        self.padding = _padding(name, padding, n, self.stride)
        self.groups = channel_groups(name, groups, in_channels, out_channels)
        modes = ("zeros", "reflect", "replicate", "circular")
        if padding_mode not in modes:
            raise ArgumentError(
                f"{name}: padding_mode must be one of {', '.join(modes)}, got {padding_mode!r}"
            )
        self.padding_mode = padding_mode
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        bound = 1.0 / math.sqrt(math.prod(shape[1:]))
        place = (dtype, device, generator)
        self.weight = make(weight_init, KaimingUniform(math.sqrt(5.0)), shape, *place)
        self.bias: Parameter | None = None
        if bias:
            self.bias = make(bias_init, Uniform(-bound, bound), (out_channels,), *place)

    def _options(self) -> dict[str, Any]:
        return {
            "stride": self.stride, "padding": self.padding, "dilation": self.dilation,
            "groups": self.groups, "padding_mode": self.padding_mode,
        }  # fmt: skip

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        one = (1,) * self._axes
        for name, value, plain in (
            ("padding", self.padding, (0,) * self._axes),
            ("dilation", self.dilation, one),
            ("groups", self.groups, 1),
            ("bias", self.bias is not None, True),
            ("padding_mode", self.padding_mode, "zeros"),
        ):
            if value != plain:
                text += f", {name}={value!r}"
        return text


def _padding(
    name: str, padding: Sizes | str, axes: int, stride: tuple[int, ...]
) -> tuple[int, ...] | str:
    if not isinstance(padding, str):
        return sizes(name, "padding", padding, axes, 0)
    if padding not in ("same", "valid"):
        raise ArgumentError(f"{name}: padding must be integers, 'same' or 'valid', got {padding!r}")
    if padding == "same" and any(s != 1 for s in stride):
        raise ArgumentError(f"{name}: padding='same' needs stride 1, got {stride}")
    return padding


class Conv1d(_Conv):
    """Cross-correlation over the last axis: (N, in, L) to (N, out, L').

    Args:
        in_channels, out_channels: numbers of channels.
        kernel_size, stride, dilation: along the axis.
        padding: zeros on both sides; `"same"` keeps the length, `"valid"` is 0.
        groups: how many independent blocks the channels fall into.
        bias: whether there is one.
        padding_mode: what padding holds: `"zeros"`, `"reflect"`, `"replicate"`, `"circular"`.
        weight_init, bias_init: first values; uniform within 1 / sqrt(fan_in) if not given.
        device, dtype: of the parameters.
        generator: of the first values.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Conv1d
    >>> Conv1d(3, 8, 5, padding=2)(it.ones((1, 3, 20))).shape
    (1, 8, 20)
    """

    _axes = 1

    def forward(self, x: TensorLike) -> Tensor:
        return it.conv1d(x, self.weight, self.bias, **self._options())


class Conv2d(_Conv):
    """Cross-correlation over the last two axes: (N, in, H, W) to (N, out, H', W').

    The arguments are those of `Conv1d`, with one number for both axes or two.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Conv2d
    >>> Conv2d(1, 32, 5, stride=2)(it.ones((2, 1, 28, 28))).shape
    (2, 32, 12, 12)
    """

    _axes = 2

    def forward(self, x: TensorLike) -> Tensor:
        return it.conv2d(x, self.weight, self.bias, **self._options())


class Conv3d(_Conv):
    """Cross-correlation over the last three axes: (N, in, D, H, W) to (N, out, D', H', W').

    The arguments are those of `Conv1d`, with one number for all axes or three.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Conv3d
    >>> Conv3d(1, 4, 3)(it.ones((1, 1, 5, 6, 7))).shape
    (1, 4, 3, 4, 5)
    """

    _axes = 3

    def forward(self, x: TensorLike) -> Tensor:
        return it.conv3d(x, self.weight, self.bias, **self._options())
