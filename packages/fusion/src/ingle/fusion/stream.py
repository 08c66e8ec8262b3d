"""Plain recording: a stream of a thread, which runs when a value is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.operation import Op

from .graph import read_log
from .plans import Attempt
from .recorder import LazyHandle, Recorder

if TYPE_CHECKING:
    from .fusion import Fusion
    from .plans import Planner

MOST_ENTRIES = 8192
"""A safety valve: streams end at structural points long before."""


class Stream(Recorder):
    """What one thread has asked for and nobody has needed yet."""

    def __init__(self, backend: Fusion, planner: Planner) -> None:
        super().__init__(backend)
        self._planner = planner

    def record(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[LazyHandle, ...]:
        handles = super().record(op, inputs)
        if len(self.written) > MOST_ENTRIES:
            self.flush()
        return handles

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
        with self.lock:
            if not self.written:
                return []
            handles = self.living()
            state = self.taken()
            if not handles:
                return []
            log, given, numbers = state[:3]
            outputs = [h.number for h in handles]
            values: Sequence[Handle | BaseException]
            try:
                try:
                    values = self._planner.run(log, outputs, given, numbers)
                except Exception:
                    # Whatever has nothing to do with the failure gets its value.
                    attempt = Attempt(self.backend.inner, read_log(log, outputs))
                    values = attempt(given, numbers)
            except BaseException:
                # Ctrl-C: nothing has happened yet, and whoever asks again starts it again.
                self.put_back(state)
                raise
            for handle, value in zip(handles, values, strict=True):
                handle.value = value
                handle.recorder = None
            return handles
