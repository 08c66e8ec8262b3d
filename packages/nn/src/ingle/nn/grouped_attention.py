"""Attention of today's language models: grouped heads, windows, positions, a cache."""

from __future__ import annotations

import math
from types import NoneType

import ingle.tensor as it
from ingle.tensor import Cell, Device, Tensor, transaction
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.dtypes import bool_
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.masks import check_mask
from ingle.tensor.random import Generator

from ._arguments import probability, size
from .linear import Linear
from .module import Module
from .parameter import Buffer
from .positions import RotaryEmbedding, alibi_slopes


class KVCache(Module):
    """Keys and values of earlier steps, for generating one step after the other.

    Its memory is there from the beginning, so that a compiled step is one recording.

    Args:
        batch, heads, max_len, head_dim: the shape of keys and of values.
        dtype, device: of both.

    >>> import ingle.tensor as it
    >>> from ingle.nn import KVCache
    >>> cache = KVCache(1, 2, 8, 4)
    >>> keys, values = cache.append(it.ones((1, 2, 3, 4)), it.ones((1, 2, 3, 4)))
    >>> keys.shape, cache.length.value
    ((1, 2, 8, 4), 3)
    """

    def __init__(
        self, batch: int, heads: int, max_len: int, head_dim: int, *, dtype: object = None,
        device: Device | str | None = None,
    ) -> None:  # fmt: skip
        shape = (batch, heads, size("KVCache", "max_len", max_len), head_dim)
        self.keys = Buffer(it.zeros(shape, dtype=dtype, device=device), persistent=False)
        self.values = Buffer(it.zeros(shape, dtype=dtype, device=device), persistent=False)
        self.length: Cell[int] = Cell(0)
        self.max_len = max_len

    def append(self, keys: TensorLike, values: TensorLike) -> tuple[Tensor, Tensor]:
        """Writes further steps, and returns all there is room for; see `length`.

        Raises:
            ShapeError: the shapes do not fit, or the cache is full.
        """
        k, v, start = it.asarray(keys), it.asarray(values), self.length.raw
        held = self.keys.shape
        fits = k.ndim == 4 and (*k.shape[:2], k.shape[3]) == (*held[:2], held[3])
        if not fits or k.shape != v.shape or start + k.shape[2] > self.max_len:
            raise ShapeError(
                f"KVCache: keys and values must be ({held[0]}, {held[1]}, steps, {held[3]}) with "
                f"at most {self.max_len} steps in all, of which {start} are there; got {k.shape} "
                f"and {v.shape}. reset() empties it"
            )
        with transaction(flush=False):
            places = (0, 0, start, 0)
            self.keys.value = it.slice_update(self.keys.raw, k.detach(), places)
            self.values.value = it.slice_update(self.values.raw, v.detach(), places)
            self.length.value = start + k.shape[2]
        return self.keys.raw, self.values.raw

    def reset(self) -> None:
        """Forgets all steps."""
        self.length.value = 0

    def extra_repr(self) -> str:
        return f"{self.keys.shape}"


