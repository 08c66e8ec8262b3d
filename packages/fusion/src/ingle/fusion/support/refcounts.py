"""Reference counts: whether the memory of a value may be written over.

`may_overwrite` is the one question that every run asks of a value that its plan could write over.
What `refs` says depends on how the code that asks has loaded the object. Attributes and items of
lists are counted, by code of the shapes that are measured here, and never variables of a function:
CPython borrows these from 3.14 on, though not behind a `try` that sets them, say.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

refs = sys.getrefcount
"""How many references there are to an object, that of the call included if it has its own."""


class _Slot:
    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: list[int] = []


def _passed(value: object) -> int:
    return refs(value)


_UNKNOWN = -1, -1, -1, -1
_held_of = attrgetter("held")
_value_of = attrgetter("_value")


def _measured() -> tuple[int, int, int, int]:
    """The counts by shape; none that ever occurs where counts say less than the truth."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    if sys.implementation.name != "cpython" or (enabled is not None and not enabled()):
        return _UNKNOWN
    slot = _Slot()
    once = refs(slot.held)
    items = [slot.held]
    item = _passed(items[0])
    items.clear()
    slots, items = [slot], [slot.held]
    (mapped,) = map(refs, items)
    items.clear()
    (attribute,) = map(refs, map(_held_of, slots))
    held = slot.held
    # Each holder has to count, or one more could go unseen.
    items.append(held)
    found = refs(slot.held), _passed(items[0])
    all_found = *map(refs, items), *map(refs, map(_held_of, slots))
    if found != (once + 2, item + 1) or all_found != (mapped + 1, attribute + 2):
        return _UNKNOWN
    return once, item, mapped, attribute


HELD_ONCE, PASSED_ITEM, MAPPED_ITEM, MAPPED_ATTRIBUTE = _measured()
"""What `refs` says of an object that one attribute holds: of that attribute, `refs(x.attribute)`;
of the parameter of a function that was called with an item of a list that holds it, too,
`f(items[n])`; of each item of such a list, `map(refs, items)`; and of what an attribute of each
thing holds, `map(refs, map(attribute, things))`."""


def exclusive(handle: object) -> bool:
    """Whether memory belongs to a handle alone, as far as its backend knows."""
    return getattr(handle, "exclusive", False)


def all_exclusive(handles: Sequence[object]) -> bool:
    """Whether `exclusive` holds for each of many handles; of one class that knows an answer for all
    together, it is asked."""
    kinds = {*map(type, handles)}
    together = getattr(kinds.pop(), "all_exclusive", None) if len(kinds) == 1 else None
    if together is not None:
        return bool(together(handles))
    return False not in map(exclusive, handles)


def may_overwrite(cell: Any, handle: object, value: object, held: int) -> bool:
    """Whether the memory of a value may be written over: nothing else holds it, or shares it.

    A cell holds a tensor, the tensor a handle of fusion's, that handle the value. They are counted
    in this order, since that is the one in which another thread that reads the cell takes them.

    Args:
        cell: holds the tensor; None for a value that no tensor has.
        handle: the tensor's; it is marked already, so that nobody takes the value from it anew.
        value: the handle of the backend below.
        held: `PASSED_ITEM`, where the caller passes `handle` and `value` as items of a list and one
            attribute holds each; one more for each further holder that the caller has.
    """
    return (
        (cell is None or (refs(cell._value) == HELD_ONCE and refs(handle) == held))
        and refs(value) == held
        and getattr(value, "exclusive", False)  # as `exclusive`, without its call
    )


def may_overwrite_all(
    cells: Sequence[Any], handles: Sequence[object], values: Sequence[object], more: int
) -> bool:
    """Whether `may_overwrite` holds for each of many, without a call of Python for each.

    Args:
        cells, handles, values: see there; the last two are lists.
        more: how many holders of each handle and value the caller has besides these lists.
    """
    return (
        {*map(refs, map(_value_of, cells))} == {MAPPED_ATTRIBUTE}
        and {*map(refs, handles)} == {MAPPED_ITEM + more}
        and {*map(refs, values)} == {MAPPED_ITEM + more}
        and all_exclusive(values)
    )
