"""Multi-head attention with PyTorch's arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.dtypes import bool_
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.masks import check_mask
from ingle.tensor.random import Generator

from ._arguments import probability, size
from .init import XavierNormal, XavierUniform, Zeros
from .linear import Linear
from .module import Module
from .parameter import Parameter


class MultiheadAttention(Module):
    """Attention in several heads, each on a part of the features; Vaswani et al. (2017).

    Without weights to return it is one operation of the backend, and the scores are never stored.

    Args:
        embed_dim: the size of queries and of the output.
        num_heads: among which it is divided.
        dropout: of the weights, while training.
        bias: whether projections have biases.
        add_bias_kv: one more key and value, which are trained.
        add_zero_attn: one more key and value of zeros.
        kdim, vdim: the sizes of keys and values, if they differ from `embed_dim`.
        batch_first: (N, L, E) rather than (L, N, E).
        device, dtype: of the parameters.
        generator: of the first values and of the dropout.

    Raises:
        ArgumentError: `embed_dim` cannot be divided among the heads.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MultiheadAttention
    >>> attend, x = MultiheadAttention(8, 2, batch_first=True), it.ones((3, 5, 8))
    >>> out, weights = attend(x, x, x)
    >>> out.shape, weights.shape
    ((3, 5, 8), (3, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        name = "MultiheadAttention"
        self.embed_dim = size(name, "embed_dim", embed_dim)
        self.num_heads = size(name, "num_heads", num_heads)
        if embed_dim % num_heads:
            raise ArgumentError(
                f"{name}: embed_dim={embed_dim} must be divisible by num_heads={num_heads}"
            )
        self.head_dim = embed_dim // num_heads
        self.kdim = size(name, "kdim", embed_dim if kdim is None else kdim)
        self.vdim = size(name, "vdim", embed_dim if vdim is None else vdim)
        self.dropout = probability(name, "dropout", dropout)
        self.batch_first, self.add_zero_attn, self.generator = batch_first, add_zero_attn, generator
        place = (dtype, device, generator)
        self.in_proj_weight: Parameter | None = None
        self.q_proj_weight: Parameter | None = None
        self.k_proj_weight: Parameter | None = None
        self.v_proj_weight: Parameter | None = None
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = Parameter(XavierUniform()((3 * embed_dim, embed_dim), *place))
        else:
            self.q_proj_weight = Parameter(XavierUniform()((embed_dim, embed_dim), *place))
            self.k_proj_weight = Parameter(XavierUniform()((embed_dim, self.kdim), *place))
            self.v_proj_weight = Parameter(XavierUniform()((embed_dim, self.vdim), *place))
        self.in_proj_bias = Parameter(Zeros()((3 * embed_dim,), *place)) if bias else None
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            self.bias_k = Parameter(XavierNormal()((1, 1, embed_dim), *place))
            self.bias_v = Parameter(XavierNormal()((1, 1, embed_dim), *place))
        self.out_proj = Linear(
            embed_dim, embed_dim, bias, bias_init=Zeros(), device=device, dtype=dtype,
            generator=generator,
        )  # fmt: skip

    def forward(
        self,
        query: TensorLike,
        key: TensorLike,
        value: TensorLike,
        key_padding_mask: TensorLike | None = None,
        need_weights: bool = True,
        attn_mask: TensorLike | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Outputs of the shape of `query`, and the weights or None.

        Args:
            query, key, value: (L, N, E), (S, N, kdim), (S, N, vdim); (N, L, E) and so on with
                `batch_first`; without N for one sequence.
            key_padding_mask: (N, S), or (S,): the true keys are left out; floats are added.
            need_weights: False is much faster.
            attn_mask: (L, S) or (N * num_heads, L, S): the true places are left out; floats are
                added.
            average_attn_weights: the mean of the weights of all heads rather than each's.
            is_causal: no query sees later keys; with a mask it changes nothing, as in PyTorch.

        Raises:
            ShapeError: the shapes do not fit.
            DTypeError: a mask is of integers.
        """
        q, k, v, batched = self._inputs(query, key, value)
        mask = self._mask(key_padding_mask, attn_mask, q, k, batched)
        if is_causal and attn_mask is None:
            causal = it.triu(it.ones((q.shape[1], k.shape[1]), dtype="bool", device=q.device), k=1)
            mask = _joined(mask, causal, q)
        q, k, v = self._projected(q, k, v)
        if self.bias_k is not None:
            rows = (k.shape[0], 1, self.embed_dim)
            k = it.concat([k, it.broadcast_to(it.asarray(self.bias_k), rows)], axis=1)
            v = it.concat([v, it.broadcast_to(it.asarray(self.bias_v), rows)], axis=1)
        if self.add_zero_attn:
            zero = it.zeros((k.shape[0], 1, self.embed_dim), dtype=k.dtype, device=k.device)
            k, v = it.concat([k, zero], axis=1), it.concat([v, zero], axis=1)
        added = int(self.bias_k is not None) + int(self.add_zero_attn)
        if mask is not None and added:
            seen = mask.dtype is bool_
            mask = it.pad(mask, ((0, 0), (0, 0), (0, 0), (0, added)), value=seen)
        q, k, v = (self._heads(x) for x in (q, k, v))
        p = self.dropout if self.training else 0.0
        weights: Tensor | None = None
        if need_weights:
            scores = q @ k.mT * (1.0 / math.sqrt(self.head_dim))
            if mask is not None and mask.dtype is bool_:
                scores = it.where(mask, scores, -math.inf)
            elif mask is not None:
                scores = scores + mask
            weights = it.softmax(scores, axis=-1)
            weights = it.dropout(weights, p, generator=self.generator) if p else weights
            out = weights @ v
            weights = it.mean(weights, axis=1) if average_attn_weights else weights
        else:
            out = it.scaled_dot_product_attention(
                q, k, v, mask, dropout_p=p, generator=self.generator
            )
        n, _, length, _ = out.shape
        out = self.out_proj(it.reshape(it.swapaxes(out, 1, 2), (n, length, self.embed_dim)))
        if not batched:
            return out[0], None if weights is None else weights[0]
        return (out if self.batch_first else it.swapaxes(out, 0, 1)), weights

    def _inputs(
        self, query: TensorLike, key: TensorLike, value: TensorLike
    ) -> tuple[Tensor, Tensor, Tensor, bool]:
        q, k, v = it.asarray(query), it.asarray(key), it.asarray(value)
        widths = (self.embed_dim, self.kdim, self.vdim)
        fit = q.ndim in (2, 3) and q.ndim == k.ndim == v.ndim and k.shape[:-1] == v.shape[:-1]
        fit = fit and (q.shape[-1], k.shape[-1], v.shape[-1]) == widths
        batched, axis = q.ndim == 3, 0 if self.batch_first else 1
        if not fit or (batched and q.shape[axis] != k.shape[axis]):
            order = "batch, length" if self.batch_first else "length, batch"
            raise ShapeError(
                f"MultiheadAttention: query, key and value must be ({order}, features) with "
                f"{widths[0]}, {widths[1]} and {widths[2]} features, the same batch, and key as "
                f"long as value; got {q.shape}, {k.shape} and {v.shape}"
            )
        if not batched:
            return q[None], k[None], v[None], False
        if not self.batch_first:
            q, k, v = (it.swapaxes(x, 0, 1) for x in (q, k, v))
        return q, k, v, True

    def _projected(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.in_proj_weight is not None and q is k is v:
            both = it.linear(q, self.in_proj_weight, self.in_proj_bias)
            return tuple(it.split(both, self.embed_dim, axis=-1))  # type: ignore[return-value]
        weights: Sequence[Tensor | Parameter | None]
        if self.in_proj_weight is not None:
            weights = it.split(it.asarray(self.in_proj_weight), self.embed_dim, axis=0)
        else:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        biases: Sequence[Tensor | None] = [None] * 3
        if self.in_proj_bias is not None:
            biases = it.split(it.asarray(self.in_proj_bias), self.embed_dim, axis=0)
        rows = zip((q, k, v), weights, biases, strict=True)
        return tuple(it.linear(x, w, b) for x, w, b in rows)  # type: ignore[return-value, arg-type]

    def _heads(self, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        return it.swapaxes(it.reshape(x, (n, length, self.num_heads, self.head_dim)), 1, 2)

    def _mask(
        self, padding: TensorLike | None, mask: TensorLike | None, q: Tensor, k: Tensor,
        batched: bool,
    ) -> Tensor | None:  # fmt: skip
        """Which keys take part, or what is added to the scores where a mask is of floats: (N or 1,
        heads or 1, L or 1, S), or None."""
        (n, length, _), sources = q.shape, k.shape[1]
        found: Tensor | None = None
        if padding is not None:
            given = it.asarray(padding)
            check_mask("MultiheadAttention", "key_padding_mask", given.dtype, "is left out")
            expected: tuple[int, ...] = (n, sources) if batched else (sources,)
            if given.shape != expected:
                raise ShapeError(
                    "MultiheadAttention: key_padding_mask must be (batch, sources), "
                    f"{expected}, got {given.shape}"
                )
            found = _joined(None, it.reshape(given, (n, 1, 1, sources)), q)
        if mask is not None:
            given, heads = it.asarray(mask), n * self.num_heads
            check_mask("MultiheadAttention", "attn_mask", given.dtype, "is left out")
            if given.shape not in ((length, sources), (heads, length, sources)):
                raise ShapeError(
                    f"MultiheadAttention: attn_mask must be {(length, sources)} or "
                    f"{(heads, length, sources)}, that is (batch * heads, queries, keys), got "
                    f"{given.shape}"
                )
            if given.ndim == 3:
                given = it.reshape(given, (n, self.num_heads, length, sources))
            found = _joined(found, given, q)
        return found


def _joined(mask: Tensor | None, more: Tensor, q: Tensor) -> Tensor:
    """Both masks as one of four axes, of bools if both are.

    Args:
        mask: true where a key takes part, or what is added to scores.
        more: true where a key is left out, or what is added to scores.
        q: of whose dtype scores are.
    """
    if more.dtype is bool_:
        more = it.logical_not(more)
    more = it.reshape(more, (*(1,) * (4 - more.ndim), *more.shape))
    if mask is None:
        return more
    if mask.dtype is more.dtype is bool_:
        return mask & more
    return _added(mask, q) + _added(more, q)


def _added(mask: Tensor, q: Tensor) -> Tensor:
    """A mask as what is added to scores."""
    if mask.dtype is not bool_:
        return mask
    return it.where(mask, it.zeros((), dtype=q.dtype, device=q.device), -math.inf)
