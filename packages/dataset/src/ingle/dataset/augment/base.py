"""What augmentations share: checks of batches, draws for each example, and combinations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


Change = Callable[[Tensor, bool], Tensor]
"""What is done with images; if the second argument says so, with masks of shape (N, 1, H, W)."""


class OfImages(Augmentation):
    """An augmentation of images, alone or with what belongs to them.

    Of a pair it changes both: masks, integers of shape (N, H, W), are moved as their images are,
    each pixel with the class of the nearest one; labels, (N,) or (N, classes), stay as they are.
    """

    def __call__(self, x: Any, generator: Generator | None = None) -> Any:
        name = type(self).__name__
        if not isinstance(x, tuple):
            x = images(name, x)
            return self.change(x, generator)(x, False)
        pictures, others = _pair(name, x)
        change = self.change(pictures, generator)
        if others.ndim == 3:
            masks = change(it.expand_dims(others, axis=1), True)
            others = it.squeeze(masks, axis=1)
        return change(pictures, False), others

    def change(self, x: Tensor, generator: Generator | None) -> Change:
        """Draws for each image, and returns what is done with them and with their masks."""
        raise NotImplementedError(f"{type(self).__name__} must define change")


class OfColors(OfImages):
    """An augmentation of images that leaves their pixels where they are."""

    def change(self, x: Tensor, generator: Generator | None) -> Change:
        return lambda x, masks: x if masks else self.colored(x, generator)

    def colored(self, x: Tensor, generator: Generator | None) -> Tensor:
        """The images with other colors."""
        raise NotImplementedError(f"{type(self).__name__} must define colored")


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

    Images may come with their masks or labels, as a pair.

    Args:
        transform: which.
        p: the probability.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import ColorJitter, RandomApply
    >>> RandomApply(ColorJitter(0.4), p=0.3)(it.ones((8, 3, 4, 4))).shape
    (8, 3, 4, 4)
    """

    def __init__(self, transform: Any, p: float = 0.5) -> None:
        self.transform, self.p = transform, probability("RandomApply", p)

    def __call__(self, x: Any, generator: Generator | None = None) -> Any:
        changed = self.transform(x, generator)
        before, after = (p if isinstance(p, tuple) else (p,) for p in (x, changed))
        for old, new in zip(before, after, strict=True):
            if new.shape != old.shape:
                raise ShapeError(
                    f"RandomApply: {self.transform!r} made {new.shape} of {old.shape}; it has to "
                    "keep the shape of a batch"
                )
        which = it.reshape(chosen(before[0], self.p, generator), (-1,))
        parts = [
            it.where(it.reshape(which, (-1, *(1,) * (old.ndim - 1))), new, old)
            for old, new in zip(before, after, strict=True)
        ]
        return tuple(parts) if isinstance(x, tuple) else parts[0]


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


def _pair(name: str, x: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """Images, and masks or labels of as many."""
    if len(x) != 2:
        raise ArgumentError(f"{name}: expected images, or (images, masks), got {len(x)} parts")
    pictures, others = images(name, x[0]), it.asarray(x[1])
    masks = (pictures.shape[0], *pictures.shape[2:])
    fits = others.shape == masks and others.dtype.is_integer
    if not fits and not (others.ndim in (1, 2) and others.shape[0] == masks[0]):
        raise ShapeError(
            f"{name}: beside images of shape {pictures.shape} expected masks, integers of shape "
            f"{masks}, or labels of shape {masks[:1]}, got {others.dtype}{list(others.shape)}"
        )
    return pictures, others


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
