"""Layers of which tests make deep models."""

from __future__ import annotations

import ingle.tensor as it
from ingle import nn


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int, wider: int = 4) -> None:
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.taken, self.given = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, wider * width), nn.Linear(wider * width, width)

    def __call__(self, x: it.Tensor) -> it.Tensor:
        b, t, c = x.shape
        q, k, v = it.split(self.taken(self.first(x)), c, axis=-1)
        q, k, v = (
            it.permute_dims(it.reshape(y, (b, t, 2, c // 2)), (0, 2, 1, 3)) for y in (q, k, v)
        )
        y = it.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.given(it.reshape(it.permute_dims(y, (0, 2, 1, 3)), (b, t, c)))
        return x + self.down(it.gelu(self.up(self.second(x))))


class Residual(nn.Module):
    """A layer of a convolutional net."""

    def __init__(self, channels: int) -> None:
        self.one = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def __call__(self, x: it.Tensor) -> it.Tensor:
        return x + it.relu(self.norm(self.one(x)))
