"""Flags of plans, which say whether an index was out of range: they lie in memory of the host that
the GPU writes, and Python looks at them when it has to."""

from __future__ import annotations

import ctypes
import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import Any

from ingle.fusion.device import Ordered
from ingle.tensor.device import Device

from .errors import told

TO_HOST = 2
"""Of `cudaMemcpyKind`."""
BYTES = 64
"""Of a place among others: more flags have memory of their own."""
_PLACES = 64
"""That are taken from the driver at a time."""


class FlagMemory:
    """Memory of the host for flags, which others get when it is gone.

    Whatever still writes there comes before what they write, in the same stream.

    Attributes:
        address: for the host and the GPU.
        content: what lies there.
    """

    __slots__ = ("_free", "_memory", "address", "content")

    def __init__(
        self, address: int, content: Any, free: list[tuple[int, Any]] | None, memory: Any = None
    ) -> None:
        self.address = address
        self.content = content
        self._free = free
        self._memory = memory

    def __del__(self) -> None:
        if self._free is not None:
            heappush(self._free, (self.address, self.content))


class FlagReader:
    """Lends places for flags, and reads them.

    Args:
        device: the GPU's, for messages.
        enter: makes it the one that the thread speaks to.
        cuda: CuPy's module.
    """

    def __init__(self, device: Device, enter: Callable[[], None], cuda: Any) -> None:
        self._device = device
        self._enter = enter
        self._cuda = cuda
        self._free: list[tuple[int, Any]] = []
        self._pages: list[Any] = []
        self._events: deque[Any] = deque()

    def place(self, nbytes: int) -> FlagMemory:
        """Memory for so many bools; what is lent again is the first there is, so that a step meets
        the same again."""
        if nbytes > BYTES:
            memory = self._cuda.alloc_pinned_memory(nbytes)
            return FlagMemory(memory.ptr, _content(memory.ptr, nbytes), None, memory)
        while True:
            try:
                return FlagMemory(*heappop(self._free), self._free)
            except IndexError:  # all are lent
                self._take_page()

    def _take_page(self) -> None:
        page = self._cuda.alloc_pinned_memory(BYTES * _PLACES)
        self._pages.append(page)
        for address in range(page.ptr, page.ptr + BYTES * _PLACES, BYTES):
            heappush(self._free, (address, _content(address, BYTES)))

    def begin(self, handles: Sequence[Ordered], stream: Any) -> Callable[[], Sequence[bool]]:
        """Notes in a stream where flags are known, and returns what waits for that and says which
        are set; those in memory of the device are copied.

        It may be asked again, also where an interrupt has ended it.
        """
        places = []
        for handle in handles:
            memory: Any = handle.memory  # type: ignore[attr-defined]
            nbytes = math.prod(handle.shape)
            if type(memory) is not FlagMemory:
                memory = self.place(nbytes)
                self._cuda.runtime.memcpyAsync(
                    memory.address, handle.address, nbytes, TO_HOST, stream.ptr
                )
            places.append((memory, nbytes))
        try:
            done = self._events.popleft()
        except IndexError:
            done = self._cuda.Event(disable_timing=True)
        done.record(stream)
        found: list[list[bool]] = []
        events = [done]

        def wait() -> Sequence[bool]:
            if not found:
                self._enter()
                with told(self._device, "flags were read"):
                    done.synchronize()
                found.append([any(memory.content[:nbytes]) for memory, nbytes in places])
                places.clear()
                with suppress(IndexError):  # another thread that waited has given it back
                    self._events.append(events.pop())
            return found[0]

        return wait


def _content(address: int, nbytes: int) -> Any:
    return (ctypes.c_uint8 * nbytes).from_address(address)
