"""Flags of plans, which say whether an index was out of range: the GPU copies them into memory of
the host when it comes to them, and Python looks when it has to."""

from __future__ import annotations

import ctypes
import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from ingle.fusion.device import Ordered
from ingle.tensor.device import Device

from .errors import told

TO_HOST = 2
"""Of `cudaMemcpyKind`."""
_BYTES = 64
"""Of memory that is used again: more flags have their own."""


class _Place(NamedTuple):
    """Where flags are copied to.

    Attributes:
        memory: pinned.
        done: the event behind the copies.
    """

    memory: Any
    done: Any


class FlagReader:
    """Reads flags, into memory that is used again: a step of training reads some each time.

    Args:
        device: the GPU's, for messages.
        enter: makes it the one that the thread speaks to.
    """

    def __init__(self, device: Device, enter: Callable[[], None]) -> None:
        self._device = device
        self._enter = enter
        self._free: deque[_Place] = deque()

    def begin(
        self, handles: Sequence[Ordered], cuda: Any, stream: Any
    ) -> Callable[[], Sequence[bool]]:
        """Puts copies into a stream, and returns what waits for them and says which are set.

        It may be asked again, also where an interrupt has ended it.

        Args:
            cuda: CuPy's module.
        """
        ends = [0, *accumulate([math.prod(handle.shape) for handle in handles])]
        own = [self._place(cuda, ends[-1])]
        memory, done = own[0]
        for (begin, end), handle in zip(pairwise(ends), handles, strict=True):
            cuda.runtime.memcpyAsync(
                memory.ptr + begin, handle.address, end - begin, TO_HOST, stream.ptr
            )
        done.record(stream)
        found: list[list[bool]] = []

        def wait() -> Sequence[bool]:
            if not found:
                self._enter()
                with told(self._device, "flags were read"):
                    done.synchronize()
                flags = ctypes.string_at(memory.ptr, ends[-1])
                found.append([flags.count(0, a, b) < b - a for a, b in pairwise(ends)])
                if ends[-1] <= _BYTES:
                    with suppress(IndexError):  # another thread that waited has given it back
                        self._free.append(own.pop())
            return found[0]

        return wait

    def _place(self, cuda: Any, nbytes: int) -> _Place:
        if nbytes <= _BYTES:
            with suppress(IndexError):  # all are in use
                return self._free.popleft()
        memory = cuda.alloc_pinned_memory(max(nbytes, _BYTES))
        return _Place(memory, cuda.Event(disable_timing=True))
