"""Locks that a forked child does not inherit.

A child has only the thread that forked. What another thread held at that moment would be held for
good, so the child gets new locks in place of all that are made here. They are re-entrant: a
handler of signals or a finalizer may come by while its own thread holds one. What such a lock
guards has to be in order after each statement, therefore, or be made anew where it is not.

Locks whose guarded state could not be used half done are held over the fork instead, by their
owners: those of memory pools, of the compiler, and `ingle.tensor.transactions.commit_lock`.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import ref

R = TypeVar("R")

if TYPE_CHECKING:
    Lock: TypeAlias = threading.RLock
else:
    Lock = Any


def _untorn() -> Callable[[], Lock]:
    """The class of `ReentrantLock`.

    A handler of signals may raise behind each call of a C function. From 3.14 on that by which
    `with` takes a lock of CPython's is one, behind which the lock would never be let go. The end of
    a function of Python is no such place.
    """
    if sys.version_info < (3, 14):
        return threading.RLock

    class Untorn(type(threading.RLock())):  # type: ignore[misc]
        __slots__ = ()

        def __enter__(self) -> bool:
            return self.attempt(True)

        def attempt(self, waits: bool = False) -> bool:
            before = self._recursion_count()
            try:
                return self.acquire(waits)
            except BaseException:
                while self._recursion_count() > before:
                    self.release()
                raise

    return Untorn


ReentrantLock = _untorn()
"""A lock as of `threading.RLock`, left free by a handler of signals that raises as `with` takes it.
That of a `threading.Condition` is not: a condition's users take the lock that it was made with."""

_owners: list[tuple[ref[Any], str]] = []
_most = 256


def renewed(owner: object, name: str) -> Lock:
    """A lock for the attribute `name` of an object or module, which finds another one there in a
    forked child.

    >>> from ingle.tensor.locks import renewed
    >>> class Table:
    ...     def __init__(self):
    ...         self.lock = renewed(self, "lock")
    >>> table = Table()
    >>> with table.lock:
    ...     pass
    """
    global _most
    _owners.append((ref(owner), name))
    if len(_owners) > _most:  # No callbacks: in Python's own finalizers Ctrl-C would be lost.
        _owners[:] = [known for known in _owners[:] if known[0]() is not None]
        _most = max(256, 2 * len(_owners))
    return ReentrantLock()


class _Making:
    """The lock of what a process makes once."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = renewed(self, "lock")


def once(make: Callable[[], R]) -> Callable[[], R]:
    """A function that returns the one thing which another makes, to all threads of a process.

    A cache lets threads that ask at once make one each, and keeps the last.

    >>> from ingle.tensor.locks import once
    >>> @once
    ... def table():
    ...     return {}
    >>> table() is table()
    True
    """
    made, making = functools.cache(make), _Making()

    @functools.cache
    @functools.wraps(make)
    def found() -> R:
        with making.lock:
            return made()

    return found


class Attempt:
    """Takes a re-entrant lock in a `with` statement if that goes without waiting; says whether.

    A handler of signals that raises behind a call of `acquire` would leave the lock taken. Both
    ends of this are what the lock has for `with`, which leaves it free in that case.

    Raises:
        RuntimeError: at the end, where another thread had the lock.

    >>> from ingle.tensor.locks import Attempt, ReentrantLock
    >>> with Attempt(ReentrantLock()) as taken:
    ...     print(taken)
    True
    """

    __slots__ = ("__enter__", "__exit__")

    if TYPE_CHECKING:

        def __enter__(self) -> bool: ...
        def __exit__(self, *error: object) -> None: ...

    def __init__(self, lock: Lock) -> None:
        for name, function in (
            ("__enter__", getattr(lock, "attempt", None) or partial(lock.acquire, False)),
            ("__exit__", lock.__exit__),
        ):  # fmt: skip
            setattr(self, name, function)


def _renew() -> None:
    for owner, name in _owners:
        found = owner()
        if found is not None:
            setattr(found, name, ReentrantLock())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
