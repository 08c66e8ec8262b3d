"""What the U-Net and the autoencoder of Stable Diffusion are made of."""

from __future__ import annotations

import ingle.nn as nn
import ingle.tensor as it
from ingle.tensor import Tensor


class ResnetBlock(nn.Module):
    """Two convolutions behind norms, added to what came in; the time is added between them.

    Args:
        inputs, outputs: channels.
        groups, eps: of the norms.
        time: the width of the time's vector, or None.
    """

    def __init__(
        self, inputs: int, outputs: int, groups: int, eps: float, time: int | None = None
    ) -> None:
        self.norm1 = nn.GroupNorm(groups, inputs, eps)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time_emb_proj = None if time is None else nn.Linear(time, outputs)
        self.norm2 = nn.GroupNorm(groups, outputs, eps)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.conv_shortcut = None if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        y = self.conv1(it.silu(self.norm1(x)))
        if self.time_emb_proj is not None and time is not None:
            y = y + it.reshape(self.time_emb_proj(it.silu(time)), (-1, y.shape[1], 1, 1))
        y = self.conv2(it.silu(self.norm2(y)))
        shortcut = x if self.conv_shortcut is None else self.conv_shortcut(x)
        out: Tensor = shortcut + y
        return out


class Attention(nn.Module):
    """Attention of pixels to pixels, or to the words of a text.

    Args:
        width: of the pixels.
        heads: how many.
        context: the width of what is attended to; the pixels' if not given.
        bias: whether queries, keys and values have one.
    """

    def __init__(
        self, width: int, heads: int, context: int | None = None, bias: bool = False
    ) -> None:
        self.heads = heads
        self.to_q = nn.Linear(width, width, bias=bias)
        self.to_k = nn.Linear(context or width, width, bias=bias)
        self.to_v = nn.Linear(context or width, width, bias=bias)
        self.to_out = nn.ModuleList([nn.Linear(width, width)])

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        there = x if context is None else context

        def apart(y: Tensor) -> Tensor:
            return it.swapaxes(it.reshape(y, (*y.shape[:2], self.heads, -1)), 1, 2)

        q, k, v = apart(self.to_q(x)), apart(self.to_k(there)), apart(self.to_v(there))
        out = it.swapaxes(it.scaled_dot_product_attention(q, k, v), 1, 2)
        projected: Tensor = self.to_out[0](it.reshape(out, x.shape))
        return projected


class PixelAttention(Attention):
    """Self-attention of a picture behind a norm, added to it: (batch, channels, h, w)."""

    def __init__(self, width: int, groups: int, eps: float) -> None:
        super().__init__(width, 1, bias=True)
        self.group_norm = nn.GroupNorm(groups, width, eps)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        return x + picture(super().forward(pixels(self.group_norm(x))), x)


def pixels(x: Tensor) -> Tensor:
    """A picture as a row of pixels: (batch, h * w, channels)."""
    return it.swapaxes(it.reshape(x, (*x.shape[:2], -1)), 1, 2)


def picture(x: Tensor, like: Tensor) -> Tensor:
    """A row of pixels as a picture of the shape of another."""
    return it.reshape(it.swapaxes(x, 1, 2), like.shape)


class GEGLU(nn.Module):
    """Shazeer: GLU variants improve transformer (2020)."""

    def __init__(self, width: int, inner: int) -> None:
        self.proj = nn.Linear(width, 2 * inner)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = it.chunk(self.proj(x), 2, axis=-1)
        return value * it.gelu(gate)


class FeedForward(nn.Module):
    """Two layers with a GEGLU between them."""

    def __init__(self, width: int) -> None:
        self.net = nn.ModuleList(
            [GEGLU(width, 4 * width), nn.Identity(), nn.Linear(4 * width, width)]
        )

    def forward(self, x: Tensor) -> Tensor:
        for part in self.net:
            x = part(x)
        return x


class TransformerBlock(nn.Module):
    """Attention of pixels to each other and to the words, then two layers."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        self.norm1 = nn.LayerNorm(width)
        self.attn1 = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.attn2 = Attention(width, heads, context)
        self.norm3 = nn.LayerNorm(width)
        self.ff = FeedForward(width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        x = x + self.attn1(self.norm1(x))
        x = x + self.attn2(self.norm2(x), context)
        out: Tensor = x + self.ff(self.norm3(x))
        return out


class Transformer(nn.Module):
    """A transformer over the pixels of a picture, added to it."""

    def __init__(self, width: int, heads: int, context: int, groups: int) -> None:
        self.norm = nn.GroupNorm(groups, width, 1e-6)
        self.proj_in = nn.Conv2d(width, width, 1)
        self.transformer_blocks = nn.ModuleList([TransformerBlock(width, heads, context)])
        self.proj_out = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        inside = self.proj_in(self.norm(x))
        y = pixels(inside)
        for block in self.transformer_blocks:
            y = block(y, context)
        out: Tensor = x + self.proj_out(picture(y, inside))
        return out


class Downsample(nn.Module):
    """Half as high and wide; padded at both ends, or at the second alone."""

    def __init__(self, width: int, both: bool) -> None:
        self.conv = nn.Conv2d(width, width, 3, stride=2, padding=int(both))
        self.both = both

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.both else it.pad(x, [(0, 0), (0, 0), (0, 1), (0, 1)])
        out: Tensor = self.conv(x)
        return out


class Upsample(nn.Module):
    """Twice as high and wide."""

    def __init__(self, width: int) -> None:
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(it.interpolate(x, scale_factor=2.0, mode="nearest"))
        return out
