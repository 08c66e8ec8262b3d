"""What tells attention where in a sequence a step stands."""

from __future__ import annotations

import math

import numpy as np

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError

from ._arguments import size
from .module import Module
from .parameter import Buffer


def _angles(dim: int, base: float) -> np.ndarray:
    found: np.ndarray = base ** (-np.arange(0, dim, 2) / dim)
    return found


class RotaryEmbedding(Module):
    """Turns pairs of features by an angle that grows with the position; Su et al. (2021).

    Products of queries and keys then depend on how far apart they are.

    Args:
        dim: how many features there are, an even number.
        base: of the angles.
        interleaved: pairs are neighbours, as in the paper; else the halves, as in Llama.
        device, dtype: of the table, float32 if not given.

    >>> import ingle.tensor as it
    >>> from ingle.nn import RotaryEmbedding
    >>> rotary = RotaryEmbedding(8)
    >>> rotary(it.ones((2, 4, 5, 8)), offset=3).shape
    (2, 4, 5, 8)
    """

    def __init__(
        self,
        dim: int,
        base: float = 10_000.0,
        interleaved: bool = False,
        *,
        device: Device | str | None = None,
        dtype: object = None,
    ) -> None:
        self.dim, self.base, self.interleaved = (
            size("RotaryEmbedding", "dim", dim),
            base,
            interleaved,
        )
        if dim % 2:
            raise ArgumentError(f"RotaryEmbedding: dim must be even, got {dim}")
        angles = _angles(dim, base)
        self.inv_freq = Buffer(
            it.asarray(angles, dtype=dtype or "float32", device=device), persistent=False
        )

    def forward(self, x: TensorLike, offset: int | TensorLike = 0) -> Tensor:
        """Turned features.

        Args:
            x: (..., length, dim).
            offset: the position of the first step, a number or an integer tensor.

        Raises:
            ShapeError: the last axis is not `dim`.
        """
        x = it.asarray(x)
        if x.ndim < 2 or x.shape[-1] != self.dim:
            raise ShapeError(
                f"RotaryEmbedding: x must be (..., length, {self.dim}), got shape {x.shape}"
            )
        table = self.inv_freq.raw
        steps = it.arange(x.shape[-2], dtype=table.dtype, device=x.device) + offset
        angles = steps[:, None] * table
        cos, sin = it.cos(angles).astype(x.dtype), it.sin(angles).astype(x.dtype)
        if self.interleaved:
            a, b = x[..., ::2], x[..., 1::2]
            both = it.stack([a * cos - b * sin, a * sin + b * cos], axis=-1)
            return it.reshape(both, x.shape)
        a, b = it.split(x, self.dim // 2, axis=-1)
        return it.concat([a * cos - b * sin, a * sin + b * cos], axis=-1)

    def extra_repr(self) -> str:
        return f"{self.dim}, base={self.base}, interleaved={self.interleaved}"


class SinusoidalEncoding(Module):
    """Adds sines and cosines of the position; Vaswani et al. (2017), section 3.5.

    Args:
        d_model: how many features there are, an even number.
        max_len: the longest sequence.
        batch_first: (N, L, E) rather than (L, N, E).

    >>> import ingle.tensor as it
    >>> from ingle.nn import SinusoidalEncoding
    >>> SinusoidalEncoding(4)(it.zeros((1, 2, 4)))[0, 0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """

    def __init__(self, d_model: int, max_len: int = 5000, batch_first: bool = True) -> None:
        self.d_model = size("SinusoidalEncoding", "d_model", d_model)
        if d_model % 2:
            raise ArgumentError(f"SinusoidalEncoding: d_model must be even, got {d_model}")
        self.max_len = size("SinusoidalEncoding", "max_len", max_len)
        self.batch_first = batch_first
        angles = np.arange(max_len)[:, None] * _angles(d_model, 10_000.0)
        table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(max_len, d_model)
        self.pe = Buffer(it.asarray(table, dtype="float32"), persistent=False)

    def forward(self, x: TensorLike, offset: int = 0) -> Tensor:
        x = it.asarray(x)
        length = x.shape[-2 if self.batch_first or x.ndim == 2 else 0] if x.ndim > 1 else 0
        if x.ndim not in (2, 3) or x.shape[-1] != self.d_model or offset + length > self.max_len:
            raise ShapeError(
                f"SinusoidalEncoding: x must have {self.d_model} features and end before position "
                f"max_len={self.max_len}, got shape {x.shape} at offset={offset}"
            )
        rows = self.pe.raw[offset : offset + length].astype(x.dtype)
        return x + (rows if self.batch_first or x.ndim == 2 else rows[:, None])

    def extra_repr(self) -> str:
        return f"{self.d_model}, max_len={self.max_len}"


def alibi_slopes(num_heads: int) -> list[float]:
    """The slope of each head; Press et al. (ICLR 2022).

    >>> from ingle.nn import alibi_slopes
    >>> alibi_slopes(4)
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    count = size("alibi_slopes", "num_heads", num_heads)
    least = 2 ** math.floor(math.log2(count))
    slopes = [2.0 ** (-8.0 * (i + 1) / least) for i in range(least)]
    # Heads over a power of two take every other slope of twice as many.
    return slopes + [2.0 ** (-4.0 * (2 * i + 1) / least) for i in range(count - least)]


def alibi_bias(
    num_heads: int, queries: int, keys: int | None = None, *, dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:  # fmt: skip
    """What ALiBi adds to scores, (num_heads, queries, keys): less for what is further away.

    Args:
        num_heads: how many heads.
        queries, keys: how many; the last query stands at the last key.
        dtype, device: of the tensor.

    >>> from ingle.nn import alibi_bias
    >>> alibi_bias(1, 2).tolist()
    [[[0.0, -0.00390625], [-0.00390625, 0.0]]]
    """
    keys = queries if keys is None else keys
    apart = np.abs(np.arange(keys) - (np.arange(queries) + keys - queries)[:, None])
    slopes = np.asarray(alibi_slopes(num_heads))[:, None, None]
    return it.asarray(0.0 - slopes * apart, dtype=dtype or "float32", device=device)
