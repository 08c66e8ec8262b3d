"""Plain recording: a stream of a thread, which runs when a value is needed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ingle.tensor.contract import Handle

from .ahead import setting
from .errors import PlanWarning
from .graph import Entry, read_log
from .plans import SMALL, Attempt, PlanError
from .recorder import Inputs, LazyHandle, Recorder
from .straight import Landing

if TYPE_CHECKING:
    from .fusion import Fusion
    from .plans import Planner

MOST_ENTRIES = 8192
"""A safety valve: streams end at structural points long before."""


class Stream(Recorder):
    """What one thread has asked for and nobody has needed yet."""

    most = MOST_ENTRIES

    def __init__(self, backend: Fusion, planner: Planner) -> None:
        super().__init__(backend)
        self._planner = planner
        self._report: Callable[[], None] | None = getattr(backend.inner, "report", None)

    def shorten(self) -> None:
        self.flush()

    def finish(self, wanted: LazyHandle) -> None:
        self._run()

    def flush(self) -> None:
        """Computes everything that somebody still holds; the rest is never computed.

        Raises:
            Exception: what any of it raised; later reads of what depends on that raise it, too.
        """
        for handle in self._run():
            if isinstance(handle.value, BaseException):
                raise handle.value

    def _run(self) -> list[LazyHandle]:
        """Gives each handle a value, or the error that stands in for it.

        A handle leaves the recorder when it has its value, since other threads look at it without
        the lock.
        """
        if setting.plans and self._report is not None:
            self._report()
        with self.lock:
            if not self.written:
                return []
            handles = self.living()
            if self._ran_alone(handles):
                return handles
            landing = Landing()
            state: tuple[Any, ...] | None = None
            values: Sequence[Handle | BaseException] | None = None
            try:
                state = self.taken()
                if handles:
                    values = self._computed(state, handles, landing)
                    _settle(handles, values)
            except BaseException:
                # Ctrl-C. If nothing has happened yet, whoever asks again starts it again.
                if values is not None:
                    _settle(handles, values)
                elif landing.done:
                    _settle(handles, landing.outputs)
                elif state is not None:
                    self.put_back(state)
                raise
            return handles

    def _ran_alone(self, handles: Sequence[LazyHandle]) -> bool:
        """Runs a log of one small operation on tensors, whose value alone is wanted, if it is one.

        Everything else that a run prepares for takes longer than such an operation.
        """
        log, given = self.written, self.given
        entry = log[-1]
        # Inputs are written down in the order in which the operation takes them, each once.
        if not len(log) == len(given) + 1 == len(entry) or len(handles) != 1:
            return False
        if entry[0].operation.body is not None:
            return False
        for handle in given:
            if math.prod(handle.shape) > SMALL:
                return False
        try:
            made = self.backend.inner.execute(entry[0], given)
        except Exception:
            return False  # it will be raised again, and become the value's error
        self.taken()
        _settle(handles, [made[handles[0].number - len(given)]])
        return True

    def _computed(
        self, state: tuple[Any, ...], handles: Sequence[LazyHandle], landing: Landing
    ) -> Sequence[Handle | BaseException]:
        log, given, numbers, *_ = state
        outputs = [h.number for h in handles]
        try:
            return self._planner.run(log, outputs, given, numbers, landing)
        except PlanError as error:
            if landing.done:
                raise error.reason from None
            found = self._attempted(log, outputs, given, numbers)
            if not any(isinstance(value, BaseException) for value in found):
                warnings.warn(
                    "a plan could not be used, so its operations ran one by one, which is slower: "
                    f"{error}",
                    PlanWarning,
                    stacklevel=2,
                )
            return found
        except Exception:
            return self._attempted(log, outputs, given, numbers)

    def _attempted(
        self, log: Sequence[Entry], outputs: Sequence[int], given: Inputs, numbers: Sequence[Any]
    ) -> Sequence[Handle | BaseException]:
        """Whatever has nothing to do with a failure gets its value."""
        return Attempt(self.backend.inner, read_log(log, outputs))(given, numbers)


def _settle(handles: Sequence[LazyHandle], values: Sequence[Handle | BaseException]) -> None:
    for handle, value in zip(handles, values, strict=True):
        owned = getattr(value, "owned", None)
        if owned is not None:  # a view of memory that may be written in place
            owned.add(handle)
        handle.value = value
        handle.recorder = None
