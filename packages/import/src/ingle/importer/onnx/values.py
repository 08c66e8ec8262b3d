"""What flows along the edges of an ONNX graph, and how it moves between host and device.

A value is a tensor on a device; a NumPy array, where it is a shape, a string, or of a dtype that
tensors do not have; a list, for a sequence; a dict, for a map; or None, for an optional without
element. Shapes stay on the host so that a model is recorded without reading any tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import handle_of
from ingle.tensor.dtypes import DType, from_numpy_dtype
from ingle.tensor.errors import DTypeError

from ..errors import ModelError

Host: TypeAlias = np.ndarray
"""An argument that has to be known on the host: a shape, an axis, a size."""

Array: TypeAlias = Any
"""A tensor, or a NumPy array if all arguments of this kind are; see `namespace`."""

Operand: TypeAlias = Any
"""Like `Array`, but a number without axes stays one, so that it becomes part of a kernel."""

Value: TypeAlias = Any
"""Anything at all."""

STRINGS = np.dtype(object)

DTYPES: dict[int, np.dtype] = {
    1: np.dtype(np.float32), 2: np.dtype(np.uint8), 3: np.dtype(np.int8), 4: np.dtype(np.uint16),
    5: np.dtype(np.int16), 6: np.dtype(np.int32), 7: np.dtype(np.int64), 8: STRINGS,
    9: np.dtype(np.bool_), 10: np.dtype(np.float16), 11: np.dtype(np.float64),
    12: np.dtype(np.uint32), 13: np.dtype(np.uint64), 14: np.dtype(np.complex64),
    15: np.dtype(np.complex128), 16: np.dtype(ml_dtypes.bfloat16),
    17: np.dtype(ml_dtypes.float8_e4m3fn), 18: np.dtype(ml_dtypes.float8_e4m3fnuz),
    19: np.dtype(ml_dtypes.float8_e5m2), 20: np.dtype(ml_dtypes.float8_e5m2fnuz),
    21: np.dtype(ml_dtypes.uint4), 22: np.dtype(ml_dtypes.int4),
    23: np.dtype(ml_dtypes.float4_e2m1fn), 24: np.dtype(ml_dtypes.float8_e8m0fnu),
    25: np.dtype(ml_dtypes.uint2), 26: np.dtype(ml_dtypes.int2),
}  # fmt: skip
"""NumPy's dtypes by ONNX's numbers for them (`TensorProto.DataType`)."""

NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def dtype_of(number: int) -> np.dtype:
    """NumPy's dtype of one of ONNX's numbers."""
    if number not in DTYPES:
        raise ModelError(f"{number} is no data type of ONNX that is known here")
    return DTYPES[number]


def numpy_dtype(x: Array) -> np.dtype:
    """NumPy's dtype of a tensor or an array."""
    return x.dtype.dtype if isinstance(x, Tensor) else x.dtype


def is_string(x: Value) -> bool:
    """Whether it is an array of strings."""
    return isinstance(x, np.ndarray) and x.dtype.kind in "OUST"


def on_device(dtype: np.dtype) -> DType | None:
    """Ingle's dtype of one of NumPy's; None where only the host has it."""
    try:
        return from_numpy_dtype(dtype)
    except DTypeError:
        return None


def tensor(x: Value, device: Device | None) -> Tensor:
    """A tensor of a value; raises if there is none of its kind."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, np.ndarray):
        return it.asarray(np.ascontiguousarray(x).reshape(x.shape), device=device)
    raise ModelError(f"expected a tensor, got {kind(x)}")


def host(x: Value) -> np.ndarray:
    """A NumPy array of a value; reads a tensor, which ends what is recorded."""
    if isinstance(x, Tensor):
        return x.numpy()
    if isinstance(x, np.ndarray):
        return x
    raise ModelError(f"expected a tensor, got {kind(x)}")


def kind(x: Value) -> str:
    """What a value is, for messages."""
    if x is None:
        return "nothing"
    if isinstance(x, (Tensor, np.ndarray)):
        return f"{'strings' if is_string(x) else x.dtype} of shape {tuple(x.shape)}"
    if isinstance(x, list):
        return f"a sequence of {len(x)}"
    return f"a {type(x).__name__}"


def namespace(*values: Array) -> Any:
    """`ingle.tensor` for tensors, NumPy for arrays of the host: both speak the Array API."""
    return it if any(isinstance(v, Tensor) for v in values) else np


def device_of(values: Iterable[Value]) -> Device | None:
    """Where the first tensor among values is."""
    for v in values:
        if isinstance(v, Tensor):
            return v.device
        if isinstance(v, list) and (found := device_of(v)) is not None:
            return found
    return None


def together(values: list[Value], device: Device | None) -> list[Value]:
    """All as tensors, unless all are on the host or one can only be there."""
    given = [v for v in values if v is not None and not isinstance(v, (bool, int, float))]
    if all(isinstance(v, np.ndarray) for v in given):
        return values
    if any(isinstance(v, np.ndarray) and on_device(v.dtype) is None for v in given):
        return [host(v) if isinstance(v, Tensor) else v for v in values]
    return [tensor(v, device) if isinstance(v, np.ndarray) else v for v in values]


def weak(values: list[Value]) -> list[Value]:
    """Numbers of the host as Python's, where they stand beside tensors of their dtype."""
    dtypes = {v.dtype.dtype for v in values if isinstance(v, Tensor)}
    if len(dtypes) != 1 or (only := dtypes.pop()).kind == "c" or on_device(only) is None:
        return values
    return [
        v.item() if isinstance(v, np.ndarray) and v.ndim == 0 and v.dtype == only else v
        for v in values
    ]


def unknown(x: Value) -> bool:
    """Whether a tensor has no value yet, or many: what makes it is only being traced."""
    if not isinstance(x, Tensor):
        return False
    handle = handle_of(x, "value", "x").base()
    return handle.abstract or tuple(handle.shape) != tuple(x.shape)


def cast(x: Array, dtype: np.dtype) -> Array:
    """The same numbers in another dtype, on the host where the device has it not."""
    if numpy_dtype(x) == dtype:
        return x
    if isinstance(x, Tensor):
        to = on_device(dtype)
        if to is not None:
            return x.astype(to)
        x = x.numpy()
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype)


LARGEST = 1 << 28
"""Elements that a size in a model may make of none; a damaged one asks for any number."""


def bounded(name: str, shape: Iterable[int]) -> tuple[int, ...]:
    """A shape that is asked for, or an error where no memory would hold it."""
    sizes, count = tuple(shape), 1
    for n in sizes:
        count *= n
    if count > LARGEST:
        raise ModelError(f"{name}: the shape {sizes} is more than {LARGEST} elements")
    return sizes


def ints(x: Host) -> list[int]:
    """The numbers of a host array in a row."""
    return [int(n) for n in np.asarray(x).reshape(-1)]
