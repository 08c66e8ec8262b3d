"""Addresses for memory that a device knows by handles only, as in OpenCL, WebGPU and Metal.

Plans calculate with addresses: a value in the middle of an arena, the next row of a loop. Where
memory has none, a buffer gets a number, which is the upper part of an address; the lower part is
the offset in the buffer. A launch takes the two apart again.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Generic, TypeVar

OFFSET_BITS = 40
"""Of an address; the longest buffer is 1 TiB. The other 23 bits of a positive int64 are numbers."""
_OFFSET = (1 << OFFSET_BITS) - 1

RESTING = 1024
"""Numbers that nobody gets yet, since an old address may still be in use."""

BufferT = TypeVar("BufferT")


class AddressSpace(Generic[BufferT]):
    """Buffers by address.

    >>> from ingle.fusion.device.kernel_backend import AddressSpace
    >>> space = AddressSpace()
    >>> first, second = space.add("first"), space.add("second")
    >>> space.find(second + 100)
    ('second', 100)
    >>> space.remove(first)
    'first'
    """

    def __init__(self) -> None:
        # Each change is one step, so that a handler of signals or a finalizer may come anywhere.
        self._buffers: dict[int, BufferT] = {}
        self._unused: deque[int] = deque()
        self._fresh = count(1)

    def add(self, buffer: BufferT) -> int:
        """The address of a buffer's first byte."""
        number = self._number()
        self._buffers[number] = buffer
        return number << OFFSET_BITS

    def _number(self) -> int:
        # The one that has been free for longest: a use of an old address is reported.
        if len(self._unused) > RESTING:
            try:
                return self._unused.popleft()
            except IndexError:  # another thread has taken the last ones
                pass
        return next(self._fresh)

    def remove(self, address: int) -> BufferT:
        """Takes a buffer out, and returns it."""
        number = address >> OFFSET_BITS
        buffer = self._buffers.pop(number)
        self._unused.append(number)
        return buffer

    def find(self, address: int) -> tuple[BufferT, int]:
        """The buffer that an address lies in, and how many bytes into it.

        Raises:
            KeyError: the buffer is gone.
        """
        return self._buffers[address >> OFFSET_BITS], address & _OFFSET