class GroupedQueryAttention(Module):
    """Self-attention with fewer heads of keys and values than of queries; Ainslie et al. (2023).

    Args:
        embed_dim: the number of features.
        num_heads: of queries.
        num_kv_heads: of keys and values, which divides `num_heads`; as many if not given.
        head_dim: the size of a head; `embed_dim / num_heads` if not given.
        is_causal: whether no step sees later ones.
        window: how many steps each sees at most, itself included; all if None.
        rotary: positions of queries and keys, or None.
        alibi: whether scores fall with the distance.
        dropout: of the weights, while training.
        bias: whether projections have biases.
        device, dtype: of the parameters.
        generator: of the first values and of the dropout.

    Raises:
        ArgumentError: sizes that cannot be divided.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> attend = nn.GroupedQueryAttention(16, 4, 2, window=3, rotary=nn.RotaryEmbedding(4))
    >>> attend(it.ones((2, 5, 16))).shape
    (2, 5, 16)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        is_causal: bool = True,
        window: int | None = None,
        rotary: RotaryEmbedding | None = None,
        alibi: bool = False,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        name = "GroupedQueryAttention"
        self.embed_dim = size(name, "embed_dim", embed_dim)
        self.num_heads = size(name, "num_heads", num_heads)
        kv = self.num_heads if num_kv_heads is None else num_kv_heads
        self.num_kv_heads = size(name, "num_kv_heads", kv)
        if (head_dim is None and embed_dim % num_heads) or num_heads % self.num_kv_heads:
            raise ArgumentError(
                f"{name}: embed_dim={embed_dim} must be divisible by num_heads={num_heads}, and "
                f"that by num_kv_heads={self.num_kv_heads}"
            )
        given = embed_dim // num_heads if head_dim is None else head_dim
        self.head_dim = size(name, "head_dim", given)
        self.window = None if window is None else size(name, "window", window)
        if not isinstance(rotary, (RotaryEmbedding, NoneType)):
            raise ArgumentError(f"{name}: rotary must be a RotaryEmbedding, got {rotary!r:.80}")
        if rotary is not None and rotary.dim != self.head_dim:
            raise ArgumentError(
                f"{name}: rotary turns {rotary.dim} features, a head has {self.head_dim}"
            )
        self.is_causal, self.alibi = is_causal, alibi
        self.dropout, self.generator = probability(name, "dropout", dropout), generator
        wide, narrow = num_heads * self.head_dim, self.num_kv_heads * self.head_dim

        def linear(before: int, behind: int) -> Linear:
            return Linear(before, behind, bias, device=device, dtype=dtype, generator=generator)

        self.q_proj, self.k_proj = linear(embed_dim, wide), linear(embed_dim, narrow)
        self.v_proj, self.o_proj = linear(embed_dim, narrow), linear(wide, embed_dim)
        self.rotary = rotary

    def forward(
        self, x: TensorLike, mask: TensorLike | None = None, cache: KVCache | None = None
    ) -> Tensor:
        """Outputs of the shape of `x`.

        Args:
            x: (batch, length, embed_dim).
            mask: broadcasts to (batch, num_heads, length, keys): the true places take part, as in
                `ingle.tensor.scaled_dot_product_attention`; floats are added to the scores.
            cache: of earlier steps, whose keys come before those of `x`; it takes these, too.

        Raises:
            ShapeError: the shapes do not fit, or the cache is full.
        """
        x = it.asarray(x)
        if x.ndim != 3 or x.shape[-1] != self.embed_dim:
            raise ShapeError(
                f"GroupedQueryAttention: x must be (batch, length, {self.embed_dim}), got shape "
                f"{x.shape}"
            )
        start = 0 if cache is None else cache.length.raw
        q = self._heads(self.q_proj(x), self.num_heads)
        k = self._heads(self.k_proj(x), self.num_kv_heads)
        v = self._heads(self.v_proj(x), self.num_kv_heads)
        if self.rotary is not None:
            q, k = self.rotary(q, start), self.rotary(k, start)
        if cache is not None:
            k, v = cache.append(k, v)
        plain = cache is None and self.window is None and mask is None and not self.alibi
        seen = mask if plain else self._seen(q, k, start, mask, cache is not None)
        out = it.scaled_dot_product_attention(
            q, k, v, seen, is_causal=plain and self.is_causal, enable_gqa=True,
            dropout_p=self.dropout if self.training else 0.0, generator=self.generator,
        )  # fmt: skip
        n, _, length, _ = out.shape
        joined = it.reshape(it.swapaxes(out, 1, 2), (n, length, self.num_heads * self.head_dim))
        result: Tensor = self.o_proj(joined)
        return result

    def _heads(self, x: Tensor, count: int) -> Tensor:
        n, length, _ = x.shape
        return it.swapaxes(it.reshape(x, (n, length, count, self.head_dim)), 1, 2)

    def _seen(
        self, q: Tensor, k: Tensor, start: int, mask: TensorLike | None, cached: bool
    ) -> Tensor:
        """What is added to the scores."""
        length, keys = q.shape[2], k.shape[2]
        here = it.reshape(it.arange(length, device=q.device) + start, (length, 1))
        there = it.arange(keys, device=q.device)
        seen = it.ones((length, keys), dtype="bool", device=q.device)
        if self.is_causal:
            seen = there <= here
        elif cached:
            seen = seen & (there < start + length)
        if self.window is not None:
            seen = seen & (abs(here - there) < self.window)
        zero = it.zeros((), dtype=q.dtype, device=q.device)
        scores = it.where(seen, zero, -math.inf)
        if self.alibi:
            slopes = it.asarray(alibi_slopes(self.num_heads), dtype=q.dtype, device=q.device)
            apart = abs(here - there).astype(q.dtype)
            scores = scores - it.reshape(slopes, (self.num_heads, 1, 1)) * apart
        if mask is not None:
            given = it.asarray(mask)
            check_mask("GroupedQueryAttention", "mask", given.dtype, "takes part")
            scores = scores + (it.where(given, zero, -math.inf) if given.dtype is bool_ else given)
        return scores

    def extra_repr(self) -> str:
        return (
            f"{self.embed_dim}, num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, "
            f"is_causal={self.is_causal}, window={self.window}, alibi={self.alibi}"
        )
