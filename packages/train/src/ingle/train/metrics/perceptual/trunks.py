"""The convolutions of three classifiers, in slices behind each of which features are taken.

The numbers of layers are torchvision's, so that its weights, and those of the metrics' reference
implementations, load by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import ingle.tensor as it
from ingle import nn
from ingle.tensor import Tensor


class Fire(nn.Module):
    """SqueezeNet's block: few channels, and more of them by two convolutions (Iandola, 2016)."""

    def __init__(self, inputs: int, few: int, more: int) -> None:
        self.squeeze = nn.Conv2d(inputs, few, 1)
        self.expand1x1 = nn.Conv2d(few, more, 1)
        self.expand3x3 = nn.Conv2d(few, more, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = it.relu(self.squeeze(x))
        return it.concat([it.relu(self.expand1x1(x)), it.relu(self.expand3x3(x))], axis=1)


def alexnet() -> list[nn.Module]:
    """AlexNet's (Krizhevsky, 2014)."""
    return [
        nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(),
    ]  # fmt: skip


def vgg16(pool: Callable[[int], nn.Module] = lambda channels: nn.MaxPool2d(2)) -> list[nn.Module]:
    """Those of VGG with 16 layers (Simonyan and Zisserman, 2015).

    Args:
        pool: makes what halves the sides, of the number of channels.
    """
    layers: list[nn.Module] = []
    inputs = 3
    for outputs, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        if layers:
            layers.append(pool(inputs))
        for _ in range(count):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
            inputs = outputs
    return layers


def squeezenet() -> list[nn.Module]:
    """SqueezeNet's, version 1.1."""
    pool = [nn.MaxPool2d(3, 2, ceil_mode=True) for _ in range(3)]
    return [
        nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), pool[0], Fire(64, 16, 64), Fire(128, 16, 64),
        pool[1], Fire(128, 32, 128), Fire(256, 32, 128), pool[2], Fire(256, 48, 192),
        Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
    ]  # fmt: skip


VGG_ENDS = (4, 9, 16, 23, 30)


class Slices(nn.Module):
    """Layers in parts; what comes out of each part is a feature.

    Args:
        layers: all of them, in their order.
        ends: before which layer each part ends.
        name: of the parts, which are numbered from 1.
    """

    def __init__(self, layers: list[nn.Module], ends: Iterable[int], name: str) -> None:
        self.names = []
        start = 0
        for number, end in enumerate(ends, 1):
            part = nn.Sequential({str(i): layers[i] for i in range(start, end)})
            setattr(self, f"{name}{number}", part)
            self.names.append(f"{name}{number}")
            start = end

    def forward(self, x: Tensor) -> list[Tensor]:
        found = []
        for name in self.names:
            x = getattr(self, name)(x)
            found.append(x)
        return found
