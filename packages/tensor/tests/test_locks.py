"""A handler of signals raises at each place around a lock: it is free afterwards."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from ingle.tensor import locks
from ingle.tensor.locks import Attempt, Lock, ReentrantLock
from ingle.testkit.interrupting import LateError

pytestmark = pytest.mark.skipif(
    sys.implementation.name != "cpython", reason="where signals are looked for is CPython's affair"
)


def taken_once(lock: Lock) -> None:
    with lock:
        pass


def taken_twice(lock: Lock) -> None:
    with lock, lock:
        len(())


def attempted(lock: Lock) -> None:
    with Attempt(lock) as taken:
        assert taken


def changed(lock: Lock) -> None:
    condition = threading.Condition(lock)
    with lock:
        condition.notify_all()
        condition.wait(1e-4)


def _raises_at(place: int, work: Callable[[Lock], None], lock: Lock) -> bool:
    """Whether there is such a place: behind a C function or at the begin of one of Python."""
    seen = 0

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal seen
        if event in ("call", "c_return") and frame.f_code.co_filename in (__file__, locks.__file__):
            seen += 1
            if seen == place:
                sys.setprofile(None)
                raise LateError

    sys.setprofile(look)
    try:
        work(lock)
    except LateError:
        return True
    finally:
        sys.setprofile(None)
    return False


@pytest.mark.parametrize("work", [taken_once, taken_twice, attempted, changed])
@pytest.mark.parametrize("held", [False, True])
def test_a_lock_is_free_wherever_a_handler_raises(work: Callable[[Lock], None], held: bool) -> None:
    place = 1
    lock = ReentrantLock()
    if held:
        lock.acquire()
    while _raises_at(place, work, lock):
        assert lock._is_owned() is held
        place += 1
    assert place > 1
    if held:
        lock.release()
    assert not lock._is_owned()


def test_an_attempt_does_not_wait() -> None:
    lock, found = ReentrantLock(), []

    def other() -> None:
        with pytest.raises(RuntimeError), Attempt(lock) as taken:
            found.append(taken)

    with lock:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found == [False]
