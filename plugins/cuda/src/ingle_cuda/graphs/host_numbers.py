"""Numbers in memory of the host, which the first kernel of a graph copies to where the others read
them: to write them there is a few stores, where a kernel that brings them is a launch more.

The host may write other ones when that kernel has run in all graphs that were launched, which it
counts for the host to see.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any
from weakref import finalize

from ..driver.sources import TAKEN, taken_source

if TYPE_CHECKING:
    from ..backend import CudaBackend

_COUNT = 8
"""Bytes in front of the numbers: how many graphs have taken them."""
_THREADS = 128


class HostNumbers:
    """A place for so many numbers; with the backend's lock.

    Args:
        backend: of the GPU.
        count: how many.

    Attributes:
        is_doubted: whether a graph may have been launched or not, as something came in between.
    """

    def __init__(self, backend: CudaBackend, count: int) -> None:
        self._backend = backend
        self.is_doubted = False
        self._kernel = backend.kernel(taken_source(), TAKEN)
        self._form = Struct(f"<{count}q")
        for place in [*backend.given_up]:
            if place.is_free:
                backend.given_up.remove(place)
        self._place = Place(backend.cupy.cuda.alloc_pinned_memory(_COUNT + 8 * count), count)
        # A graph may be under way then; nobody else writes there before it has come.
        finalize(self, backend.given_up.append, self._place).atexit = False

    @property
    def address(self) -> int:
        """Where the first number lies, for kernels."""
        return self._place.address + _COUNT

    def is_free(self) -> bool:
        """Whether the host may write."""
        place = self._place
        if self.is_doubted:
            self._backend.stream.synchronize()
            place.launched = place.content[0]
            self.is_doubted = False
        return place.is_free

    def write(self, numbers: Sequence[int]) -> None:
        """Writes all of them."""
        self._form.pack_into(self._place.content, _COUNT, *numbers)

    def count_launch(self) -> None:
        """Has to come right before a graph that takes them is launched."""
        self._place.launched += 1

    def take(self, to: int, stream: Any) -> None:
        """Puts the kernel that copies them to an address into a stream that is captured."""
        backend, place = self._backend, self._place
        given = (ctypes.c_int64 * 3)(place.address, to, place.count)
        backend.enqueue(self._kernel, given, 1, _THREADS, stream)


class Place:
    """Memory of the host with a count of the graphs that have read it, and the numbers.

    Args:
        memory: CuPy's.
        count: how many numbers.

    Attributes:
        launched: how many graphs have been launched.
    """

    def __init__(self, memory: Any, count: int) -> None:
        self._memory = memory
        self.address: int = memory.ptr
        self.count = count
        self.content = (ctypes.c_int64 * (1 + count)).from_address(memory.ptr)
        self.content[0] = self.launched = 0

    @property
    def is_free(self) -> bool:
        """Whether all of them have read it."""
        return bool(self.content[0] == self.launched)
