"""Which line of the user's code asked for something."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from types import FrameType


def user_line() -> str:
    """`file:line`, in function, of the innermost frame that is not Ingle's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _ours(frame):
        frame = frame.f_back
    if frame is None:
        return "an unknown line"
    code = frame.f_code
    return f"{_short(code.co_filename, _folder())}:{frame.f_lineno}, in {code.co_name}"


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # somebody removed it
        return os.sep


def _ours(frame: FrameType) -> bool:
    return _is_ours(str(frame.f_globals.get("__name__", "")))


@lru_cache(maxsize=1024)
def _is_ours(name: str) -> bool:
    return name == "ingle" or name.startswith(("ingle.", "ingle_")) or name == "contextlib"


@lru_cache(maxsize=1024)
def _short(path: str, folder: str) -> str:
    near = os.path.relpath(path, folder) if os.path.isabs(path) else path
    return path if near.startswith("..") else near
