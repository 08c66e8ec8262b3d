"""Values in memory of a device: in C order, or a view of one."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from ingle.tensor.contract import Aval, Backend, Handle

from ..support.refcounts import HELD_ONCE, MAPPED_ATTRIBUTE, refs
from .device import Ordered
from .pending_checks import PendingCheck, PendingChecks


class MemoryHandle(Ordered):
    """A value in C order in memory of the device.

    Attributes:
        memory: what keeps it alive.
        address: of the first element.
        check: the last one that was under way when it was made, as far as is known.
    """

    __slots__ = ("address", "check", "memory", "prepacked")

    def __init__(self, backend: Backend, aval: Aval, memory: Any, address: int) -> None:
        self.backend = backend
        self.shape, self.dtype = aval
        self.memory = memory
        self.address = address
        self.prepacked = None
        self.check = _last_check(backend)

    @property
    def exclusive(self) -> bool:
        """Whether no view has the same memory."""
        return refs(self.memory) == HELD_ONCE

    @staticmethod
    def all_exclusive(handles: Sequence[MemoryHandle]) -> bool:
        """Whether each of many is `exclusive`, without a call of Python for each."""
        return {*map(refs, map(_memory_of, handles))} == {MAPPED_ATTRIBUTE}


class StridedHandle(Handle):
    """A view of a value; `strides` are in elements, `check` and `prepacked` are those of
    `MemoryHandle`."""

    __slots__ = ("address", "check", "memory", "prepacked", "strides")

    def __init__(
        self, backend: Backend, aval: Aval, memory: Any, address: int, strides: Sequence[int]
    ) -> None:
        self.backend = backend
        self.shape, self.dtype = aval
        self.memory = memory
        self.address = address
        self.strides = tuple(strides)
        self.prepacked: Any = None
        self.check = _last_check(backend)


_memory_of = attrgetter("memory")


def _last_check(backend: Any) -> PendingCheck | None:
    checks: PendingChecks | None = backend.checks
    return None if checks is None else checks.last
