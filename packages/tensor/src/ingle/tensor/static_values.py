"""What may be a static attribute of an operation besides numbers, strings, dtypes and tuples."""

from __future__ import annotations


class Static:
    """A base for what may be a static attribute besides numbers: it never changes, and is hashed
    and compared by all that it holds."""

    __slots__ = ()


class SymbolicInt(Static):
    """A base for whole numbers that stand for many, as a size that is not known yet does: they
    compute like the `int` that they are an example of, and note what is decided by it."""

    __slots__ = ()
