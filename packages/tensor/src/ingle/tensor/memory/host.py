"""The host's memory as a source: anonymous pages of the operating system."""

from __future__ import annotations

import mmap

import numpy as np

from .blocks import Memory

HUGE = 2 << 20
"""The size of a huge page where there are any; blocks of twice this and more ask for them."""


class HostMemory:
    """A private mapping. `buffer` keeps it alive: it ends with the last reference.

    Attributes:
        buffer: has the buffer protocol; the memory begins at `start` in it.

    >>> from ingle.tensor.memory import HostMemory, HostSource
    >>> memory = HostSource().allocate(4096)
    >>> isinstance(memory, HostMemory), len(memory.buffer) >= memory.start + memory.nbytes
    (True, True)
    """

    __slots__ = ("address", "buffer", "nbytes", "start")

    def __init__(self, buffer: mmap.mmap, start: int, address: int, nbytes: int) -> None:
        self.buffer = buffer
        self.start = start
        self.address = address
        self.nbytes = nbytes


class HostSource:
    """Maps anonymous memory, private so that a forked child has its own.

    Large mappings start at a huge page and ask for such pages, which spare most of the page faults.

    >>> from ingle.tensor.memory import HostSource
    >>> memory = HostSource().allocate(10)
    >>> memory.nbytes == __import__("mmap").PAGESIZE, memory.address % 64
    (True, 0)
    """

    def allocate(self, nbytes: int) -> HostMemory:
        size = -(-max(nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        huge = size >= 2 * HUGE and hasattr(mmap, "MADV_HUGEPAGE")
        try:
            buffer = _mapping(size + HUGE if huge else size)
        except (OSError, OverflowError, ValueError) as error:
            raise MemoryError(f"the system refuses {nbytes} bytes: {error}") from None
        address: int = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]
        start = -address % HUGE if huge else 0
        if huge:
            buffer.madvise(mmap.MADV_HUGEPAGE, start, size - size % HUGE)
        return HostMemory(buffer, start, address + start, size)

    def free(self, memory: Memory) -> None:
        """Lets go of the mapping. It ends when nobody else holds its buffer either."""
        assert isinstance(memory, HostMemory)
        del memory.buffer


def _mapping(size: int) -> mmap.mmap:
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)
