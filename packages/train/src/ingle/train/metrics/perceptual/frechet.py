"""FID: how far drawn images are from true ones, as sets."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from ingle.nn import Module
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError, ShapeError

from ..base import Doubles, Metric, doubles, seen, tensors_only
from .pictures import evaluated, three_channels


class FID(Metric):
    """The Fréchet distance of features of drawn and of true images (Heusel et al., 2017).

    Both sets are taken for normal distributions: the squared distance of their means, and the trace
    of C₁ + C₂ - 2 (C₁ C₂)^½ of their covariances. Outputs and targets are floats of shape (images,
    3, height, width); they need not be equally many. Sums are made in float64.

    Args:
        net: gives features of shape (images, features) for images, as `InceptionFeatures` with
            weights that were loaded does; they are not part of Ingle.

    Raises:
        ShapeError: a batch is none of images with three channels, or the net gives something else.
        ArgumentError: fewer than two images were drawn, or are true.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> from ingle.train import FID
    >>> fid = FID(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    >>> image = it.random.uniform((8, 3, 4, 4))
    >>> fid.update(image, image, 0.0)
    >>> abs(round(fid.compute(), 4))
    0.0
    """

    name = "fid"

    def __init__(self, net: Module) -> None:
        self.net = net
        self.reset()

    def reset(self) -> None:
        self.drawn, self.true = _Moments(), _Moments()

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        tensors_only("FID", outputs, targets)
        for images, moments in ((outputs, self.drawn), (targets, self.true)):
            three_channels("FID", images)
            features = evaluated(self.net, images)
            if features.ndim != 2 or features.shape[0] != images.shape[0]:
                raise ShapeError(
                    f"FID: the net must give features of shape ({images.shape[0]}, features) for "
                    f"{images.shape[0]} images, got {seen(features)}"
                )
            moments.add(doubles(features))

    def compute(self) -> float:
        for name, moments in (("drawn", self.drawn), ("true", self.true)):
            if moments.count < 2:
                raise ArgumentError(
                    f"FID: a covariance needs at least 2 {name} images, got {moments.count}"
                )
        return frechet_distance(*self.drawn.normal(), *self.true.normal())

    def state(self) -> dict[str, Any]:
        return {"drawn": self.drawn.state(), "true": self.true.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.drawn, self.true = (_Moments.of(state[name]) for name in ("drawn", "true"))


class _Moments:
    """Sums from which means and covariances are made."""

    def __init__(self) -> None:
        self.count = 0
        self.sums: Doubles = np.zeros(0)
        self.products: Doubles = np.zeros((0, 0))

    def add(self, features: Doubles) -> None:
        if not self.count:
            width = features.shape[1]
            self.sums, self.products = np.zeros(width), np.zeros((width, width))
        self.count += len(features)
        self.sums = self.sums + features.sum(0)
        self.products = self.products + features.T @ features

    def normal(self) -> tuple[Doubles, Doubles]:
        """The mean and the covariance."""
        mean = self.sums / self.count
        spread = self.products - self.count * np.outer(mean, mean)
        return mean, spread / (self.count - 1)

    def state(self) -> dict[str, Any]:
        packed = [base64.b64encode(a.tobytes()).decode() for a in (self.sums, self.products)]
        return {"count": self.count, "sums": packed[0], "products": packed[1]}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> _Moments:
        made = cls()
        made.count = state["count"]
        sums, products = (
            np.frombuffer(base64.b64decode(state[name])) for name in ("sums", "products")
        )
        made.sums, made.products = sums, products.reshape(len(sums), len(sums))
        return made


def frechet_distance(mean1: Doubles, cov1: Doubles, mean2: Doubles, cov2: Doubles) -> float:
    """The squared Fréchet distance of two normal distributions (Dowson and Landau, 1982).

    The trace of (C₁ C₂)^½ is that of (R C₂ R)^½ with R = C₁^½, which is symmetric, so that its
    eigenvalues are real and found exactly.

    >>> import numpy as np
    >>> from ingle.train.metrics.perceptual.frechet import frechet_distance
    >>> round(frechet_distance(np.zeros(2), np.eye(2), np.ones(2), 4 * np.eye(2)), 6)
    4.0
    """
    values, vectors = np.linalg.eigh(cov1)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    inner = root @ cov2 @ root
    shared = np.sqrt(np.maximum(np.linalg.eigvalsh((inner + inner.T) / 2), 0)).sum()
    apart = float(((mean1 - mean2) ** 2).sum())
    return apart + float(np.trace(cov1) + np.trace(cov2) - 2 * shared)
