"""Plans for later processes, of logs that come once in each: the first tokens of a text are such.

A process that runs a log for the first time cannot know whether it comes again, and most never do.
But what has come in an earlier process comes in the next one, too. So a process leaves a mark for
each log that it had no plan for, and one that finds the mark makes the plan, a slice at a time
between runs of others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ingle.tensor.callers import warn
from ingle.tensor.interruptions import is_from_outside
from ingle.tensor.locks import renewed

from ..errors import PlanWarning
from ..support.share_of_time import ShareOfTime

FEWEST = 32
"""Operations from which on a log is worth it: shorter ones run in less time than a plan is read."""
MOST = 16
"""So many wait at most; more are left to later processes."""
PART = 0.1
"""Of the time that plans are made in."""
PAUSE = 6
"""Runs that pass behind a plan that is found wanting: the first ones of a process take up plans of
their own, and are long enough."""


class LaterPlans:
    """Plans that are made for later processes, one after the other.

    Args:
        part: of the time that it takes at most.
        pause: runs that pass before it goes on when there is one more.

    Attributes:
        waiting: each goes on with a plan for a while, and says whether it is done.

    >>> later = LaterPlans()
    >>> later.add(lambda: True)
    >>> later.go_on()
    >>> len(later.waiting)
    0
    """

    def __init__(self, part: float = PART, pause: int = 0) -> None:
        self._lock = renewed(self, "_lock")
        self._pause = pause
        self._passing = 0
        self.share = ShareOfTime(part)
        self.waiting: deque[Callable[[], bool]] = deque()

    def add(self, go_on: Callable[[], bool], *, first: bool = False) -> None:
        """Has a plan be made, if not too many wait.

        Args:
            go_on: goes on with it for a while; whether it is done.
            first: whether it serves this process, too.
        """
        if len(self.waiting) < MOST:
            (self.waiting.appendleft if first else self.waiting.append)(go_on)
            self._passing = self._pause

    def go_on(self) -> None:
        """Goes on with the plan that waits for longest, if it is time, and no other thread does."""
        if self._passing > 0:
            self._passing -= 1
            return
        if not self.share.is_due or not self._lock.acquire(blocking=False):
            return
        try:
            with self.share.taken():
                if self.waiting:
                    self._go_on_with(self.waiting[0])
        finally:
            self._lock.release()

    def _go_on_with(self, first: Callable[[], bool]) -> None:
        try:
            if first():
                self.waiting.remove(first)
        except Exception as error:  # nobody waits for it here: what runs now has gone well
            if is_from_outside(error):
                raise
            self.waiting.remove(first)
            warn(
                f"no plan could be made for later processes, which run these operations one by "
                f"one: {type(error).__name__}: {error}; please report it",
                PlanWarning,
            )
