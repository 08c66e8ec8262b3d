"""A signal handler raises at each place of the queue and of the pool: both stay consistent."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import threading

import numpy as np
import pytest

import ingle.tensor as it
from ingle.testkit.interrupting import LateError, interrupted, late
from ingle_cpu.background.queue import Queue, queue
from ingle_cpu.launch.table_set import TableSet
from ingle_cpu.memory import CpuHandle
from ingle_cpu.threads.pool import ThreadPool, thread_pool
from ingle_cpu.threads.table import Table

pytestmark = [
    pytest.mark.skipif(
        sys.implementation.name != "cpython" or not hasattr(signal, "SIGALRM"),
        reason="where signals are looked for is CPython's affair",
    ),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

THREADING = ("threading.py",) if sys.version_info < (3, 14) else ()
"""From 3.14 on a handler that raises as `Thread.start` takes its own lock leaves that taken."""


@pytest.fixture(autouse=True)
def handler():
    """Ingle asks whether an error comes from a handler of signals."""
    before = signal.signal(signal.SIGALRM, late)
    yield
    signal.signal(signal.SIGALRM, before)


def table_sets():
    return [x for x in gc.get_objects() if type(x) is TableSet]


def test_no_place_leaves_the_queue_torn(warmed):
    x = it.asarray(np.linspace(-1, 1, 4096, dtype=np.float32).reshape(64, 64))
    f = warmed(lambda x: it.sin(x @ x) * 2.0 + x, x)
    cell = it.Cell(it.zeros((64, 64)))
    step = warmed(lambda x: setattr(cell, "value", cell + x), x)
    want = f(x).numpy().copy()
    queue().wait_for_all()
    tables = table_sets()
    assert tables
    place, on = 1, True
    while on:
        cell.value = it.zeros((64, 64))
        kept = []

        def program(kept=kept):
            kept.append(f(x))
            step(x)
            kept.append(f(kept[-1]))
            step(kept[0])
            queue().wait_for_all()

        on = interrupted(program, place, ("/ingle_cpu/",))
        if kept:
            np.testing.assert_array_equal(kept[0].numpy(), want)
        held = cell.value.numpy()
        wants = [np.zeros((64, 64)), x.numpy(), x.numpy() + want]
        assert any(np.allclose(held, w, atol=1e-6) for w in wants), place
        np.testing.assert_array_equal(f(x).numpy(), want)
        queue().wait_for_all()
        assert not queue()._jobs, place
        for each in tables:
            assert len(set(map(id, each.idle))) == len(each.idle), place
        place += 1 + place // 50
    assert place > 200


@pytest.mark.slow
def test_a_job_that_was_never_given_hides_nothing(warmed, slow, monkeypatch):
    """Ctrl-C comes before a run is given that writes over what another one still writes."""
    cell = it.Cell(it.zeros(slow.x.shape))
    step = warmed(lambda: setattr(cell, "value", cell * 2.0 + 1.0))
    want = slow().numpy().copy()
    usual, left = CpuHandle.leave_to, []

    def interrupted_behind(handle, job, old):
        left.append((handle, old))
        usual(handle, job, old)
        late()

    cell.value = slow()
    with monkeypatch.context() as patch:
        patch.setattr(CpuHandle, "leave_to", interrupted_behind)
        with contextlib.suppress(LateError):
            step()
    assert left[0][1], "it was to write over its input"
    assert left.pop()[0].pending is not None
    np.testing.assert_array_equal(cell.value.numpy(), want)
    step()
    np.testing.assert_array_equal(cell.value.numpy(), want * 2.0 + 1.0)


def test_threads_of_the_pool_start_once():
    place, on = 1, True
    while on:
        team = ThreadPool(3)
        on = interrupted(team.start, place, (*THREADING, "/ingle_cpu/threads/pool"))
        team.start()
        Table([], base_of=(), offset_of=(), buffers=1, args=(), thread_pool=team).run()
        assert team._ready
        team.stop()
        for thread in [*team._living.values()]:  # whose start was interrupted before it was noted
            thread.join()
        assert not team._living
        place += 1
    assert place > 10


def test_the_thread_of_the_queue_starts_once():
    thread_pool().start()  # which a queue does that finds it without threads
    place, on = 1, True
    while on:
        line = Queue()
        on = interrupted(line.start, place, (*THREADING, "/ingle_cpu/background/queue"))
        before = threading.active_count()
        assert line.start()
        line.close()
        assert threading.active_count() <= before
        assert not line._place.locked()
        place += 1
    assert place > 4
