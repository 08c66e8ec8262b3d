"""Writes to tensors that nobody holds: `y[0][1] = 5` updates what `y[0]` made, and that is gone.

An assignment's target is held by the interpreter's stack alone if it is a temporary. How many
references that makes is measured once, on a class of the same shape. Where the interpreter borrows
references of variables (CPython from 3.14 on), temporaries cannot be told apart and none is found.
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


def _measured() -> int:
    if not hasattr(sys, "getrefcount") or not hasattr(sys, "_getframe"):
        return 0
    held = _Probe()
    held[0] = 0
    held[0][0] = 0
    of_variable, of_temporary = _Probe.counts[-2:]
    return of_temporary if of_temporary < of_variable else 0


FEW = _measured()
"""How many references `sys.getrefcount` finds, in `__setitem__`, to a target that nobody holds."""


def is_lost(depth: int) -> bool:
    """Whether the statement `depth` frames up is an assignment to an item: `x[key] = value`.

    A method that is called by its name has as few references, and may be held.
    """
    frame = sys._getframe(depth + 1)
    return frame.f_code.co_code[frame.f_lasti] == _STORE
