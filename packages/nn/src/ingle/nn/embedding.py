"""Vectors by index, alone and summed up in bags."""

from __future__ import annotations

from typing import Any, TypeVar

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.argument_checks import number, whole
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.other_names import also
from ingle.tensor.random import Generator

from ._arguments import make, size
from .init import Init, Normal
from .module import Module
from .parameter import Parameter

E = TypeVar("E", bound="_Table")


class _Table(Module):
    """A row of `weight` for each index, and what both layers do with rows."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        weight: TensorLike | None,
        place: tuple[Init | None, object, Device | str | None, Generator | None],
    ) -> None:
        name = type(self).__name__
        self.num_embeddings = size(name, "num_embeddings", num_embeddings)
        self.embedding_dim = size(name, "embedding_dim", embedding_dim)
        if padding_idx is not None:
            padding_idx = whole(name, "padding_idx", padding_idx)
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ArgumentError(
                    f"{name}: padding_idx={padding_idx} is out of range for "
                    f"num_embeddings={num_embeddings}"
                )
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        if max_norm is not None and not number(name, "max_norm", max_norm) > 0:
            raise ArgumentError(f"{name}: max_norm must be above 0 or None, got {max_norm}")
        self.max_norm, self.norm_type = max_norm, number(name, "norm_type", norm_type)
        self.scale_grad_by_freq = scale_grad_by_freq
        weight_init, dtype, device, generator = place
        shape = (num_embeddings, embedding_dim)
        if weight is not None:
            given = it.asarray(weight)
            if given.shape != shape:
                raise ShapeError(f"{name}: the weight must have shape {shape}, got {given.shape}")
            self.weight = Parameter(given)
            return
        self.weight = make(weight_init, Normal(), shape, dtype, device, generator)
        if padding_idx is not None and weight_init is None:
            rows = it.reshape(it.arange(num_embeddings, device=device), (num_embeddings, 1))
            self.weight.value = it.where(it.equal(rows, padding_idx), 0.0, self.weight.raw)

    @classmethod
    def from_pretrained(
        cls: type[E], embeddings: TensorLike, freeze: bool = True, **options: Any
    ) -> E:
        """A layer with these rows.

        Args:
            embeddings: (num_embeddings, embedding_dim).
            freeze: whether they are not trained.
            options: of the layer.

        Raises:
            ShapeError: `embeddings` have not two axes.

        >>> import ingle.tensor as it
        >>> from ingle.nn import Embedding
        >>> layer = Embedding.from_pretrained([[1.0, 2.0], [3.0, 4.0]])
        >>> layer(it.asarray([1])).tolist(), layer.weight.requires_grad
        ([[3.0, 4.0]], False)
        """
        rows = it.asarray(embeddings)
        if rows.ndim != 2:
            raise ShapeError(
                f"{cls.__name__}.from_pretrained: embeddings must have 2 axes, got shape "
                f"{rows.shape}"
            )
        layer = cls(*rows.shape, _weight=rows, **options)  # type: ignore[call-arg, arg-type]
        layer.weight.requires_grad = not freeze
        return layer

    def _looked_up(self, indices: Tensor) -> None:
        """Shrinks the rows that are asked for to `max_norm`."""
        if self.max_norm is None:
            return
        flat = it.reshape(indices, (indices.size,))
        rows = it.take(self.weight.raw, flat, axis=0)
        norms = it.linalg.vector_norm(rows, axis=-1, keepdims=True, ord=self.norm_type)
        factors = it.where(norms > self.max_norm, self.max_norm / (norms + 1e-7), 1.0)
        self.weight.value = self.weight.raw.at[flat].set(rows * factors)

    def _by_frequency(self, rows: Tensor, indices: Tensor) -> Tensor:
        """Rows whose gradients are divided by how often their index is there."""
        counts = it.bincount(it.reshape(indices, (indices.size,)), minlength=self.num_embeddings)
        often = it.take(counts, it.reshape(indices, (indices.size,)), axis=0)
        share = it.reshape(1.0 / often.astype(rows.dtype), (*indices.shape, 1))
        fixed = rows.detach()
        return fixed + (rows - fixed) * share

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, plain in (
            ("padding_idx", None), ("max_norm", None), ("norm_type", 2.0),
            ("scale_grad_by_freq", False),
        ):  # fmt: skip
            if getattr(self, name) != plain:
                text += f", {name}={getattr(self, name)}"
        return text


@also(sparse=None)
class Embedding(_Table):
    """A row of `weight` for each index: shape S to shape (*S, embedding_dim).

    Args:
        num_embeddings: how many rows there are.
        embedding_dim: the size of a row.
        padding_idx: a row that starts as zeros and gets no gradient; it counts from the end if
            negative.
        max_norm: rows that are longer are shrunk to it, in the weight, when they are asked for.
        norm_type: p of that norm.
        scale_grad_by_freq: whether gradients are divided by how often an index is there.
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
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        *,
        weight_init: Init | None = None,
        _weight: TensorLike | None = None,
        _freeze: bool = False,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            _weight, (weight_init, dtype, device, generator),
        )  # fmt: skip
        if _freeze:
            self.weight.requires_grad = False

    def forward(self, indices: TensorLike) -> Tensor:
        if self.max_norm is None and not self.scale_grad_by_freq:
            return it.embedding(indices, self.weight, padding_idx=self.padding_idx)
        places = it.asarray(indices)
        self._looked_up(places)
        rows = it.embedding(places, self.weight, padding_idx=self.padding_idx)
        return self._by_frequency(rows, places) if self.scale_grad_by_freq else rows


@also(sparse=None)
class EmbeddingBag(_Table):
    """Sums, means or maxima of rows of `weight`, without the rows themselves.

    `forward(indices, offsets=None, per_sample_weights=None)`: indices (B, N), bags of N, or a
    vector of them with the `offsets` at which bags begin; to (B, embedding_dim).

    Args:
        num_embeddings: how many rows there are.
        embedding_dim: the size of a row.
        max_norm: rows that are longer are shrunk to it, in the weight, when they are asked for.
        norm_type: p of that norm.
        scale_grad_by_freq: not for bags; False.
        mode: `"sum"`, `"mean"` or `"max"`.
        include_last_offset: whether `offsets` ends with the number of indices.
        padding_idx: an index that does not count; its row starts as zeros.
        weight_init: for shape (num_embeddings, embedding_dim); standard normal if not given.
        device, dtype: of the weight.
        generator: of the first values.

    >>> import ingle.tensor as it
    >>> from ingle.nn import EmbeddingBag
    >>> EmbeddingBag(10, 4)(it.asarray([1, 2, 3]), it.asarray([0, 2])).shape
    (2, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        *,
        _weight: TensorLike | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        weight_init: Init | None = None,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        if mode not in ("sum", "mean", "max"):
            raise ArgumentError(f"EmbeddingBag: mode must be 'sum', 'mean' or 'max', got {mode!r}")
        if scale_grad_by_freq:
            raise ArgumentError(
                "EmbeddingBag: scale_grad_by_freq is of Embedding alone; sum the rows of one"
            )
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            _weight, (weight_init, dtype, device, generator),
        )  # fmt: skip
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(
        self,
        indices: TensorLike,
        offsets: TensorLike | None = None,
        per_sample_weights: TensorLike | None = None,
    ) -> Tensor:
        places = it.asarray(indices)
        self._looked_up(places)
        return it.embedding_bag(
            places, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights,
            padding_idx=self.padding_idx, include_last_offset=self.include_last_offset,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode!r}"
