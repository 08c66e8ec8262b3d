"""Transposed convolutions over one, two and three axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.random import Generator

from ._arguments import Sizes, channel_groups, make, size, sizes
from .init import Init, KaimingUniform, Uniform
from .module import Module
from .parameter import Parameter


class _ConvTranspose(Module):
    _axes: ClassVar[int]
    _function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        *,
        weight_init: Init | None = None,
        bias_init: Init | None = None,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        name, n = type(self).__name__, self._axes
        if padding_mode != "zeros":
            raise ArgumentError(f"{name}: padding_mode must be 'zeros', got {padding_mode!r}")
        self.in_channels = size(name, "in_channels", in_channels)
        self.out_channels = size(name, "out_channels", out_channels)
        self.kernel_size = sizes(name, "kernel_size", kernel_size, n)
        self.stride = sizes(name, "stride", stride, n)
        self.padding = sizes(name, "padding", padding, n, 0)
        self.output_padding = sizes(name, "output_padding", output_padding, n, 0)
        self.dilation = sizes(name, "dilation", dilation, n)
        self.groups = channel_groups(name, groups, in_channels, out_channels)
        shape = (in_channels, out_channels // groups, *self.kernel_size)
        bound = 1.0 / math.sqrt(math.prod(shape[1:]))
        place = (dtype, device, generator)
        self.weight = make(weight_init, KaimingUniform(math.sqrt(5.0)), shape, *place)
        self.bias: Parameter | None = None
        if bias:
            self.bias = make(bias_init, Uniform(-bound, bound), (out_channels,), *place)

    def forward(self, x: TensorLike, output_size: Sequence[int] | None = None) -> Tensor:
        x = it.asarray(x)
        more = self.output_padding
        if output_size is not None:
            more = self._more(x, output_size)
        return self._function(
            x, self.weight, self.bias, stride=self.stride, padding=self.padding,
            output_padding=more, groups=self.groups, dilation=self.dilation,
        )  # fmt: skip

    def _more(self, x: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """The output padding that gives the wanted sizes."""
        n = self._axes
        wanted = tuple(output_size)[-n:]
        least = [
            (length - 1) * s - 2 * p + d * (k - 1) + 1
            for length, s, p, d, k in zip(
                x.shape[-n:], self.stride, self.padding, self.dilation, self.kernel_size,
                strict=True,
            )
        ]  # fmt: skip
        more = tuple(w - low for w, low in zip(wanted, least, strict=True))
        if any(not 0 <= m < s for m, s in zip(more, self.stride, strict=True)):
            most = [low + s - 1 for low, s in zip(least, self.stride, strict=True)]
            raise ShapeError(
                f"{type(self).__name__}: output_size={tuple(output_size)} must be from "
                f"{tuple(least)} to {tuple(most)} for x of shape {x.shape}"
            )
        return more

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        zero = (0,) * self._axes
        for name, value, plain in (
            ("padding", self.padding, zero),
            ("dilation", self.dilation, (1,) * self._axes),
            ("output_padding", self.output_padding, zero),
            ("groups", self.groups, 1),
            ("bias", self.bias is not None, True),
        ):
            if value != plain:
                text += f", {name}={value!r}"
        return text


class ConvTranspose1d(_ConvTranspose):
    """The gradient of a convolution by its input, as a layer: (N, in, L) to (N, out, L').

    Args:
        in_channels, out_channels: numbers of channels.
        kernel_size, stride, dilation: of the convolution.
        padding: how much of each end of the result is left out.
        output_padding: how much is added to the end, less than the stride; `forward` computes it
            from `output_size`.
        groups: how many independent blocks the channels fall into.
        bias: whether there is one.
        padding_mode: `"zeros"`, the only one that there is.
        weight_init, bias_init: first values; uniform within 1 / sqrt(fan_in) if not given.
        device, dtype: of the parameters.
        generator: of the first values.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ConvTranspose1d
    >>> ConvTranspose1d(3, 8, 4, stride=2, padding=1)(it.ones((1, 3, 10))).shape
    (1, 8, 20)
    """

    _axes = 1
    _function = staticmethod(it.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """`ConvTranspose1d` over two axes: (N, in, H, W) to (N, out, H', W').

    >>> import ingle.tensor as it
    >>> from ingle.nn import ConvTranspose2d
    >>> layer = ConvTranspose2d(3, 8, 3, stride=2, padding=1)
    >>> layer(it.ones((1, 3, 5, 6)), output_size=(10, 12)).shape
    (1, 8, 10, 12)
    """

    _axes = 2
    _function = staticmethod(it.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """`ConvTranspose1d` over three axes: (N, in, D, H, W) to (N, out, D', H', W').

    >>> import ingle.tensor as it
    >>> from ingle.nn import ConvTranspose3d
    >>> ConvTranspose3d(1, 2, 2)(it.ones((1, 1, 3, 4, 5))).shape
    (1, 2, 4, 5, 6)
    """

    _axes = 3
    _function = staticmethod(it.conv_transpose3d)
