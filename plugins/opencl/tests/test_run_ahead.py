"""An interrupt never waits long for what is in the queue, and the device never for Python."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor import plugins
from ingle.tensor.device import Device
from ingle_opencl.backend import OpenCLBackend
from ingle_opencl.devices import device_of
from ingle_opencl.run_ahead import LONGEST, SECONDS, Event, RunAhead


class Clocked:
    """A device that takes some seconds for each launch, and a host that takes some to launch."""

    def __init__(self, device: float, host: float) -> None:
        self.device, self.host = device, host
        self.now = self.free = 0.0
        self.longest = self.idle = 0.0
        self.ahead = RunAhead(lambda: self.now)

    def launch(self) -> None:
        self.now += self.host
        self.idle += max(0.0, self.now - self.free)
        self.free = max(self.free, self.now) + self.device
        self.longest = max(self.longest, self.free - self.now)
        self.ahead.launched(End(self, self.free))


class End:
    def __init__(self, clocked: Clocked, at: float) -> None:
        self.clocked, self.at = clocked, at

    def wait(self) -> None:
        self.clocked.now = max(self.clocked.now, self.at)


@pytest.mark.parametrize("device", [1.0, 0.03, 1e-3, 1e-4])
def test_little_waits_in_the_queue_and_the_device_never_does(device: float) -> None:
    clocked = Clocked(device, host=1e-5)
    for _ in range(3000):
        clocked.launch()
    assert clocked.longest <= max(3 * device, 3 * SECONDS)
    assert clocked.idle <= 10 * clocked.host


def test_a_device_that_is_faster_than_python_is_hardly_waited_for() -> None:
    clocked = Clocked(device=1e-6, host=1e-5)
    for _ in range(3000):
        clocked.launch()
    assert clocked.ahead._stretch == LONGEST
    assert clocked.now == pytest.approx(3000 * clocked.host)


def test_stretches_become_short_again() -> None:
    clocked = Clocked(device=1e-6, host=1e-5)
    for _ in range(3000):
        clocked.launch()
    clocked.device, clocked.longest = 0.5, 0.0
    for _ in range(4 * LONGEST):
        clocked.launch()
    clocked.longest = 0.0
    clocked.launch()
    assert clocked.longest <= 3 * clocked.device


def test_the_backend_counts_its_launches(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(backend, "_ahead", RunAhead())
    monkeypatch.setattr(backend._ahead, "launched", seen.append)
    x = it.asarray(np.arange(40, dtype=np.float32), device="opencl")
    for _ in range(5):
        (x * 3.0).numpy()
    assert len(seen) >= 5
    assert all(hasattr(event, "wait") for event in seen)


class Interrupted(RunAhead):
    """One that Ctrl-C comes to behind a launch.

    Attributes:
        left: launches until then.
    """

    left = -1

    def launched(self, event: Event) -> None:
        super().launched(event)
        self.left -= 1
        if not self.left:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
def test_ctrl_c_in_a_long_plan_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    spare = OpenCLBackend(Device("opencl_spare"), device_of(0))
    monkeypatch.setitem(plugins._backends, spare.device, spare.composition())
    monkeypatch.setattr(spare, "_ahead", Interrupted())
    with it.device("opencl_spare"):
        start = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
        cell, x = it.Cell(it.asarray(start)), it.asarray(start * np.float32(0.1))

        @compile
        def step(x: Any) -> None:
            for _ in range(40):
                cell.value = it.tanh(cell.raw @ x + cell.raw)

        for _ in range(3):
            step(x)
        before = cell.value.numpy()
        spare._ahead.left = 10_000
        step(x)
        after, launches = cell.value.numpy(), 10_000 - spare._ahead.left
        assert launches >= 40
        old = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            for number in (1, launches // 2, launches - 1):
                cell.value = it.asarray(before)
                cell.value.numpy()
                spare._ahead.left = number
                with pytest.raises(KeyboardInterrupt):
                    step(x)
                np.testing.assert_array_equal(cell.value.numpy(), before)
                step(x)
                np.testing.assert_array_equal(cell.value.numpy(), after)
        finally:
            signal.signal(signal.SIGINT, old)
