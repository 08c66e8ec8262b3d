"""Buffers of a device: where the pool takes memory from."""

from __future__ import annotations

from typing import Any

from ingle.fusion.device.kernel_backend import AddressSpace
from ingle.tensor.memory import Memory


class Buffer:
    """Memory of the device.

    Attributes:
        address: in the address space of the backend.
        nbytes: how many bytes it has.
    """

    __slots__ = ("address", "nbytes")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes


class BufferSource:
    """Asks the driver for buffers.

    Args:
        context: of the device.
        space: takes the buffers.
        largest: bytes that one buffer may have.
    """

    def __init__(self, context: Any, space: AddressSpace[Any], largest: int) -> None:
        self._context = context
        self._space = space
        self._largest = largest

    def allocate(self, nbytes: int) -> Buffer:
        import pyopencl as cl

        if nbytes > self._largest:
            raise MemoryError(f"the device's buffers have at most {self._largest} bytes")
        try:
            made = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, nbytes)
        except cl.Error as error:
            raise MemoryError(f"the driver refuses {nbytes} bytes: {error}") from None
        return Buffer(self._space.add(made), nbytes)

    def free(self, memory: Memory) -> None:
        """Lets go of a buffer; the driver keeps it until the kernels that use it are done."""
        self._space.remove(memory.address).release()
