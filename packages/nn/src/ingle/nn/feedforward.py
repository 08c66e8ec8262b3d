"""The position-wise feed-forward block of transformers."""

from __future__ import annotations

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.random import Generator

from .dropout import Dropout
from .linear import Linear
from .module import Module


class PositionWiseFeedForward(Module):
    """Two dense layers with a ReLU and dropout between, at every position by itself.

    Vaswani et al.: Attention Is All You Need (2017), section 3.3. Runs for any rank: the last axis
    holds features, the others are positions.

    Args:
        d_model: the size of the last axis, of input and output.
        d_ff: the size between the two layers.
        dropout: the probability of the dropout.
        device, dtype: of the parameters.
        generator: of the first values.

    >>> import ingle.tensor as it
    >>> from ingle.nn import PositionWiseFeedForward
    >>> block = PositionWiseFeedForward(d_model=8, d_ff=32, dropout=0.1)
    >>> block(it.ones((2, 5, 8))).shape, block(it.ones(8)).shape
    ((2, 5, 8), (8,))
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        dropout: float = 0.1,
        *,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        self.linear_inner = Linear(d_model, d_ff, device=device, dtype=dtype, generator=generator)
        self.linear_outer = Linear(d_ff, d_model, device=device, dtype=dtype, generator=generator)
        self.dropout = Dropout(dropout)

    def forward(self, x: TensorLike) -> Tensor:
        hidden = it.relu(self.linear_inner(x))
        out: Tensor = self.linear_outer(self.dropout(hidden))
        return out
