"""Arguments that layers share: sizes, and the making of parameters."""

from __future__ import annotations

from collections.abc import Sequence

from ingle.tensor import Device
from ingle.tensor.argument_checks import number, whole
from ingle.tensor.errors import ArgumentError
from ingle.tensor.random import Generator

from .init import Init
from .parameter import Parameter

Sizes = int | Sequence[int]


def size(layer: str, argument: str, value: object, least: int = 1) -> int:
    """A whole number of at least `least`."""
    return whole(layer, argument, value, least)


def sizes(layer: str, argument: str, value: object, count: int, least: int = 1) -> tuple[int, ...]:
    """One whole number for all of `count` axes, or one for each."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != count:
            raise ArgumentError(
                f"{layer}: {argument} must be an integer or {count} of them, got {value!r:.80}"
            )
        return tuple(size(layer, argument, v, least) for v in value)
    return (size(layer, argument, value, least),) * count


def channel_groups(layer: str, value: object, in_channels: int, out_channels: int) -> int:
    """The number of groups that channels are divided into, each read by its own kernels."""
    groups = size(layer, "groups", value)
    if in_channels % groups or out_channels % groups:
        raise ArgumentError(
            f"{layer}: in_channels={in_channels} and out_channels={out_channels} must both be "
            f"divisible by groups={groups}"
        )
    return groups


def make(
    init: Init | None,
    default: Init,
    shape: Sequence[int],
    dtype: object,
    device: Device | str | None,
    generator: Generator | None,
) -> Parameter:
    """A parameter of first values from the initializer that was given, or the layer's own."""
    first = default if init is None else init
    if not callable(first) or isinstance(first, type):
        raise ArgumentError(
            "a layer's first values come from an initializer, such as nn.init.Normal(0.0, 0.02), "
            f"or a function (shape, dtype, device, generator), got {first!r:.80}"
        )
    return Parameter(first(tuple(shape), dtype, device, generator))


def probability(layer: str, argument: str, value: float) -> float:
    """A number in [0, 1]."""
    if not 0.0 <= number(layer, argument, value) <= 1.0:
        raise ArgumentError(f"{layer}: {argument} must be a probability in [0, 1], got {value}")
    return value
