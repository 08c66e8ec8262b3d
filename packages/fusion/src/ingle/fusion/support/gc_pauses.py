"""Pauses of Python's collector, while much is made that stays.

What was made in a pause is old at its end: the collector goes through it when it next goes through
everything, as it does when the program's own objects have grown by a quarter. If it counted what a
plan consists of, it would go through everything in some step soon after, which takes longer than
several steps.
"""

from __future__ import annotations

import gc
import os
import threading
from collections import deque
from collections.abc import Generator
from operator import methodcaller
from typing import Any

from ingle.tensor.blocks import block

from .share_of_time import ShareOfTime

MOST_UNSEEN = 1 << 18
"""Objects that may grow old uncounted between two times that the collector goes through all."""

_pausing: dict[int, bool] = {}
"""Threads inside, with whether each has stopped the collector."""
_unseen = [0, 0]
"""How often the collector had gone through everything, and how many are uncounted since then."""
_counting = ShareOfTime(0.01)
"""To count what is frozen takes as long as there is much of it."""
_call = methodcaller("__call__")


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
        if enabled:
            _grow_old()
    finally:
        # In this order: no call comes before the second, and what is left by nobody is harmless.
        del _pausing[me]
        if enabled:
            gc.enable()


def _grow_old() -> None:
    """Makes all objects old, if there are many young ones and few grew old in this way so far."""
    count, enough = gc.get_count()[0], gc.get_threshold()[0]
    if not 0 < enough < count:
        return
    collections = gc.get_stats()[2]["collections"]
    if collections != _unseen[0]:
        _unseen[:] = collections, 0
    if _unseen[1] + count > MOST_UNSEEN or not _counting.is_due:
        return
    with _counting.taken():
        frozen = gc.get_freeze_count()
    if frozen:
        return  # what the program has frozen would be thawed with them
    _unseen[1] += count
    # In one call of C code: Ctrl-C between the two would leave everything frozen.
    deque(map(_call, (gc.freeze, gc.unfreeze)), maxlen=0)


def _go_on() -> None:
    """In a forked child there are no other threads that would let the collector go on."""
    me = threading.get_ident()
    stopped = [_pausing.pop(t) for t in list(_pausing) if t != me]
    if any(stopped) and me not in _pausing:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on)
