"""Memory of a GPU: where the pool takes it from."""

from __future__ import annotations

import threading

from ingle.tensor.memory import Memory

from .libraries import cupy

_current = threading.local()


def speak_to(number: int) -> None:
    """Makes a GPU the one that the thread's calls are for."""
    if getattr(_current, "number", None) != number:
        cupy().cuda.runtime.setDevice(number)
        _current.number = number


class Allocation:
    """Memory of the device.

    Attributes:
        address: as kernels see it.
        nbytes: how many bytes it has.
    """

    __slots__ = ("address", "nbytes")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes


class DeviceSource:
    """Asks the driver for memory of a GPU."""

    def __init__(self, index: int) -> None:
        self._index = index

    def allocate(self, nbytes: int) -> Allocation:
        runtime = cupy().cuda.runtime
        speak_to(self._index)
        try:
            return Allocation(runtime.malloc(nbytes), nbytes)
        except runtime.CUDARuntimeError as error:
            free, total = runtime.memGetInfo()
            raise MemoryError(
                f"cuda:{self._index} refuses {nbytes} bytes ({error}); {free} of {total} bytes "
                "are free"
            ) from None

    def free(self, memory: Memory) -> None:
        """Gives memory back, once the kernels that use it are done."""
        runtime = cupy().cuda.runtime
        speak_to(self._index)
        runtime.free(memory.address)
