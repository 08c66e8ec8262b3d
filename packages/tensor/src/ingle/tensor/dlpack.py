"""DLPack where NumPy's own falls short: dtypes that it has no code for, devices by name.

A capsule holds a `DLManagedTensor` (DLPack before 1.0) or a `DLManagedTensorVersioned`; the
structures are those of the specification, https://dmlc.github.io/dlpack/latest/c_api.html.
NumPy reads and writes all of them but the dtype: a bfloat16 array passes as 16-bit integers
whose code is changed in the capsule, before anybody else has seen it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

Place = tuple[int, int]

HOST: Place = (1, 0)
"""DLPack's kDLCPU, and its only device."""

_READABLE = {1, 3, 11, 13}  # kDLCPU, and what CUDA and ROCm share with the host
_NAMES = {
    1: "CPU", 2: "CUDA", 3: "CUDA host", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm",
    11: "ROCm host", 13: "CUDA managed", 14: "oneAPI", 15: "WebGPU",
}  # fmt: skip
_VERSIONED = b"dltensor_versioned"
_CARRIERS: dict[int, Any] = {1: np.uint8, 2: np.uint16}
_UNSIGNED = 1
_CODES = {
    4: np.dtype(ml_dtypes.bfloat16),
    10: np.dtype(ml_dtypes.float8_e4m3fn),
    12: np.dtype(ml_dtypes.float8_e5m2),
}
"""DLPack's codes of dtypes that NumPy does not know."""


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _dtype_in(capsule: object) -> _DataType:
    """The dtype that stands in a capsule, to read and to change."""
    name: bytes = _name(capsule)
    kind = _Versioned if name == _VERSIONED else _Managed
    dtype: _DataType = kind.from_address(_pointer(capsule, name)).tensor.dtype
    return dtype


class _Capsule:
    """A capsule as NumPy takes it: from an object that speaks the protocol."""

    def __init__(self, capsule: object, place: Place) -> None:
        self.capsule = capsule
        self.place = place

    def __dlpack__(self, **_: object) -> object:
        return self.capsule

    def __dlpack_device__(self) -> Place:
        return self.place


def place_name(place: Place) -> str:
    """A DLPack device in words.

    >>> from ingle.tensor.dlpack import place_name
    >>> place_name((2, 1))
    'CUDA device 1'
    """
    return f"{_NAMES.get(place[0], f'DLPack type {place[0]}')} device {place[1]}"


def place_of(producer: Any) -> Place:
    """Where a producer's values are; on the host if it does not say."""
    where = getattr(producer, "__dlpack_device__", None)
    if where is None:
        return HOST
    kind, number = where()
    return int(kind), int(number)


def on_host(place: Place) -> bool:
    """Whether the host can read what is there."""
    return place[0] in _READABLE


def imported(producer: Any, *, copy: bool | None = None) -> np.ndarray:
    """What an object exports on the host, as an array of the same memory.

    Args:
        producer: has `__dlpack__`; if its values are elsewhere it is asked to copy them.
        copy: False forbids the producer to copy.

    Raises:
        BufferError: the producer cannot export this, or NumPy not read it.
    """
    place = place_of(producer)
    wanted: dict[str, Any] = {"max_version": (1, 0)}
    if copy is False:
        wanted["copy"] = False
    if not on_host(place):
        wanted["dl_device"] = place = HOST
    try:
        capsule = producer.__dlpack__(**wanted)
    except TypeError:
        if "dl_device" in wanted:
            raise BufferError(
                f"its values are on {place_name(place_of(producer))}, and it does not know how to "
                "export them to the host"
            ) from None
        capsule = producer.__dlpack__()  # a producer of DLPack before 1.0, which never copies
    dtype = _dtype_in(capsule)
    readable: Any = _Capsule(capsule, place)
    special = _CODES.get(dtype.code)
    if special is None or dtype.lanes != 1:
        return np.from_dlpack(readable)
    dtype.code = _UNSIGNED
    return np.from_dlpack(readable).view(special)


def exported(array: np.ndarray, max_version: tuple[int, int] | None) -> object:
    """A capsule of an array's own memory.

    Raises:
        BufferError: DLPack has no code for the dtype, or cannot say that the memory is read-only
            in the version asked for.
    """
    if array.dtype.isbuiltin == 1:
        return array.__dlpack__(max_version=max_version)
    codes = [code for code, dtype in _CODES.items() if dtype == array.dtype]
    if not codes:
        raise BufferError(
            f"__dlpack__: cannot export {array.dtype}, which DLPack packs otherwise; cast it with "
            "x.astype('int8'), or use pack"
        )
    carrier: Any = array.view(_CARRIERS[array.dtype.itemsize])
    capsule: object = carrier.__dlpack__(max_version=max_version)
    _dtype_in(capsule).code = codes[0]
    return capsule
