"""What CUDA's libraries report, as errors of Ingle."""

from __future__ import annotations

import ctypes

from ingle.tensor.device import Device
from ingle.tensor.errors import BackendError, IngleError, LostDeviceError, OutOfMemoryError

from . import rocm
from .libraries import cupy, driver

_MEMORY = ("OUT_OF_MEMORY", "MemoryAllocation", "ALLOC_FAILED", *rocm.MEMORY)
_OPENING = (
    "CUBLAS_STATUS_NOT_INITIALIZED", "CUFFT_INTERNAL_ERROR", "CUSOLVER_STATUS_INTERNAL_ERROR",
    "CUSOLVER_STATUS_NOT_INITIALIZED",
)  # fmt: skip
"""What libraries say that find no memory to be opened, among others."""
_ROOM = 256 << 20
"""Bytes that are enough for them."""
_LOST = (
    "ILLEGAL_ADDRESS", "LAUNCH_FAILED", "LAUNCH_TIMEOUT", "HARDWARE_STACK_ERROR", "ECC_UNCORRECT",
    "DEVICE_UNAVAILABLE", "ASSERT", "MISALIGNED_ADDRESS", "INVALID_PC", "IllegalAddress",
    "LaunchFailure", "LaunchTimeout", "HardwareStackError", "ECCUncorrectable", "MisalignedAddress",
    "DevicesUnavailable",
)  # fmt: skip


class CudaError(Exception):
    """A function of the driver, or of cuBLAS, failed."""


def checked(status: int) -> None:
    """Raises what a function of the driver returned, if it failed."""
    if status:
        name = ctypes.c_char_p()
        library = driver()
        assert library is not None
        library.cuGetErrorName(status, ctypes.byref(name))
        text = name.value.decode() if name.value else f"error {status}"
        raise CudaError(text)


class told:  # noqa: N801 - a verb, as it reads
    """A block whose errors name the device and what was asked of it."""

    __slots__ = ("_device", "_doing")

    def __init__(self, device: Device, doing: str) -> None:
        self._device = device
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # CuPy's errors are RuntimeErrors.
        if isinstance(error, (CudaError, RuntimeError, MemoryError)):
            if isinstance(error, IngleError):
                return
            raise _translated(self._device, self._doing, error) from error


def _translated(device: Device, doing: str, error: Exception) -> IngleError:
    text = str(error)
    is_full = text.startswith(_OPENING) and cupy().cuda.runtime.memGetInfo()[0] < _ROOM
    if is_full or isinstance(error, MemoryError) or any(code in text for code in _MEMORY):
        return OutOfMemoryError(
            f"{device}: no memory while {doing}: {text}. Let go of tensors or use smaller batches"
        )
    if any(code in text for code in _LOST):
        return LostDeviceError(
            f"{device}: the GPU failed while {doing}: {text}. Values on it are lost in this "
            "process; start again from a checkpoint"
        )
    return BackendError(f"{device}: the driver failed while {doing}: {text}")
