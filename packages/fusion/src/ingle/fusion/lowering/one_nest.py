"""Runs of calls of one nest, which a device may take as one launch."""

from __future__ import annotations

from collections.abc import Sequence

from ..kernel.joining import joins
from .nests import NestCall


def end_of_run(calls: Sequence[object], first: int) -> int:
    """Behind the last of the calls from `first` on that run the nest of that one.

    It is a run of one where the first is no nest, or one whose launches cannot be joined.

    Args:
        calls: of nests and of anything else, in order.
    """
    call, end = calls[first], first + 1
    if isinstance(call, NestCall) and joins(call.nest):
        while end < len(calls):
            other = calls[end]
            if not isinstance(other, NestCall) or other.nest != call.nest:
                break
            end += 1
    return end
