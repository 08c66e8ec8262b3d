"""Pauses of Python's collector, while much is made that stays."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator
from typing import Any

from ingle.tensor.blocks import block

_pausing: dict[int, bool] = {}
"""Threads inside, with whether each has stopped the collector."""


@block
def uncollected() -> Generator[None, Any, None]:
    """Cycles are not looked for here inside: what is recorded and planned is all still in use.

    The collector would go through all of it, again and again while it grows.

    >>> with uncollected():
    ...     gc.isenabled()
    False
    """
    me = threading.get_ident()
    if me in _pausing:
        yield
        return
    enabled = gc.isenabled()
    try:
        _pausing[me] = enabled
        gc.disable()
        yield
    finally:
        # In this order: no call comes before the second, and what is left by nobody is harmless.
        del _pausing[me]
        if enabled:
            gc.enable()


def _go_on() -> None:
    """In a forked child there are no other threads that would let the collector go on."""
    me = threading.get_ident()
    stopped = [_pausing.pop(t) for t in list(_pausing) if t != me]
    if any(stopped) and me not in _pausing:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on)
