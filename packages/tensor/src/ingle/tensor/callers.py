"""The line of the user's code that led here, for messages and warnings."""

from __future__ import annotations

import sys
import warnings
from functools import lru_cache
from types import FrameType

own_files: set[str] = set()
"""Files whose code is known to be Ingle's: a call takes dozens of their frames."""


def caller() -> FrameType | None:
    """The innermost frame that is neither Ingle's nor a plugin's.

    >>> from ingle.tensor.callers import caller
    >>> caller() is None
    False
    """
    return caller_of(sys._getframe(1))


def caller_of(frame: FrameType | None) -> FrameType | None:
    """The innermost frame, from this one on, that is neither Ingle's nor a plugin's.

    >>> import sys
    >>> from ingle.tensor.callers import caller_of
    >>> frame = eval("sys._getframe()", {"sys": sys, "__name__": "program"})
    >>> caller_of(frame) is frame
    True
    """
    files = own_files
    while frame is not None and (frame.f_code.co_filename in files or is_own_frame(frame)):
        frame = frame.f_back
    return frame


def is_own_frame(frame: FrameType) -> bool:
    """Whether a frame is Ingle's or a plugin's, or a context manager's in between.

    >>> import sys
    >>> from ingle.tensor.callers import is_own_frame
    >>> is_own_frame(eval("sys._getframe()", {"sys": sys, "__name__": "program"}))
    False
    """
    names, file = frame.f_globals, frame.f_code.co_filename
    if not is_own(names.get("__name__", "")):
        return False
    # Code that is made of text goes by the same name of a file, whosever it is.
    if names.get("__file__") == file:
        own_files.add(file)
    return True


def warn(text: str, category: type[Warning]) -> None:
    """Warns as of the line of the caller's, whatever number of calls lies between.

    Python shows that line, and filters go by its module: a warning that stood at a line of Ingle's
    would be the same one for all programs.
    """
    depth, frame = 2, sys._getframe(1)
    while is_own(frame.f_globals.get("__name__", "")) and frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, category, stacklevel=depth)


@lru_cache(maxsize=1024)
def is_own(module: object) -> bool:
    """Whether code of this module is Ingle's or a plugin's, or a context manager's in between."""
    name = str(module)
    return name == "ingle" or name.startswith(("ingle.", "ingle_")) or name == "contextlib"
