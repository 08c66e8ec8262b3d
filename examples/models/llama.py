"""Llama 2 and 3; Touvron et al. (2023), Grattafiori et al.: The Llama 3 herd of models (2024).

`python -m models.llama --weights FOLDER --quantize int8 "Once upon a time"`, where FOLDER has the
published `config.json`, `model.safetensors` or its shards, and `tokenizer.json`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

import ingle.nn as nn
import ingle.tensor as it
from ingle.importer import UnsupportedError
from ingle.tensor import Device, Tensor

from .masking import padding_mask
from .pretrained import Pretrained, require


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a model, and where its positions come from.

    Args:
        vocabulary: how many tokens there are.
        max_length: the longest sequence.
        width, layers, heads: of the transformer.
        kv_heads: heads of keys and values, each for several of queries.
        head_dim: the size of a head.
        inner: the width of the MLPs.
        eps: of the norms.
        rope_base: of the angles.
        rope_scaling: `{"rope_type": "linear" or "llama3", "factor": …}` as published, or None.
        bias: whether projections of queries, keys and values have biases.
        tied: whether the last matrix is that of the embedding.
    """

    vocabulary: int
    max_length: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    eps: float = 1e-5
    rope_base: float = 10_000.0
    rope_scaling: Mapping[str, Any] | None = None
    bias: bool = False
    tied: bool = False


class Rotary(nn.Module):
    """Cosines and sines of the angle by which features turn at a position; Su et al. (2021)."""

    def __init__(self, sizes: Sizes) -> None:
        frequencies = sizes.rope_base ** (-np.arange(0, sizes.head_dim, 2) / sizes.head_dim)
        scaled = rescaled(frequencies, sizes.rope_scaling or {}, sizes.max_length)
        # No buffer, which a cast to half a precision would make coarse.
        self.frequencies = tuple(scaled.tolist())

    def forward(self, length: int, start: int, device: Device) -> tuple[Tensor, Tensor]:
        places = it.arange(length, dtype="float32", device=device) + start
        frequencies = it.asarray(self.frequencies, dtype="float32", device=device)
        angles = it.expand_dims(places, 1) * frequencies
        return it.cos(angles), it.sin(angles)


def rescaled(frequencies: np.ndarray, scaling: Mapping[str, Any], max_length: int) -> np.ndarray:
    """Frequencies for sequences longer than a model was first trained on.

    `linear` divides all by a factor; `llama3` only those of waves too long to have been seen, and
    those between in part, as the code that Meta published with Llama 3.1 does.
    """
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return frequencies
    factor = float(scaling["factor"])
    if kind == "linear":
        return frequencies / factor
    if kind != "llama3":
        raise UnsupportedError(
            f"Llama: positions are scaled by {kind!r}, and there is only 'default', 'linear' and "
            "'llama3'"
        )
    before = scaling.get("original_max_position_embeddings", max_length)
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    waves = before * frequencies / (2.0 * math.pi)
    share = np.clip((waves - low) / (high - low), 0.0, 1.0)
    found: np.ndarray = frequencies * ((1.0 - share) / factor + share)
    return found


