"""RandAugment: a few of many changes, drawn for each image."""

from __future__ import annotations

import math

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError
from ingle.tensor.random import Generator

from .base import Change, OfImages, draw
from .colors import blended, brightened, contrasted, saturated
from .geometry import affine_matrix, warped

GEOMETRIC = ("identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate")
COLORS = (
    "brightness", "color", "contrast", "sharpness", "posterize", "solarize", "autocontrast",
    "equalize",
)  # fmt: skip


class RandAugment(OfImages):
    """Applies `num_ops` of fourteen changes to each image, in strength `magnitude`; Cubuk et al.
    (NeurIPS 2020).

    Images lie in [0, 1]. The changes are the paper's: identity, shears, translations, rotation,
    brightness, color, contrast, sharpness, posterization, solarization, automatic contrast and
    equalization. Those with a direction take either one at random.

    Args:
        num_ops: how many changes, one after the other.
        magnitude: from 0 to 30.
        fill: what comes in from outside.
        mask_fill: the class of it, in masks.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import RandAugment
    >>> RandAugment()(it.ones((4, 3, 8, 8)) * 0.5, it.random.Generator(0)).shape
    (4, 3, 8, 8)
    """

    def __init__(
        self, num_ops: int = 2, magnitude: float = 9.0, fill: float = 0.0, *, mask_fill: int = 0
    ) -> None:
        if num_ops < 0 or not 0.0 <= magnitude <= 30.0:
            raise ArgumentError(
                "RandAugment: num_ops must not be negative, and magnitude in [0, 30]; got "
                f"{num_ops} and {magnitude}"
            )
        self.num_ops, self.magnitude, self.fill = int(num_ops), float(magnitude), float(fill)
        self.mask_fill = int(mask_fill)

    def change(self, x: Tensor, generator: Generator | None) -> Change:
        drawn = []
        for _ in range(self.num_ops):
            which = it.floor(draw(x, 0.0, float(len(GEOMETRIC + COLORS)), generator, axes=1))
            sign = it.where(draw(x, 0.0, 1.0, generator, axes=1) < 0.5, -1.0, 1.0)
            drawn.append((which, sign))

        def changed(x: Tensor, masks: bool) -> Tensor:
            for which, sign in drawn:
                moved = self._moved(x, which, sign, masks)
                x = moved if masks else self._colored(x, moved, which, sign)
            return x

        return changed

    def _moved(self, x: Tensor, which: Tensor, sign: Tensor, masks: bool) -> Tensor:
        strength = self.magnitude / 30.0
        one = it.ones_like(sign)
        amounts = {
            "shear_x": 0.3 * strength, "shear_y": 0.3 * strength,
            "translate_x": 150 / 331 * x.shape[3] * strength,
            "translate_y": 150 / 331 * x.shape[2] * strength,
            "rotate": math.radians(30.0) * strength,
        }  # fmt: skip

        def of(name: str) -> Tensor:
            return it.where(which == float(GEOMETRIC.index(name)), sign * amounts[name], 0.0)

        down = of("shear_y")
        matrix = affine_matrix(
            of("rotate"), of("translate_x"), of("translate_y"), one, of("shear_x")
        )
        matrix[3] = matrix[3] + down
        moves = it.reshape((which > 0.0) & (which < float(len(GEOMETRIC))), (-1, 1, 1, 1))
        fill = self.mask_fill if masks else self.fill
        return it.where(moves, warped(x, matrix, fill, nearest=masks), x)

    def _colored(self, x: Tensor, out: Tensor, which: Tensor, sign: Tensor) -> Tensor:
        """Images with the colors that were drawn, and `out` for those that were moved instead."""
        strength = self.magnitude / 30.0
        factor = it.reshape(1.0 + sign * (0.9 * strength), (-1, 1, 1, 1))
        for i, name in enumerate(COLORS, len(GEOMETRIC)):
            mine = it.reshape(which == float(i), (-1, 1, 1, 1))
            out = it.where(mine, _colored(name, x, factor, strength), out)
        return out


def _colored(name: str, x: Tensor, factor: Tensor, strength: float) -> Tensor:
    if name == "posterize":
        levels = float(2 ** (8 - round(4 * strength)))
        return it.floor(it.minimum(x * 256.0, 255.0) / (256.0 / levels)) * (256.0 / levels) / 255.0
    if name == "solarize":
        return it.where(x >= 1.0 - strength, 1.0 - x, x)
    if name == "autocontrast":
        low = it.min(x, axis=(2, 3), keepdims=True)
        spread = it.max(x, axis=(2, 3), keepdims=True) - low
        return it.where(spread > 0.0, (x - low) / it.where(spread > 0.0, spread, 1.0), x)
    if name == "equalize":
        return equalized(x)
    if name == "sharpness":
        return blended(x, smoothed(x), factor)
    change = {"brightness": brightened, "contrast": contrasted, "color": saturated}[name]
    return change(x, factor)


def equalized(x: Tensor) -> Tensor:
    """Each channel with all of 256 levels about equally often, as Pillow's `equalize` has it.

    A level goes to the number of pixels below it and half of the width of a step, over this width,
    which is a 255th of all pixels but the brightest; a channel of one level, or of less than 255
    such pixels, stays.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment.rand_augment import equalized
    >>> x = it.reshape(it.arange(400, dtype="float32") / 1600, (1, 1, 20, 20))
    >>> round(it.max(equalized(x)).item(), 2)
    1.0
    """
    images, channels, height, width = x.shape
    levels = it.astype(it.round(it.clip(x, 0.0, 1.0) * 255.0), "int64")
    flat = it.reshape(levels, (images * channels, height * width))
    rows = it.reshape(it.arange(images * channels, device=x.device), (-1, 1)) * 256
    none = it.zeros((images * channels * 256,), dtype="int64", device=x.device)
    counts = it.scatter_add(
        none, it.reshape(flat + rows, (-1,)), it.ones_like(it.reshape(flat, (-1,)))
    )
    counts = it.reshape(counts, (images * channels, 256))
    brightest = it.take_along_axis(counts, it.max(flat, axis=1, keepdims=True), axis=1)
    step = (height * width - brightest) // 255
    below = it.cumulative_sum(counts, axis=1) - counts
    table = it.minimum((below + step // 2) // it.maximum(step, 1), 255)
    found = it.astype(it.take_along_axis(table, flat, axis=1), x.dtype) / 255.0
    stays = it.reshape(step == 0, (images, channels, 1, 1))
    return it.where(stays, x, it.reshape(found, x.shape))


def smoothed(x: Tensor) -> Tensor:
    """What Pillow's filter SMOOTH gives: five parts of a pixel and one of each neighbour; the edge
    stays."""
    if x.shape[2] < 3 or x.shape[3] < 3:
        return x
    height, width = x.shape[2:]
    total = x[:, :, 1:-1, 1:-1] * 4.0
    for i in range(3):
        for j in range(3):
            total = total + x[:, :, i : i + height - 2, j : j + width - 2]
    inner = it.pad(total / 13.0, ((0, 0), (0, 0), (1, 1), (1, 1)))
    rows = it.reshape(it.arange(height, device=x.device), (1, 1, height, 1))
    columns = it.reshape(it.arange(width, device=x.device), (1, 1, 1, width))
    within = (rows > 0) & (rows < height - 1) & (columns > 0) & (columns < width - 1)
    return it.where(within, inner, x)
