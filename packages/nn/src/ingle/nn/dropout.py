"""Dropout."""

from __future__ import annotations

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError
from ingle.tensor.random import Generator

from .module import Module


class Dropout(Module):
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

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        if not 0.0 <= p <= 1.0:
            raise ArgumentError(f"Dropout: p must be a probability in [0, 1], got {p}")
        self.p = p
        self.generator = generator

    def forward(self, x: TensorLike) -> Tensor:
        if not self.training or self.p == 0.0:
            return it.asarray(x)
        return it.dropout(x, self.p, generator=self.generator)

    def extra_repr(self) -> str:
        return f"p={self.p}"
