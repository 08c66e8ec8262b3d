"""Modules that are loaded when they are first needed, and come whole to whoever asks.

A handler of signals or a finalizer that interrupts an import in its own thread would be given the
module half made: what it computes with it fails, and so does the import that it interrupted. A
process that forks while another thread imports would hand its child a lock that nobody releases.
"""

from __future__ import annotations

# What it registers for forks releases a lock behind a fork that other functions take before it: a
# fork that waits for an import may not meet it halfway.
import concurrent.futures.thread  # noqa: F401
import contextlib
import contextvars
import ctypes
import functools
import gc
import importlib
import os
import sys
import threading
from collections.abc import Callable, Generator
from types import FrameType, ModuleType
from typing import Generic, TypeVar

from .locks import ReentrantLock

T = TypeVar("T")


def load(module: str) -> ModuleType:
    """A module by its whole name, imported as `uninterrupted` says.

    Raises:
        ImportError: it cannot be loaded; a later call tries again.

    >>> from ingle.tensor.late_imports import load
    >>> load("string").digits
    '0123456789'
    """
    found = sys.modules.get(module)
    if found is not None and not _is_half_made(found):
        return found
    return uninterrupted(lambda: importlib.import_module(module))


late = functools.cache(load)
"""`load`, which remembers what it found: finalizers ask it when Python goes down."""


def _is_half_made(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def uninterrupted(load: Callable[[], T]) -> T:
    """What a function that imports returns, called in a thread of its own.

    No handlers of signals run there, and none run here until it has returned. The collector, which
    calls finalizers in any thread, pauses. The function may not wait for a lock that its caller
    holds. Where no thread can be had, and inside of another import, it is called in this one.

    >>> from ingle.tensor.late_imports import uninterrupted
    >>> uninterrupted(lambda: 2 + 2)
    4
    """
    # A thread whose own import leads here has locks of modules that another thread would wait for.
    if sys.is_finalizing() or _is_inside_an_import(sys._getframe(1)):
        with _collector_paused():
            return load()
    call = _Call(load)
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(call,), name="import", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # Python 3.12 and later start none when they go down
        return load()
    return call.result()


def _is_inside_an_import(frame: FrameType | None) -> bool:
    while frame is not None:
        code = frame.f_code
        if code is _Call.__call__.__code__ or code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def _collector_paused() -> Generator[None, None, None]:
    """An import makes objects by the ten thousand that stay: to look for garbage among them again
    and again takes longer than to make them, and whatever finds some calls its finalizers."""
    collects = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if collects:
            gc.enable()


class _Call(Generic[T]):
    """A call that runs in one thread and is awaited in another."""

    def __init__(self, load: Callable[[], T]) -> None:
        self._load = load
        self._answers: list[T] = []
        self._failed: BaseException | None = None
        self._done = _Event()

    def __call__(self) -> None:
        try:
            with _importing, _collector_paused():
                self._answers.append(self._load())
        except BaseException as error:
            self._failed = error
        finally:
            self._done.set()

    def result(self) -> T:
        """What the function returned, or raises what it raised; waits for it."""
        self._done.wait()
        if self._failed is not None:
            try:
                raise self._failed
            finally:
                self._failed = None  # whose traceback holds this frame
        return self._answers[0]


class _Event:
    """Set once, awaited once, without a look at signals meanwhile.

    `threading.Event` calls handlers while it waits. A handler that computes would wait for the same
    import, and a timer that is faster than the import would nest handlers without end.
    """

    _lock: ctypes.c_void_p | None = None

    def __init__(self) -> None:
        self._lock = ctypes.c_void_p(_C.PyThread_allocate_lock())
        _acquire(self._lock)

    def set(self) -> None:
        _C.PyThread_release_lock(self._lock)

    def wait(self) -> None:
        _acquire(self._lock)
        _C.PyThread_release_lock(self._lock)

    def __del__(self) -> None:
        # A stack without room for this call, or for the one that made the lock, costs a lock.
        with contextlib.suppress(ctypes.ArgumentError, RecursionError):
            if self._lock is not None:
                _C.PyThread_free_lock(self._lock)


def _acquire(lock: ctypes.c_void_p | None) -> None:
    try:
        _C.PyThread_acquire_lock(lock, 1)
    except ctypes.ArgumentError as error:
        # The arguments are right: ctypes, which converts them, had no room left on the stack.
        raise RecursionError("the stack has no room for a module to be imported") from error


def _python_without_its_lock() -> ctypes.CDLL:
    """Python's C functions, called without the global lock, which `ctypes.pythonapi` keeps."""
    python = ctypes.CDLL(None, handle=ctypes.pythonapi._handle)
    python.PyThread_allocate_lock.restype = ctypes.c_void_p
    python.PyThread_allocate_lock.argtypes = []
    for name in ("PyThread_release_lock", "PyThread_free_lock"):
        getattr(python, name).restype = None
        getattr(python, name).argtypes = [ctypes.c_void_p]
    python.PyThread_acquire_lock.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return python


_C = _python_without_its_lock()
_importing = ReentrantLock()
"""Held while a module is loaded, and over forks."""
_PATIENCE = 20.0
"""Seconds for which a fork waits for an import."""
_held_over_forks: list[bool] = []


def _hold() -> None:
    _held_over_forks.append(_importing.acquire(timeout=_PATIENCE))


def _let_go() -> None:
    if _held_over_forks.pop():
        _importing.release()


def _renew() -> None:
    global _importing
    _held_over_forks.clear()
    _importing = ReentrantLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_renew)
