"""Memory that the plans of a thread take turns with: the largest that one of them needed lately."""

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


_PATIENCE = 256
"""Runs in a row that need less than half of the memory, after which it is given up for less: a
large model is gone, or its turn comes so seldom that it may ask anew."""


class Lender(threading.local):
    """Lends each thread memory, one piece at a time. A plan that runs inside of another one of the
    thread, such as that of a handler of signals, gets another piece."""

    _idle: Lent | None = None
    _small = 0
    _most = 0

    def lend(self, nbytes: int, allocated: Callable[[int], Lent]) -> Lent:
        """At least so many bytes, until `take_back`."""
        lent, self._idle = self._idle, None
        if lent is None or lent.size < nbytes:
            return allocated(nbytes)
        if 2 * nbytes >= lent.size:
            self._small = self._most = 0
            return lent
        self._small += 1
        self._most = max(self._most, nbytes)
        if self._small >= _PATIENCE:
            most, self._small, self._most = self._most, 0, 0
            del lent  # before there is other memory
            lent = allocated(most)
        return lent

    def take_back(self, lent: Lent) -> None:
        """Says that a run is over. One that was broken off takes its memory with it."""
        self._idle = lent
