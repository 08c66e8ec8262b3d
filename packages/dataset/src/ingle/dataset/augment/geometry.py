"""Where pixels of images come from: flips, crops, sizes, affine maps, and erased pieces."""

from __future__ import annotations

import math
from typing import Any, Literal

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.random import Generator

from .base import Change, OfColors, OfImages, Size, both, chosen, draw, interval, probability


class RandomHorizontalFlip(OfImages):
    """Mirrors images left to right with a probability.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import RandomHorizontalFlip
    >>> RandomHorizontalFlip(p=1.0)(it.asarray([[[[1.0, 2.0]]]])).tolist()
    [[[[2.0, 1.0]]]]
    """

    _axis = 3

    def __init__(self, p: float = 0.5) -> None:
        self.p = probability(type(self).__name__, p)

    def change(self, x: Tensor, generator: Generator | None) -> Change:
        which = chosen(x, self.p, generator)
        return lambda x, masks: it.where(which, it.flip(x, axis=self._axis), x)


class RandomVerticalFlip(RandomHorizontalFlip):
    """Mirrors images top to bottom with a probability.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import RandomVerticalFlip
    >>> RandomVerticalFlip(p=1.0)(it.asarray([[[[1.0], [2.0]]]])).tolist()
    [[[[2.0], [1.0]]]]
    """

    _axis = 2


class Resize(OfImages):
    """Images of another size, bilinear; smaller ones are averages of what they cover.

    Args:
        size: height and width, or one number for both.
        mode: of `it.interpolate`: `"bilinear"`, `"bicubic"`, `"nearest"`, ….
        antialias: whether pixels of smaller images are averages, as Pillow's are.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import Resize
    >>> Resize((2, 3))(it.ones((8, 3, 32, 32))).shape
    (8, 3, 2, 3)
    """

    def __init__(self, size: Size, mode: str = "bilinear", antialias: bool = True) -> None:
        self.size, self.mode, self.antialias = both("Resize", size), mode, antialias

    def change(self, x: Tensor, generator: Generator | None) -> Change:
        smooth = self.antialias and self.mode in ("bilinear", "bicubic")

        def resized(x: Tensor, masks: bool) -> Tensor:
            if not masks:
                return it.interpolate(x, self.size, mode=self.mode, antialias=smooth)
            nearest = it.interpolate(x.astype(it.float32), self.size, mode="nearest-exact")
            return it.astype(nearest, x.dtype)

        return resized


class CenterCrop(OfImages):
    """The middle of images.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import CenterCrop
    >>> CenterCrop(24)(it.ones((8, 3, 32, 40))).shape
    (8, 3, 24, 24)
    """

    def __init__(self, size: Size) -> None:
        self.size = both("CenterCrop", size)

    def change(self, x: Tensor, generator: Generator | None) -> Change:
        (height, width), (h, w) = x.shape[2:], self.size
        _fits("CenterCrop", x.shape, h, w)
        top, left = round((height - h) / 2), round((width - w) / 2)
        return lambda x, masks: x[:, :, top : top + h, left : left + w]


class RandomCrop(OfImages):
    """A piece of each image, at a place of its own.

    Args:
        size: of the piece.
        padding: how many pixels of `fill` are put around before.
        fill: their value.
        mask_fill: their class, in masks.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import RandomCrop
    >>> RandomCrop(32, padding=4)(it.ones((8, 3, 32, 32))).shape
    (8, 3, 32, 32)
    """

    def __init__(
        self, size: Size, padding: int = 0, fill: float = 0.0, *, mask_fill: int = 0
    ) -> None:
        if padding < 0:
            raise ArgumentError(f"RandomCrop: padding must not be negative, got {padding}")
        self.size, self.padding, self.fill = both("RandomCrop", size), int(padding), float(fill)
        self.mask_fill = int(mask_fill)

    def change(self, x: Tensor, generator: Generator | None) -> Change:
        p, (h, w) = self.padding, self.size
        height, width = x.shape[2] + 2 * p, x.shape[3] + 2 * p
        _fits("RandomCrop", (*x.shape[:2], height, width), h, w)
        top = it.floor(draw(x, 0.0, height - h + 1.0, generator))
        left = it.floor(draw(x, 0.0, width - w + 1.0, generator))
        rows = it.clip(top, 0.0, float(height - h)) + _along(h, x, 2)
        columns = it.clip(left, 0.0, float(width - w)) + _along(w, x, 3)

        def cut(x: Tensor, masks: bool) -> Tensor:
            if p:
                fill = self.mask_fill if masks else self.fill
                x = it.pad(x, ((0, 0), (0, 0), (p, p), (p, p)), value=fill)
            x = it.take_along_axis(x, it.broadcast_to(
                rows.astype("int64"), (*x.shape[:2], h, width)), axis=2)  # fmt: skip
            return it.take_along_axis(x, it.broadcast_to(
                columns.astype("int64"), (*x.shape[:2], h, w)), axis=3)  # fmt: skip

        return cut


