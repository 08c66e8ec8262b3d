"""Activations as codes: by a range that was found before, or by their own largest values."""

from __future__ import annotations

import math

import ingle.tensor as it
from ingle.tensor import Tensor

DYNAMIC, STATIC = "int8", "uint8"
"""Dtypes of codes: around 0 for rows that have scales of their own, with a zero point otherwise."""


def static_parameters(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The scale and zero point, both 0-d, by which codes cover a range."""
    scale, zero_point = it.quantization_parameters(low, high, dtype=STATIC, scheme="affine")
    assert zero_point is not None
    return scale, zero_point


def rows_of(x: Tensor) -> Tensor:
    """The last axis, and all others as one."""
    return it.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def dynamic_scale(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """A scale for each index of these axes, with all axes of `x`."""
    low, high = it.quantization_range(x.detach(), axis=axes)
    return it.quantization_parameters(low, high, dtype=DYNAMIC)[0]


def faked_dynamic(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """What codes with scales of their own give back, with the gradient of `x` itself."""
    return it.fake_quantize(x, dynamic_scale(x, axes), dtype=DYNAMIC)


def faked_static(x: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """What codes of a known range give back; the gradient ends where they are cut off."""
    return it.fake_quantize(x, scale, zero_point, dtype=STATIC)
