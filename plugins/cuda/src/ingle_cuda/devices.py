"""The GPUs of this machine, and what each can do."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from ingle.tensor.errors import BackendError

from .libraries import cupy, driver

_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76
"""Of `CUdevice_attribute`."""


class Limits(NamedTuple):
    """What kernels may ask of a GPU.

    Attributes:
        number: of the device.
        name: that the driver gives it.
        processors: multiprocessors.
        capability: the version of what it can compute, as in `sm_90`: 90.
        memory: bytes.
    """

    number: int
    name: str
    processors: int
    capability: int
    memory: int


def count() -> int:
    """How many there are; 0 without a driver.

    Raises:
        BackendError: there are some, but CuPy is missing or does not match the driver.
    """
    library = driver()
    number = ctypes.c_int()
    if library is None or library.cuDeviceGetCount(ctypes.byref(number)):
        return 0
    if number.value:
        cupy()
    return number.value


def limits_of(index: int) -> Limits:
    """What a GPU says of itself.

    Raises:
        BackendError: there is none of this number.
    """
    if index >= count():
        raise BackendError(f"there is no device cuda:{index}; there are {count()} GPUs here")
    library = driver()
    assert library is not None
    device, name, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    library.cuDeviceGet(ctypes.byref(device), index)
    library.cuDeviceGetName(name, 256, device)
    library.cuDeviceTotalMem_v2(ctypes.byref(memory), device)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        library.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    capability = 10 * attribute(_MAJOR) + attribute(_MINOR)
    shown = name.value.decode(errors="replace")
    return Limits(index, shown, attribute(_MULTIPROCESSORS), capability, memory.value)
