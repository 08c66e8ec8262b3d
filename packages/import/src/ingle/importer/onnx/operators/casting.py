"""From one dtype to another, strings and the small floats included."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..registry import operator
from ..values import STRINGS, Value, cast, dtype_of, host, is_string, kind, numpy_dtype, on_device

SATURATING = {
    np.dtype(t)
    for t in (
        ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz, ml_dtypes.float4_e2m1fn,
    )
}  # fmt: skip
"""Floats so small that a number beyond their range becomes the largest one."""

NAMES = {
    "FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7,
    "STRING": 8, "BOOL": 9, "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13,
    "COMPLEX64": 14, "COMPLEX128": 15,
}  # fmt: skip
"""ONNX's numbers of dtypes by the names that the first `Cast` takes."""

E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
FLOAT4 = np.dtype(ml_dtypes.float4_e2m1fn)


@operator("Cast", 6)
def cast_to(x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """The same numbers in another dtype.

    Args:
        x: a tensor, or strings of numbers.
        to: ONNX's number of the dtype.
        saturate: whether what a float8 cannot hold becomes its largest; else NaN or infinity.
        round_mode: of a float8 that holds powers of two: `up`, `down` or `nearest`.
    """
    return converted(x, dtype_of(to), bool(saturate), round_mode)


@operator("Cast", 1)
def cast_before_6(x: Value, *, to: str) -> Value:
    if to not in NAMES:
        raise ModelError(f"Cast: {to!r} is no dtype of ONNX; there are {', '.join(NAMES)}")
    return converted(x, dtype_of(NAMES[to]), True, "up")


@operator("CastLike")
def cast_like(x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    """In the dtype of another tensor."""
    dtype = STRINGS if is_string(like) else numpy_dtype(like)
    return converted(x, dtype, bool(saturate), round_mode)


def converted(x: Value, dtype: np.dtype, saturate: bool, round_mode: str) -> Value:
    """See `cast_to`."""
    if not isinstance(x, (Tensor, np.ndarray)):
        raise ModelError(f"Cast: expected a tensor, got {kind(x)}")
    if is_string(x):
        return x if dtype == STRINGS else _parsed(host(x), dtype, saturate, round_mode)
    if dtype == STRINGS:
        return _written(host(x))
    if numpy_dtype(x) == dtype:
        return x
    if dtype == E8M0:
        return _power_of_two(host(x), saturate, round_mode)
    if dtype in SATURATING:
        return _small(x, dtype, saturate)
    if isinstance(x, Tensor) and on_device(dtype) is not None:
        if x.dtype.is_storage and x.dtype.holds == "float":
            x = x.astype(it.float32)
        return _integers(x, dtype)
    return cast(host(x), dtype)


def _integers(x: Tensor, dtype: np.dtype) -> Tensor:
    """Into four or two bits by way of eight, whose lowest are kept."""
    to = on_device(dtype)
    assert to is not None
    if to.bits < 8 and x.dtype.kind != "storage":
        low, high = (
            (-(1 << to.bits - 1), (1 << to.bits - 1) - 1)
            if to.is_signed
            else (0, (1 << to.bits) - 1)
        )
        wide = x.astype(it.int32)
        wrapped = it.bitwise_and(wide, (1 << to.bits) - 1)
        if to.is_signed:
            wrapped = it.where(wrapped > high, wrapped + 2 * low, wrapped)
        return wrapped.astype(to)
    return x.astype(to)


def _small(x: Value, dtype: np.dtype, saturate: bool) -> Value:
    if isinstance(x, Tensor) and on_device(dtype) is None:
        x = host(x)
    largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    if isinstance(x, Tensor):
        wide = x if x.dtype.is_floating else x.astype(it.float32)
        wide = it.clip(wide, -largest, largest) if saturate else wide
        return wide.astype(on_device(dtype))
    wide = x if x.dtype in (np.float64, np.float16) else x.astype(np.float32)
    wide = np.clip(wide, -largest, largest) if saturate or dtype == FLOAT4 else wide
    with np.errstate(all="ignore"):
        return wide.astype(dtype)


def _power_of_two(x: np.ndarray, saturate: bool, round_mode: str) -> np.ndarray:
    """The exponent alone: the mantissa decides by `round_mode` whether it is the next one."""
    bits = x.astype(np.float32).view(np.uint32)
    exponent = ((bits >> 23) & 0xFF).astype(np.int32)
    mantissa = bits & 0x7FFFFF
    nan = exponent == 0xFF
    if round_mode == "up":
        more = mantissa > 0
    elif round_mode == "nearest":
        more = (mantissa > 0x400000) | ((mantissa == 0x400000) & (exponent % 2 == 1))
    elif round_mode == "down":
        more = np.zeros(mantissa.shape, bool)
    else:
        raise ModelError(f"Cast: round_mode must be up, down or nearest, got {round_mode!r}")
    raised = exponent + more
    if saturate:
        raised = np.where(np.isinf(x.astype(np.float32)), 0xFE, np.minimum(raised, 0xFE))
        nan = np.isnan(x.astype(np.float32))
    return np.where(nan, 0xFF, raised).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


def _parsed(x: np.ndarray, dtype: np.dtype, saturate: bool, round_mode: str) -> Value:
    texts = [t.decode() if isinstance(t, bytes) else str(t) for t in x.reshape(-1)]
    try:
        if dtype.kind in "iu":
            numbers = np.array([int(float(t)) for t in texts])
        elif dtype.kind == "b":
            numbers = np.array([bool(int(float(t))) for t in texts])
        else:
            numbers = np.array([float(t) for t in texts])
    except ValueError as error:
        raise ModelError(f"Cast: a string is no number: {error}") from error
    return converted(numbers.reshape(x.shape), dtype, saturate, round_mode)


def _written(x: np.ndarray) -> np.ndarray:
    texts = np.empty(x.size, STRINGS)
    flat = x.reshape(-1)
    if x.dtype.kind in "biu":
        texts[:] = [str(v) for v in flat.tolist()]
    else:
        flat = flat if x.dtype in (np.float32, np.float64, np.float16) else flat.astype(np.float32)
        texts[:] = [_decimal(v) for v in flat]
    return texts.reshape(x.shape)


def _decimal(value: np.floating) -> str:
    """As few digits as tell it from its neighbours."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "INF" if value > 0 else "-INF"
    return str(value)


@operator("BitCast")
def bit_cast(x: Value, *, to: int) -> Value:
    """The same bits read as another dtype of the same width."""
    dtype = dtype_of(to)
    target = on_device(dtype)
    if (
        isinstance(x, Tensor)
        and target is not None
        and not (target.is_storage or x.dtype.is_storage)
    ):
        if target.kind == "bool" or x.dtype.kind == "bool":
            return it.asarray(x.numpy().view(dtype), device=x.device)
        return it.bitcast(x, target)
    array = host(x)
    return np.ascontiguousarray(array).view(dtype).reshape(array.shape)
