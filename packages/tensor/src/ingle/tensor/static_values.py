"""What may be a static attribute of an operation besides numbers, strings, dtypes and tuples."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

Number = TypeVar("Number", bound=int)
"""Whole numbers, and what code that computes with them takes for some."""


class Static:
    """A base for what may be a static attribute besides numbers: it never changes, and is hashed
    and compared by all that it holds."""

    __slots__ = ()


class SymbolicInt(Static):
    """A base for whole numbers that stand for many, as a size that is not known yet does: they
    compute like the `int` that they are an example of, and note what is decided by it."""

    __slots__ = ()

    @abstractmethod
    def larger(self, other: Any) -> Any:
        """The larger one of this and another number, whichever that is: nothing is decided."""
        raise NotImplementedError


def largest(first: Number, *others: Number) -> Number:
    """The largest of some numbers. Unlike `max`, it decides nothing where they stand for many: what
    it gives is right for all of these, for code whose result is that number."""
    found: Any = first
    for other in others:
        if isinstance(found, SymbolicInt):
            found = found.larger(other)
        elif isinstance(other, SymbolicInt):
            found = other.larger(found)
        else:
            found = max(found, other)
    return found  # type: ignore[no-any-return]


def smallest(first: Number, *others: Number) -> Number:
    """The smallest of some numbers, likewise."""
    if any(isinstance(number, SymbolicInt) for number in (first, *others)):
        return -largest(-first, *[-other for other in others])  # type: ignore[return-value]
    return min(first, *others)
