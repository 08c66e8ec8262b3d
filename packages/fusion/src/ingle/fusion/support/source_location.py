"""Which line of the user's code asked for something."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import lru_cache
from types import CodeType, FrameType
from typing import NamedTuple

MOST = 3
"""Lines that an error names where it may come from several."""


class Line(NamedTuple):
    """A line of code; as a string `file:line, in function`."""

    code: CodeType | None
    number: int

    def __str__(self) -> str:
        if self.code is None:
            return "an unknown line"
        file = _short(self.code.co_filename, _folder())
        return f"{file}:{self.number}, in {self.code.co_name}"


told_lines: ContextVar[Callable[[str], str] | None] = ContextVar("ingle_told_lines", default=None)
"""Adds the lines that asked for it to what goes wrong in what runs now; None if plans know them."""


def with_lines(text: str, lines: Iterable[Line]) -> str:
    """What went wrong, with the line of the user's code that asked for it, or with all that may."""
    known = list(dict.fromkeys(line for line in lines if line.code is not None))
    if not known:
        return text
    more = " or others" if len(known) > MOST else ""
    return f"{text}, at {' or '.join(map(str, known[:MOST]))}{more}"


def user_line() -> Line:
    """The line at which the innermost frame is that is not Ingle's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not _is_ours(frame.f_globals.get("__name__", "")):
            return Line(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return Line(None, 0)


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # somebody removed it
        return os.sep


@lru_cache(maxsize=1024)
def _is_ours(name: object) -> bool:
    known = str(name)
    return known == "ingle" or known.startswith(("ingle.", "ingle_")) or known == "contextlib"


@lru_cache(maxsize=1024)
def _short(path: str, folder: str) -> str:
    near = os.path.relpath(path, folder) if os.path.isabs(path) else path
    return path if near.startswith("..") else near
