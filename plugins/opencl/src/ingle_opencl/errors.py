"""What drivers raise, as errors of Ingle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ingle.tensor.device import Device
from ingle.tensor.errors import BackendError, LostDeviceError, OutOfMemoryError

_MEMORY = ("MEM_OBJECT_ALLOCATION_FAILURE", "OUT_OF_HOST_MEMORY")
_LOST = ("DEVICE_NOT_AVAILABLE", "INVALID_COMMAND_QUEUE", "INVALID_CONTEXT", "OUT_OF_RESOURCES")


def is_out_of_memory(error: Exception) -> bool:
    """Whether a driver had no memory for what it was asked."""
    import pyopencl as cl

    return isinstance(error, cl.MemoryError) or any(code in str(error) for code in _MEMORY)


@contextmanager
def told(device: Device, doing: str) -> Iterator[None]:
    """Names the device and what was asked of it."""
    import pyopencl as cl

    try:
        yield
    except cl.Error as error:
        if is_out_of_memory(error):
            raise OutOfMemoryError(
                f"{device}: no memory while {doing}: {error}. Let go of tensors or use smaller "
                "batches"
            ) from error
        if any(code in str(error) for code in _LOST):
            raise LostDeviceError(
                f"{device}: the device failed while {doing}: {error}. If it is lost, values on it "
                "are, too; start again from a checkpoint"
            ) from error
        raise BackendError(f"{device}: the driver failed while {doing}: {error}") from error
