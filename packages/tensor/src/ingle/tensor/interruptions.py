"""What comes in between: handlers of signals, and finalizers that the collector calls.

Both run in the middle of whatever their thread is doing, with its context variables: what they ask
for is no part of the function that is being traced, nor are their errors those of the
operation that was running.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any
from weakref import finalize

from .callers import caller_of, is_own_frame, own_files


class Outside:
    """Tells what interrupts a piece of work from what is part of it.

    Args:
        frame: that of the function inside of which the work is done.
    """

    def __init__(self, frame: FrameType) -> None:
        main = threading.current_thread() is threading.main_thread()
        codes = (_handlers() if main else frozenset()) | {finalize.__call__.__code__}
        # Looked up by name first: the hash of code is computed from all that it consists of.
        self._codes = codes
        self._names = frozenset([code.co_name for code in codes]) | {"__del__"}
        self._inside: FrameType | None = frame

    def speaks(self) -> bool:
        """Whether the call comes from a handler of signals or from a finalizer; or from behind the
        work, whose end was itself interrupted."""
        names, inside = self._names, self._inside
        frame: FrameType | None = sys._getframe(1)
        while frame is not inside and frame is not None:
            code = frame.f_code
            if code.co_name in names and (code.co_name == "__del__" or code in self._codes):
                return True
            frame = frame.f_back
        return frame is None

    def asker(self) -> tuple[bool, FrameType | None]:
        """What `speaks` says, and otherwise the frame that `callers.caller` finds: both at once,
        since each operation that is recorded asks for both, through dozens of frames."""
        names, inside, files = self._names, self._inside, own_files
        frame: FrameType | None = sys._getframe(1)
        found: FrameType | None = None
        while frame is not inside and frame is not None:
            code = frame.f_code
            if code.co_name in names and (code.co_name == "__del__" or code in self._codes):
                return True, None
            if found is None and code.co_filename not in files and not is_own_frame(frame):
                found = frame
            frame = frame.f_back
        return frame is None, caller_of(frame) if found is None else found

    def end(self) -> None:
        """The work is done: its frame is let go of."""
        self._inside = None


class Newcomers:
    """Tells handlers of signals that come from now on from what they interrupt.

    Args:
        codes: of the handlers that are set.
    """

    def __init__(self, codes: frozenset[CodeType]) -> None:
        self._codes = codes
        self._names = frozenset([code.co_name for code in codes])
        self._before = self._running()

    def speaks(self) -> bool:
        """Whether the call comes from a handler that came later."""
        return self._running() > self._before

    def _running(self) -> int:
        """How many handlers are on the stack: one may have come while another one ran."""
        names, codes, count = self._names, self._codes, 0
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if code.co_name in names and code in codes:
                count += 1
            frame = frame.f_back
        return count


def newcomers() -> Newcomers | None:
    """What tells handlers that come later; None where none can come."""
    if threading.current_thread() is not threading.main_thread():
        return None
    codes = _handlers()
    return Newcomers(codes) if codes else None


def is_from_outside(error: BaseException) -> bool:
    """Whether a handler of signals raised an error."""
    handlers = _handlers()
    place = error.__traceback__ if handlers else None
    while place is not None:
        if place.tb_frame.f_code in handlers:
            return True
        place = place.tb_next
    return False


def _handlers() -> frozenset[CodeType]:
    """The code of the handlers of signals that are functions of Python."""
    set_ones = [h for s in _SIGNALS if callable(h := _handler_of(s))]
    found = [_code(handler) for handler in set_ones]
    return frozenset([code for code in found if code is not None])


def _code(handler: Any) -> CodeType | None:
    """Of a function, a method, a partial or an object that is called."""
    for _ in range(8):
        if isinstance(handler, (FunctionType, MethodType)):
            return handler.__code__
        if isinstance(handler, partial):
            handler = handler.func
        else:
            handler = getattr(type(handler), "__call__", None)  # noqa: B004
    return None


_SIGNALS = sorted(map(int, signal.valid_signals()))
# The function of the public module makes an enum of each answer, which takes ten times as long.
_handler_of: Callable[[int], Any] = importlib.import_module("_signal").getsignal