def _fits(name: str, shape: tuple[int, ...], h: int, w: int) -> None:
    if h > shape[2] or w > shape[3]:
        raise ShapeError(f"{name}: size {(h, w)} is larger than the images, {shape}; resize them")


def _along(count: int, x: Tensor, axis: int) -> Tensor:
    shape = tuple(count if i == axis else 1 for i in range(4))
    return it.reshape(it.arange(count, dtype=x.dtype, device=x.device), shape)


def warped(
    x: Tensor, matrix: list[Tensor], fill: float = 0.0, size: Any = None, *, nearest: bool = False
) -> Tensor:
    """Images whose pixel at (u, v) is that of `x` at `matrix @ (u, v, 1)`, in pixels from the
    middle; six tensors (N,), row by row. Outside there is `fill`; what lies between pixels is the
    `nearest` one, of any dtype, or of all around it."""
    if nearest:
        moved = warped_floats(x.astype(it.float32), matrix, fill, size, "nearest")
        return it.astype(moved, x.dtype)
    return warped_floats(x, matrix, fill, size, "bilinear")


def warped_floats(
    x: Tensor, matrix: list[Tensor], fill: float, size: Any, mode: Literal["nearest", "bilinear"]
) -> Tensor:
    """`warped`, of floats."""
    height, width = x.shape[2:]
    h, w = (height, width) if size is None else size
    a, b, c, d, e, f = matrix
    theta = it.stack([
        it.stack([a * (w / width), b * (h / width), c * (2.0 / width)], axis=1),
        it.stack([d * (w / height), e * (h / height), f * (2.0 / height)], axis=1),
    ], axis=1)  # fmt: skip
    grid = it.affine_grid(theta, (x.shape[0], x.shape[1], h, w), align_corners=False)
    moved = it.grid_sample(x - fill if fill else x, grid, mode=mode, align_corners=False)
    return moved + fill if fill else moved


class RandomResizedCrop(OfImages):
    """A piece of each image of random area and aspect, resized; Szegedy et al. (CVPR 2015).

    Args:
        size: of what comes out.
        scale: between which shares of the area.
        ratio: between which quotients of width and height.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import RandomResizedCrop
    >>> RandomResizedCrop(24, scale=(0.5, 1.0))(it.ones((8, 3, 32, 40))).shape
    (8, 3, 24, 24)
    """

    def __init__(
        self, size: Size, scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
    ) -> None:  # fmt: skip
        name = "RandomResizedCrop"
        self.size = both(name, size)
        self.scale = interval(name, "scale", scale, least=0.0)
        self.ratio = interval(name, "ratio", ratio, least=1e-6)

    def change(self, x: Tensor, generator: Generator | None) -> Change:
        height, width = x.shape[2:]
        area = draw(x, *self.scale, generator, axes=1) * (height * width)
        low, high = map(math.log, self.ratio)
        quotient = it.exp(draw(x, low, high, generator, axes=1))
        w = it.clip(it.sqrt(area * quotient), 1.0, float(width))
        h = it.clip(it.sqrt(area / quotient), 1.0, float(height))
        left = draw(x, 0.0, 1.0, generator, axes=1) * (width - w) + (w - width) / 2
        top = draw(x, 0.0, 1.0, generator, axes=1) * (height - h) + (h - height) / 2
        zero, (out_h, out_w) = it.zeros_like(w), self.size
        matrix = [w / out_w, zero, left, zero, h / out_h, top]
        return lambda x, masks: warped(x, matrix, size=self.size, nearest=masks)


