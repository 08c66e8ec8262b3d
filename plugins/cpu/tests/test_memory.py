"""The states of a handle whose memory a queued plan writes; see `ingle_cpu.memory.Pending`."""

from __future__ import annotations

import _thread
import operator
import signal
import sys
from collections import deque

import numpy as np
import pytest

from ingle.tensor.contract import Aval
from ingle.tensor.device import backend_of
from ingle.tensor.dtypes import float32
from ingle_cpu.memory import CpuHandle, Pending, PendingHandle, new_handle


class FakeJob:
    """A run in the queue that ends when it is told to."""

    def __init__(self, handle, value):
        self.given, self.over, self.failure = True, False, None
        self._handle, self._value = handle, value
        self.garbage = []

    def wait(self):
        """Ends the run: the memory has the value, unless it has failed."""
        if not self.over and self.failure is None:
            memory = self._handle.memory
            np.ndarray((4,), np.float32, memory, memory.start)[:] = self._value
        self.over = True

    def hear(self, failure):
        raise RuntimeError(failure)

    def keep(self, memory):
        self.garbage.append(memory)


@pytest.fixture
def handle():
    made = new_handle(backend_of("cpu").inner, Aval((4,), float32))
    made.fill(np.zeros(4, np.float32))
    return made


def state(handle):
    seen = handle._seen
    if type(handle) is CpuHandle:
        assert type(seen) is not Pending
        return "written"
    assert type(handle) is PendingHandle
    pending = handle.pending
    return "failed" if pending is not None and pending.failure is not None else "pending"


def values(handle):
    return handle.array.tolist()


def test_a_pending_handle_is_written_when_it_is_read(handle):
    job = FakeJob(handle, 1)
    handle.leave_to(job, old=False)
    assert state(handle) == "pending"
    assert handle.pending.job is job
    assert values(handle) == [1] * 4
    assert state(handle) == "written"
    assert handle.pending is None


def test_its_address_waits_and_is_that_of_the_memory(handle):
    address = handle.address
    handle.leave_to(FakeJob(handle, 2), old=False)
    assert handle.address == address
    assert state(handle) == "written"


def test_a_failed_handle_raises_at_each_read(handle):
    job = FakeJob(handle, 1)
    handle.leave_to(job, old=False)
    job.failure = "an index is out of range"
    for read in (lambda: handle.array, lambda: handle.address, lambda: handle.array):
        assert state(handle) == "failed"
        with pytest.raises(RuntimeError, match="out of range"):
            read()


def test_memory_that_keeps_its_value_has_it_again_after_a_failure(handle):
    handle.fill(np.full(4, 7, np.float32))
    job = FakeJob(handle, 1)
    handle.leave_to(job, old=True)
    job.failure = "an index is out of range"
    assert state(handle) == "pending"
    assert values(handle) == [7] * 4
    assert state(handle) == "written"


@pytest.mark.parametrize("first_fails", [False, True])
@pytest.mark.parametrize("second_fails", [False, True])
def test_runs_upon_runs_leave_the_value_of_the_last_that_ended_well(
    handle, first_fails, second_fails
):
    first, second = FakeJob(handle, 1), FakeJob(handle, 2)
    handle.leave_to(first, old=False)
    handle.leave_to(second, old=True)
    first.failure = "the first has failed" if first_fails else None
    first.wait()
    second.failure = "the second has failed" if second_fails else None
    if first_fails and second_fails:
        assert state(handle) == "failed"
        with pytest.raises(RuntimeError, match="the first has failed"):
            _ = handle.array
    else:
        assert values(handle) == [1 if second_fails else 2] * 4
        assert state(handle) == "written"


def test_a_failed_handle_is_pending_again_when_another_run_is_to_write_it(handle):
    failed, other = FakeJob(handle, 1), FakeJob(handle, 3)
    handle.leave_to(failed, old=False)
    failed.failure, failed.over = "an index is out of range", True
    handle.leave_to(other, old=False)
    assert state(handle) == "pending"
    assert values(handle) == [3] * 4
    assert state(handle) == "written"


@pytest.mark.parametrize("waits", [False, True], ids=["written", "pending"])
def test_a_job_that_the_queue_never_got_counts_for_nothing(handle, waits):
    handle.fill(np.full(4, 7, np.float32))
    if waits:
        handle.leave_to(FakeJob(handle, 1), old=False)
    never = FakeJob(handle, 9)
    never.given = False
    handle.leave_to(never, old=False)
    assert (handle.pending is not None) == waits
    assert values(handle) == [1 if waits else 7] * 4


def test_a_finalizer_leaves_the_memory_to_the_job():
    handle = new_handle(backend_of("cpu").inner, Aval((4,), float32))
    memory, job = handle.memory, FakeJob(None, 1)
    handle.leave_to(job, old=False)
    del handle
    assert job.garbage == [memory]


def test_ctrl_c_is_not_lost_where_a_handle_goes(monkeypatch):
    lost, held = [], [new_handle(backend_of("cpu").inner, Aval((4,), float32))]
    memory = held[0].memory
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted():
        # Both in one call of C, so that the finalizer is the next that Python could begin.
        deque(map(operator.call, [_thread.interrupt_main, held.clear]), maxlen=0)
        for _ in range(1000):  # Python 3.15 looks for signals as a loop goes on, and after no call
            pass

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert not lost
    assert new_handle(backend_of("cpu").inner, Aval((4,), float32)).memory is memory


def test_a_handle_that_ctrl_c_cut_off_goes_in_silence(monkeypatch):
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    CpuHandle.__new__(CpuHandle)
    assert not lost


def test_memory_that_numpy_has_seen_is_not_lent_again():
    handle = new_handle(backend_of("cpu").inner, Aval((4,), float32))
    handle.fill(np.arange(4, dtype=np.float32))
    memory, seen = handle.memory, handle.array
    del handle
    others = [new_handle(backend_of("cpu").inner, Aval((4,), float32)) for _ in range(300)]
    assert memory not in [other.memory for other in others]
    assert seen.tolist() == [0, 1, 2, 3]
