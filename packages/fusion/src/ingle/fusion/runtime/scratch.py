"""Memory that the plans of a thread take turns with: the largest that one of them needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Lent:
    """Memory of one run.

    Attributes:
        address: of its first byte.
        size: how many there are.
        memory: what keeps it alive.
    """

    __slots__ = ("address", "memory", "size")

    def __init__(self, address: int, size: int, memory: Any) -> None:
        self.address = address
        self.size = size
        self.memory = memory


class Lender(threading.local):
    """Lends each thread memory, one piece at a time. A plan that runs inside of another one of the
    thread, such as that of a handler of signals, gets another piece."""

    _idle: Lent | None = None

    def lend(self, nbytes: int, allocated: Callable[[int], Lent]) -> Lent:
        """At least so many bytes, until `take_back`."""
        lent, self._idle = self._idle, None
        if lent is None or lent.size < nbytes:
            lent = allocated(nbytes)
        return lent

    def take_back(self, lent: Lent) -> None:
        """Says that a run is over. One that was broken off takes its memory with it."""
        self._idle = lent
