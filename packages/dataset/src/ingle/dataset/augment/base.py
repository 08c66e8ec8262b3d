"""What augmentations share: checks of batches, draws for each example, and combinations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.random import Generator

Size = int | tuple[int, int]


class Augmentation:
    """A function of a batch and a generator of random numbers; None is the default one."""

    def __call__(self, x: Any, generator: Generator | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __call__")

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({inside})"


class Compose(Augmentation):
    """Several augmentations, one after the other.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import Compose, Normalize, RandomCrop
    >>> augment = Compose([RandomCrop(24, padding=2), Normalize([0.5], [0.25])])
    >>> augment(it.ones((8, 1, 28, 28)), it.random.Generator(0)).shape
    (8, 1, 24, 24)
    """

    def __init__(self, transforms: Sequence[Any]) -> None:
        self.transforms = list(transforms)

    def __call__(self, x: Any, generator: Generator | None = None) -> Any:
        for transform in self.transforms:
            x = transform(x, generator)
        return x


class RandomApply(Augmentation):
    """Applies an augmentation that keeps shapes to each example with a probability.

    Args:
        transform: which.
        p: the probability.
    """

    def __init__(self, transform: Any, p: float = 0.5) -> None:
        self.transform, self.p = transform, probability("RandomApply", p)

    def __call__(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        changed = self.transform(x, generator)
        if changed.shape != x.shape:
            raise ShapeError(
                f"RandomApply: {self.transform!r} made {changed.shape} of {x.shape}; it has to "
                "keep the shape of a batch"
            )
        return it.where(chosen(x, self.p, generator), changed, x)


def images(name: str, x: Any) -> Tensor:
    """A batch of images, (N, C, H, W) in a float dtype, or an error that says what it got."""
    if not isinstance(x, Tensor):
        raise ArgumentError(f"{name}: expected a tensor, got {type(x).__name__}; use it.asarray(x)")
    if x.ndim != 4 or not x.dtype.is_floating:
        raise ShapeError(
            f"{name}: expected floats of shape (N, C, H, W), got {x.dtype}{list(x.shape)}; for "
            "bytes write x.astype('float32') / 255, for one image it.expand_dims(x, axis=0)"
        )
    return x


def draw(
    x: Tensor, low: float, high: float, generator: Generator | None, *, axes: int | None = None
) -> Tensor:
    """A uniform number for each example, of a shape that broadcasts with the batch."""
    count = x.ndim if axes is None else axes
    shape = (x.shape[0], *(1,) * (count - 1))
    return it.random.uniform(shape, low, high, dtype=x.dtype, device=x.device, generator=generator)


def chosen(x: Tensor, p: float, generator: Generator | None) -> Tensor:
    """For each example whether it is one of a share `p`."""
    return draw(x, 0.0, 1.0, generator) < p


def probability(name: str, p: float) -> float:
    """A number in [0, 1]."""
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{name}: p must be in [0, 1], got {p}")
    return float(p)


def interval(
    name: str, argument: str, value: Any, *, least: float | None = None
) -> tuple[float, float]:
    """Two numbers, the lower first."""
    try:
        low, high = (float(v) for v in value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name}: {argument} must be two numbers, got {value!r}") from None
    if low > high or (least is not None and low < least):
        raise ArgumentError(
            f"{name}: {argument} must go up{'' if least is None else f' from at least {least}'}, "
            f"got {value!r}"
        )
    return low, high


def both(name: str, size: Any) -> tuple[int, int]:
    """Height and width, of one number for both or two."""
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) != 2 or not all(isinstance(n, int) and n > 0 for n in pair):
        raise ArgumentError(f"{name}: size must be one or two positive integers, got {size!r}")
    return pair[0], pair[1]
