"""Dropout of elements and of channels, and noise."""

from __future__ import annotations

import math

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.argument_checks import number
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.other_names import also
from ingle.tensor.random import Generator

from ._arguments import probability
from .module import Module


class _Dropout(Module):
    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        self.p = probability(type(self).__name__, "p", p)
        self.generator = generator

    def extra_repr(self) -> str:
        return f"p={self.p}"


@also(inplace=None)
class Dropout(_Dropout):
    """While training, zeroes elements with probability `p` and scales the others by 1 / (1 - p).

    Srivastava et al. (JMLR 15, 2014). Does nothing after `eval()`.

    Args:
        p: the probability, in [0, 1].
        generator: where masks are drawn from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Dropout
    >>> layer = Dropout(0.5)
    >>> sorted(set(layer(it.ones(100)).tolist()))
    [0.0, 2.0]
    >>> layer.eval()(it.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        if not self.training or self.p == 0.0:
            return it.asarray(x)
        return it.dropout(x, self.p, generator=self.generator)


def _of_channels(name: str, x: TensorLike, ranks: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The input, and ones of a shape with one element for each of its channels."""
    x = it.asarray(x)
    if x.ndim not in ranks:
        raise ShapeError(
            f"{name}: x must have {' or '.join(map(str, ranks))} axes, the last "
            f"{ranks[0] - 1} without the channels, got shape {x.shape}"
        )
    kept = x.ndim - (ranks[0] - 1)
    shape = (*x.shape[:kept], *(1,) * (ranks[0] - 1))
    return x, it.ones(shape, dtype=x.dtype, device=x.device)


class _ChannelDropout(_Dropout):
    _ranks: tuple[int, ...]

    def forward(self, x: TensorLike) -> Tensor:
        x, ones = _of_channels(type(self).__name__, x, self._ranks)
        if not self.training or self.p == 0.0:
            return x
        return x * it.dropout(ones, self.p, generator=self.generator)


@also(inplace=None)
class Dropout1d(_ChannelDropout):
    """Dropout of whole channels of (N, C, L) or (C, L); Tompson et al. (CVPR 2015).

    Args:
        p: the probability, in [0, 1].
        generator: where masks are drawn from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Dropout1d
    >>> y = Dropout1d(0.5)(it.ones((4, 5, 3)))
    >>> bool(it.all(y == y[:, :, :1]))
    True
    """

    _ranks = (2, 3)


@also(inplace=None)
class Dropout2d(_ChannelDropout):
    """Dropout of whole channels of (N, C, H, W) or (C, H, W); arguments as `Dropout1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Dropout2d
    >>> Dropout2d(1.0)(it.ones((1, 1, 1, 2))).tolist()
    [[[[0.0, 0.0]]]]
    """

    _ranks = (3, 4)


@also(inplace=None)
class Dropout3d(_ChannelDropout):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W); arguments as `Dropout1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Dropout3d
    >>> Dropout3d().eval()(it.ones((1, 2, 3, 4, 5))).shape
    (1, 2, 3, 4, 5)
    """

    _ranks = (4, 5)


_SATURATED = -1.7580993408473766
"""What `selu` returns far below 0."""


class _AlphaDropout(_Dropout):
    def _dropped(self, x: Tensor, ones: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        if self.p == 1.0:
            return x * 0.0
        kept = it.dropout(ones, self.p, generator=self.generator) * (1.0 - self.p)
        scale = 1.0 / math.sqrt((_SATURATED**2 * self.p + 1.0) * (1.0 - self.p))
        return (x * kept + (1.0 - kept) * _SATURATED) * scale - _SATURATED * scale * self.p


@also(inplace=None)
class AlphaDropout(_AlphaDropout):
    """Dropout that keeps mean 0 and variance 1 behind `SELU`; Klambauer et al. (2017).

    Args:
        p: the probability, in [0, 1].
        generator: where masks are drawn from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> from ingle.nn import AlphaDropout
    >>> AlphaDropout(0.5).eval()(it.ones(2)).tolist()
    [1.0, 1.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        x = it.asarray(x)
        return self._dropped(x, it.ones(x.shape, dtype=x.dtype, device=x.device))


@also(inplace=None)
class FeatureAlphaDropout(_AlphaDropout):
    """`AlphaDropout` of whole channels, axis 1; arguments as there.

    >>> import ingle.tensor as it
    >>> from ingle.nn import FeatureAlphaDropout
    >>> FeatureAlphaDropout(0.5).eval()(it.ones((1, 1, 2))).tolist()
    [[[1.0, 1.0]]]
    """

    def forward(self, x: TensorLike) -> Tensor:
        x = it.asarray(x)
        if x.ndim < 2:
            raise ShapeError(
                f"FeatureAlphaDropout: x must have channels on axis 1, got shape {x.shape}"
            )
        shape = (*x.shape[:2], *(1,) * (x.ndim - 2))
        return self._dropped(x, it.ones(shape, dtype=x.dtype, device=x.device))


class GaussianNoise(Module):
    """While training, adds normal noise.

    Args:
        std: its standard deviation, at least 0.
        generator: where it is drawn from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> from ingle.nn import GaussianNoise
    >>> GaussianNoise(0.1).eval()(it.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, std: float, *, generator: Generator | None = None) -> None:
        if not 0.0 <= number("GaussianNoise", "std", std) < math.inf:
            raise ArgumentError(f"GaussianNoise: std must be finite and at least 0, got {std}")
        self.std, self.generator = std, generator

    def forward(self, x: TensorLike) -> Tensor:
        x = it.asarray(x)
        if not self.training or self.std == 0.0:
            return x
        return x + self.std * it.random.normal(
            x.shape, dtype=x.dtype, device=x.device, generator=self.generator
        )

    def extra_repr(self) -> str:
        return f"std={self.std}"
