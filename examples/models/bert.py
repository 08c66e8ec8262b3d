"""BERT, and MiniLM for sentences; Devlin et al. (2019), Reimers and Gurevych: Sentence-BERT (2019).

`python -m models.bert --weights FOLDER "A cat sleeps." "A kitten is dozing." "Stocks fell."` says
how alike sentences are, where FOLDER has the published `config.json`, `model.safetensors` and
`tokenizer.json` of BERT, or of a sentence encoder such as all-MiniLM-L6-v2.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from tokenizers import Tokenizer

import ingle.nn as nn
import ingle.tensor as it
from ingle import importer
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError

from .pretrained import Pretrained, require
from .writing import load_tokenizer


class Embeddings(nn.Module):
    """What a token is, where it stands and which of two texts it is in."""

    def __init__(
        self, vocabulary: int, max_length: int, kinds: int, width: int, eps: float
    ) -> None:
        self.word_embeddings = nn.Embedding(vocabulary, width)
        self.position_embeddings = nn.Embedding(max_length, width)
        self.token_type_embeddings = nn.Embedding(kinds, width)
        self.LayerNorm = nn.LayerNorm(width, eps)

    def forward(self, tokens: Tensor, kinds: Tensor) -> Tensor:
        places = it.arange(tokens.shape[1], dtype="int32", device=tokens.device)
        both = self.word_embeddings(tokens) + self.token_type_embeddings(kinds)
        out: Tensor = self.LayerNorm(both + self.position_embeddings(places))
        return out


class Projections(nn.Module):
    """Attention in several heads, without the last layer."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor, seen: Tensor | None) -> Tensor:
        apart = (*x.shape[:2], self.heads, x.shape[2] // self.heads)
        q, k, v = (
            it.swapaxes(it.reshape(f(x), apart), 1, 2) for f in (self.query, self.key, self.value)
        )
        out = it.scaled_dot_product_attention(q, k, v, seen)
        return it.reshape(it.swapaxes(out, 1, 2), x.shape)


class Added(nn.Module):
    """A layer whose result is added to what came in before it, and a norm behind the sum."""

    def __init__(self, before: int, width: int, eps: float, dropout: float) -> None:
        self.dense = nn.Linear(before, width)
        self.LayerNorm = nn.LayerNorm(width, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, came: Tensor) -> Tensor:
        out: Tensor = self.LayerNorm(self.dropout(self.dense(x)) + came)
        return out


class Attention(nn.Module):
    """Attention with the last layer."""

    def __init__(self, width: int, heads: int, eps: float, dropout: float) -> None:
        self.self = Projections(width, heads)
        self.output = Added(width, width, eps, dropout)

    def forward(self, x: Tensor, seen: Tensor | None) -> Tensor:
        out: Tensor = self.output(self.self(x, seen), x)
        return out


class Dense(nn.Module):
    """A layer under a name of its own, as the published files have it."""

    def __init__(self, before: int, behind: int) -> None:
        self.dense = nn.Linear(before, behind)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.dense(x)
        return out


class Layer(nn.Module):
    """Attention, then two layers with a GELU between them."""

    def __init__(self, width: int, heads: int, inner: int, eps: float, dropout: float) -> None:
        self.attention = Attention(width, heads, eps, dropout)
        self.intermediate = Dense(width, inner)
        self.output = Added(inner, width, eps, dropout)

    def forward(self, x: Tensor, seen: Tensor | None) -> Tensor:
        x = self.attention(x, seen)
        out: Tensor = self.output(it.gelu(self.intermediate(x)), x)
        return out


class Encoder(nn.Module):
    """The layers."""

    def __init__(
        self, layers: int, width: int, heads: int, inner: int, eps: float, dropout: float
    ) -> None:
        self.layer = nn.ModuleList(
            [Layer(width, heads, inner, eps, dropout) for _ in range(layers)]
        )

    def forward(self, x: Tensor, seen: Tensor | None) -> Tensor:
        for layer in self.layer:
            x = layer(x, seen)
        return x


class Bert(Pretrained):
    """Features of each token of a text.

    Args:
        vocabulary, max_length: of texts.
        kinds_of_text: 2 where pairs of texts are read.
        width, layers, heads, inner: of the transformer.
        eps: of the norms.
        dropout: of what is added, while training.
    """

    kinds = ("bert",)

    def __init__(
        self,
        vocabulary: int = 30_522,
        max_length: int = 512,
        kinds_of_text: int = 2,
        width: int = 768,
        layers: int = 12,
        heads: int = 12,
        inner: int = 3072,
        eps: float = 1e-12,
        dropout: float = 0.1,
    ) -> None:
        self.max_length = max_length
        self.embeddings = Embeddings(vocabulary, max_length, kinds_of_text, width, eps)
        self.encoder = Encoder(layers, width, heads, inner, eps, dropout)
        self.pooler = Dense(width, width)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        require(
            cls.__name__, config, hidden_act="gelu", position_embedding_type="absolute",
            is_decoder=False,
        )  # fmt: skip
        return cls(
            config["vocab_size"], config["max_position_embeddings"], config["type_vocab_size"],
            config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"],
            config["intermediate_size"], config.get("layer_norm_eps", 1e-12),
            config.get("hidden_dropout_prob", 0.1),
        )  # fmt: skip

    @classmethod
    def rename(cls, name: str) -> str | None:
        if name.startswith("cls.") or name.endswith("position_ids"):
            return None  # what it was trained with, and a table of 0, 1, 2, …
        name = name.removeprefix("bert.")
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
        return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, kinds: Tensor | None = None
    ) -> Tensor:
        """Features, (batch, length, width).

        Args:
            tokens: (batch, length).
            mask: (batch, length), False in the padding.
            kinds: (batch, length), which text of a pair each token is in; 0 if not given.
        """
        kinds = it.zeros_like(tokens) if kinds is None else kinds
        seen = None if mask is None else it.expand_dims(it.expand_dims(mask, 1), 1)
        out: Tensor = self.encoder(self.embeddings(tokens, kinds), seen)
        return out

    def pooled(self, features: Tensor) -> Tensor:
        """What classifiers of whole texts are trained on: (batch, width)."""
        return it.tanh(self.pooler(features[:, 0]))


