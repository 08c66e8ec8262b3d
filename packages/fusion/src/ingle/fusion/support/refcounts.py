"""How many hold an object: what tells whether its memory may be written over."""

from __future__ import annotations

import sys

refs = sys.getrefcount
"""How many references there are to an object, that of the call included."""


class _Slot:
    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: list[int] = []


def _own() -> tuple[int, int]:
    enabled = getattr(sys, "_is_gil_enabled", None)
    if sys.implementation.name != "cpython" or (enabled is not None and not enabled()):
        return -1, -1  # counts there say less, so that nothing is ever found unheld
    slot = _Slot()
    once = refs(slot.held)
    held = slot.held
    return once, refs(held)


HELD_ONCE, HELD_TWICE = _own()
"""What `refs` says of what one attribute or list holds, and of what a variable holds as well."""


def exclusive(handle: object) -> bool:
    """Whether memory belongs to a handle alone, as far as its backend knows."""
    return getattr(handle, "exclusive", False)
