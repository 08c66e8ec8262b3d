"""How often threads take turns while one of them calls what needs no interpreter.

Such a thread lets go of the interpreter at each call, and gets it back only when the thread that
has it waits by itself, or has had it for Python's interval of 5 ms. For a dozen short calls a
kernel that is longer than the work itself. So the interval is shorter meanwhile.
"""

from __future__ import annotations

import os
import sys

from ingle.tensor.locks import renewed

OFTEN = 1e-4
"""Seconds after which a thread that waits for the interpreter gets it."""


class Switching:
    """Counts the threads that want turns to be taken often."""

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._count = 0
        self._before = 0.0

    def begin(self) -> None:
        """From now on threads take turns often."""
        with self._lock:
            if not self._count:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(OFTEN)
            self._count += 1

    def end(self) -> None:
        """One thread fewer wants that; behind the last one the interval is what it was,
        unless somebody else has set it meanwhile."""
        with self._lock:
            self._count -= 1
            self._restore()

    def _restore(self) -> None:
        if not self._count and abs(sys.getswitchinterval() - OFTEN) < OFTEN / 10:
            sys.setswitchinterval(self._before)

    def forget_threads(self) -> None:
        """In a forked child: the threads that wanted it are gone."""
        if self._count:
            self._count = 0
            self._restore()


switching = Switching()
"""That of the interpreter."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=switching.forget_threads)
