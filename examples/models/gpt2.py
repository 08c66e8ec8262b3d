"""GPT-2; Radford et al.: Language models are unsupervised multitask learners (2019).

`python -m models.gpt2 --weights FOLDER "Once upon a time"`, where FOLDER has the published
`config.json`, `model.safetensors` and `tokenizer.json`, or is the URL of such a folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import ingle.nn as nn
import ingle.tensor as it
from ingle.tensor import Tensor

from .masking import padding_mask, positions
from .pretrained import Pretrained, require


class Attention(nn.Module):
    """Causal self-attention with one projection of queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, seen: Tensor | None, cache: nn.KVCache | None) -> Tensor:
        batch, length, width = x.shape
        apart = it.reshape(self.c_attn(x), (batch, length, 3, self.heads, width // self.heads))
        q, k, v = (it.swapaxes(apart[:, :, i], 1, 2) for i in range(3))
        if cache is not None:
            k, v = cache.append(k, v)
        out = it.scaled_dot_product_attention(q, k, v, seen, is_causal=seen is None)
        projected: Tensor = self.c_proj(it.reshape(it.swapaxes(out, 1, 2), x.shape))
        return projected


class MLP(nn.Module):
    """Two layers with a GELU between them."""

    def __init__(self, width: int, inner: int) -> None:
        self.c_fc = nn.Linear(width, inner)
        self.c_proj = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.c_proj(it.gelu(self.c_fc(x), approximate="tanh"))
        return out


class Block(nn.Module):
    """Attention, then the MLP, each behind a norm and added to what came in."""

    def __init__(self, width: int, heads: int, inner: int, eps: float, dropout: float) -> None:
        self.ln_1 = nn.LayerNorm(width, eps)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width, eps)
        self.mlp = MLP(width, inner)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, seen: Tensor | None, cache: nn.KVCache | None) -> Tensor:
        x = x + self.drop(self.attn(self.ln_1(x), seen, cache))
        out: Tensor = x + self.drop(self.mlp(self.ln_2(x)))
        return out


class Trunk(nn.Module):
    """Embeddings, blocks and the last norm."""

    def __init__(
        self, vocabulary: int, max_length: int, width: int, layers: int, heads: int, inner: int,
        eps: float, dropout: float,
    ) -> None:  # fmt: skip
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(max_length, width)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList([Block(width, heads, inner, eps, dropout) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width, eps)

    def forward(
        self, tokens: Tensor, first: Tensor | None, caches: Sequence[nn.KVCache] | None
    ) -> Tensor:
        start = 0 if caches is None else caches[0].length.raw
        x = self.wte(tokens) + self.wpe(positions(tokens.shape[1], start, first, tokens.device))
        x = self.drop(x)
        room = None if caches is None else caches[0].max_len
        seen = padding_mask(tokens.shape[1], start, room, first, x.device)
        for i, block in enumerate(self.h):
            x = block(x, seen, None if caches is None else caches[i])
        out: Tensor = self.ln_f(x)
        return out


class GPT2(Pretrained):
    """The scores of the next token; a `models.generation.Decoder`.

    Args:
        vocabulary: how many tokens there are.
        max_length: the longest sequence.
        width, layers, heads: of the transformer.
        inner: the width of the MLPs, `4 * width` if not given.
        eps: of the norms.
        dropout: of embeddings and of what is added to them, while training.
    """

    kinds = ("gpt2",)
    transpose = r"\.(c_attn|c_proj|c_fc)\.weight$"

    def __init__(
        self,
        vocabulary: int = 50_257,
        max_length: int = 1024,
        width: int = 768,
        layers: int = 12,
        heads: int = 12,
        inner: int | None = None,
        eps: float = 1e-5,
        dropout: float = 0.0,
    ) -> None:
        self.max_length, self.heads = max_length, heads
        self.transformer = Trunk(
            vocabulary, max_length, width, layers, heads, inner or 4 * width, eps, dropout
        )
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        require(
            cls.__name__, config, activation_function=("gelu_new", "gelu_pytorch_tanh"),
            scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False,
            add_cross_attention=False, tie_word_embeddings=True,
        )  # fmt: skip
        return cls(
            config["vocab_size"], config["n_positions"], config["n_embd"], config["n_layer"],
            config["n_head"], config.get("n_inner"), config.get("layer_norm_epsilon", 1e-5),
            config.get("resid_pdrop", 0.0),
        )  # fmt: skip

    @classmethod
    def rename(cls, name: str) -> str | None:
        if name.endswith((".attn.bias", ".attn.masked_bias")):  # masks, in older files
            return None
        return name if name.startswith(("transformer.", "lm_head.")) else f"transformer.{name}"

    def caches(self, batch: int, length: int) -> list[nn.KVCache]:
        place = self.transformer.wpe.weight.raw
        shape = (batch, self.heads, length, place.shape[1] // self.heads)
        return [
            nn.KVCache(*shape, dtype=place.dtype, device=place.device) for _ in self.transformer.h
        ]

    def forward(
        self,
        tokens: Tensor,
        first: Tensor | None = None,
        caches: Sequence[nn.KVCache] | None = None,
        last: bool = False,
    ) -> Tensor:
        x = self.transformer(tokens, first, caches)
        scores: Tensor = self.lm_head(x[:, -1:] if last else x)
        return scores


if __name__ == "__main__":
    from .writing import main

    main(GPT2, __doc__)
