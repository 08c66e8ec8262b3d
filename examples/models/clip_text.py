"""CLIP's text encoder and tokenizer; Radford et al.: Learning transferable visual models (2021)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

import ingle.nn as nn
import ingle.tensor as it
from ingle import importer
from ingle.tensor import Tensor

from .pretrained import Pretrained, require

WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
START, END = "<|startoftext|>", "<|endoftext|>"


def clip_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a folder: of its `tokenizer.json`, else of `vocab.json` and `merges.txt`.

    Raises:
        WeightsError: the files are missing or damaged.
    """
    try:
        if (folder / "tokenizer.json").is_file():
            return Tokenizer.from_file(str(folder / "tokenizer.json"))
        files = str(folder / "vocab.json"), str(folder / "merges.txt")
        made = Tokenizer(models.BPE.from_file(*files, unk_token=END, end_of_word_suffix="</w>"))
    except Exception as error:  # the library raises no other kind
        raise importer.WeightsError(f"{folder}: it holds no tokenizer of CLIP: {error}") from None
    made.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return made


def padded_tokens(tokenizer: Tokenizer, text: str, length: int) -> list[int]:
    """So many tokens: the start, as much of the text as fits, and ends."""
    start, end = (tokenizer.token_to_id(sign) for sign in (START, END))
    if start is None or end is None:
        raise importer.WeightsError(f"the tokenizer has no {START} and {END}: it is not CLIP's")
    words = tokenizer.encode(text, add_special_tokens=False).ids[: length - 2]
    return [start, *words, *[end] * (length - 1 - len(words))]


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            it.swapaxes(it.reshape(p(x), (*x.shape[:2], self.heads, -1)), 1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        out = it.scaled_dot_product_attention(q, k, v, is_causal=True)
        projected: Tensor = self.out_proj(it.reshape(it.swapaxes(out, 1, 2), x.shape))
        return projected


class MLP(nn.Module):
    """Two layers with a GELU, or its approximation by a sigmoid, between them."""

    def __init__(self, width: int, inner: int, quick: bool) -> None:
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)
        self.quick = quick

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        out: Tensor = self.fc2(x * it.sigmoid(1.702 * x) if self.quick else it.gelu(x))
        return out


class Layer(nn.Module):
    """Attention and the MLP, each behind a norm and added to what came in."""

    def __init__(self, width: int, heads: int, inner: int, quick: bool, eps: float) -> None:
        self.self_attn = Attention(width, heads)
        self.layer_norm1 = nn.LayerNorm(width, eps)
        self.mlp = MLP(width, inner, quick)
        self.layer_norm2 = nn.LayerNorm(width, eps)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.layer_norm1(x))
        out: Tensor = x + self.mlp(self.layer_norm2(x))
        return out


class _Embeddings(nn.Module):
    """Of tokens and of places."""

    def __init__(self, vocabulary: int, length: int, width: int) -> None:
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(length, width)


class _Layers(nn.Module):
    """A level of names."""

    def __init__(self, layers: list[Layer]) -> None:
        self.layers = nn.ModuleList(layers)


class _TextModel(nn.Module):
    """A level of names: all of the encoder's parts."""

    def __init__(self, embeddings: _Embeddings, encoder: _Layers, norm: nn.LayerNorm) -> None:
        self.embeddings, self.encoder, self.final_layer_norm = embeddings, encoder, norm


class CLIPText(Pretrained):
    """Tokens (batch, length) to vectors (batch, length, width).

    Args:
        vocabulary: how many tokens there are.
        length: how many it reads.
        width, layers, heads, inner: of the transformer.
        quick: whether its GELU is an approximation by a sigmoid.
        eps: of the norms.
    """

    kinds = ("clip_text_model", "clip")

    def __init__(
        self, vocabulary: int = 49_408, length: int = 77, width: int = 768, layers: int = 12,
        heads: int = 12, inner: int = 3072, quick: bool = True, eps: float = 1e-5,
    ) -> None:  # fmt: skip
        self.length = length
        self.text_model = _TextModel(
            _Embeddings(vocabulary, length, width),
            _Layers([Layer(width, heads, inner, quick, eps) for _ in range(layers)]),
            nn.LayerNorm(width, eps),
        )

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        config = config.get("text_config", config)
        require(cls.__name__, config, hidden_act=("quick_gelu", "gelu"))
        return cls(
            config["vocab_size"], config["max_position_embeddings"], config["hidden_size"],
            config["num_hidden_layers"], config["num_attention_heads"],
            config["intermediate_size"], config.get("hidden_act", "quick_gelu") == "quick_gelu",
            config.get("layer_norm_eps", 1e-5),
        )  # fmt: skip

    @classmethod
    def rename(cls, name: str) -> str | None:
        if name.endswith("position_ids"):
            return None
        return name if name.startswith("text_model.") else f"text_model.{name}"

    def forward(self, tokens: Tensor) -> Tensor:
        parts = self.text_model
        places = parts.embeddings.position_embedding.weight[: tokens.shape[1]]
        x = parts.embeddings.token_embedding(tokens) + places
        for layer in parts.encoder.layers:
            x = layer(x)
        out: Tensor = parts.final_layer_norm(x)
        return out
