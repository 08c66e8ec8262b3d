"""Tables of rows that are kept as codes."""

from __future__ import annotations

import math

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError

from ..embedding import Embedding
from .base import QuantizedLayer
from .config import QuantizationConfig
from .convolution import BYTES
from .weights import decoded


class QuantizedEmbedding(QuantizedLayer):
    """A frozen table whose rows are kept as codes of few bits; only the rows asked for are decoded.

    Args:
        base: the table whose values are taken.
        config: how; int8, with a scale for each row, if not given. Activations play no part.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> layer = nn.QuantizedEmbedding(nn.Embedding(10, 4))
    >>> layer(it.asarray([[1, 2, 3]])).shape, layer.codes.dtype
    ((1, 3, 4), int8)
    """

    def __init__(self, base: Embedding, config: QuantizationConfig = BYTES) -> None:
        if base.max_norm is not None:
            raise ArgumentError(
                "QuantizedEmbedding: base has max_norm, which changes its weight when rows are "
                "asked for; codes do not change"
            )
        self.num_embeddings, self.embedding_dim = base.num_embeddings, base.embedding_dim
        self.padding_idx = base.padding_idx
        plain = QuantizationConfig(config.weights, config.per, config.weight_method)
        self._keep(base.weight, None, plain, None)

    def forward(self, indices: TensorLike) -> Tensor:
        places = it.asarray(indices)
        count = math.prod(places.shape)
        flat = it.reshape(places, (count,))
        codes = it.embedding(flat, self.codes.raw)
        scale, zero = self.scale.raw, None if self.zero_point is None else self.zero_point.raw
        if scale.shape[0] > 1:
            scale = it.embedding(flat, scale)
            zero = None if zero is None else it.embedding(flat, zero)
        rows = decoded(codes, scale, zero, (count, self.embedding_dim), self.config)
        return it.reshape(rows, (*places.shape, self.embedding_dim))

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, {self._said()}"
