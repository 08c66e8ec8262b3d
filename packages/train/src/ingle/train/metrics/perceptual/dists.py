"""DISTS: how different two images are in structure and in texture."""

from __future__ import annotations

import numpy as np

import ingle.tensor as it
from ingle import nn
from ingle.tensor import Tensor

from ..base import Mean, doubles
from .pictures import check_pictures, evaluated
from .trunks import VGG_ENDS, Slices, vgg16

CHANNELS = (3, 64, 128, 256, 512, 512)


class L2Pooling(nn.Module):
    """Half the sides: the root of the mean square in a small window, which is a squared cosine."""

    def __init__(self, channels: int) -> None:
        edge = np.hanning(5)[1:-1]
        window = np.outer(edge, edge) / np.outer(edge, edge).sum()
        self.channels = channels
        self.filter = nn.Buffer(it.asarray(np.tile(window, (channels, 1, 1, 1)).astype(np.float32)))

    def forward(self, x: Tensor) -> Tensor:
        mean = it.conv2d(it.square(x), self.filter, stride=2, padding=1, groups=self.channels)
        return it.sqrt(mean + 1e-12)


class DISTSNet(nn.Module):
    """The distance of two batches of images with values from 0 to 1 (Ding et al., 2020).

    For the image and each of five features of VGG, with a smoother pooling, the means of channels
    are compared (texture) and their covariance (structure). Weights are random at first: the names
    in its state are those of the reference implementation, the package `DISTS_pytorch`.

    >>> import ingle.tensor as it
    >>> from ingle.train.metrics.perceptual import DISTSNet
    >>> net, image = DISTSNet(), it.random.uniform((1, 3, 16, 16))
    >>> abs(round(net(image, image).item(), 4))
    0.0
    """

    def __init__(self) -> None:
        parts = Slices(vgg16(L2Pooling), VGG_ENDS, "stage")
        self.stages = parts.names
        for name in parts.names:
            setattr(self, name, getattr(parts, name))
        count = (1, sum(CHANNELS), 1, 1)
        self.mean = nn.Buffer(it.reshape(it.asarray([0.485, 0.456, 0.406]), (1, 3, 1, 1)))
        self.std = nn.Buffer(it.reshape(it.asarray([0.229, 0.224, 0.225]), (1, 3, 1, 1)))
        self.alpha = nn.Parameter(it.random.normal(count) * 0.01 + 0.1)
        self.beta = nn.Parameter(it.random.normal(count) * 0.01 + 0.1)

    def features(self, images: Tensor) -> list[Tensor]:
        """The images and what comes out of each stage."""
        found, x = [images], (images - self.mean) / self.std
        for name in self.stages:
            x = getattr(self, name)(x)
            found.append(x)
        return found

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        whole = it.sum(self.alpha) + it.sum(self.beta)
        textures, structures = (
            it.split(part / whole, CHANNELS, axis=1) for part in (self.alpha, self.beta)
        )
        like = it.zeros((x.shape[0],), dtype=x.dtype, device=x.device)
        for a, b, texture, structure in zip(
            self.features(x), self.features(y), textures, structures, strict=True
        ):
            mean_a, mean_b = (it.mean(one, axis=(2, 3), keepdims=True) for one in (a, b))
            means = (2 * mean_a * mean_b + 1e-6) / (mean_a**2 + mean_b**2 + 1e-6)
            var_a = it.mean(it.square(a - mean_a), axis=(2, 3), keepdims=True)
            var_b = it.mean(it.square(b - mean_b), axis=(2, 3), keepdims=True)
            both = it.mean(a * b, axis=(2, 3), keepdims=True) - mean_a * mean_b
            varied = (2 * both + 1e-6) / (var_a + var_b + 1e-6)
            like = like + it.sum(texture * means + structure * varied, axis=(1, 2, 3))
        return 1.0 - like


class DISTS(Mean):
    """How different two images are in structure and texture (Ding et al., 2020): the mean.

    It is 0 where they are the same, and small for two pieces of one texture. Outputs and targets
    are floats of shape (images, 3, height, width) from 0 to 1.

    Args:
        net: a `DISTSNet` with weights that were loaded; they are not part of Ingle.

    Raises:
        ShapeError: the shapes differ, or are not those of images with three channels.

    >>> import ingle.tensor as it
    >>> from ingle.train import DISTS
    >>> from ingle.train.metrics.perceptual import DISTSNet
    >>> dists, image = DISTS(DISTSNet()), it.random.uniform((1, 3, 16, 16))
    >>> dists.update(image, image, 0.0)
    >>> abs(round(dists.compute(), 4))
    0.0
    """

    name = "dists"

    def __init__(self, net: DISTSNet) -> None:
        self.net = net
        super().__init__()

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_pictures("DISTS", outputs, targets)
        self.total += float(doubles(evaluated(self.net, outputs, targets)).sum())
        self.count += outputs.shape[0]
