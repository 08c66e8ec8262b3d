"""Which operation asks for a value that is not there."""

from __future__ import annotations

import sys
from types import FrameType

from .callers import is_own

OPERATIONS = "ingle.tensor.ops.", "ingle.tensor.random."
"""Where operations are; what is private there, and the wrapper of public ones, is none."""
_PRIVATE = tuple([f"{folder}_" for folder in OPERATIONS])


def asking() -> str:
    """The public operation that led here, as the beginning of a message: `"bincount: "`, or "".

    It is the outermost of those below the innermost frame that is not Ingle's: what one operation
    asks of another is not what the user has called.

    >>> from ingle.tensor.asking import asking
    >>> asking()
    ''
    """
    name = ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not is_own(module):
            break
        if module.startswith(OPERATIONS) and not module.startswith(_PRIVATE):
            called = frame.f_code.co_name
            name = name if called.startswith(("_", "<")) else called
        frame = frame.f_back
    return f"{name}: " if name else ""
