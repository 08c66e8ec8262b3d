"""Copies to a GPU that nobody waits for: by way of host memory that it reads by itself."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from .libraries import cupy

TO_DEVICE = 1
MOST = 256 << 20
"""Bytes that may be under way before the oldest copy is waited for."""


class Staging:
    """Pinned memory, each piece of which is held until the stream is behind its copy.

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
        done = cuda.Event(disable_timing=True)
        done.record(stream)
        self._running.append((done, memory, array.nbytes))
        self._bytes += array.nbytes

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
