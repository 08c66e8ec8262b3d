"""LPIPS: how different two images look, by the features of a classifier."""

from __future__ import annotations

from typing import Literal

import ingle.tensor as it
from ingle import nn
from ingle.tensor import Tensor
from ingle.tensor.argument_checks import number
from ingle.tensor.errors import ArgumentError

from ..base import Mean, doubles
from .pictures import check_pictures, evaluated
from .trunks import VGG_ENDS, Slices, alexnet, squeezenet, vgg16

TRUNKS = {
    "alex": (alexnet, (2, 5, 8, 10, 12), (64, 192, 384, 256, 256)),
    "squeeze": (squeezenet, (2, 5, 8, 10, 11, 12, 13), (64, 128, 256, 384, 384, 512, 512)),
    "vgg": (vgg16, VGG_ENDS, (64, 128, 256, 512, 512)),
}
"""Layers, before which of them slices end, and the channels of each slice."""


class LPIPSNet(nn.Module):
    """The distance of two batches of images with values from -1 to 1 (Zhang et al., 2018).

    Features of a classifier are brought to the length 1 at each place; their squared differences
    are weighted by channel, and averaged over the image. Weights are random at first: the names in
    its state are those of the reference implementation, the package `lpips`, whose
    `torch.save(lpips.LPIPS(net="alex").state_dict(), FILE)` is read by
    `ingle.importer.load_weights(net, FILE, strict=False)`.

    Args:
        trunk: the classifier: "alex", "squeeze" or "vgg".

    Raises:
        ArgumentError: there is no such classifier here.

    >>> import ingle.tensor as it
    >>> from ingle.train.metrics.perceptual import LPIPSNet
    >>> net, image = LPIPSNet("squeeze"), it.zeros((2, 3, 32, 32))
    >>> net(image, image).tolist()
    [0.0, 0.0]
    """

    def __init__(self, trunk: Literal["alex", "squeeze", "vgg"] = "alex") -> None:
        if trunk not in TRUNKS:
            raise ArgumentError(
                f"LPIPSNet: trunk must be 'alex', 'squeeze' or 'vgg', got {trunk!r}"
            )
        make, ends, channels = TRUNKS[trunk]
        self.net = Slices(make(), ends, "slice")
        self.count = len(channels)
        for i, width in enumerate(channels):
            setattr(self, f"lin{i}", _Weights(width))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        total = it.zeros((x.shape[0],), dtype=x.dtype, device=x.device)
        first, second = (self.net(_scaled(images)) for images in (x, y))
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            weights = getattr(self, f"lin{i}").model[1].weight
            apart = it.conv2d(it.square(_of_length_one(a) - _of_length_one(b)), weights)
            total = total + it.mean(apart, axis=(1, 2, 3))
        return total


class _Weights(nn.Module):
    """The weights of channels, as the reference implementation names them."""

    def __init__(self, channels: int) -> None:
        self.model = nn.Sequential(nn.Dropout(), nn.Conv2d(channels, 1, 1, bias=False))


def _scaled(images: Tensor) -> Tensor:
    """With the means and deviations that the classifiers were trained with."""
    shift = it.asarray([-0.030, -0.088, -0.188], dtype=images.dtype, device=images.device)
    scale = it.asarray([0.458, 0.448, 0.450], dtype=images.dtype, device=images.device)
    return (images - it.reshape(shift, (1, 3, 1, 1))) / it.reshape(scale, (1, 3, 1, 1))


def _of_length_one(features: Tensor) -> Tensor:
    length = it.sqrt(it.sum(it.square(features), axis=1, keepdims=True))
    return features / (length + 1e-10)


class LPIPS(Mean):
    """How different two images look (Zhang et al., 2018), 0 where they are the same: the mean.

    Outputs and targets are floats of shape (images, 3, height, width).

    Args:
        net: an `LPIPSNet` with weights that were loaded; they are not part of Ingle.
        low: the smallest value that there can be.
        high: the largest value that there can be.

    Raises:
        ShapeError: the shapes differ, or are not those of images with three channels.
        ArgumentError: `low` is not below `high`.

    >>> import ingle.tensor as it
    >>> from ingle.train import LPIPS
    >>> from ingle.train.metrics.perceptual import LPIPSNet
    >>> lpips, image = LPIPS(LPIPSNet("squeeze")), it.random.uniform((2, 3, 32, 32))
    >>> lpips.update(image, image, 0.0)
    >>> lpips.compute()
    0.0
    """

    name = "lpips"

    def __init__(self, net: LPIPSNet, *, low: float = 0.0, high: float = 1.0) -> None:
        if not number("LPIPS", "low", low) < number("LPIPS", "high", high):
            raise ArgumentError(f"LPIPS: low must be below high, got {low} and {high}")
        self.net = net
        self.low, self.high = low, high
        super().__init__()

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_pictures("LPIPS", outputs, targets)
        factor = 2.0 / (self.high - self.low)
        x, y = ((images - self.low) * factor - 1.0 for images in (outputs, targets))
        self.total += float(doubles(evaluated(self.net, x, y)).sum())
        self.count += outputs.shape[0]
