"""How far Python runs ahead of the device: a queue takes any number of kernels, and what is in it
cannot be taken back, so that an interrupt would wait for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

LONGEST = 256
"""Launches of a stretch at most."""
SECONDS = 0.1
"""What a stretch may take: twice as much is in the queue when an interrupt comes."""


class Event(Protocol):
    """What a launch gives: something to wait for."""

    def wait(self) -> object:
        """Returns when the launch is done, with all before it."""
        ...


class RunAhead:
    """Keeps at most two stretches of launches in a queue in order.

    The end of the last stretch but one is waited for, while the last one keeps the device busy.
    Stretches grow while nobody has to wait, and become shorter where they take long.

    Args:
        clock: seconds since some time.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._stretch = 1
        self._launched = 0
        self._end: Event | None = None

    def launched(self, event: Event) -> None:
        """Counts a launch; waits where too much is in the queue.

        Threads and handlers that come between two lines make a stretch somewhat longer.
        """
        self._launched += 1
        if self._launched < self._stretch:
            return
        self._launched = 0
        before, self._end = self._end, event
        if before is None:
            return
        start = self._clock()
        before.wait()
        waited = self._clock() - start
        if waited > SECONDS:
            self._stretch = max(1, self._stretch // 2)
        elif waited < SECONDS / 10:
            self._stretch = min(LONGEST, self._stretch * 2)
