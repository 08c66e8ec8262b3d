"""Checks of plans that nobody has waited for: whether an index was out of range.

A plan on a device that works by itself returns before it has run. Its flags are read by the device
in turn, and looked at when somebody waits anyway, or is about to write over state:

- Each value knows the last check that was under way when it was made. It may depend on that one and
  on all before it, so it has no value if one of them failed: whoever reads it gets the error.
- An operation that runs between two kernels of a plan leaves its checks to that plan, and one that
  runs for want of a plan to whoever asked for all of them (`checked_together`).
- Before a plan writes over its inputs, and before cells get what a compiled function made, all
  checks are waited for, so that a step that fails has changed nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from copy import copy
from functools import partial
from typing import Any, NamedTuple, NoReturn, ParamSpec, TypeVar

from ingle.tensor.blocks import holding
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.interruptions import is_from_outside
from ingle.tensor.locks import renewed

from ..support.source_location import Line, told_lines, user_line, with_lines

P = ParamSpec("P")
R = TypeVar("R")

MOST = 64
"""Checks that may be under way; who adds one waits for the oldest then, and hears of its error."""


within_plan: ContextVar[bool] = ContextVar("ingle_within_plan", default=False)
"""Whether what runs now is a part of a plan, which sees to its checks."""


class Failure(NamedTuple):
    """What a check has found.

    Attributes:
        error: what went wrong.
        asked: the line of the user's code that asked for the run.
    """

    error: Exception
    asked: Line

    def to_raise(self) -> Exception:
        """A new error of the kind, which says where the run was asked for if that is elsewhere."""
        if not isinstance(self.error, OutOfRangeError) or user_line() == self.asked:
            return copy(self.error)
        return OutOfRangeError(f"{self.error} (found later; called at {self.asked})")


class FlagRead:
    """The flags of one run, which the device reads when it comes to them.

    Args:
        wait: returns whether each of the flags is set; waits for the device.
        texts: what is wrong where one is.
        asked: the line of the user's code that asked for the run.
    """

    __slots__ = ("_asked", "_failure", "_texts", "_told", "_wait")

    def __init__(
        self, wait: Callable[[], Sequence[bool]], texts: Sequence[str], asked: Line
    ) -> None:
        self._wait: Callable[[], Sequence[bool]] | None = wait
        self._texts = texts
        self._asked = asked
        self._told = told_lines.get()
        self._failure: Failure | None = None

    def failure(self) -> Failure | None:
        """What went wrong, if anything did: an index, or the device.

        It may be asked again, also where an interrupt has ended it.
        """
        wait = self._wait
        if wait is not None:
            try:
                found = wait()
                if any(found):
                    told = zip(found, self._texts, strict=True)
                    text = next(text for is_set, text in told if is_set)
                    text = text if self._told is None else self._told(text)
                    self._failure = Failure(OutOfRangeError(text), self._asked)
            except Exception as error:
                if is_from_outside(error):  # a handler of signals raised it
                    raise
                self._failure = Failure(error, self._asked)
            self._wait = None
        return self._failure


class PendingCheck:
    """A check in the line of one device.

    Attributes:
        reads: its flags.
        done: whether it is known how it ended, it and all before it.
        failure: what went wrong in it or in one before it, as far as is known.
        counted: whether it is among the failures of its line.
    """

    __slots__ = ("counted", "done", "failure", "reads")

    def __init__(self, reads: FlagRead) -> None:
        self.reads = reads
        self.done = self.counted = False
        self.failure: Failure | None = None


class PendingChecks:
    """The checks of a device that are under way, in the order in which it comes to them.

    Args:
        read: begins to read flags, and returns what waits for them and gives them.

    Attributes:
        last: the newest of them, which values that are made now may depend on.
        failures: how many checks have failed so far.
    """

    def __init__(self, read: Callable[[Sequence[Any]], Callable[[], Sequence[bool]]]) -> None:
        self._read = read
        self.last: PendingCheck | None = None
        self.failures = 0
        self._waiting: deque[PendingCheck] = deque()
        self._found: deque[tuple[int, Failure]] = deque(maxlen=MOST)
        self._unheard: list[Failure] = []
        self._lock = renewed(self, "_lock")

    def begin(self, flags: Sequence[Any], texts: Sequence[str], made: Iterable[Any]) -> None:
        """Has the device read the flags of a run, which goes on.

        Args:
            flags: values that the device may not have come to yet.
            texts: what is wrong where one is set.
            made: other values that depend on them.
        """
        check = self._add(FlagRead(self._read(flags), texts, user_line()))
        for handle in made:
            handle.check = check

    def _add(self, reads: FlagRead) -> PendingCheck:
        check = PendingCheck(reads)
        with self._lock:
            if len(self._waiting) >= MOST:
                self._end_first()
            self._waiting.append(check)
            self.last = check
        return check

    def follow(self, other: PendingChecks) -> None:
        """Takes over the checks of a device that values come from."""
        if other.last is None or other is self:
            return
        with other._lock:
            theirs = [check.reads for check in other._waiting]
        mine = {id(check.reads) for check in list(self._waiting)}
        for reads in theirs:
            if id(reads) not in mine:
                self._add(reads)

    def wait(self, until: PendingCheck | None = None) -> None:
        """Waits for all checks, or for one and those before it; what went wrong is raised by
        `settle`, `report` and `ensure`."""
        with self._lock:
            while self._waiting and not (until is not None and until.done):
                self._end_first()

    def settle(self, failures: int) -> None:
        """Waits for all checks.

        Args:
            failures: how many had failed before what the caller does.

        Raises:
            Exception: what went wrong since.
        """
        self.wait()
        if self.failures != failures:
            self._raise(next(f for number, f in list(self._found) if number > failures))

    def report(self) -> None:
        """Waits for all checks, and raises what went wrong and nobody has heard of; each once, and
        one of those that a line asked for."""
        self.wait()
        if self._unheard:
            self._raise(self._unheard[0])

    def ensure(self, handle: Any) -> None:
        """Raises what went wrong in the making of a value, as far as is known; never waits."""
        check = handle.check
        if check is None:
            return
        if check.failure is not None:
            self._raise(check.failure)
        if check.done:
            handle.check = None

    def _raise(self, failure: Failure) -> NoReturn:
        # One wrong index fails each check of the operations that a line asks for together.
        self._unheard = [f for f in self._unheard if f.asked != failure.asked]
        raise failure.to_raise()

    def _end_first(self) -> None:
        """Waits for the first check. Each step may be done again: an interrupt may end it behind
        any of them, and a handler of signals may come by."""
        if not self._waiting:
            return
        check = self._waiting[0]
        failure = check.reads.failure()
        if failure is not None and not check.counted:
            for later in list(self._waiting):
                later.failure = later.failure or failure
            number = self.failures + 1
            self._found.append((number, failure))
            self._unheard = [*self._unheard, failure]
            check.counted = True
            self.failures = number
        check.done = True
        if self.last is check:
            self.last = None
        if self._waiting and self._waiting[0] is check:
            self._waiting.popleft()
        # What is made from now on has nothing to do with a check that failed.
        while failure is not None and self._waiting:
            self._end_first()


def call_at(
    line: Line | None, device: Any, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Calls what has a device run an operation that a line asked for, if it is known: errors of its
    indices name it."""
    if line is None or line.code is None:
        return function(*args, **kwargs)
    with holding(told_lines, partial(with_lines, lines=(line,))):
        try:
            return function(*args, **kwargs)
        except OutOfRangeError as error:
            if checks_of(device) is not None:  # they have told it
                raise
            raise OutOfRangeError(with_lines(str(error), (line,))) from None


def checked_together(
    device: Any, defers: bool, run: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Runs operations without a plan, none of which waits for its own check: a device that works by
    itself gets all of them before anybody waits.

    Args:
        device: which runs them.
        defers: whether checks may be under way afterwards.
        run: asks the device for the operations.

    Raises:
        OutOfRangeError: an index is out of range, as far as is known.
    """
    checks = None if within_plan.get() else checks_of(device)
    if checks is None:
        return run(*args, **kwargs)
    failures = checks.failures
    with holding(within_plan, True):
        made = run(*args, **kwargs)
    if not (defers and checks.failures == failures):
        checks.settle(failures)
    return made


def checks_of(device: Any) -> PendingChecks | None:
    """The checks of a device that works by itself; None where plans wait for their flags."""
    found: PendingChecks | None = getattr(device, "checks", None)
    return found
