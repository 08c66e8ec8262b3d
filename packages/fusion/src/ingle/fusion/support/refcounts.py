"""How many hold an object: what tells whether its memory may be written over.

What `refs` says depends on how the code that asks has loaded the object: CPython borrows variables
of a function from 3.14 on, and does not borrow attributes and items of lists. So there is a count
for each shape of code, measured by code of that shape.
"""

from __future__ import annotations

import sys

refs = sys.getrefcount
"""How many references there are to an object, that of the call included if it has its own."""


class _Slot:
    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: list[int] = []


_UNKNOWN = -1, -1, -1


def _measured() -> tuple[int, int, int]:
    """The counts by shape; none that ever occurs where counts say less than the truth."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    if sys.implementation.name != "cpython" or (enabled is not None and not enabled()):
        return _UNKNOWN
    slot = _Slot()
    once = refs(slot.held)
    items = [slot.held]
    listed = refs(items[0])
    items.clear()
    held = slot.held
    twice = refs(held)
    # Each holder has to count, or one more could go unseen.
    items.append(held)
    if (refs(slot.held), refs(items[0]), refs(held)) != (once + 2, listed + 1, twice + 1):
        return _UNKNOWN
    return once, twice, listed


HELD_ONCE, HELD_TWICE, LISTED_TWICE = _measured()
"""What `refs` says: of an attribute, `refs(x.attribute)`, that nothing else holds; of a variable of
a function, `refs(variable)`, that one attribute or list holds as well; of an item of a list,
`refs(items[n])`, that one attribute or list holds as well."""


def exclusive(handle: object) -> bool:
    """Whether memory belongs to a handle alone, as far as its backend knows."""
    return getattr(handle, "exclusive", False)
