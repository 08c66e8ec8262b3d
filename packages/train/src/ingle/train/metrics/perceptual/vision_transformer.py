"""CLIP's transformer of pictures, with what comes out of each of its blocks."""

from __future__ import annotations

import ingle.tensor as it
from ingle import nn
from ingle.tensor import Tensor

PATCH = 32
"""Pixels of a side of what becomes one row of features."""
_HEAD = 64


class QuickGELU(nn.Module):
    """The logistic function as a gate, in place of the normal distribution's."""

    def forward(self, x: Tensor) -> Tensor:
        return x * it.sigmoid(1.702 * x)


class Block(nn.Module):
    """Attention and two layers, each added to what came in, normalized before."""

    def __init__(self, width: int) -> None:
        self.attn = nn.MultiheadAttention(width, width // _HEAD, batch_first=True)
        self.ln_1 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            {
                "c_fc": nn.Linear(width, 4 * width),
                "gelu": QuickGELU(),
                "c_proj": nn.Linear(4 * width, width),
            }
        )
        self.ln_2 = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        h = self.ln_1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out


class Blocks(nn.Module):
    """Several, one behind the other; gives what comes out of each."""

    def __init__(self, width: int, layers: int) -> None:
        self.resblocks = nn.ModuleList([Block(width) for _ in range(layers)])

    def forward(self, x: Tensor) -> list[Tensor]:
        found = []
        for block in self.resblocks:
            x = block(x)
            found.append(x)
        return found


class VisionTransformer(nn.Module):
    """Features of pictures by pieces of 32 by 32 pixels (Radford et al., 2021).

    Names in its state are those of CLIP's ViT-B/32. Pictures may have any multiple of 32 pixels
    along each side: the embedding of places is stretched along its rows.

    Args:
        width: of the features, a multiple of 64.
        layers: how many blocks.
        side: pixels of a side of the pictures that the embedding of places is of.
    """

    def __init__(self, width: int = 768, layers: int = 12, side: int = 224) -> None:
        scale, places = width**-0.5, (side // PATCH) ** 2 + 1
        self.conv1 = nn.Conv2d(3, width, PATCH, stride=PATCH, bias=False)
        self.class_embedding = nn.Parameter(it.random.normal((width,)) * scale)
        self.positional_embedding = nn.Parameter(it.random.normal((places, width)) * scale)
        self.ln_pre = nn.LayerNorm(width)
        self.transformer = Blocks(width, layers)

    def forward(self, images: Tensor) -> list[Tensor]:
        """For each block (images, pieces, width)."""
        x = self.conv1(images)
        count, width = x.shape[:2]
        x = it.swapaxes(it.reshape(x, (count, width, -1)), 1, 2)
        first = it.broadcast_to(self.class_embedding.value, (count, 1, width))
        x = it.concat([first, x], axis=1)
        places = it.reshape(self.positional_embedding.value, (1, 1, -1, width))
        if places.shape[2] != x.shape[1]:
            places = it.interpolate(places, (x.shape[1], width), mode="bicubic")
        x = self.ln_pre(x + it.reshape(places, (1, -1, width)))
        return [found[:, 1:] for found in self.transformer(x)]
