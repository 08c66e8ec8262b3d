"""The line of the user's code that led here, for messages and warnings."""

from __future__ import annotations

import sys
import warnings
from functools import lru_cache
from types import FrameType


def caller() -> FrameType | None:
    """The innermost frame that is neither Ingle's nor a plugin's.

    >>> from ingle.tensor.callers import caller
    >>> caller() is None
    False
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return frame


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
