"""A-FINE: how far an image is from another one that need not be perfect itself."""

from __future__ import annotations

import numpy as np

import ingle.tensor as it
from ingle import nn
from ingle.tensor import Tensor

from ..base import Mean, doubles
from .pictures import check_pictures, evaluated
from .vision_transformer import PATCH, VisionTransformer

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
"""Of the channels of the images that CLIP was trained with."""
_HIDDEN = 128
_TINY = 1e-10


def _channels(values: tuple[float, ...]) -> nn.Buffer:
    return nn.Buffer(it.reshape(it.asarray(np.array(values, np.float32)), (1, 3, 1, 1)))


class _Head(nn.Module):
    """What both terms begin with: pixels and features, by places."""

    def __init__(self) -> None:
        self.mean, self.std = _channels(MEAN), _channels(STD)

    def parts(self, x: Tensor, features: list[Tensor]) -> list[Tensor]:
        """The pixels from 0 to 1 and what is positive of the features: (images, places, width)."""
        pixels = x * self.std + self.mean
        pixels = it.swapaxes(it.reshape(pixels, (*pixels.shape[:2], -1)), 1, 2)
        return [pixels, *map(it.relu, features)]


def _spread(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance over the places."""
    mean = it.mean(x, axis=1, keepdims=True)
    return mean, it.mean(it.square(x - mean), axis=1, keepdims=True)


class Naturalness(_Head):
    """How unnatural an image looks by itself, from means and variances of features."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.proj_feat = nn.Linear(2 * width, _HIDDEN)
        self.proj_head = nn.Sequential(
            nn.Linear(6 + _HIDDEN * layers, 6 * _HIDDEN), nn.GELU(), nn.Linear(6 * _HIDDEN, 1)
        )

    def forward(self, x: Tensor, features: list[Tensor]) -> Tensor:
        pixels, *others = (
            it.squeeze(it.concat(_spread(part), axis=2), axis=1) for part in self.parts(x, features)
        )
        found = it.concat([pixels, *map(self.proj_feat, others)], axis=1)
        return it.squeeze(self.proj_head(found), axis=1)


class Fidelity(_Head):
    """How different two images are in texture and structure, as DISTS has it."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.widths = (3, *(width,) * layers)
        count = (1, 1, sum(self.widths))
        self.alpha = nn.Parameter(it.random.normal(count) * 0.01 + 0.1)
        self.beta = nn.Parameter(it.random.normal(count) * 0.01 + 0.1)

    def forward(self, x: Tensor, y: Tensor, of_x: list[Tensor], of_y: list[Tensor]) -> Tensor:
        alpha, beta = it.softplus(self.alpha.value), it.softplus(self.beta.value)
        whole = it.sum(alpha) + it.sum(beta) + _TINY
        alphas, betas = (it.split(part / whole, self.widths, axis=2) for part in (alpha, beta))
        like = it.zeros((x.shape[0],), dtype=x.dtype, device=x.device)
        for a, b, texture, structure in zip(
            self.parts(x, of_x), self.parts(y, of_y), alphas, betas, strict=True
        ):
            (mean_a, var_a), (mean_b, var_b) = _spread(a), _spread(b)
            means = (2 * mean_a * mean_b + _TINY) / (mean_a**2 + mean_b**2 + _TINY)
            both = it.mean(a * b, axis=1, keepdims=True) - mean_a * mean_b
            varied = (2 * both + _TINY) / (var_a + var_b + _TINY)
            like = like + it.sum(texture * means + structure * varied, axis=(1, 2))
        return 1.0 - like


class Logistic(nn.Module):
    """Brings a term to -2 to 2.

    Args:
        middle: where it is 0.
        width: the larger, the flatter.
        middles, widths: between which both are kept.
    """

    def __init__(
        self,
        middle: float,
        width: float,
        middles: tuple[float, float] | None = None,
        widths: tuple[float, float] | None = None,
    ) -> None:
        self.yita3, self.yita4 = nn.Parameter(middle), nn.Parameter(width)
        self.middles, self.widths = middles, widths

    def forward(self, x: Tensor) -> Tensor:
        middle, width = self.yita3.value, self.yita4.value
        if self.middles is not None and self.widths is not None:
            middle, width = it.clip(middle, *self.middles), it.clip(width, *self.widths)
        return 4.0 * it.sigmoid((x - middle) / (it.abs(width) + _TINY)) - 2.0


class Adapter(nn.Module):
    """How much naturalness counts: the more, the less natural the other image is."""

    def __init__(self) -> None:
        self.k = nn.Parameter(5.0)

    def forward(self, natural: Tensor, other: Tensor, fidelity: Tensor) -> Tensor:
        return it.exp(it.softplus(self.k.value) * (other - natural)) * natural + fidelity


class _Clip(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        self.visual = VisionTransformer(width, layers)


class AFINENet(nn.Module):
    """From 0 (good) to 100 how an image with values from 0 to 1 fares beside another (Chen et al.,
    CVPR 2025).

    Features are those of CLIP's ViT-B/32. The fidelity of the image to the other one and the
    naturalness of both are joined, so that an image may be better than the one that it is compared
    with; the two are not interchangeable. Images whose sides are no multiples of 32 are enlarged to
    the next ones. Weights are random at first: the parts and names in its state are those of the
    reference implementation's file `afine.pth`, which
    `ingle.importer.load_weights(net, FILE, strict=False)` reads.

    Args:
        width: of CLIP's features.
        layers: how many blocks CLIP has.

    >>> import ingle.tensor as it
    >>> from ingle.train.metrics.perceptual import AFINENet
    >>> net = AFINENet(64, 2)
    >>> net(it.random.uniform((2, 3, 40, 64)), it.random.uniform((2, 3, 40, 64))).shape
    (2,)
    """

    def __init__(self, width: int = 768, layers: int = 12) -> None:
        self.finetuned_clip = _Clip(width, layers)
        self.natural, self.fidelity = Naturalness(width, layers), Fidelity(width, layers)
        self.natural_scale = Logistic(4.9592, 21.5968)
        self.fidelity_scale = Logistic(0.5, 0.15, (0.05, 0.95), (0.01, 0.70))
        self.adapter = Adapter()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x, y = (self._normalized(images) for images in (x, y))
        of_x, of_y = (self.finetuned_clip.visual(images) for images in (x, y))
        natural, other = (
            self.natural_scale(self.natural(images, features))
            for images, features in ((x, of_x), (y, of_y))
        )
        fidelity = self.fidelity_scale(self.fidelity(x, y, of_x, of_y))
        joined = self.adapter(natural, other, fidelity)
        return 100.0 * it.sigmoid((joined + 1.9710) / 2.3734)

    def _normalized(self, images: Tensor) -> Tensor:
        images = (images - self.natural.mean) / self.natural.std
        sides = tuple(-(-side // PATCH) * PATCH for side in images.shape[2:])
        if sides == images.shape[2:]:
            return images
        return it.interpolate(images, sides, mode="bicubic", align_corners=False)


class AFINE(Mean):
    """How an image fares beside one that need not be perfect (Chen et al., CVPR 2025): the mean.

    From 0, which is good, to 100. Outputs and targets are floats of shape (images, 3, height,
    width) from 0 to 1.

    Args:
        net: an `AFINENet` with weights that were loaded; they are not part of Ingle.

    Raises:
        ShapeError: the shapes differ, or are not those of images with three channels.

    >>> import ingle.tensor as it
    >>> from ingle.train import AFINE
    >>> from ingle.train.metrics.perceptual import AFINENet
    >>> afine, image = AFINE(AFINENet(64, 2)), it.random.uniform((2, 3, 32, 32))
    >>> afine.update(image, image, 0.0)
    >>> 0.0 < afine.compute() < 100.0
    True
    """

    name = "a_fine"

    def __init__(self, net: AFINENet) -> None:
        self.net = net
        super().__init__()

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_pictures("AFINE", outputs, targets)
        self.total += float(doubles(evaluated(self.net, outputs, targets)).sum())
        self.count += outputs.shape[0]
