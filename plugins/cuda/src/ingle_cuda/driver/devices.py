"""The GPUs of this machine, and what each can do."""

from __future__ import annotations

import ctypes
import re
from typing import NamedTuple

from ingle.tensor.errors import BackendError

from . import rocm
from .libraries import cupy, driver, is_rocm

_CLOCK, _MULTIPROCESSORS, _MEMORY_CLOCK, _BUS, _MAJOR, _MINOR = 13, 16, 36, 37, 75, 76
"""Of `CUdevice_attribute`."""
_WITH_OWN_INSTRUCTIONS = frozenset({"sm_90"})
"""Architectures with instructions that later ones do not have, for which kernels are compiled under
a name with an `a`."""


class Limits(NamedTuple):
    """What kernels may ask of a GPU.

    Attributes:
        number: of the device.
        name: that the driver gives it.
        processors: multiprocessors.
        architecture: for which kernels are compiled, such as `sm_90`.
        memory: bytes.
        bandwidth: bytes a second through memory, 0 where it does not say.
        clock: cycles a second of the multiprocessors, 0 where it does not say.
    """

    number: int
    name: str
    processors: int
    architecture: str
    memory: int
    bandwidth: float = 0.0
    clock: float = 0.0


def capability(architecture: str) -> int:
    """The compute capability of an architecture of NVIDIA's, 90 for 9.0; 0 of another one.

    >>> capability("sm_90a"), capability("gfx942")
    (90, 0)
    """
    found = re.match(r"sm_(\d+)", architecture)
    return 0 if found is None else int(found[1])


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
    if is_rocm():
        properties = cupy().cuda.runtime.getDeviceProperties(index)
        shown, processors, nbytes, architecture = rocm.described(properties)
        return Limits(index, shown, processors, architecture, nbytes)
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

    architecture = f"sm_{attribute(_MAJOR)}{attribute(_MINOR)}"
    if architecture in _WITH_OWN_INSTRUCTIONS:
        architecture += "a"
    shown = name.value.decode(errors="replace")
    # Memory moves its bus's width twice a cycle; both clocks are in kHz.
    bandwidth = 2e3 * attribute(_MEMORY_CLOCK) * attribute(_BUS) / 8
    return Limits(
        index, shown, attribute(_MULTIPROCESSORS), architecture, memory.value, bandwidth,
        1e3 * attribute(_CLOCK),
    )  # fmt: skip
