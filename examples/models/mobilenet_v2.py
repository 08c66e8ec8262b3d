"""MobileNetV2; Sandler et al.: Inverted residuals and linear bottlenecks (2018).

`python -m models.mobilenet_v2 --weights FILE photo.jpg`, where FILE is the one of torchvision, such
as https://download.pytorch.org/models/mobilenet_v2-b0353104.pth, or its URL.
"""

from __future__ import annotations

from typing import Self

import ingle.nn as nn
import ingle.tensor as it
from ingle.tensor import Tensor

from .pictures import PictureModel, Shapes

STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip
"""By what channels are multiplied inside of a block, how many come out, how many blocks, and the
stride of the first."""


def convolved(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """A convolution with its norm and activation."""
    return [
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs), nn.ReLU6(),
    ]  # fmt: skip


class Block(nn.Module):
    """More channels between few: a convolution of each channel between two of single pixels."""

    def __init__(self, inputs: int, outputs: int, stride: int, factor: int) -> None:
        inner = inputs * factor
        layers = [nn.Sequential(*convolved(inputs, inner, 1))] if factor != 1 else []
        self.conv = nn.Sequential(
            *layers, nn.Sequential(*convolved(inner, inner, 3, stride, inner)),
            nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.added = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return x + out if self.added else out


class MobileNetV2(PictureModel):
    """Scores of classes.

    Args:
        classes: how many.
        width: a factor of all channels, which are multiples of 8.
        dropout: before the last layer, while training.
    """

    def __init__(self, classes: int = 1000, width: float = 1.0, dropout: float = 0.2) -> None:
        inputs, last = eights(32 * width), eights(1280 * max(1.0, width))
        layers: list[nn.Module] = [nn.Sequential(*convolved(3, inputs, 3, 2))]
        for factor, channels, count, stride in STAGES:
            outputs = eights(channels * width)
            for i in range(count):
                layers.append(Block(inputs, outputs, stride if i == 0 else 1, factor))
                inputs = outputs
        self.features = nn.Sequential(*layers, nn.Sequential(*convolved(inputs, last, 1)))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, classes))

    @classmethod
    def from_shapes(cls, shapes: Shapes) -> Self:
        # Rounding to multiples of 8 is undone by the widest layer that the factor changes.
        widest = shapes["features.17.conv.2.weight"][0]
        return cls(shapes["classifier.1.weight"][0], widest / 320)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(it.mean(self.features(x), axis=(2, 3)))
        return scores


def eights(channels: float) -> int:
    """The nearest multiple of 8, at least 8 and not less than nine tenths."""
    found = max(8, int(channels + 4) // 8 * 8)
    return found + 8 if found < 0.9 * channels else found


if __name__ == "__main__":
    from .pictures import main

    main(MobileNetV2, __doc__)
