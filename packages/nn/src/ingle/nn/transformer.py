"""Encoder and decoder of a transformer, layer by layer and whole."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError
from ingle.tensor.random import Generator

from ._arguments import size
from .attention import MultiheadAttention
from .containers import ModuleList
from .dropout import Dropout
from .init import XavierUniform
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

Activation = str | Callable[[Tensor], Tensor]


def _activation(layer: str, activation: Activation) -> Callable[[Tensor], Tensor]:
    if callable(activation):
        return activation
    known = {"relu": it.relu, "gelu": it.gelu}
    if activation not in known:
        raise ArgumentError(
            f"{layer}: activation must be 'relu', 'gelu' or a function, got {activation!r}"
        )
    return known[activation]


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList(copy.deepcopy(layer) for _ in range(count))


class _Layer(Module):
    """What encoder and decoder layers share: the feed-forward part."""

    def _feed_forward(self, x: Tensor) -> Tensor:
        hidden = self.dropout(self.activation(self.linear1(x)))
        return self._last_dropout(self.linear2(hidden))

    dropout: Dropout
    linear1: Linear
    linear2: Linear
    activation: Callable[[Tensor], Tensor]

    def _last_dropout(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each added to its input; Vaswani et al. (2017).

    Args:
        d_model: the number of features.
        nhead: the number of heads.
        dim_feedforward: the size between the two linear layers.
        dropout: of attention weights, of the hidden layer and of what is added.
        activation: `"relu"`, `"gelu"` or a function.
        layer_norm_eps: added to the variance in the norms.
        batch_first: (N, L, E) rather than (L, N, E).
        norm_first: normalise what goes into each part rather than each sum.
        bias: whether linear layers and norms have biases.
        device, dtype: of the parameters.
        generator: of the first values and of the dropout.

    >>> import ingle.tensor as it
    >>> from ingle.nn import TransformerEncoderLayer
    >>> layer = TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    >>> layer(it.ones((3, 5, 8)), is_causal=True).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        drawn: dict[str, Any] = {**place, "generator": generator}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, **drawn
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, **drawn)
        self.dropout = Dropout(dropout, generator=generator)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **drawn)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout, generator=generator)
        self.dropout2 = Dropout(dropout, generator=generator)
        self.activation = _activation("TransformerEncoderLayer", activation)

    def forward(
        self,
        src: TensorLike,
        src_mask: TensorLike | None = None,
        src_key_padding_mask: TensorLike | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        x = it.asarray(src)

        def attended(x: Tensor) -> Tensor:
            found, _ = self.self_attn(
                x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal
            )
            out: Tensor = self.dropout1(found)
            return out

        if self.norm_first:
            x = x + attended(self.norm1(x))
            return x + self._feed_forward(self.norm2(x))
        x = self.norm1(x + attended(x))
        out: Tensor = self.norm2(x + self._feed_forward(x))
        return out

    def _last_dropout(self, x: Tensor) -> Tensor:
        out: Tensor = self.dropout2(x)
        return out


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and a feed-forward network.

    The arguments are those of `TransformerEncoderLayer`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import TransformerDecoderLayer
    >>> layer = TransformerDecoderLayer(8, 2, 16, batch_first=True).eval()
    >>> layer(it.ones((3, 5, 8)), it.ones((3, 7, 8)), tgt_is_causal=True).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        drawn: dict[str, Any] = {**place, "generator": generator}
        heads: dict[str, Any] = {"batch_first": batch_first, **drawn}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, **heads)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, **heads)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **drawn)
        self.dropout = Dropout(dropout, generator=generator)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **drawn)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout, generator=generator)
        self.dropout2 = Dropout(dropout, generator=generator)
        self.dropout3 = Dropout(dropout, generator=generator)
        self.activation = _activation("TransformerDecoderLayer", activation)

    def forward(
        self,
        tgt: TensorLike,
        memory: TensorLike,
        tgt_mask: TensorLike | None = None,
        memory_mask: TensorLike | None = None,
        tgt_key_padding_mask: TensorLike | None = None,
        memory_key_padding_mask: TensorLike | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x, memory = it.asarray(tgt), it.asarray(memory)

        def attended(x: Tensor) -> Tensor:
            found, _ = self.self_attn(
                x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal
            )
            out: Tensor = self.dropout1(found)
            return out

        def crossed(x: Tensor) -> Tensor:
            found, _ = self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask,
                is_causal=memory_is_causal,
            )  # fmt: skip
            out: Tensor = self.dropout2(found)
            return out

        if self.norm_first:
            x = x + attended(self.norm1(x))
            x = x + crossed(self.norm2(x))
            return x + self._feed_forward(self.norm3(x))
        x = self.norm1(x + attended(x))
        x = self.norm2(x + crossed(x))
        out: Tensor = self.norm3(x + self._feed_forward(x))
        return out

    def _last_dropout(self, x: Tensor) -> Tensor:
        out: Tensor = self.dropout3(x)
        return out


class TransformerEncoder(Module):
    """Encoder layers in a row, copies of one, and a norm behind them.

    Args:
        encoder_layer: is copied `num_layers` times, with its values.
        num_layers: how many.
        norm: a module for the result, or None.
        enable_nested_tensor, mask_check: PyTorch's switches of a faster way that is not needed
            here; they change no result there either.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
    >>> model(it.ones((5, 3, 8))).shape
    (5, 3, 8)
    """

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ) -> None:  # fmt: skip
        self.num_layers = size("TransformerEncoder", "num_layers", num_layers)
        self.layers = _copies(encoder_layer, num_layers)
        self.norm = norm

    def forward(
        self, src: TensorLike, mask: TensorLike | None = None,
        src_key_padding_mask: TensorLike | None = None, is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        x = it.asarray(src)
        for layer in self.layers:
            x = layer(x, mask, src_key_padding_mask, is_causal=bool(is_causal))
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Decoder layers in a row, copies of one, and a norm behind them; see `TransformerEncoder`.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> model = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2)
    >>> model(it.ones((5, 3, 8)), it.ones((4, 3, 8))).shape
    (5, 3, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self.num_layers = size("TransformerDecoder", "num_layers", num_layers)
        self.layers = _copies(decoder_layer, num_layers)
        self.norm = norm

    def forward(
        self,
        tgt: TensorLike,
        memory: TensorLike,
        tgt_mask: TensorLike | None = None,
        memory_mask: TensorLike | None = None,
        tgt_key_padding_mask: TensorLike | None = None,
        memory_key_padding_mask: TensorLike | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = it.asarray(tgt)
        for layer in self.layers:
            x = layer(
                x, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                bool(tgt_is_causal), memory_is_causal,
            )  # fmt: skip
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """Encoder and decoder; Vaswani et al. (2017). `forward(src, tgt)` gives (T, N, E).

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps: of the layers; see
            `TransformerEncoderLayer`.
        batch_first, norm_first, bias: the same.
        num_encoder_layers, num_decoder_layers: how many.
        custom_encoder, custom_decoder: modules in their place.
        device, dtype: of the parameters.
        generator: of the first values and of the dropout.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> model = nn.Transformer(8, 2, 1, 1, 16)
    >>> mask = model.generate_square_subsequent_mask(4)
    >>> model(it.ones((5, 3, 8)), it.ones((4, 3, 8)), tgt_mask=mask).shape
    (4, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        options: dict[str, Any] = {
            "dim_feedforward": dim_feedforward, "dropout": dropout, "activation": activation,
            "layer_norm_eps": layer_norm_eps, "batch_first": batch_first,
            "norm_first": norm_first, "bias": bias, "generator": generator, **place,
        }  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **place)

        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        encoder, decoder = custom_encoder, custom_decoder
        if encoder is None:
            layer = TransformerEncoderLayer(d_model, nhead, **options)
            encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        if decoder is None:
            inner = TransformerDecoderLayer(d_model, nhead, **options)
            decoder = TransformerDecoder(inner, num_decoder_layers, norm())
        self.encoder, self.decoder = encoder, decoder
        for parameter in self.parameters():
            if parameter.ndim > 1:
                XavierUniform().reset(parameter, generator)

    def forward(
        self,
        src: TensorLike,
        tgt: TensorLike,
        src_mask: TensorLike | None = None,
        tgt_mask: TensorLike | None = None,
        memory_mask: TensorLike | None = None,
        src_key_padding_mask: TensorLike | None = None,
        tgt_key_padding_mask: TensorLike | None = None,
        memory_key_padding_mask: TensorLike | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        out: Tensor = self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip
        return out

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Device | str | None = None, dtype: object = None
    ) -> Tensor:
        """(sz, sz): minus infinity above the diagonal and 0 elsewhere."""
        above = it.triu(it.ones((sz, sz), dtype="bool", device=device), k=1)
        return it.where(above, float("-inf"), it.zeros((), dtype=dtype, device=device))