class Attention(nn.Module):
    """Causal self-attention with fewer heads of keys and values than of queries."""

    def __init__(self, sizes: Sizes) -> None:
        wide, narrow = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
        self.head_dim = sizes.head_dim
        self.q_proj = nn.Linear(sizes.width, wide, sizes.bias)
        self.k_proj = nn.Linear(sizes.width, narrow, sizes.bias)
        self.v_proj = nn.Linear(sizes.width, narrow, sizes.bias)
        self.o_proj = nn.Linear(wide, sizes.width, bias=False)

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], seen: Tensor | None, cache: nn.KVCache | None
    ) -> Tensor:
        q, k = (
            turned(self._heads(self.q_proj(x)), *turn),
            turned(self._heads(self.k_proj(x)), *turn),
        )
        v = self._heads(self.v_proj(x))
        if cache is not None:
            k, v = cache.append(k, v)
        out = it.scaled_dot_product_attention(
            q, k, v, seen, is_causal=seen is None, enable_gqa=True
        )
        joined = it.reshape(it.swapaxes(out, 1, 2), (*x.shape[:2], self.o_proj.in_features))
        projected: Tensor = self.o_proj(joined)
        return projected

    def _heads(self, x: Tensor) -> Tensor:
        return it.swapaxes(it.reshape(x, (*x.shape[:2], -1, self.head_dim)), 1, 2)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Each feature of the first half and its partner in the second, turned by the angle."""
    a, b = it.split(x, x.shape[-1] // 2, axis=-1)
    cos, sin = cos.astype(x.dtype), sin.astype(x.dtype)
    return it.concat([a * cos - b * sin, b * cos + a * sin], axis=-1)


class MLP(nn.Module):
    """A layer times the gate of another one, then a third; Shazeer: GLU variants (2020)."""

    def __init__(self, sizes: Sizes) -> None:
        self.gate_proj = nn.Linear(sizes.width, sizes.inner, bias=False)
        self.up_proj = nn.Linear(sizes.width, sizes.inner, bias=False)
        self.down_proj = nn.Linear(sizes.inner, sizes.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(it.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """Attention, then the MLP, each behind a norm and added to what came in."""

    def __init__(self, sizes: Sizes) -> None:
        self.self_attn = Attention(sizes)
        self.mlp = MLP(sizes)
        self.input_layernorm = nn.RMSNorm(sizes.width, sizes.eps)
        self.post_attention_layernorm = nn.RMSNorm(sizes.width, sizes.eps)

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], seen: Tensor | None, cache: nn.KVCache | None
    ) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), turn, seen, cache)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Trunk(nn.Module):
    """The embedding, the layers and the last norm."""

    def __init__(self, sizes: Sizes) -> None:
        self.embed_tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        self.layers = nn.ModuleList([Layer(sizes) for _ in range(sizes.layers)])
        self.norm = nn.RMSNorm(sizes.width, sizes.eps)
        self.rotary = Rotary(sizes)

    def forward(
        self, tokens: Tensor, first: Tensor | None, caches: Sequence[nn.KVCache] | None
    ) -> Tensor:
        x = self.embed_tokens(tokens)
        start = 0 if caches is None else caches[0].length.raw
        # Only distances count, so padded sequences may begin anywhere.
        turn = self.rotary(tokens.shape[1], start, x.device)
        room = None if caches is None else caches[0].max_len
        seen = padding_mask(tokens.shape[1], start, room, first, x.device)
        for i, layer in enumerate(self.layers):
            x = layer(x, turn, seen, None if caches is None else caches[i])
        out: Tensor = self.norm(x)
        return out


class Llama(Pretrained):
    """The scores of the next token; a `models.generation.Decoder`."""

    kinds = ("llama",)
    biased = False
    """Whether projections of queries, keys and values have biases if the file does not say."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes, self.max_length = sizes, sizes.max_length
        self.model = Trunk(sizes)
        self.lm_head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)
        if sizes.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        require(
            cls.__name__, config, hidden_act="silu", attention_bias=False, mlp_bias=False,
            use_sliding_window=False,
        )  # fmt: skip
        heads, width = config["num_attention_heads"], config["hidden_size"]
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        return cls(
            Sizes(
                config["vocab_size"], config["max_position_embeddings"], width,
                config["num_hidden_layers"], heads, config.get("num_key_value_heads") or heads,
                config.get("head_dim") or width // heads, config["intermediate_size"],
                config.get("rms_norm_eps", 1e-6),
                rope.get("rope_theta") or config.get("rope_theta", 10_000.0), rope, cls.biased,
                config.get("tie_word_embeddings", False),
            )
        )  # fmt: skip

    @classmethod
    def rename(cls, name: str) -> str | None:
        if name.endswith("rotary_emb.inv_freq"):  # computed here; older files have it
            return None
        return name

    def caches(self, batch: int, length: int) -> list[nn.KVCache]:
        place = next(self.model.norm.parameters()).raw
        shape = (batch, self.sizes.kv_heads, length, self.sizes.head_dim)
        return [
            nn.KVCache(*shape, dtype=place.dtype, device=place.device) for _ in self.model.layers
        ]

    def forward(
        self,
        tokens: Tensor,
        first: Tensor | None = None,
        caches: Sequence[nn.KVCache] | None = None,
        last: bool = False,
    ) -> Tensor:
        x = self.model(tokens, first, caches)
        scores: Tensor = self.lm_head(x[:, -1:] if last else x)
        return scores


if __name__ == "__main__":
    from .writing import main

    main(Llama, __doc__)
