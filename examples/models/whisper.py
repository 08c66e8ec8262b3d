"""Whisper; Radford et al.: Robust speech recognition via large-scale weak supervision (2022).

`python -m models.whisper --weights FOLDER speech.wav`, where FOLDER has the published
`config.json`, `generation_config.json`, `model.safetensors` and `tokenizer.json`, or is the URL of
such a folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import ingle.nn as nn
import ingle.tensor as it
from ingle.tensor import Tensor

from .masking import padding_mask, positions
from .pretrained import Pretrained, require

Pair = tuple[Tensor, Tensor]


class Attention(nn.Module):
    """Attention with a projection each; that of keys has no bias."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def _apart(self, x: Tensor) -> Tensor:
        parts = it.reshape(x, (*x.shape[:2], self.heads, -1))
        return it.swapaxes(parts, 1, 2)

    def keys_of(self, x: Tensor) -> Pair:
        """Keys and values, (batch, heads, length, width of a head)."""
        return self._apart(self.k_proj(x)), self._apart(self.v_proj(x))

    def forward(
        self, x: Tensor, keys: Pair, seen: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        q = self._apart(self.q_proj(x))
        out = it.scaled_dot_product_attention(q, *keys, seen, is_causal=causal)
        projected: Tensor = self.out_proj(it.reshape(it.swapaxes(out, 1, 2), x.shape))
        return projected


class EncoderLayer(nn.Module):
    """Attention and two layers, each behind a norm and added to what came in."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        self.self_attn = Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.self_attn_layer_norm(x)
        x = x + self.self_attn(y, self.self_attn.keys_of(y))
        out: Tensor = x + self.fc2(it.gelu(self.fc1(self.final_layer_norm(x))))
        return out


class DecoderLayer(EncoderLayer):
    """The same, with attention to the sound between the two."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__(width, heads, inner)
        self.encoder_attn = Attention(width, heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(width)

    def forward(  # type: ignore[override]
        self, x: Tensor, heard: Pair, seen: Tensor | None, cache: nn.KVCache | None
    ) -> Tensor:
        y = self.self_attn_layer_norm(x)
        keys = self.self_attn.keys_of(y)
        keys = keys if cache is None else cache.append(*keys)
        x = x + self.self_attn(y, keys, seen, causal=seen is None)
        x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), heard)
        out: Tensor = x + self.fc2(it.gelu(self.fc1(self.final_layer_norm(x))))
        return out


