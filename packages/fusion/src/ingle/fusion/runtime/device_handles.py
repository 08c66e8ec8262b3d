"""Values in memory of a device: in C order, or a view of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingle.tensor.contract import Aval, Backend, Handle

from ..support.refcounts import HELD_ONCE, refs
from .device import Ordered


class MemoryHandle(Ordered):
    """A value in C order in memory of the device.

    Attributes:
        memory: what keeps it alive.
        address: of the first element.
    """

    __slots__ = ("address", "memory", "prepacked")

    def __init__(self, backend: Backend, aval: Aval, memory: Any, address: int) -> None:
        self.backend = backend
        self.shape, self.dtype = aval
        self.memory = memory
        self.address = address
        self.prepacked = None

    @property
    def exclusive(self) -> bool:
        """Whether no view has the same memory."""
        return refs(self.memory) == HELD_ONCE


class StridedHandle(Handle):
    """A view of a value; `strides` are in elements."""

    __slots__ = ("address", "memory", "strides")

    def __init__(
        self, backend: Backend, aval: Aval, memory: Any, address: int, strides: Sequence[int]
    ) -> None:
        self.backend = backend
        self.shape, self.dtype = aval
        self.memory = memory
        self.address = address
        self.strides = tuple(strides)
