"""Writes to tensors that nobody holds: `y[0][1] = 5` updates what `y[0]` made, and that is gone.

An assignment's target is held by the interpreter's stack alone if it is a temporary. How many
references that makes is measured once, on a class of the same shape. An interpreter that borrows
references of variables (CPython from 3.14 on) counts as few for a variable of a function, so there
the variables are looked through, too.
"""

from __future__ import annotations

import opcode
import sys
from typing import Any

_STORE = opcode.opmap.get("STORE_SUBSCR")


class _Probe:
    """Counts the references to the target of an assignment as `Tensor.__setitem__` would."""

    counts: list[int] = []  # noqa: RUF012 (of all instances)

    def __getitem__(self, key: Any) -> _Probe:
        return _Probe()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.counts.append(sys.getrefcount(self))


def _measured() -> tuple[int, bool]:
    if not hasattr(sys, "getrefcount") or not hasattr(sys, "_getframe"):
        return 0, False
    held = _Probe()
    held[0] = 0
    held[0][0] = 0
    of_variable, of_temporary = _Probe.counts[-2:]
    return of_temporary, of_variable <= of_temporary


FEW, BORROWED = _measured()
"""How many references `sys.getrefcount` finds, in `__setitem__`, to a target that nobody holds; and
whether it finds no more to one that only a variable of a function holds."""


def is_lost(target: object, depth: int) -> bool:
    """Whether the statement `depth` frames up assigns to an item of a target that nobody holds.

    Args:
        target: with at most `FEW` references.
        depth: 1 for the frame that called the caller. A method that is called by its name has as
            few references as a statement, and may be held: only statements are lost.
    """
    frame = sys._getframe(depth + 1)
    if frame.f_code.co_code[frame.f_lasti] != _STORE:
        return False
    return not BORROWED or all(held is not target for held in frame.f_locals.values())