class Encoder(nn.Module):
    """Mel bands to vectors of 20 ms each: (batch, bands, 2 length) to (batch, length, width)."""

    def __init__(
        self, bands: int, length: int, width: int, layers: int, heads: int, inner: int
    ) -> None:
        self.conv1 = nn.Conv1d(bands, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(length, width)
        self.layers = nn.ModuleList([EncoderLayer(width, heads, inner) for _ in range(layers)])
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = it.gelu(self.conv2(it.gelu(self.conv1(x))))
        x = it.swapaxes(x, 1, 2) + self.embed_positions.weight
        for layer in self.layers:
            x = layer(x)
        out: Tensor = self.layer_norm(x)
        return out


class TextDecoder(nn.Module):
    """Tokens to vectors, which know the tokens before and the sound."""

    def __init__(
        self, vocabulary: int, length: int, width: int, layers: int, heads: int, inner: int
    ) -> None:
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.embed_positions = nn.Embedding(length, width)
        self.layers = nn.ModuleList([DecoderLayer(width, heads, inner) for _ in range(layers)])
        self.layer_norm = nn.LayerNorm(width)

    def heard(self, sound: Tensor) -> list[Pair]:
        """Keys and values of the encoded sound for each layer."""
        return [layer.encoder_attn.keys_of(sound) for layer in self.layers]

    def forward(
        self, tokens: Tensor, heard: Sequence[Pair], first: Tensor | None = None,
        caches: Sequence[nn.KVCache] | None = None,
    ) -> Tensor:  # fmt: skip
        start = 0 if caches is None else caches[0].length.raw
        room = None if caches is None else caches[0].max_len
        places = positions(tokens.shape[1], start, first, tokens.device)
        x = self.embed_tokens(tokens) + self.embed_positions(places)
        seen = padding_mask(tokens.shape[1], start, room, first, x.device)
        for i, layer in enumerate(self.layers):
            x = layer(x, heard[i], seen, None if caches is None else caches[i])
        out: Tensor = self.layer_norm(x)
        return out


class Trunk(nn.Module):
    """Encoder and decoder."""

    def __init__(self, encoder: Encoder, decoder: TextDecoder) -> None:
        self.encoder = encoder
        self.decoder = decoder


class Whisper(Pretrained):
    """Scores of the next token of what is said in a sound.

    Args:
        vocabulary: how many tokens there are.
        bands: of the mel scale, 80 or 128.
        width: of both transformers.
        layers, heads, inner: of encoder and decoder.
        max_source, max_length: the longest sound in steps of 20 ms, and the longest text.
    """

    kinds = ("whisper",)

    def __init__(
        self, vocabulary: int = 51_865, bands: int = 80, width: int = 384,
        layers: tuple[int, int] = (4, 4), heads: tuple[int, int] = (6, 6),
        inner: tuple[int, int] = (1536, 1536), max_source: int = 1500, max_length: int = 448,
    ) -> None:  # fmt: skip
        self.bands, self.max_length = bands, max_length
        self.model = Trunk(
            Encoder(bands, max_source, width, layers[0], heads[0], inner[0]),
            TextDecoder(vocabulary, max_length, width, layers[1], heads[1], inner[1]),
        )
        self.proj_out = nn.Linear(width, vocabulary, bias=False)
        self.proj_out.weight = self.model.decoder.embed_tokens.weight

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        require(
            cls.__name__, config, activation_function="gelu", scale_embedding=False,
            tie_word_embeddings=True,
        )  # fmt: skip

        def both(name: str) -> tuple[int, int]:
            return config[f"encoder_{name}"], config[f"decoder_{name}"]

        return cls(
            config["vocab_size"], config["num_mel_bins"], config["d_model"], both("layers"),
            both("attention_heads"), both("ffn_dim"), config["max_source_positions"],
            config["max_target_positions"],
        )  # fmt: skip

    @classmethod
    def rename(cls, name: str) -> str | None:
        return name if name.startswith(("model.", "proj_out.")) else f"model.{name}"

    def forward(self, bands: Tensor, tokens: Tensor) -> Tensor:
        """Scores (batch, length, vocabulary) for mel bands and the tokens so far."""
        heard = self.model.decoder.heard(self.model.encoder(bands))
        scores: Tensor = self.proj_out(self.model.decoder(tokens, heard))
        return scores


class Listening:
    """A model with one sound in its ears: a `models.generation.Decoder`.

    Args:
        model: in evaluation.
        bands: (batch, bands, frames), of `hearing.log_mel`.
    """

    def __init__(self, model: Whisper, bands: Tensor) -> None:
        self.model, self.max_length = model, model.max_length
        self.heard = model.model.decoder.heard(model.model.encoder(bands))

    def caches(self, batch: int, length: int) -> list[nn.KVCache]:
        """See `models.generation.Decoder`."""
        keys = self.heard[0][0]
        shape = (batch, keys.shape[1], length, keys.shape[3])
        return [nn.KVCache(*shape, dtype=keys.dtype, device=keys.device) for _ in self.heard]

    def __call__(
        self, tokens: Tensor, first: Tensor | None = None,
        caches: Sequence[nn.KVCache] | None = None, last: bool = False,
    ) -> Tensor:  # fmt: skip
        x = self.model.model.decoder(tokens, self.heard, first, caches)
        scores: Tensor = self.model.proj_out(x[:, -1:] if last else x)
        return scores


if __name__ == "__main__":
    from .transcribing import main

    main(__doc__)
