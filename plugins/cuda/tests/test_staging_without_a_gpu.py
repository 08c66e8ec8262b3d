"""Uploads that nobody waits for, and what a GPU says of itself, on stubs of CuPy and of NVML."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ingle_cuda.driver import nvml, staging


class Driver:
    """Copies are made when `work` is called, as a GPU does in its own time."""

    def __init__(self) -> None:
        self.queue: list[Any] = []
        self.pinned: list[Any] = []
        driver = self

        class Event:
            def __init__(self, disable_timing: bool) -> None:
                assert disable_timing
                self.done = False

            def record(self, stream: Any) -> None:
                driver.queue.append(lambda: setattr(self, "done", True))

            def synchronize(self) -> None:
                driver.work()

        def alloc(nbytes: int) -> Any:
            memory = np.zeros(nbytes + 64, np.uint8).view(Pinned)  # lent in round sizes
            memory.ptr = memory.ctypes.data
            self.pinned.append(memory)
            return memory

        def copy(to: int, of: int, nbytes: int, kind: int, stream: int) -> None:
            assert kind == staging.TO_DEVICE
            self.queue.append(lambda: ctypes.memmove(to, of, nbytes))

        runtime = SimpleNamespace(memcpyAsync=copy)
        self.cuda = SimpleNamespace(alloc_pinned_memory=alloc, Event=Event, runtime=runtime)
        self.stream = SimpleNamespace(ptr=1)

    def work(self) -> None:
        while self.queue:
            self.queue.pop(0)()


class Pinned(np.ndarray):
    ptr: int


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(staging, "cupy", lambda: made)
    return made


@pytest.mark.parametrize("dtype", ["float32", "bool", "complex128", "uint8", "bfloat16"])
def test_the_array_may_be_written_before_the_gpu_reads(driver: Driver, dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    for shape in ((3, 5), (), (1,)):
        array = np.random.default_rng(0).integers(0, 2, shape).astype(kind)
        array = np.ascontiguousarray(array).reshape(shape)
        wanted, there = array.copy(), np.zeros(shape, kind)
        staging.Staging().write(there.ctypes.data, array, driver.stream)
        array[...] = 1
        driver.work()
        assert np.array_equal(there.view(kind), wanted)


def test_memory_is_held_until_the_gpu_has_read_it(driver: Driver) -> None:
    made, there = staging.Staging(), np.zeros(4, np.float32)
    for i in range(3):
        made.write(there.ctypes.data, np.full(4, i, np.float32), driver.stream)
    assert (len(made._running), made._bytes) == (3, 48)
    driver.work()
    made.write(there.ctypes.data, np.ones(4, np.float32), driver.stream)
    assert (len(made._running), made._bytes) == (1, 16)


def test_many_bytes_under_way_are_waited_for(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "MOST", 40)
    made, there = staging.Staging(), np.zeros(4, np.float32)
    for i in range(5):
        made.write(there.ctypes.data, np.full(4, i, np.float32), driver.stream)
        assert made._bytes <= 40
    driver.work()
    assert there.tolist() == [4.0] * 4


def library(**failing: int) -> Any:
    """NVML, whose functions named here return an error."""

    def of(name: str, fill: Any) -> Any:
        def function(*args: Any) -> int:
            if not failing.get(name):
                fill(*args)
            return failing.get(name, 0)

        return function

    def use(device: Any, found: Any) -> None:
        found._obj.gpu, found._obj.memory = 93, 40

    def handle(place: bytes, device: Any) -> None:
        assert place == b"0000:3B:00.0"

    return SimpleNamespace(
        nvmlDeviceGetHandleByPciBusId_v2=of("handle", handle),
        nvmlDeviceGetUtilizationRates=of("use", use),
        nvmlDeviceGetTemperature=of("heat", lambda d, kind, n: setattr(n._obj, "value", 66)),
        nvmlDeviceGetPowerUsage=of("power", lambda d, n: setattr(n._obj, "value", 412_500)),
    )


def test_what_a_gpu_says_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "0000:3B:00.0"
    monkeypatch.setattr(nvml, "library", library)
    assert nvml.gauges(asked) == {"use": 0.93, "temperature": 66.0, "power": 412.5}
    # A part of a GPU (MIG) has no use of its own.
    monkeypatch.setattr(nvml, "library", lambda: library(use=3, power=3))
    assert nvml.gauges(asked) == {"temperature": 66.0}
    monkeypatch.setattr(nvml, "library", lambda: library(handle=6))
    assert nvml.gauges(asked) == {}
    monkeypatch.setattr(nvml, "library", lambda: None)
    assert nvml.gauges(asked) == {}
