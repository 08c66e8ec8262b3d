"""Which line of the user's code asked for something."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from ingle.tensor.callers import caller

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
    frame = caller()
    return Line(None, 0) if frame is None else Line(frame.f_code, frame.f_lineno)


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # somebody removed it
        return os.sep


@lru_cache(maxsize=1024)
def _short(path: str, folder: str) -> str:
    near = os.path.relpath(path, folder) if os.path.isabs(path) else path
    return path if near.startswith("..") else near
