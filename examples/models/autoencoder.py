"""The autoencoder of Stable Diffusion; Rombach et al.: High-resolution image synthesis (2022)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

import ingle.nn as nn
import ingle.tensor as it
from ingle.tensor import Tensor

from .picture_blocks import Downsample, PixelAttention, ResnetBlock, Upsample
from .pretrained import Pretrained, require

EPS = 1e-6
OLD = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
"""Names that the layers of attention had at first."""


class _Level(nn.Module):
    """Blocks of one size, and what changes the size."""

    def __init__(
        self, widths: Sequence[int], groups: int, down: Downsample | None = None,
        up: Upsample | None = None,
    ) -> None:  # fmt: skip
        pairs = itertools.pairwise(widths)
        self.resnets = nn.ModuleList([ResnetBlock(a, b, groups, EPS) for a, b in pairs])
        if down is not None:
            self.downsamplers = nn.ModuleList([down])
        if up is not None:
            self.upsamplers = nn.ModuleList([up])

    def forward(self, x: Tensor) -> Tensor:
        held = vars(self)
        for layer in (*self.resnets, *held.get("downsamplers", ()), *held.get("upsamplers", ())):
            x = layer(x)
        return x


class _Middle(nn.Module):
    """Two blocks with attention of pixels between them."""

    def __init__(self, width: int, groups: int) -> None:
        self.attentions = nn.ModuleList([PixelAttention(width, groups, EPS)])
        self.resnets = nn.ModuleList([ResnetBlock(width, width, groups, EPS) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.resnets
        out: Tensor = second(self.attentions[0](first(x)))
        return out


class Encoder(nn.Module):
    """A picture to means and logarithms of variances, eight times smaller if it has four levels."""

    def __init__(
        self, inputs: int, outputs: int, widths: Sequence[int], layers: int, groups: int
    ) -> None:
        self.conv_in = nn.Conv2d(inputs, widths[0], 3, padding=1)
        self.down_blocks = nn.ModuleList()
        before = widths[0]
        for i, width in enumerate(widths):
            down = Downsample(width, both=False) if i + 1 < len(widths) else None
            self.down_blocks.append(_Level([before, *[width] * layers], groups, down))
            before = width
        self.mid_block = _Middle(before, groups)
        self.conv_norm_out = nn.GroupNorm(groups, before, EPS)
        self.conv_out = nn.Conv2d(before, outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_in(x)
        for level in self.down_blocks:
            x = level(x)
        out: Tensor = self.conv_out(it.silu(self.conv_norm_out(self.mid_block(x))))
        return out


class Decoder(nn.Module):
    """The way back."""

    def __init__(
        self, inputs: int, outputs: int, widths: Sequence[int], layers: int, groups: int
    ) -> None:
        before = widths[-1]
        self.conv_in = nn.Conv2d(inputs, before, 3, padding=1)
        self.up_blocks = nn.ModuleList()
        self.mid_block = _Middle(before, groups)
        for i, width in reversed(list(enumerate(widths))):
            up = Upsample(width) if i else None
            self.up_blocks.append(_Level([before, *[width] * (layers + 1)], groups, None, up))
            before = width
        self.conv_norm_out = nn.GroupNorm(groups, before, EPS)
        self.conv_out = nn.Conv2d(before, outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.mid_block(self.conv_in(x))
        for level in self.up_blocks:
            x = level(x)
        out: Tensor = self.conv_out(it.silu(self.conv_norm_out(x)))
        return out


class Autoencoder(Pretrained):
    """Pictures in -1 to 1 to small ones of other channels, and back.

    Args:
        channels: of pictures.
        latents: channels of the small ones.
        widths: channels of each level.
        layers: blocks of a level of the encoder.
        groups: of the norms.
        scale: what makes the small ones have a deviation of about 1.
    """

    def __init__(
        self, channels: int = 3, latents: int = 4, widths: Sequence[int] = (128, 256, 512, 512),
        layers: int = 2, groups: int = 32, scale: float = 0.18215,
    ) -> None:  # fmt: skip
        self.latents, self.scale, self.factor = latents, scale, 2 ** (len(widths) - 1)
        self.encoder = Encoder(channels, 2 * latents, widths, layers, groups)
        self.decoder = Decoder(latents, channels, widths, layers, groups)
        self.quant_conv = nn.Conv2d(2 * latents, 2 * latents, 1)
        self.post_quant_conv = nn.Conv2d(latents, latents, 1)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        require(
            cls.__name__, config, _class_name="AutoencoderKL", act_fn="silu", use_quant_conv=True,
            use_post_quant_conv=True, mid_block_add_attention=True, shift_factor=None,
        )  # fmt: skip
        return cls(
            config["in_channels"], config["latent_channels"], config["block_out_channels"],
            config["layers_per_block"], config.get("norm_num_groups", 32),
            config.get("scaling_factor", 0.18215),
        )  # fmt: skip

    @classmethod
    def rename(cls, name: str) -> str | None:
        return re.sub(
            r"(attentions\.\d+)\.(query|key|value|proj_attn)\.",
            lambda found: f"{found[1]}.{OLD[found[2]]}.",
            name,
        )

    def encode(self, x: Tensor) -> Tensor:
        """The means of the small pictures, scaled."""
        means, _ = it.chunk(self.quant_conv(self.encoder(x)), 2, axis=1)
        return means * self.scale

    def decode(self, latents: Tensor) -> Tensor:
        """The pictures of small ones."""
        found: Tensor = self.decoder(self.post_quant_conv(latents / self.scale))
        return found

    def forward(self, x: Tensor) -> Tensor:
        """What is left of pictures."""
        return self.decode(self.encode(x))
