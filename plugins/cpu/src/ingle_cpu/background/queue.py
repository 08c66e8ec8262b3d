"""Plans that run while Python goes on: one queue for the process, and a thread that runs its jobs.

Everything in the queue runs in order on one thread, so that a plan may follow another whose results
it reads or writes over. A read of memory that a plan in the queue is to write waits for that
plan; see `CpuHandle`.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingle.fusion.device import DonationState
from ingle.tensor.cell import Cell
from ingle.tensor.locks import ReentrantLock, renewed
from ingle.tensor.transactions import commit_lock

from ..jit.engine import IRSource, engine
from ..memory import CpuHandle, queues
from ..threads import abi
from ..threads.pool import thread_pool
from ..threads.queue_ir import DONE, HALTED, queue_code
from .job import Failure, Job

_SERVE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)
_AWAIT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_size_t, ctypes.c_int64)
_SUBMIT = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t)
_TELL = ctypes.PYFUNCTYPE(None, ctypes.c_size_t)

SPIN_US, IDLE_US = 1.0, 200.0
"""How long a waiter spins before it gives its core away, and how long until it sleeps."""

_NOTHING = np.array([abi.END, 0], np.int64)
"""The program of a job that shall not run."""


class Queue:
    """Jobs and the thread that runs them.

    Args:
        park_in_kernel: the thread sleeps in Linux's futex instead of on an event of Python.

    Attributes:
        lock: held while jobs come and go. A thread that takes `commit_lock`, too, takes that first.
        halt: a word in memory that is not 0 from a job that failed until its error is made.
        failures: what nobody has heard of yet.
    """

    def __init__(self, *, park_in_kernel: bool = sys.platform == "linux") -> None:
        text = queue_code(engine().machine, park_in_kernel)
        names = ("serve", "submit", "await", "resume", "ring")
        serve, submit, wait, resume, ring = engine().addresses(IRSource(text, names))
        self.lock = ReentrantLock()
        self._parks_in_kernel = park_in_kernel
        self._serve, self._submit, self._await = _SERVE(serve), _SUBMIT(submit), _AWAIT(wait)
        self._resume, self._ring = _TELL(resume), _TELL(ring)
        self._memory = ctypes.create_string_buffer(abi.QUEUE_BYTES + 128)
        self._state = -(-ctypes.addressof(self._memory) // 128) * 128
        ticks = thread_pool().ticks_per_us
        self._word(abi.QUEUE_SPIN, ctypes.c_int64).value = int(SPIN_US * ticks)
        self._word(abi.QUEUE_IDLE, ctypes.c_int64).value = int(IDLE_US * ticks)
        self._head = self._word(abi.QUEUE_HEAD, ctypes.c_int64)
        self._tail = self._word(abi.QUEUE_TAIL, ctypes.c_int64)
        self.halt = self._word(abi.QUEUE_HALT, ctypes.c_int32)
        self._event = threading.Event()
        self._thread: threading.Thread | None = None
        self._place = threading.Lock()
        self._jobs: deque[Job] = deque()
        self.failures: list[Failure] = []
        self._restored: dict[Cell[Any], int] = {}
        self._adding = 0
        self.arena, self.scratch = _Shared(), _Shared()

    def _word(self, place: int, kind: Any) -> Any:
        return kind.from_address(self._state + place)

    # Running ---------------------------------------------------------------------------------

    def start(self) -> bool:
        """Whether jobs can be given now; starts the thread that runs them if there is none."""
        if self._adding == threading.get_ident():
            return False  # in a handler of signals, in the middle of `add`
        if self._thread is not None:
            return True
        with self.lock:
            if self._thread is None:
                thread_pool().start()
                thread = threading.Thread(target=self._live, name="ingle-cpu-ahead", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system's limit of threads
                    return False
                if self._thread is None:
                    self._thread = thread
        return True

    def _live(self) -> None:
        # Ctrl-C may come behind the start of a thread, which is started once more then.
        if not self._place.acquire(blocking=False):
            return
        self._thread = threading.current_thread()
        run, state = thread_pool().run_address, thread_pool().state
        while not self._serve(self._state, run, state):
            self._event.wait()
            self._event.clear()
        self._place.release()

    def make_room(self, most: int) -> None:
        """Waits until fewer than so many jobs are unfinished."""
        while self._head.value - self._tail.value >= most:
            self.wait(self._head.value - most)
        self._reap()

    def add(
        self, job: Job, reads: Sequence[CpuHandle], writes: Sequence[tuple[CpuHandle, bool]],
        donation: DonationState,
    ) -> None:  # fmt: skip
        """Appends a job.

        Args:
            job: which.
            reads: what it makes use of, what it writes over included.
            writes: what it writes; and whether that has a good value also if the job fails.
            donation: is told when nothing comes between it and the run any more.
        """
        added = False
        while not added:
            self.make_room(abi.SLOTS)
            with self.lock:  # Threads may have come by meanwhile, and have taken the room.
                if self._head.value - self._tail.value < abi.SLOTS:
                    self._adding = threading.get_ident()
                    try:
                        self._add(job, reads, writes, donation)
                    finally:
                        self._adding = 0
                    added = True
        if not self._parks_in_kernel:
            self._event.set()

    def _add(
        self, job: Job, reads: Sequence[CpuHandle], writes: Sequence[tuple[CpuHandle, bool]],
        donation: DonationState,
    ) -> None:  # fmt: skip
        job.number = self._head.value
        while self._jobs and self._jobs[-1].number >= job.number:
            # Ctrl-C came before it was given. In one step: nobody takes it for this one.
            self._jobs[-1].number = -1
            del self._jobs[-1]
        for handle in reads:
            self._follow(job, handle)
        self._jobs.append(job)
        for handle, old in writes:
            handle.leave_to(job, old)
        submit, state, program = self._submit, self._state, job.program
        donation.job = job
        # Python looks for signals after calls: none is handled before the next one's end.
        donation.done = True
        submit(state, program)

    def _follow(self, job: Job, handle: CpuHandle) -> None:
        """Notes which job writes what another one is to read."""
        waits = handle.pending
        if waits is None:
            return
        failure = waits.failure
        if failure is None:
            job.after.add(waits.job)
        else:
            self.heard(failure)
            raise failure.error()

    # Waiting ---------------------------------------------------------------------------------

    @property
    def given(self) -> int:
        """How many jobs were ever given."""
        return int(self._head.value)

    @property
    def busy(self) -> bool:
        """Whether some job has not ended."""
        return bool(self._tail.value != self._head.value)

    def wait(self, number: int) -> None:
        """Waits for the end of a job."""
        while number < self._head.value:
            status = self._await(self._state, number)
            if status == DONE:
                break
            if status == HALTED:
                self._resolve()
        self._reap()

    def wait_for_all(self) -> None:
        """Waits for the end of everything in the queue."""
        self.wait(self._head.value - 1)

    def _reap(self) -> None:
        """Lets go of what jobs held that have ended."""
        while True:
            with self.lock:
                if not self._jobs or self._jobs[0].number >= self._tail.value:
                    return
                job = self._jobs[0]
                job.end()
                if self._jobs and self._jobs[0] is job:
                    del self._jobs[0]

    # Failures --------------------------------------------------------------------------------

    def _resolve(self) -> None:
        """After a failure: what makes use of the failed job fails, too, and the rest goes on."""
        with commit_lock, self.lock:
            if not self.halt.value:
                return
            tail = self._tail.value
            failed: list[Job] = []
            # Each step may be done once more: Ctrl-C may come behind any of them.
            for job in self._jobs:
                if job.number == tail:
                    failure = job.failure or job.fail()
                    if failure not in self.failures:
                        self.failures.append(failure)
                elif job.number < tail or job.after.isdisjoint(failed):
                    continue
                else:
                    job.failure = failure
                failed.append(job)
                place = abi.QUEUE_SLOTS + 8 * (job.number % abi.SLOTS)
                self._word(place, ctypes.c_int64).value = _NOTHING.ctypes.data
            for job in reversed(failed):
                job.take_back(self._restored)
            self._restored = {}
            self._resume(self._state)
        self._event.set()

    def heard(self, failure: Failure) -> None:
        """Notes that somebody got its error."""
        with self.lock:
            if failure in self.failures:
                self.failures.remove(failure)

    def report(self, *, everyone: bool = False) -> None:
        """Raises what went wrong in jobs that this thread, or any, asked for; each error once."""
        if self.halt.value:
            self._resolve()
        if not self.failures:
            return
        me = threading.get_ident()
        with self.lock:
            failure = next((f for f in self.failures if everyone or f.thread == me), None)
            if failure is None:
                return
            self.failures.remove(failure)
        raise failure.error()

    # The process -----------------------------------------------------------------------------

    def close(self) -> None:
        """At the end of the process: waits for everything, and says what nobody has heard of."""
        self._until_idle()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._word(abi.QUEUE_STOP, ctypes.c_int32).value = 1
            self._ring(self._state)
            self._event.set()
            thread.join()
        self.report(everyone=True)

    def _until_idle(self) -> None:
        """Waits, whatever happens meanwhile: what runs needs memory that goes with the process."""
        while self.busy:
            try:
                self.wait_for_all()
            except BaseException:
                continue

    def before_fork(self) -> None:
        """The child has no thread to run jobs: none is left, and none comes meanwhile."""
        commit_lock.acquire()
        self.lock.acquire()
        self._until_idle()

    def after_fork(self) -> None:
        self.lock.release()
        commit_lock.release()

    def after_fork_in_child(self) -> None:
        self._thread = None
        self._place = threading.Lock()
        self._event = threading.Event()
        for place in (abi.QUEUE_ASLEEP, abi.QUEUE_STOP, abi.QUEUE_WAITERS):
            self._word(place, ctypes.c_int32).value = 0
        self.after_fork()


class _Shared:
    """Memory that jobs take turns with: the largest that one of them needed."""

    def __init__(self) -> None:
        self.buffer = np.empty(0, np.uint8)

    def __call__(self, nbytes: int) -> tuple[int, np.ndarray]:
        """Its address; and what keeps it alive, since a later job may exchange it for more."""
        if nbytes + _LINE > self.buffer.nbytes:
            self.buffer = np.empty(nbytes + _LINE, np.uint8)
        return -(-self.buffer.ctypes.data // _LINE) * _LINE, self.buffer


class Room:
    """The memory that one job uses while it runs."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._held: list[np.ndarray] = []

    def arena(self, nbytes: int) -> int:
        """The address of memory for what lies between kernels."""
        return self._hold(self._queue.arena, nbytes)

    def scratch(self, nbytes: int) -> int:
        """The address of memory for what templates pack."""
        return self._hold(self._queue.scratch, nbytes)

    def _hold(self, shared: _Shared, nbytes: int) -> int:
        with self._queue.lock:
            address, buffer = shared(nbytes)
        self._held.append(buffer)
        return address


_LINE = 64
_making = renewed(sys.modules[__name__], "_making")


def queue() -> Queue:
    """The queue of this process."""
    if queues:
        return queues[0]
    with _making:
        if not queues:
            thread_pool()  # whose end comes after the queue's
            made = Queue()
            atexit.register(made.close)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(
                    before=made.before_fork, after_in_parent=made.after_fork,
                    after_in_child=made.after_fork_in_child,
                )  # fmt: skip
            queues.append(made)
    return queues[0]
