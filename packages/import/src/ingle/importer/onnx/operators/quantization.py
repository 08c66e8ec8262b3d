"""Quantized tensors: codes with scales, by tensor, axis or block."""

from __future__ import annotations

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..registry import operator
from ..values import Array, Value, cast, dtype_of, namespace, numpy_dtype, on_device, tensor
from .casting import converted
from .convolution import integer_conv

RANGES = {
    "uint2": (0, 3), "int2": (-2, 1), "uint4": (0, 15), "int4": (-8, 7), "uint8": (0, 255),
    "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767),
    "int32": (-(1 << 31), (1 << 31) - 1),
}  # fmt: skip
FLOAT32 = np.dtype(np.float32)


def _spread(s: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """A scale or zero for each element: of the tensor, of an axis, or of blocks along it."""
    xp = namespace(s)
    if s.ndim == 0 or (s.ndim == 1 and s.shape[0] == 1 and not block):
        return xp.reshape(s, ())
    at = axis % len(shape)
    if s.ndim == 1 and not block:
        return xp.reshape(s, (-1, *[1] * (len(shape) - 1 - at)))
    if s.ndim != len(shape):
        raise ModelError(f"a scale of shape {tuple(s.shape)} for a tensor of shape {shape}")
    each = block or -(-shape[at] // s.shape[at])
    wide = xp.repeat(s, each, axis=at)
    key = (slice(None),) * at + (slice(0, shape[at]),)
    return wide[key]


@operator("QuantizeLinear")
def quantize_linear(
    x: Value, scale: Value, zero: Value = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Value:  # fmt: skip
    """Codes of numbers: divided by the scale, rounded to even, moved by the zero, kept in range."""
    to = numpy_dtype(zero) if zero is not None else dtype_of(output_dtype or 2)
    by = dtype_of(precision) if precision else _wide(numpy_dtype(scale))
    where = x.device if isinstance(x, Tensor) else None
    values, factor = tensor(cast(x, by), where), tensor(cast(scale, by), where)
    ratio = values / _spread(factor, values.shape, axis, block_size)
    if to.name not in RANGES:
        if zero is not None:
            ratio = ratio + _spread(tensor(cast(zero, by), where), values.shape, axis, block_size)
        return converted(ratio, to, bool(saturate), "up")
    codes = it.round(ratio.astype(it.float32) if ratio.dtype.bits < 32 else ratio)
    if zero is not None:
        offset = tensor(cast(zero, numpy_dtype(codes)), where)
        codes = codes + _spread(offset, values.shape, axis, block_size)
    low, high = RANGES[to.name]
    return it.clip(codes, float(low), float(high)).astype(on_device(to))


def _wide(dtype: np.dtype) -> np.dtype:
    """A dtype that divides: eight bits of exponent do not."""
    return FLOAT32 if on_device(dtype) is None or dtype.itemsize == 1 else dtype


@operator("DequantizeLinear")
def dequantize_linear(
    x: Value, scale: Value, zero: Value = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Value:  # fmt: skip
    """Numbers of codes: less the zero, times the scale."""
    to = dtype_of(output_dtype) if output_dtype else numpy_dtype(scale)
    by = _wide(to)
    where = next((v.device for v in (x, scale) if isinstance(v, Tensor)), None)
    narrow = numpy_dtype(x).kind in "iu" and numpy_dtype(x).itemsize < 4
    codes = tensor(cast(x, FLOAT32 if narrow or numpy_dtype(x).name in RANGES else by), where)
    if numpy_dtype(x).name == "int32":
        codes = tensor(x, where).astype(it.int32)
    shape = tuple(codes.shape)
    if zero is not None:
        offset = tensor(cast(zero, numpy_dtype(codes)), where)
        codes = codes - _spread(offset, shape, axis, block_size)
    factor = tensor(cast(scale, by), where)
    return cast(codes.astype(factor.dtype) * _spread(factor, shape, axis, block_size), to)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """uint8 codes whose scale and zero follow from the range of the numbers, with zero in it."""
    low = it.minimum(it.min(x), 0.0)
    high = it.maximum(it.max(x), 0.0)
    scale = (high - low) / 255
    zero = it.clip(it.round(-low / scale), 0.0, 255.0)
    codes = it.clip(it.round(x / scale) + zero, 0.0, 255.0)
    return codes.astype(it.uint8), scale, zero.astype(it.uint8)


def _requantized(total: Tensor, factor: Tensor, zero: Value) -> Tensor:
    to = on_device(numpy_dtype(zero))
    assert to is not None
    low, high = RANGES.get(to.name, (0, 255))
    offset = tensor(zero, total.device).astype(it.float32)
    codes = it.round(total.astype(it.float32) * factor) + offset
    if to.is_storage and to.holds == "float":
        small: Tensor = converted(codes, to.dtype, True, "up")
        return small
    return it.clip(codes, float(low), float(high)).astype(to)


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor,
    y_scale: Tensor, y_zero: Value,
) -> Tensor:  # fmt: skip
    """The product of two quantized matrices, quantized."""

    def column(v: Tensor) -> Tensor:
        return it.expand_dims(v, -1) if v.ndim == 1 and v.shape[0] > 1 else v

    to = it.int32 if a.dtype.holds != "float" else it.float32
    total = it.matmul(a.astype(to) - column(a_zero.astype(to)), b.astype(to) - b_zero.astype(to))
    factor = (
        column(a_scale.astype(it.float32)) * b_scale.astype(it.float32) / y_scale.astype(it.float32)
    )
    return _requantized(total, factor, y_zero)


@operator("QLinearConv")
def qlinear_conv(
    x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
    y_scale: Tensor, y_zero: Value, bias: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """The convolution of a quantized picture, quantized; each channel may have a scale."""

    def first(v: Tensor, ndim: int) -> Tensor:
        return (
            it.reshape(v, (-1, *[1] * (ndim - 1)))
            if v.ndim == 1 and v.shape[0] > 1
            else it.reshape(v, ())
        )

    total = integer_conv(
        x.astype(it.int32) - first(x_zero.astype(it.int32), 1),
        w.astype(it.int32) - first(w_zero.astype(it.int32), w.ndim),
        auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
        strides=strides,
    )  # fmt: skip
    if bias is not None:
        total = total + it.reshape(bias, (-1, *[1] * (x.ndim - 2)))
    factor = x_scale * first(w_scale, x.ndim - 1) / y_scale
    return _requantized(total, factor, y_zero)
