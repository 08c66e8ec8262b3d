"""Copies to and from a GPU that nobody waits for: by way of host memory that it reads and writes by
itself."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from .flags import TO_HOST
from .libraries import cupy

TO_DEVICE = 1
MOST = 256 << 20
"""Bytes that may be under way before the oldest copy is waited for."""


class Arrival:
    """Bytes on their way to the host."""

    __slots__ = ("_done", "_memory")

    def __init__(self, done: Any, memory: Any) -> None:
        self._done = done
        self._memory = memory

    def fill(self, array: np.ndarray) -> None:
        """Waits for them, and copies them into an array in C order."""
        self._done.synchronize()
        array.reshape(-1).view(np.uint8)[...] = np.frombuffer(self._memory, np.uint8, array.nbytes)


class Staging:
    """Pinned memory, each piece of which is held until the stream is behind its copy; with the lock
    of whoever puts something into the stream.

    CuPy's pool keeps what is given back, as the driver is slow to pin memory.
    """

    def __init__(self) -> None:
        self._running: deque[tuple[Any, Any, int]] = deque()
        self._bytes = 0

    def write(self, address: int, array: np.ndarray, stream: Any) -> None:
        """Puts a copy into a stream; the array may be written afterwards.

        Args:
            address: in the GPU's memory.
            array: in C order.
            stream: CuPy's.
        """
        self._settle(array.nbytes)
        cuda = cupy().cuda
        memory = cuda.alloc_pinned_memory(array.nbytes)
        pinned = np.frombuffer(memory, np.uint8, array.nbytes)
        pinned[...] = array.reshape(-1).view(np.uint8)
        cuda.runtime.memcpyAsync(address, memory.ptr, array.nbytes, TO_DEVICE, stream.ptr)
        self._begun(memory, array.nbytes, stream)

    def read(self, address: int, nbytes: int, stream: Any) -> Arrival:
        """Puts a copy from the GPU's memory into a stream."""
        self._settle(nbytes)
        cuda = cupy().cuda
        memory = cuda.alloc_pinned_memory(nbytes)
        cuda.runtime.memcpyAsync(memory.ptr, address, nbytes, TO_HOST, stream.ptr)
        return Arrival(self._begun(memory, nbytes, stream), memory)

    def _begun(self, memory: Any, nbytes: int, stream: Any) -> Any:
        """The event behind a copy, which holds the pinned memory until then."""
        done = cupy().cuda.Event(disable_timing=True)
        done.record(stream)
        self._running.append((done, memory, nbytes))
        self._bytes += nbytes
        return done

    def _settle(self, nbytes: int) -> None:
        """Lets go of the memory of copies that are done, and waits for some if there are many."""
        while self._running:
            done, _, size = self._running[0]
            if not done.done:
                if self._bytes + nbytes <= MOST:
                    return
                done.synchronize()
            self._running.popleft()
            self._bytes -= size
