"""ResNet-18, 34, 50, 101 and 152; He et al.: Deep residual learning for image recognition (2016).

`python -m models.resnet --weights FILE photo.jpg`, where FILE is the one of torchvision, such as
https://download.pytorch.org/models/resnet18-f37072fd.pth, or its URL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import ingle.nn as nn
import ingle.tensor as it
from ingle.tensor import Tensor

from .pictures import PictureModel, Shapes, count_of

KINDS: dict[str, tuple[str, tuple[int, ...]]] = {
    "resnet18": ("basic", (2, 2, 2, 2)),
    "resnet34": ("basic", (3, 4, 6, 3)),
    "resnet50": ("bottleneck", (3, 4, 6, 3)),
    "resnet101": ("bottleneck", (3, 4, 23, 3)),
    "resnet152": ("bottleneck", (3, 8, 36, 3)),
}
"""Blocks, and how many there are at each size of the picture."""


class Basic(nn.Module):
    """Two convolutions that are added to what came in."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(it.relu(self.bn1(self.conv1(x)))))
        return it.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """A convolution between two that go to fewer channels and back; the stride is its own."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        outputs = self.expansion * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = it.relu(self.bn1(self.conv1(x)))
        out = self.bn3(self.conv3(it.relu(self.bn2(self.conv2(out)))))
        return it.relu(out + (x if self.downsample is None else self.downsample(x)))


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """What makes a block's input fit its output, where it does not."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class ResNet(PictureModel):
    """Scores of classes.

    Args:
        blocks: `"basic"` or `"bottleneck"`.
        counts: of blocks at each size of the picture.
        classes: how many.
        width: channels at the first size, which are doubled from each to the next.
    """

    def __init__(
        self,
        blocks: str = "basic",
        counts: Sequence[int] = (2, 2, 2, 2),
        classes: int = 1000,
        width: int = 64,
    ) -> None:
        kind: type[Basic | Bottleneck] = Basic if blocks == "basic" else Bottleneck
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, 1)
        stages, inputs = [], width
        for i, count in enumerate(counts):
            stage = []
            for j in range(count):
                stage.append(kind(inputs, width << i, 2 if i and not j else 1))
                inputs = (width << i) * kind.expansion
            stages.append(nn.Sequential(*stage))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, classes)

    @classmethod
    def named(cls, name: str, classes: int = 1000) -> Self:
        """`"resnet18"` to `"resnet152"`, with random weights."""
        return cls(*KINDS[name], classes)

    @classmethod
    def from_shapes(cls, shapes: Shapes) -> Self:
        counts = [count_of(shapes, rf"layer{i}\.(\d+)\.") for i in (1, 2, 3, 4)]
        blocks = "bottleneck" if "layer1.0.conv3.weight" in shapes else "basic"
        return cls(blocks, counts, shapes["fc.weight"][0], shapes["conv1.weight"][0])

    def features(self, x: Tensor) -> Tensor:
        """What the last layer sees, (N, features)."""
        x = self.pool(it.relu(self.bn1(self.conv1(x))))
        x = self.avgpool(self.layer4(self.layer3(self.layer2(self.layer1(x)))))
        return it.reshape(x, x.shape[:2])

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(self.features(x))
        return scores


if __name__ == "__main__":
    from .pictures import main

    main(ResNet, __doc__)