class RandomAffine(OfImages):
    """Turns, moves, scales and shears images about their middle, bilinear.

    Args:
        degrees: turns are drawn from [-v, v], or from the interval that is given; counterclockwise.
        translate: the largest shares of width and height that images move by.
        scale: between which factors they grow.
        shear: angles in degrees along the rows, from [-v, v] or the interval that is given.
        fill: what comes in from outside.
        mask_fill: the class of it, in masks.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import RandomAffine
    >>> turned = RandomAffine((90, 90))(it.asarray([[[[1.0, 2.0], [3.0, 4.0]]]]))
    >>> [[round(v) for v in row] for row in turned[0, 0].tolist()]
    [[2, 4], [1, 3]]
    """

    def __init__(
        self, degrees: Any = 0.0, translate: tuple[float, float] = (0.0, 0.0),
        scale: tuple[float, float] = (1.0, 1.0), shear: Any = 0.0, fill: float = 0.0,
        *, mask_fill: int = 0,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self.degrees = interval(name, "degrees", _about(degrees))
        self.translate = tuple(float(v) for v in translate)
        if len(self.translate) != 2 or not all(0.0 <= v <= 1.0 for v in self.translate):
            raise ArgumentError(
                f"{name}: translate must be two shares in [0, 1], got {translate!r}"
            )
        self.scale = interval(name, "scale", scale, least=1e-6)
        self.shear = interval(name, "shear", _about(shear))
        self.fill, self.mask_fill = float(fill), int(mask_fill)

    def change(self, x: Tensor, generator: Generator | None) -> Change:
        angle = draw(x, *self.degrees, generator, axes=1) * (math.pi / 180.0)
        shear = it.tan(draw(x, *self.shear, generator, axes=1) * (math.pi / 180.0))
        scale = draw(x, *self.scale, generator, axes=1)
        reach = self.translate[0] * x.shape[3], self.translate[1] * x.shape[2]
        right, down = (it.round(draw(x, -r, r, generator, axes=1)) for r in reach)
        matrix = affine_matrix(angle, right, down, scale, shear)
        return lambda x, masks: warped(
            x, matrix, self.mask_fill if masks else self.fill, nearest=masks
        )


def affine_matrix(
    angle: Tensor, right: Tensor, down: Tensor, scale: Tensor, shear: Tensor
) -> list[Tensor]:
    """From places in the result to places in the image: the inverse of turning by `angle`, scaling
    and shearing the rows, and then moving."""
    cos, sin = it.cos(angle) / scale, it.sin(angle) / scale
    # Counterclockwise on a screen, whose second axis points down.
    d, e = sin, cos
    a, b = cos - shear * d, -sin - shear * e
    return [a, b, -(a * right + b * down), d, e, -(d * right + e * down)]


def _about(value: Any) -> Any:
    return (-abs(value), abs(value)) if isinstance(value, (int, float)) else value


class RandomRotation(RandomAffine):
    """Turns images about their middle, bilinear; see `RandomAffine`.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import RandomRotation
    >>> RandomRotation(15)(it.ones((8, 3, 32, 32))).shape
    (8, 3, 32, 32)
    """

    def __init__(self, degrees: Any, fill: float = 0.0, *, mask_fill: int = 0) -> None:
        super().__init__(degrees, fill=fill, mask_fill=mask_fill)


class RandomErasing(OfColors):
    """Fills a rectangle of images with a value; Zhong et al. (AAAI 2020).

    Args:
        p: the probability.
        scale: between which shares of the area.
        ratio: between which quotients of height and width.
        value: what it is filled with.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import RandomErasing
    >>> erased = RandomErasing(p=1.0, scale=(0.2, 0.3))(it.ones((8, 1, 32, 32)))
    >>> 0.65 < erased.mean().item() < 0.85
    True
    """

    def __init__(
        self, p: float = 0.5, scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3), value: float = 0.0,
    ) -> None:  # fmt: skip
        name = "RandomErasing"
        self.p = probability(name, p)
        self.scale = interval(name, "scale", scale, least=0.0)
        self.ratio = interval(name, "ratio", ratio, least=1e-6)
        self.value = float(value)

    def colored(self, x: Tensor, generator: Generator | None) -> Tensor:
        inside = rectangle(x, draw(x, *self.scale, generator), self.ratio, generator)
        return it.where(inside & chosen(x, self.p, generator), self.value, x)


def rectangle(
    x: Tensor, share: Tensor, ratio: tuple[float, float], generator: Generator | None
) -> Tensor:
    """For each pixel, (N, 1, H, W), whether it lies in a rectangle of a share of the area."""
    height, width = x.shape[2:]
    quotient = it.exp(draw(x, math.log(ratio[0]), math.log(ratio[1]), generator))
    area = share * (height * width)
    h = it.minimum(it.round(it.sqrt(area * quotient)), float(height))
    w = it.minimum(it.round(it.sqrt(area / quotient)), float(width))
    top = it.floor(draw(x, 0.0, 1.0, generator) * (height - h + 1.0))
    left = it.floor(draw(x, 0.0, 1.0, generator) * (width - w + 1.0))
    rows, columns = _along(height, x, 2), _along(width, x, 3)
    return (rows >= top) & (rows < top + h) & (columns >= left) & (columns < left + w)
