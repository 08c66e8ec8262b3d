"""Weights as codes of few bits, with what turns them into numbers."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dtypes import as_dtype

from . import normal_floats
from .config import QuantizationConfig

CUTS = tuple(1.0 - 0.02 * i for i in range(31))
"""Shares of the range that `"mse"` tries."""


class Codes(NamedTuple):
    """A weight's parts.

    Attributes:
        values: codes; of less than 8 bits several in a byte, along a row.
        scale: 0-d, or with as many axes as the weight and an entry for each block.
        zero_point: of `scale`'s shape, or None.
    """

    values: Tensor
    scale: Tensor
    zero_point: Tensor | None


def bits(config: QuantizationConfig) -> int:
    """How many bits a code has."""
    return 4 if config.weights == "nf4" else as_dtype(config.weights).bits


def block_sizes(config: QuantizationConfig, shape: tuple[int, ...]) -> tuple[int, ...]:
    """How many neighbours along each axis of a weight (out, in, ...) share a scale."""
    if config.per == "tensor":
        return shape
    if isinstance(config.per, str):
        return (1, *shape[1:])
    return (1, math.gcd(config.per, shape[1]), *shape[2:])


def weight_parameters(weight: Tensor, config: QuantizationConfig) -> tuple[Tensor, Tensor | None]:
    """The scale and zero point of a weight, with an entry for each block."""
    sizes = block_sizes(config, weight.shape)
    method: Literal["absmean", "minmax"] = (
        "absmean" if config.weight_method == "absmean" else "minmax"
    )
    low, high = it.quantization_range(weight, block_size=sizes, method=method)
    if config.weight_method != "mse":
        return _parameters(low, high, config)
    best = _parameters(low, high, config)
    least = _errors(weight, best, config)
    for cut in CUTS[1:]:
        tried = _parameters(low * cut, high * cut, config)
        errors = _errors(weight, tried, config)
        better = errors < least
        least = it.where(better, errors, least)
        best = (
            it.where(better, tried[0], best[0]),
            None if tried[1] is None or best[1] is None else it.where(better, tried[1], best[1]),
        )
    return best


def _parameters(
    low: Tensor, high: Tensor, config: QuantizationConfig
) -> tuple[Tensor, Tensor | None]:
    if config.weights == "nf4":
        largest = it.maximum(it.abs(low), it.abs(high))
        return it.where(largest > 0.0, largest, 1.0), None
    scheme: Any = "affine" if config.affine else "symmetric"
    return it.quantization_parameters(low, high, dtype=config.weights, scheme=scheme)


def _errors(
    weight: Tensor, found: tuple[Tensor, Tensor | None], config: QuantizationConfig
) -> Tensor:
    """The squared error of each block, in the shape of the scale."""
    made = decoded(encoded(weight, *found, config), *found, weight.shape, config)
    errors = it.square(made - weight)
    counts = found[0].shape
    apart = [v for n, c in zip(weight.shape, counts, strict=True) for v in (c, n // max(c, 1))]
    return it.sum(it.reshape(errors, tuple(apart)), axis=tuple(range(1, len(apart), 2)))


def encoded(
    weight: Tensor, scale: Tensor, zero_point: Tensor | None, config: QuantizationConfig
) -> Tensor:
    """Codes of a weight, packed."""
    if bits(config) == 8:
        return it.quantize(weight, scale, zero_point, dtype=config.weights)
    dtype, into = _of_bits(config)
    if config.weights == "nf4":
        share = weight / _spread(scale, weight.shape)
        codes = it.astype(normal_floats.nearest(share), into)
    else:
        codes = it.quantize(weight, scale, zero_point, dtype=dtype, into=into)
    rows = it.reshape(codes, (codes.shape[0], math.prod(codes.shape[1:])))
    return it.pack(rows, dtype=dtype)


def unpacked(values: Tensor, shape: tuple[int, ...], config: QuantizationConfig) -> Tensor:
    """Codes one by one, in the shape of the weight and in whole bytes: kernels compute with these,
    and with nothing smaller."""
    if bits(config) == 8:
        return values
    dtype, into = _of_bits(config)
    return it.reshape(it.unpack(values, dtype, size=math.prod(shape[1:]), into=into), shape)


def _of_bits(config: QuantizationConfig) -> tuple[str, str]:
    """The dtype of codes of less than 8 bits, and of the whole bytes that kernels compute with."""
    dtype = "uint4" if config.weights == "nf4" else config.weights
    return dtype, "int8" if dtype.startswith("int") else "uint8"


def decoded(
    values: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    shape: tuple[int, ...],
    config: QuantizationConfig,
) -> Tensor:
    """The weight that codes stand for, in the dtype of the scale."""
    codes = unpacked(values, shape, config)
    if config.weights != "nf4":
        return it.dequantize(codes, scale, zero_point)
    numbers = it.take(
        normal_floats.table(values.device, scale.dtype), it.astype(codes, "int32"), axis=0
    )
    return numbers * _spread(scale, shape)


def _spread(scale: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The scale of each element: what codes of 1 stand for."""
    return it.dequantize(it.ones(shape, dtype="int8", device=scale.device), scale)


def codes_of(weight: Tensor, config: QuantizationConfig) -> Codes:
    """A weight, (out, in, ...) in a float dtype, as codes."""
    weight = weight.detach()
    scale, zero_point = weight_parameters(weight, config)
    return Codes(encoded(weight, scale, zero_point, config), scale, zero_point)


def faked(weight: Tensor, config: QuantizationConfig) -> Tensor:
    """The weight as its codes would give it back, with the gradient of the weight itself."""
    scale, zero_point = weight_parameters(weight.detach(), config)
    if config.weights == "nf4" or config.weights.startswith("float8"):
        values = encoded(weight.detach(), scale, zero_point, config)
        made = decoded(values, scale, zero_point, weight.shape, config)
        return weight + (made - weight).detach()
    return it.fake_quantize(weight, scale, zero_point, dtype=config.weights)