def sentence_features(model: Bert, tokens: Tensor, mask: Tensor) -> Tensor:
    """The mean of the features of a text, of length 1: products are cosines; (batch, width)."""
    weights = it.expand_dims(mask.astype("float32"), 2)
    mean = it.sum(model(tokens, mask) * weights, axis=1) / it.sum(weights, axis=1)
    return mean / it.maximum(it.sqrt(it.sum(mean * mean, axis=1, keepdims=True)), 1e-12)


class SentenceEncoder:
    """Texts as vectors whose products say how alike they are.

    Args:
        model: in evaluation.
        tokenizer: of the tokenizers library.
    """

    def __init__(self, model: Bert, tokenizer: Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.enable_truncation(model.max_length)
        self.model, self.tokenizer = model, tokenizer

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of length 1, (texts, width)."""
        if not texts:
            raise ArgumentError("SentenceEncoder: there are no texts")
        rows = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        longest = max(map(len, rows))
        tokens, mask = (
            np.zeros((len(rows), longest), np.int32),
            np.zeros((len(rows), longest), bool),
        )
        for i, row in enumerate(rows):
            tokens[i, : len(row)], mask[i, : len(row)] = row, True
        place = next(self.model.parameters()).raw.device
        given = (it.asarray(array, device=place) for array in (tokens, mask))
        found: np.ndarray = sentence_features(self.model, *given).numpy()
        return found


def main(argv: Sequence[str] | None = None) -> np.ndarray:
    """Prints how alike each two texts are, and returns it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    parser.add_argument("--weights", required=True, help="a folder, or the URL of one")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    given = parser.parse_args(argv)
    with it.device(given.device or it.default_device()):
        folder = importer.fetch_pretrained(given.weights)
        encode = SentenceEncoder(Bert.from_pretrained(folder), load_tokenizer(folder))
        vectors = encode(given.texts)
    alike: np.ndarray = vectors @ vectors.T
    for text, row in zip(given.texts, alike, strict=True):
        print(" ".join(f"{value:6.3f}" for value in row), text)
    return alike


if __name__ == "__main__":
    main()
