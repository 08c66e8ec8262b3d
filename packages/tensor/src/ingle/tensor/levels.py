"""Levels of transforms: each call works above those around it.

An operation goes to the backend of its highest-level input. Level 0 is hardware, level 1 what
`require_grad` and differentiable cells record at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_level: ContextVar[int] = ContextVar("ingle_transform_level", default=1)


@contextmanager
def next_level() -> Iterator[int]:
    """A level above all that surround this call, and one more for the replay of what they did."""
    with at_level(_level.get() + 2) as level:
        yield level


@contextmanager
def at_level(level: int) -> Iterator[int]:
    """Transforms inside take levels above this one, and above those that surround the call."""
    token = _level.set(max(level, _level.get()))
    try:
        yield level
    finally:
        _level.reset(token)
