"""Levels of transforms: each call works above those around it.

An operation goes to the backend of its highest-level input. Level 0 is hardware, level 1 what
`require_grad` and differentiable cells record at.
"""

from __future__ import annotations

from contextvars import ContextVar

from .blocks import WithBlock, holding

_level: ContextVar[int] = ContextVar("ingle_transform_level", default=1)


def next_level() -> WithBlock[int]:
    """A level above all that surround this call, and one more for the replay of what they did."""
    return holding(_level, _level.get() + 2)


def at_level(level: int) -> WithBlock[int]:
    """Transforms inside take levels above this one, and above those that surround the call."""
    return holding(_level, max(level, _level.get()))
