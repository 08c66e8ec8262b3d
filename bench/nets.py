"""Convolutional nets as functions of an array library: each system runs the same formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

GROUPS = 4
"""Of channels, for norms."""
HEADS = 4
"""Of attention between pixels."""


def convnet_shapes(layers: int, channels: int) -> dict[str, tuple[int, ...]]:
    """The weights of a plain net on images of three channels, ten classes."""
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(layers):
        shapes[f"{i}.weight"] = (channels, channels if i else 3, 3, 3)
        shapes[f"{i}.bias"] = (channels,)
    return shapes | {"out.weight": (10, channels), "out.bias": (10,)}


def unet_shapes(
    channels: int, embedded: int, colours: int = 1, attended: Sequence[str] = ()
) -> dict[str, tuple[int, ...]]:
    """The weights of a UNet of two halvings, with attention behind some of its blocks."""
    c = channels
    shapes: dict[str, tuple[int, ...]] = {}

    def conv(name: str, come: int, go: int, size: int = 3) -> None:
        shapes.update({f"{name}.weight": (go, come, size, size), f"{name}.bias": (go,)})

    def norm(name: str, size: int) -> None:
        shapes.update({f"{name}.scale": (size,), f"{name}.bias": (size,)})

    conv("in", colours, c)
    for name, come, go in (
        ("down1", c, c), ("down2", c, 2 * c), ("middle", 2 * c, 2 * c),
        ("up2", 4 * c, c), ("up1", 2 * c, c),
    ):  # fmt: skip
        norm(f"{name}.norm1", come)
        conv(f"{name}.conv1", come, go)
        shapes |= {f"{name}.time.weight": (go, embedded), f"{name}.time.bias": (go,)}
        norm(f"{name}.norm2", go)
        conv(f"{name}.conv2", go, go)
        if come != go:
            conv(f"{name}.skip", come, go, 1)
        if name in attended:
            norm(f"{name}.mix.norm", go)
            conv(f"{name}.mix.qkv", go, 3 * go, 1)
            conv(f"{name}.mix.proj", go, go, 1)
    conv("half1", c, c)
    conv("half2", 2 * c, 2 * c)
    norm("norm", c)
    conv("out", c, colours)
    return shapes


@dataclass(frozen=True)
class Nets:
    """Nets in one library.

    Attributes:
        conv: of images, a weight and a bias or None, with a stride, as large as the input at
            stride 1.
        linear, relu, silu, cross_entropy: as usual.
        norm: of images by groups of channels, with scale and bias.
        batch_norm: of images by the batch's own statistics, with scale and bias.
        halved: the largest of 3x3 pixels around every second one.
        mix: attention between pixels, of queries, keys and values in channels one after another.
        join: images by their channels.
        double: images, each pixel as four.
        pooled: the mean of each channel.
    """

    conv: Callable[[Any, Any, Any, int], Any]
    linear: Callable[[Any, Any, Any], Any]
    relu: Callable[[Any], Any]
    silu: Callable[[Any], Any]
    cross_entropy: Callable[[Any, Any], Any]
    norm: Callable[[Any, Any, Any], Any]
    batch_norm: Callable[[Any, Any, Any], Any]
    halved: Callable[[Any], Any]
    mix: Callable[[Any], Any]
    join: Callable[[list[Any]], Any]
    double: Callable[[Any], Any]
    pooled: Callable[[Any], Any]

    def convnet(self, p: Mapping[str, Any], x: Any, y: Any, layers: int) -> Any:
        """The loss of a plain net."""
        for i in range(layers):
            x = self.relu(self.conv(x, p[f"{i}.weight"], p[f"{i}.bias"], 1))
        x = self.pooled(x)
        return self.cross_entropy(self.linear(x, p["out.weight"], p["out.bias"]), y)

    def resnet(self, p: Mapping[str, Any], x: Any, y: Any) -> Any:
        """The loss of ResNet-18 in training."""
        x = self.halved(self.relu(self._normed(p, "conv1", "bn1", x, 2)))
        for i in range(1, 5):
            for j in range(2):
                name, stride = f"layer{i}.{j}", 2 if i > 1 and not j else 1
                h = self.relu(self._normed(p, f"{name}.conv1", f"{name}.bn1", x, stride))
                h = self._normed(p, f"{name}.conv2", f"{name}.bn2", h)
                if stride > 1:
                    x = self._normed(p, f"{name}.downsample.0", f"{name}.downsample.1", x, 2)
                x = self.relu(h + x)
        scores = self.linear(self.pooled(x), p["fc.weight"], p["fc.bias"])
        return self.cross_entropy(scores, y)

    def _normed(self, p: Mapping[str, Any], conv: str, norm: str, x: Any, stride: int = 1) -> Any:
        x = self.conv(x, p[f"{conv}.weight"], None, stride)
        return self.batch_norm(x, p[f"{norm}.weight"], p[f"{norm}.bias"])

    def unet(self, p: Mapping[str, Any], x: Any, time: Any, noise: Any) -> Any:
        """How far a UNet is from the noise in images; `time` is embedded already."""
        first = self._conv(p, "in", x)
        one = self._block(p, "down1", first, time)
        two = self._block(p, "down2", self._conv(p, "half1", one, 2), time)
        h = self._block(p, "middle", self._conv(p, "half2", two, 2), time)
        h = self._block(p, "up2", self.join([self.double(h), two]), time)
        h = self._block(p, "up1", self.join([self.double(h), one]), time)
        h = self.silu(self.norm(h, p["norm.scale"], p["norm.bias"]))
        difference = self._conv(p, "out", h) - noise
        return (difference * difference).mean()

    def _conv(self, p: Mapping[str, Any], name: str, x: Any, stride: int = 1) -> Any:
        return self.conv(x, p[f"{name}.weight"], p[f"{name}.bias"], stride)

    def _block(self, p: Mapping[str, Any], name: str, x: Any, time: Any) -> Any:
        h = self.silu(self.norm(x, p[f"{name}.norm1.scale"], p[f"{name}.norm1.bias"]))
        shift = self.linear(self.silu(time), p[f"{name}.time.weight"], p[f"{name}.time.bias"])
        h = self._conv(p, f"{name}.conv1", h) + shift[:, :, None, None]
        h = self.silu(self.norm(h, p[f"{name}.norm2.scale"], p[f"{name}.norm2.bias"]))
        h = self._conv(p, f"{name}.conv2", h)
        h = h + (self._conv(p, f"{name}.skip", x) if f"{name}.skip.weight" in p else x)
        if f"{name}.mix.qkv.weight" not in p:
            return h
        a = self.norm(h, p[f"{name}.mix.norm.scale"], p[f"{name}.mix.norm.bias"])
        return h + self._conv(p, f"{name}.mix.proj", self.mix(self._conv(p, f"{name}.mix.qkv", a)))
