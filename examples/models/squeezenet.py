"""SqueezeNet 1.0 and 1.1; Iandola et al.: AlexNet-level accuracy with 50x fewer parameters (2016).

`python -m models.squeezenet --weights FILE photo.jpg`, where FILE is the one of torchvision, such
as https://download.pytorch.org/models/squeezenet1_1-b8a52dc0.pth, or its URL.
"""

from __future__ import annotations

from typing import Self

import ingle.nn as nn
import ingle.tensor as it
from ingle.tensor import Tensor

from .pictures import PictureModel, Shapes

FIRE = (
    (64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128), (256, 48, 192), (384, 48, 192),
    (384, 64, 256), (512, 64, 256),
)  # fmt: skip
"""Channels that come in, are squeezed to, and are expanded to by each of two convolutions."""
POOLED = {"1_0": (3, 7), "1_1": (2, 4)}
"""How many of them stand before the second and the third pooling."""


class Fire(nn.Module):
    """Few channels between many, which are computed by two convolutions side by side."""

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = it.relu(self.squeeze(x))
        return it.concat([it.relu(self.expand1x1(x)), it.relu(self.expand3x3(x))], axis=1)


class SqueezeNet(PictureModel):
    """Scores of classes.

    Args:
        version: `"1_0"` or `"1_1"`, which pools earlier.
        classes: how many.
        dropout: before the last convolution, while training.
    """

    def __init__(self, version: str = "1_1", classes: int = 1000, dropout: float = 0.5) -> None:
        first = nn.Conv2d(3, 96, 7, 2) if version == "1_0" else nn.Conv2d(3, 64, 3, 2)
        layers: list[nn.Module] = [first, nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
        for i, (inputs, squeezed, expanded) in enumerate(FIRE):
            if i in POOLED[version]:
                layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
            before = 96 if version == "1_0" and i == 0 else inputs
            layers.append(Fire(before, squeezed, expanded))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Conv2d(512, classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        )

    @classmethod
    def from_shapes(cls, shapes: Shapes) -> Self:
        version = "1_0" if shapes["features.0.weight"][0] == 96 else "1_1"
        return cls(version, shapes["classifier.1.weight"][0])

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(x))
        return it.reshape(scores, scores.shape[:2])


if __name__ == "__main__":
    from .pictures import main

    main(SqueezeNet, __doc__)
