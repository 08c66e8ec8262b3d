"""Raising where a handler of signals may raise: at every place of a piece of work, one by one.

CPython runs handlers after calls of C functions and where functions of Python begin. A function for
`sys.setprofile` is called at the same places, and what it raises counts as raised there. (Python
looks for signals where loops repeat, too, of which no profile hears.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


class LateError(Exception):
    """What is raised, and what a handler of signals may raise in a test."""


def late(*_: object) -> None:
    """A handler of signals.

    Raises:
        LateError: always.
    """
    raise LateError


def interrupted(function: Callable[[], object], place: int, sources: tuple[str, ...]) -> bool:
    """Calls a function, with a `LateError` at the n-th place.

    Args:
        function: the work.
        place: which of the places, counted from 1.
        sources: parts of the paths of files whose places count.

    Returns:
        Whether it came to that place.

    >>> from ingle.testkit.interrupting import interrupted
    >>> import bisect
    >>> interrupted(lambda: bisect.insort([], 1), 1, ("bisect",))
    False
    """
    seen = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal seen
        if event == "call" or event == "c_return":
            name = frame.f_code.co_filename
            if any(s in name for s in sources) and "/tests/" not in name:
                seen += 1
                if seen == place:
                    sys.setprofile(None)
                    late()

    sys.setprofile(look)
    try:
        function()
    except LateError:
        return True
    finally:
        sys.setprofile(None)
    return seen >= place
