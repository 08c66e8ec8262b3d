"""What a context variable that is being set needs until it is, while the collector runs.

Up to Python 3.11 the collector may run in the middle of `ContextVar.set`, which copies a part of
the context's table. A finalizer that sets a variable then replaces the table, and frees the one
that is being copied: the process ends in a segmentation fault, whoever was setting a variable
(NumPy's `errstate`, `decimal`, an event loop). So a copy of the context, which shares the table, is
kept from where a collection begins until the thread is certainly behind the call.

The collector calls C functions alone: a handler of signals that raises in what it calls in Python
would be printed and forgotten, and Ctrl-C with it.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Iterator
from contextvars import Context, copy_context
from functools import partial
from itertools import repeat
from typing import Any

kept: deque[Context] = deque(maxlen=16)
"""The contexts in which the last collections began. One call makes fewer objects than this, and
each may begin a collection, if finalizers have made many.

Who sets a variable back clears it where the collector is `idle`, so that nothing lives longer: a
thread runs no Python between the end of a collection and the end of the call that it interrupted.
"""
idle: deque[bool] = deque([True], maxlen=1)
"""Empty while there is a collection."""


_begins: Iterator[Any] = zip(
    map(kept.append, iter(copy_context, None)), map(deque.clear, repeat(idle)), strict=False
)
_ends: Iterator[Any] = map(idle.append, repeat(True))


class _Phases:
    """`getattr(phases, "start", …)` and `"stop"` go on with one of the iterators."""

    __getattr__ = partial(next, _begins)
    stop = property(partial(next, _ends))


if sys.version_info < (3, 12):
    gc.callbacks.append(partial(getattr, _Phases()))
