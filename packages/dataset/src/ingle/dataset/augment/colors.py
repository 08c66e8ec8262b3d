"""Brightness, contrast, saturation, hue, gray, and normalization of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.random import Generator

from .base import OfColors, chosen, draw, interval, probability

LUMA = (0.299, 0.587, 0.114)
"""Shares of red, green and blue in gray; ITU-R BT.601, which Pillow uses too."""


def gray(x: Tensor) -> Tensor:
    """One channel of brightness; an image of one channel is it already."""
    if x.shape[1] == 1:
        return x
    if x.shape[1] != 3:
        raise ShapeError(f"images must have 1 or 3 channels for colors, got shape {x.shape}")
    red, green, blue = (x[:, i : i + 1] for i in range(3))
    return red * LUMA[0] + green * LUMA[1] + blue * LUMA[2]


def blended(a: Tensor, b: Tensor, factor: Any) -> Tensor:
    """`a * factor + b * (1 - factor)`, cut to [0, 1]: what Pillow's enhancements do."""
    return it.clip(a * factor + b * (1.0 - factor), 0.0, 1.0)


def brightened(x: Tensor, factor: Any) -> Tensor:
    """Times the factor."""
    return it.clip(x * factor, 0.0, 1.0)


def contrasted(x: Tensor, factor: Any) -> Tensor:
    """Away from the mean gray of each image for factors above 1."""
    return blended(x, it.mean(gray(x), axis=(1, 2, 3), keepdims=True), factor)


def saturated(x: Tensor, factor: Any) -> Tensor:
    """Away from gray for factors above 1."""
    return blended(x, gray(x), factor)


def with_hue(x: Tensor, turn: Any) -> Tensor:
    """The hue moved by a share of the circle of colors; by HSV (Smith, SIGGRAPH 1978)."""
    if x.shape[1] == 1:
        return x
    red, green, blue = (x[:, i : i + 1] for i in range(3))
    value, least = it.max(x, axis=1, keepdims=True), it.min(x, axis=1, keepdims=True)
    spread = value - least
    safe = it.where(spread > 0.0, spread, 1.0)
    hue = it.where(
        value == red,
        (green - blue) / safe,
        it.where(value == green, (blue - red) / safe + 2.0, (red - green) / safe + 4.0),
    )
    hue = it.remainder(it.where(spread > 0.0, hue, 0.0) / 6.0 + turn, 1.0) * 6.0
    parts = []
    for shift in (5.0, 3.0, 1.0):
        k = it.remainder(hue + shift, 6.0)
        parts.append(value - spread * it.clip(it.minimum(k, 4.0 - k), 0.0, 1.0))
    return it.concat(parts, axis=1)


class ColorJitter(OfColors):
    """Changes brightness, contrast, saturation and hue at random, in this order.

    Args:
        brightness, contrast, saturation: factors are drawn from [max(0, 1 - v), 1 + v], or from the
            interval that is given.
        hue: the turn is drawn from [-v, v], at most 0.5, or from the interval that is given.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import ColorJitter
    >>> ColorJitter(0.2, 0.2, 0.2, 0.1)(it.ones((2, 3, 4, 4)) * 0.5, it.random.Generator(0)).shape
    (2, 3, 4, 4)
    """

    def __init__(
        self, brightness: Any = 0.0, contrast: Any = 0.0, saturation: Any = 0.0, hue: Any = 0.0
    ) -> None:
        self.brightness = _factors("brightness", brightness)
        self.contrast = _factors("contrast", contrast)
        self.saturation = _factors("saturation", saturation)
        pair = (-hue, hue) if isinstance(hue, (int, float)) else hue
        self.hue = interval("ColorJitter", "hue", pair)
        if self.hue[0] < -0.5 or self.hue[1] > 0.5:
            raise ArgumentError(f"ColorJitter: hue must lie in [-0.5, 0.5], got {hue!r}")

    def colored(self, x: Tensor, generator: Generator | None) -> Tensor:
        for bounds, change, plain in (
            (self.brightness, brightened, 1.0), (self.contrast, contrasted, 1.0),
            (self.saturation, saturated, 1.0), (self.hue, with_hue, 0.0),
        ):  # fmt: skip
            if bounds != (plain, plain):
                x = change(x, draw(x, *bounds, generator))
        out: Tensor = x
        return out


def _factors(name: str, value: Any) -> tuple[float, float]:
    if isinstance(value, (int, float)):
        if value < 0:
            raise ArgumentError(f"ColorJitter: {name} must not be negative, got {value}")
        return max(0.0, 1.0 - value), 1.0 + float(value)
    return interval("ColorJitter", name, value, least=0.0)


class RandomGrayscale(OfColors):
    """Makes images gray, with as many channels as before, with a probability.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import RandomGrayscale
    >>> gray = RandomGrayscale(p=1.0)(it.random.uniform((2, 3, 4, 4)))
    >>> bool(it.allclose(gray[:, 0], gray[:, 2]))
    True
    """

    def __init__(self, p: float = 0.1) -> None:
        self.p = probability("RandomGrayscale", p)

    def colored(self, x: Tensor, generator: Generator | None) -> Tensor:
        return it.where(chosen(x, self.p, generator), it.broadcast_to(gray(x), x.shape), x)


class Normalize(OfColors):
    """`(x - mean) / std` for each channel; for evaluations, too: `Learner(..., transform=...)`.

    Args:
        mean, std: a number for each channel; no std is 0.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import Normalize
    >>> Normalize([0.5], [0.5])(it.ones((1, 1, 1, 2))).tolist()
    [[[[1.0, 1.0]]]]
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean, self.std = list(map(float, mean)), list(map(float, std))
        if len(self.mean) != len(self.std) or not all(self.std):
            raise ArgumentError(
                f"Normalize: mean and std must have one number for each channel, std none of 0; "
                f"got {mean!r} and {std!r}"
            )

    def colored(self, x: Tensor, generator: Generator | None) -> Tensor:
        if x.shape[1] != len(self.mean):
            raise ShapeError(
                f"Normalize: mean has {len(self.mean)} channels, the images have {x.shape[1]}: "
                f"{x.shape}"
            )
        mean, std = (
            it.reshape(it.asarray(v, dtype=x.dtype, device=x.device), (1, -1, 1, 1))
            for v in (self.mean, self.std)
        )
        out: Tensor = (x - mean) / std
        return out
