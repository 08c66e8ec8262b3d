"""What NVIDIA's management library says of a GPU; it comes with the driver."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

_NAMES = ("nvml.dll",) if os.name == "nt" else ("libnvidia-ml.so.1", "libnvidia-ml.so")
_TEMPERATURE_OF_THE_GPU = 0


class _Use(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


@cache
def library() -> Any | None:
    """The library, ready to be asked; None where it is not there or does not start."""
    for name in _NAMES:
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        return None if found.nvmlInit_v2() else found
    return None


def gauges(place: str) -> dict[str, float]:
    """How busy a GPU is, its temperature and its power; without what it does not tell.

    A part of a GPU tells no use, and one of AMD's nothing.

    Args:
        place: its address on the bus, by which this library and CUDA know the same GPU.
    """
    asked = library()
    device = ctypes.c_void_p()
    if asked is None or asked.nvmlDeviceGetHandleByPciBusId_v2(
        place.encode(), ctypes.byref(device)
    ):
        return {}
    found = {}
    use, number = _Use(), ctypes.c_uint()
    if not asked.nvmlDeviceGetUtilizationRates(device, ctypes.byref(use)):
        found["use"] = use.gpu / 100
    if not asked.nvmlDeviceGetTemperature(device, _TEMPERATURE_OF_THE_GPU, ctypes.byref(number)):
        found["temperature"] = float(number.value)
    if not asked.nvmlDeviceGetPowerUsage(device, ctypes.byref(number)):  # in milliwatts
        found["power"] = number.value / 1000
    return found
