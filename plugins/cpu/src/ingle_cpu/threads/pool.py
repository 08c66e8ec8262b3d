"""The workers: Python daemon threads that live in native code and help threads that run plans.

There is one pool in a process. It is started when the first plan needs it, as many threads as
`INGLE_NUM_THREADS` says, else one for each core that this process may use; the calling thread is
one of them. A forked child has none of the threads and starts its own when it needs them.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from ingle.tensor import settings
from ingle.tensor.locks import once, renewed

from ..jit.engine import IRSource, engine
from . import abi
from .cores import cores
from .plan_runner import plan_runner_ir

_WORK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int32)
MOST_THREADS = 1024
PARKS_IN_KERNEL = sys.platform == "linux"
_CLOCK = ctypes.PYFUNCTYPE(ctypes.c_uint64)


def thread_count() -> int:
    """How many threads run plans: `INGLE_NUM_THREADS`, else the cores this process may use.

    Raises:
        ArgumentError: the variable holds no whole number from 1 to `MOST_THREADS`.
    """
    meaning = "the number of threads that run plans"
    return settings.whole_number("INGLE_NUM_THREADS", 1, MOST_THREADS, meaning) or cores()


@functools.cache
def pool_size() -> int:
    """How many threads the thread pool of this process has, also before there is one: to make it
    takes native code, which LLVM may have to compile first."""
    return thread_count()


def runner_addresses(park_in_kernel: bool = PARKS_IN_KERNEL) -> tuple[int, ...]:
    """Of the native code that runs plans: `run`, `repeat`, `work` and `clock`."""
    text = plan_runner_ir(engine().machine, park_in_kernel)
    names = "run", "repeat", "work", "clock"
    return engine().addresses(IRSource(text, names, reduced=False, polished=False))


class ThreadPool:
    """The state that native code shares, and the threads.

    Args:
        threads: how many run a plan, the caller included.
        park_in_kernel: workers sleep in Linux's futex instead of on an event of Python.
        spin_us: how long a waiter spins before it gives its core away.
        idle_us: how long a worker without work stays awake.
    """

    def __init__(
        self,
        threads: int,
        *,
        park_in_kernel: bool = PARKS_IN_KERNEL,
        spin_us: float = 1.0,
        idle_us: float = 200.0,
    ) -> None:
        self.run_address, self.repeat_address, work, clock = runner_addresses(park_in_kernel)
        self.threads = threads
        self.parks_in_kernel = park_in_kernel
        shares = abi.SHARE_BYTES * threads
        self._memory = ctypes.create_string_buffer(abi.STATE_BYTES + shares + 128)
        self.state = -(-ctypes.addressof(self._memory) // 128) * 128
        self._work = _WORK(work)
        self.ticks_per_us = _ticks_per_us(_CLOCK(clock))
        self._spin = int(spin_us * self.ticks_per_us)
        self._idle = int(idle_us * self.ticks_per_us)
        self._sleepers = ctypes.c_int32.from_address(self.state + abi.SLEEPERS)
        self._started: list[threading.Thread] = []
        self._living: dict[int, threading.Thread] = {}
        self._lock = renewed(self, "_lock")
        self._reset()

    @property
    def sleeping(self) -> int:
        """How many workers sleep at this moment."""
        return self._sleepers.value

    def _reset(self) -> None:
        """The state of a thread pool without threads."""
        ctypes.memset(self.state, 0, abi.STATE_BYTES)
        self._put(ctypes.c_int64, abi.TICKET, abi.BIAS)
        self._put(ctypes.c_int64, abi.SPIN, self._spin)
        self._put(ctypes.c_int64, abi.IDLE, self._idle)
        self._put(ctypes.c_int32, abi.WORKERS, 1)
        self._put(ctypes.c_int32, abi.WANTED, self.threads)
        self._ready = self._stopping = False
        self._started, self._living = [], {}
        self._events = [threading.Event() for _ in range(self.threads - 1)]

    def _put(self, kind: Any, place: int, value: int) -> None:
        kind.from_address(self.state + place).value = value

    def start(self) -> None:
        """Starts the threads that are missing; a system that allows fewer gets fewer."""
        with self._lock:
            # Who runs a plan meanwhile, in another thread or a handler of signals, runs it alone:
            # workers that have not seen yet that they shall leave would stay.
            if self._ready or self.threads == 1 or self._stopping:
                return
            self._put(ctypes.c_int32, abi.STOP, 0)
            count = 1
            for index in range(1, self.threads):
                thread = threading.Thread(
                    target=self._live, args=(index,), name=f"ingle-cpu-{index}", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:
                    break  # the system's limit of threads
                self._started.append(thread)
                count += 1
            self._put(ctypes.c_int32, abi.WANTED, count)
            self._put(ctypes.c_int32, abi.WORKERS, count)
            self._ready = count > 1

    def _live(self, index: int) -> None:
        me = threading.current_thread()
        # Ctrl-C may come behind the start of a thread, which is started once more then.
        if self._living.setdefault(index, me) is not me:
            return
        event = self._events[index - 1]
        woken = 0
        while not self._work(self.state, index, woken):
            event.wait()
            event.clear()
            woken = 1
        del self._living[index]

    def wake(self) -> None:
        """Wakes workers that sleep in Python; those in the kernel are woken by native code."""
        for event in self._events:
            event.set()

    def stop(self) -> None:
        """Ends the threads and waits for them; the thread pool can be started again."""
        with self._lock:
            threads, self._ready = {*self._started, *self._living.values()}, False
            self._stopping = True
            self._started = []
            self._put(ctypes.c_int32, abi.WORKERS, 1)
            self._put(ctypes.c_int32, abi.STOP, 1)
        try:
            self._end(threads)
        finally:
            self._stopping = False

    def _end(self, threads: Iterable[threading.Thread]) -> None:
        if self.parks_in_kernel:
            wake = ctypes.c_int32.from_address(self.state + abi.WAKE)
            wake.value += 1
            _futex_wake(self.state + abi.WAKE)
        self.wake()
        for thread in threads:
            thread.join()
        self._put(ctypes.c_int32, abi.WANTED, self.threads)

    def forget_threads(self) -> None:
        """In a forked child: the threads are not there, and what they held is free again."""
        self._reset()


def _futex_wake(address: int) -> None:
    number = 98 if os.uname().machine in ("aarch64", "arm64") else 202
    process = ctypes.CDLL(None)
    process.syscall.restype = ctypes.c_long
    every = ctypes.c_long(0x7FFFFFFF)
    process.syscall(ctypes.c_long(number), ctypes.c_void_p(address), ctypes.c_long(129), every)


def _ticks_per_us(clock: Any) -> float:
    """Measures the clock of the native code against Python's, for a millisecond."""
    begin, ticks = time.perf_counter_ns(), clock()
    while time.perf_counter_ns() - begin < 1_000_000:
        pass
    elapsed = time.perf_counter_ns() - begin
    return max(float(clock() - ticks) * 1e3 / elapsed, 1e-3)


@once
def thread_pool() -> ThreadPool:
    """The thread pool of this process."""
    made = ThreadPool(pool_size())
    atexit.register(made.stop)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=made.forget_threads)
    return made
