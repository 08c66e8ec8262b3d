"""How like two images are: by their noise, and by the structure of their neighbourhoods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.argument_checks import number
from ingle.tensor.errors import ArgumentError, ShapeError

from .base import Mean, check_same, doubles, seen

RADIUS = 5
"""Of the window that structure is looked at through: 11 by 11 pixels."""
SCALES = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
"""The weights of five sizes, from the finest, that Wang et al. (2003) measured."""


def check_images(name: str, outputs: Tensor, targets: Tensor) -> None:
    """Raises unless both are batches of images of one shape."""
    check_same(name, outputs, targets)
    if outputs.ndim != 4 or not (outputs.dtype.is_floating and targets.dtype.is_floating):
        raise ShapeError(
            f"{name}: needs floats of shape (images, channels, height, width), got {seen(outputs)} "
            f"and {seen(targets)}; for bytes write x.astype('float32') / 255, for one image "
            "it.expand_dims(x, axis=0)"
        )


class PSNR(Mean):
    """The peak signal-to-noise ratio in decibels, the mean of all images.

    That of an image is 10 log10(range² / mean squared error); infinite where nothing differs.
    Outputs and targets are floats of shape (images, channels, height, width).

    Args:
        data_range: from the smallest to the largest value that there can be.

    Raises:
        ShapeError: the shapes differ or are not those of images.
        ArgumentError: `data_range` is not positive.

    >>> import ingle.tensor as it
    >>> from ingle.train import PSNR
    >>> psnr = PSNR()
    >>> psnr.update(it.full((1, 3, 8, 8), 0.5), it.full((1, 3, 8, 8), 0.6), 0.0)
    >>> round(psnr.compute(), 2)
    20.0
    """

    name = "psnr"

    def __init__(self, data_range: float = 1.0) -> None:
        self.data_range = _positive("PSNR", "data_range", data_range)
        super().__init__()

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_images("PSNR", outputs, targets)
        errors = ((doubles(outputs) - doubles(targets)) ** 2).mean(axis=(1, 2, 3))
        with np.errstate(divide="ignore"):
            self.total += float((10 * np.log10(self.data_range**2 / errors)).sum())
        self.count += outputs.shape[0]


class SSIM(Mean):
    """Structural similarity (Wang et al., 2004), at most 1: the mean of all images.

    Means, variances and covariance of two images are compared in a Gaussian window with a deviation
    of 1.5 pixels at each place where its 11 by 11 pixels are within the image. Channels are looked
    at one by one and averaged.

    Args:
        data_range: from the smallest to the largest value that there can be.

    Raises:
        ShapeError: the shapes differ, are not those of images, or an image is smaller than the
            window.
        ArgumentError: `data_range` is not positive.

    >>> import ingle.tensor as it
    >>> from ingle.train import SSIM
    >>> ssim, image = SSIM(), it.random.uniform((2, 3, 16, 16))
    >>> ssim.update(image, image, 0.0)
    >>> round(ssim.compute(), 4)
    1.0
    """

    name = "ssim"

    def __init__(self, data_range: float = 1.0) -> None:
        self.data_range = _positive("SSIM", "data_range", data_range)
        super().__init__()

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_images("SSIM", outputs, targets)
        _check_size("SSIM", outputs, 2 * RADIUS + 1)
        whole, _ = similarity(outputs, targets, self.data_range)
        self.total += float(doubles(whole).mean(axis=1).sum())
        self.count += outputs.shape[0]


class MultiScaleSSIM(Mean):
    """Structural similarity at five sizes (Wang et al., 2003), at most 1: the mean of all images.

    Variances and covariance are compared at each size, each half of the one before, and means at
    the smallest; the product of these, each to the power of its weight. What is negative is 0.

    Args:
        data_range: from the smallest to the largest value that there can be.
        weights: of the sizes, from the finest.

    Raises:
        ShapeError: the shapes differ, are not those of images, or an image is too small: with five
            sizes its sides have at least 176 pixels.
        ArgumentError: `data_range` or a weight is not positive.

    >>> import ingle.tensor as it
    >>> from ingle.train import MultiScaleSSIM
    >>> ssim, image = MultiScaleSSIM(weights=(0.5, 0.5)), it.random.uniform((2, 3, 32, 32))
    >>> ssim.update(image, image, 0.0)
    >>> round(ssim.compute(), 4)
    1.0
    """

    name = "ms_ssim"

    def __init__(self, data_range: float = 1.0, weights: Sequence[float] = SCALES) -> None:
        self.data_range = _positive("MultiScaleSSIM", "data_range", data_range)
        if not isinstance(weights, Iterable):
            raise ArgumentError(f"MultiScaleSSIM: weights must be a list, got {weights!r:.80}")
        self.weights = [_positive("MultiScaleSSIM", "a weight", w) for w in weights]
        super().__init__()

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        name, halvings = "MultiScaleSSIM", len(self.weights) - 1
        check_images(name, outputs, targets)
        _check_size(name, outputs, (2 * RADIUS + 1) << halvings)
        found = np.ones(outputs.shape[:2])
        for at, weight in enumerate(self.weights):
            whole, structure = similarity(outputs, targets, self.data_range)
            part = doubles(whole if at == halvings else structure)
            found *= np.maximum(part, 0) ** weight
            outputs, targets = (it.avg_pool2d(x, 2) for x in (outputs, targets))
        self.total += float(found.mean(axis=1).sum())
        self.count += found.shape[0]


def similarity(x: Tensor, y: Tensor, data_range: float) -> tuple[Tensor, Tensor]:
    """The mean similarity of each channel of each image, and that of its structure alone.

    Computed on the device of the images. Variances are those of the differences from a channel's
    mean, so that a small one beside a large mean keeps its digits.
    """
    x, y = (it.astype(one, "float32") for one in (x, y))
    centre_x, centre_y = (it.mean(one, axis=(2, 3), keepdims=True) for one in (x, y))
    x, y = x - centre_x, y - centre_y
    mean_x, mean_y = _blurred(x), _blurred(y)
    varied = _blurred(x * x) - mean_x * mean_x + _blurred(y * y) - mean_y * mean_y
    together = _blurred(x * y) - mean_x * mean_y
    mean_x, mean_y = mean_x + centre_x, mean_y + centre_y
    small, smaller = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    structure = (2 * together + smaller) / (varied + smaller)
    light = (2 * mean_x * mean_y + small) / (mean_x * mean_x + mean_y * mean_y + small)
    return it.mean(light * structure, axis=(2, 3)), it.mean(structure, axis=(2, 3))


def _blurred(x: Tensor) -> Tensor:
    """Each channel seen through the window, where this is whole."""
    at = np.arange(-RADIUS, RADIUS + 1)
    window = np.exp(-0.5 * (at / 1.5) ** 2)
    window = (window / window.sum()).astype(np.float32)
    images, channels, height, width = x.shape
    plain = it.reshape(x, (images * channels, 1, height, width))
    for shape in ((1, 1, -1, 1), (1, 1, 1, -1)):
        plain = it.conv2d(plain, it.asarray(window.reshape(shape), device=x.device))
    return it.reshape(plain, (images, channels, *plain.shape[2:]))


def _check_size(name: str, images: Tensor, least: int) -> None:
    if min(images.shape[2:]) < least:
        raise ShapeError(
            f"{name}: sides of an image must have at least {least} pixels, got {seen(images)}"
            + ("; give fewer weights" if name == "MultiScaleSSIM" else "")
        )


def _positive(name: str, argument: str, value: float) -> float:
    if not 0.0 < number(name, argument, value) < math.inf:
        raise ArgumentError(f"{name}: {argument} must be positive, got {value}")
    return float(value)
