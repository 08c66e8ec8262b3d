"""Plain recording: a stream of a thread, which runs when a value is needed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ingle.tensor.contract import Backend, Handle, Scalar
from ingle.tensor.device import staged_on
from ingle.tensor.operation import Op

from .ahead import setting
from .errors import PlanWarning
from .graph import Entry, read_log
from .plans import Attempt, PlanError
from .recorder import Inputs, LazyHandle, Recorder
from .straight import Landing

if TYPE_CHECKING:
    from .fusion import Fusion
    from .plans import Planner

MOST_ENTRIES = 8192
"""A safety valve: streams end at structural points long before."""
SHORT, SMALL = 6, 1 << 14
"""Logs of few entries on few elements are not worth a plan: looking it up takes longer."""


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
        self._ran(wanted)

    def flush(self) -> None:
        """Computes everything that somebody still holds; the rest is never computed.

        Raises:
            Exception: what any of it raised; later reads of what depends on that raise it, too.
        """
        for handle in self._ran():
            if isinstance(handle.value, BaseException):
                raise handle.value

    def _ran(self, wanted: LazyHandle | None = None) -> Sequence[LazyHandle]:
        """Gives each handle a value, or the error that stands in for it; returns them.

        Args:
            wanted: whose value is needed; if another thread has found it, nothing runs here.
        """
        if setting.plans and self._report is not None:
            self._report()
        with self.lock:
            if not self.written or (wanted is not None and wanted.recorder is None):
                return ()
            handles = self.living()
            if not handles:
                self.taken()
            elif self._is_short():
                self._run_short(handles)
            else:
                self._run(handles)
            return handles

    def _is_short(self) -> bool:
        """Whether all that a plan prepares for takes longer than the operations one by one."""
        if len(self.written) <= SHORT:
            for x in self.given:
                if x.shape and math.prod(x.shape) > SMALL:
                    break
            else:
                return True
        return False

    def _run_short(self, handles: Sequence[LazyHandle]) -> None:
        log, given, numbers = self.written, self.given, self.numbers
        state = self.taken()
        try:
            try:
                values = _one_by_one(self.backend.inner, log, given, numbers)
            except Exception:
                outputs = [h.number for h in handles]
                _settle(handles, self._attempted(log, outputs, given, numbers))
            else:
                for handle in handles:
                    handle.settle(values[handle.number])
        except BaseException:  # Ctrl-C: whoever asks again starts it again
            self.put_back(state)
            raise

    def _run(self, handles: Sequence[LazyHandle]) -> None:
        landing = Landing()
        state: tuple[Any, ...] | None = None
        values: Sequence[Handle | BaseException] | None = None
        try:
            state = self.taken()
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
        handle.settle(value)


def _one_by_one(
    backend: Backend, log: Sequence[Entry], given: Sequence[Handle], numbers: Sequence[Any]
) -> list[Any]:
    """All values of a log."""
    tensors, rest = iter(given), iter(numbers)
    values: list[Any] = []
    for entry in log:
        op = entry[0]
        if type(op) is Op:
            operands = [values[n] for n in entry[1:]]
            if op.operation.body is None:
                values += backend.execute(op, operands)
            else:
                with staged_on(backend):  # what the body creates belongs below, too
                    values += backend.execute(op, operands)
        elif op == "input":
            values.append(next(tensors))
        else:
            values.append(Scalar(next(rest), entry[1]))
    return values
