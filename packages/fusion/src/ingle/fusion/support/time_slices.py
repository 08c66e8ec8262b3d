"""Planning in slices: a plan of many operations is made bit by bit, between runs without it.

Passes say `tick` for each operation that they look at, with a weight: how many steps that comes
to. A step takes some 8 microseconds, so that slices of as many steps take about as long. Planning
runs in a thread of its own, but never beside the one that asks for it: it gets the turn for so
many steps, and gives it back. So it takes the lock of the interpreter from nobody. What needs no
such lock, the compilation of kernels, goes on beside the runs where there is another core
(`give_way`); but for that, how many runs pass until a plan is there follows from the graph, not
from a clock.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from ingle.tensor.blocks import block, context_without_values
from ingle.tensor.locks import ReentrantLock, renewed

from .gc_pauses import uncollected
from .switching import switching

PATIENCE = 2.0
"""Seconds after which a wait for a plan is announced."""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
BESIDE = 8
"""The part of the compilation of a kernel that needs the interpreter: one in so many."""
OFTEN = 64
"""Steps between two looks at the clock."""
MOST = 32
"""Works that may be half done, each of which keeps a thread."""
PASSED = 4 * MOST
"""Slices of others after which a work that none was asked for gives its place to a new one."""

T = TypeVar("T")

slices_left: contextvars.ContextVar[list[int] | None] = contextvars.ContextVar(
    "ingle_slices_left", default=None
)
"""How many more slices of planning a log that runs in pieces has time for; None for any number.

