"""Vectors by index."""

from __future__ import annotations

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError
from ingle.tensor.random import Generator

from ._arguments import make, size
from .init import Init, Normal
from .module import Module


class Embedding(Module):
    """A row of `weight` for each index: shape S to shape (*S, embedding_dim).

    Args:
        num_embeddings: how many rows there are.
        embedding_dim: the size of a row.
        padding_idx: a row that starts as zeros and gets no gradient; it counts from the end if
            negative.
        weight_init: for shape (num_embeddings, embedding_dim); standard normal if not given.
        device, dtype: of the weight.
        generator: of the first values.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Embedding
    >>> Embedding(10, 4)(it.asarray([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        weight_init: Init | None = None,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        self.num_embeddings = size("Embedding", "num_embeddings", num_embeddings)
        self.embedding_dim = size("Embedding", "embedding_dim", embedding_dim)
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ArgumentError(
                    f"Embedding: padding_idx={padding_idx} is out of range for "
                    f"num_embeddings={num_embeddings}"
                )
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        shape = (num_embeddings, embedding_dim)
        self.weight = make(weight_init, Normal(), shape, dtype, device, generator)
        if padding_idx is not None and weight_init is None:
            rows = it.reshape(it.arange(num_embeddings, device=device), (num_embeddings, 1))
            self.weight.value = it.where(it.equal(rows, padding_idx), 0.0, self.weight.raw)

    def forward(self, indices: TensorLike) -> Tensor:
        return it.embedding(indices, self.weight, padding_idx=self.padding_idx)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
