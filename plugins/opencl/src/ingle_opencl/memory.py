"""Buffers of a device: where the pool takes memory from."""

from __future__ import annotations

from typing import Any

from ingle.fusion.device.kernel_backend import AddressSpace
from ingle.tensor.memory import Memory

from .devices import Limits


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

    Many drivers promise more memory than there is, and fail when it is used: on a processor the
    system then ends the process. So no more is asked for than the device has.

    Args:
        context: of the device.
        space: takes the buffers.
        limits: of the device.
    """

    def __init__(self, context: Any, space: AddressSpace[Any], limits: Limits) -> None:
        self._context = context
        self._space = space
        self._limits = limits
        self._taken: dict[int, int] = {}

    def allocate(self, nbytes: int) -> Buffer:
        import pyopencl as cl

        limits = self._limits
        if nbytes > limits.largest:
            raise MemoryError(f"the device's buffers have at most {limits.largest} bytes")
        taken = sum(list(self._taken.values()))  # the list, as a finalizer may free some meanwhile
        if taken + nbytes > limits.total:
            raise MemoryError(f"the device has {limits.total} bytes, and {taken} are taken")
        try:
            made = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, nbytes)
        except cl.Error as error:
            raise MemoryError(f"the driver refuses {nbytes} bytes: {error}") from None
        address = self._space.add(made)
        self._taken[address] = nbytes
        return Buffer(address, nbytes)

    def free(self, memory: Memory) -> None:
        """Lets go of a buffer; the driver keeps it until the kernels that use it are done."""
        self._taken.pop(memory.address, None)
        self._space.remove(memory.address).release()