There is one for each piece, but the first pieces without a plan take several: so that few plans, of
which each has a thread of its own, are under way at a time.
"""


class _Turn(threading.local):
    """What this thread plans, if it does."""

    slices: TimeSlices[Any] | None = None
    watch: WaitNotice | None = None


_turn = _Turn()


def tick(stage: str, weight: int = 1) -> None:
    """Counts steps of planning that a pass has done; `stage` says what it does."""
    slices = _turn.slices
    if slices is not None:
        slices.tick(weight)
    elif _turn.watch is not None:
        _turn.watch.tick(stage)


def give_way() -> None:
    """Lets other threads run beside this one, which hardly needs the interpreter from here on."""
    slices = _turn.slices
    if slices is not None and CORES > 1:
        slices.give_way()


def beside() -> bool:
    """Whether something may go on in another thread while this one plans: where there is a core for
    it, and nobody else runs between slices."""
    return CORES > 1 and _turn.slices is None


class WaitNotice:
    """Announces on the standard error what a long wait is for."""

    def __init__(self, operations: int) -> None:
        self._operations = operations
        self._steps = 0
        self._told = False

    @block
    def watched(self) -> Generator[None, Any, None]:
        """The plan is made inside."""
        self._begun = time.monotonic()
        before = _turn.watch
        try:
            _turn.watch = self
            yield
        finally:
            _turn.watch = before

    def tick(self, stage: str) -> None:
        """Looks at the clock now and then."""
        self._steps += 1
        if not self._told and not self._steps % OFTEN:
            waited = time.monotonic() - self._begun
            if waited > PATIENCE:
                self._told = True
                what = "operation" if self._operations == 1 else "operations"
                sys.stderr.write(
                    f"ingle.fusion: a plan of {self._operations} {what} is being made, for "
                    f"{waited:.0f} s now ({stage}); later runs use it\n"
                )


class _Cancelled(BaseException):
    """Nobody wants the plan any more."""


class TimeSlices(Generic[T]):
    """Work that is done in slices.

    Args:
        work: which says `tick` as it goes on.

    Attributes:
        count: how many slices were begun.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self.count = 0
        self._work = work
        self._context = context_without_values()
        self._lock = ReentrantLock()
        self._condition = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._mine = False
        """Whether it is the turn of the work."""
        self._away = False
        """Whether the work goes on beside those whose turn it is."""
        self._left: float = 0
        self._cancelled = False
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._end: weakref.finalize[Any, Any] | None = None
        _all.add(self)

    @property
    def lost(self) -> bool:
        """Whether it has to be begun anew: it was cancelled, or its thread is gone, since it was
        begun in the process that this one is a copy of."""
        if self._is_done():
            return False
        return self._cancelled or (self._thread is not None and not self._thread.is_alive())

    def end_with(self, owner: object) -> None:
        """Cancels it when an object is gone, which nobody else can ask for the result."""
        self._end = weakref.finalize(owner, self.cancel)
        self._end.atexit = False

    @property
    def failed(self) -> bool:
        """Whether the work raised something."""
        return self._error is not None

    def _is_done(self) -> bool:
        return bool(self._found) or self._error is not None

    def advance(self, steps: float) -> T | None:
        """Goes on by so many steps; the result if that is all there was to do.

        It does not begin while too many others are half done.

        Raises:
            BaseException: what the work raised.
        """
        if not self._is_done() and not _half_done.admits(self):
            return None
        with self._lock:
            if not self._is_done():
                self._left = steps
                self.count += 1
            if not (self._is_done() or self._away or self._cancelled):
                self._mine = True
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._context.run, args=(self._run,), name="ingle-plan", daemon=True
                    )
                    self._thread.start()
                self._condition.notify_all()
                with uncollected():
                    self._condition.wait_for(lambda: not self._mine)
        if self._error is not None:
            raise self._error
        return self._found[0] if self._found else None

    def cancel(self) -> None:
        """Ends it; nobody will ask for the result."""
        with self._lock:
            self._cancelled = self._mine = True
            self._condition.notify_all()

    def _run(self) -> None:
        _turn.slices = self
        try:
            self._found.append(self._work())
        except _Cancelled:
            pass
        except BaseException as error:
            self._error = error
        finally:
            _turn.slices = None
            _half_done.leave(self)
            if self._end is not None:
                self._end.detach()
            with self._lock:
                self._come_back()
                self._mine = False
                self._condition.notify_all()

    def tick(self, weight: int) -> None:
        """Some steps are done; at the end of a slice the others have their turn."""
        self._left -= weight / BESIDE if self._away else weight
        if self._left <= 0:
            with self._lock:
                self._come_back()
                if not self._cancelled:
                    self._mine = False
                    self._condition.notify_all()
                    self._condition.wait_for(lambda: self._mine)
            if self._cancelled:
                raise _Cancelled

    def give_way(self) -> None:
        """The others have their turn at once; the work goes on beside them to the end of its slice.

        It waits for nothing before the next tick, so that it may hold a lock that others wait for.
        """
        with self._lock:
            if not self._cancelled:
                if not self._away:
                    switching.begin()
                self._away = True
                self._mine = False
                self._condition.notify_all()

    def _come_back(self) -> None:
        if self._away:
            switching.end()
        self._away = False

    def renew(self) -> None:
        """In a forked child: the thread is gone, and with it the holder of the lock."""
        self._lock = ReentrantLock()
        self._condition = threading.Condition(self._lock)
        self._mine = self._away = False


class _HalfDone:
    """The works that have threads, the one that has waited longest first.

    A program may come to many logs a few times each. Without a bound each would leave a thread; and
    if new works took the places of old ones at once, those that take turns would never be done.
    """

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._slices = 0
        self._last: OrderedDict[TimeSlices[Any], int] = OrderedDict()

    def admits(self, work: TimeSlices[Any]) -> bool:
        """Whether a work may have a slice, and with it a place."""
        passed: TimeSlices[Any] | None = None
        with self._lock:
            self._slices += 1
            if work not in self._last and len(self._last) >= MOST:
                oldest, last = next(iter(self._last.items()))
                if self._slices - last <= PASSED:
                    return False
                passed = oldest
                del self._last[oldest]
            self._last[work] = self._slices
            self._last.move_to_end(work)
        if passed is not None:
            passed.cancel()
        return True

    def leave(self, work: TimeSlices[Any]) -> None:
        """A work is done, or cancelled."""
        with self._lock:
            self._last.pop(work, None)

    def clear(self) -> None:
        """In a forked child: the threads are gone."""
        self._last.clear()


_half_done = _HalfDone()
_all: weakref.WeakSet[TimeSlices[Any]] = weakref.WeakSet()


def _renew() -> None:
    _half_done.clear()
    for slices in list(_all):
        slices.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
