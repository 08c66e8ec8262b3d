"""Two examples of a batch as one, and so their labels."""

from __future__ import annotations

from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.random import Generator

from .base import Augmentation, images
from .geometry import rectangle


class MixUp(Augmentation):
    """`a * x + (1 - a) * y` of each image x and another one y, and of their labels; Zhang et al.
    (ICLR 2018).

    It takes and returns `(images, labels)`; labels come out as shares of classes, (N, classes),
    which `cross_entropy` takes as probabilities.

    Args:
        num_classes: how many there are.
        alpha: a is drawn for each image from the Beta distribution of this parameter, twice.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import MixUp
    >>> x, y = MixUp(3)((it.ones((4, 1, 2, 2)), it.asarray([0, 1, 2, 0])), it.random.Generator(0))
    >>> x.shape, y.shape, round(float(y.sum()), 3)
    ((4, 1, 2, 2), (4, 3), 4.0)
    """

    def __init__(self, num_classes: int, alpha: float = 0.2) -> None:
        name = type(self).__name__
        if num_classes < 1:
            raise ArgumentError(f"{name}: num_classes must be at least 1, got {num_classes}")
        if not alpha > 0.0:
            raise ArgumentError(f"{name}: alpha must be above 0, got {alpha}")
        self.num_classes, self.alpha = int(num_classes), float(alpha)

    def __call__(self, x: Any, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        name = type(self).__name__
        if not isinstance(x, tuple) or len(x) != 2:
            raise ArgumentError(f"{name}: expected (images, labels), got {type(x).__name__}")
        pictures, labels = images(name, x[0]), it.asarray(x[1])
        if labels.ndim not in (1, 2) or labels.shape[0] != pictures.shape[0]:
            raise ShapeError(
                f"{name}: labels must be ({pictures.shape[0]},) or ({pictures.shape[0]}, classes), "
                f"got {labels.shape}"
            )
        if labels.ndim == 1:
            labels = it.one_hot(labels, self.num_classes, dtype=pictures.dtype)
        share = it.random.beta(
            self.alpha, self.alpha, (pictures.shape[0],), dtype=pictures.dtype,
            device=pictures.device, generator=generator,
        )  # fmt: skip
        order = it.random.permutation(pictures.shape[0], generator=generator)
        return self._mixed(pictures, labels, share, order.to_device(pictures.device), generator)

    def _mixed(
        self, x: Tensor, y: Tensor, share: Tensor, order: Tensor, generator: Generator | None
    ) -> tuple[Tensor, Tensor]:
        a, b = it.reshape(share, (-1, 1, 1, 1)), it.reshape(share, (-1, 1))
        others, labels = it.take(x, order, axis=0), it.take(y, order, axis=0)
        return x * a + others * (1.0 - a), y * b + labels * (1.0 - b)


class CutMix(MixUp):
    """A rectangle of each image is another one's, and labels go by area; Yun et al. (ICCV 2019).

    It takes and returns what `MixUp` does.

    Args:
        num_classes: how many there are.
        alpha: the share of the area that stays is drawn from Beta(alpha, alpha).

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import CutMix
    >>> images, shares = CutMix(num_classes=3)((it.ones((4, 1, 8, 8)), it.asarray([0, 1, 2, 0])))
    >>> images.shape, bool(it.allclose(shares.sum(axis=1), it.ones(4)))
    ((4, 1, 8, 8), True)
    """

    def __init__(self, num_classes: int, alpha: float = 1.0) -> None:
        super().__init__(num_classes, alpha)

    def _mixed(
        self, x: Tensor, y: Tensor, share: Tensor, order: Tensor, generator: Generator | None
    ) -> tuple[Tensor, Tensor]:
        cut = it.reshape(1.0 - share, (-1, 1, 1, 1))
        square = x.shape[2] / x.shape[3]
        inside = rectangle(x, cut, (square, square), generator)
        kept = 1.0 - it.mean(inside.astype(x.dtype), axis=(1, 2, 3))
        b = it.reshape(kept, (-1, 1))
        labels = it.take(y, order, axis=0)
        return it.where(inside, it.take(x, order, axis=0), x), y * b + labels * (1.0 - b)
