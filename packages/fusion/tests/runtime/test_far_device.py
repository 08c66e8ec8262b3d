"""Plans on a device with memory of its own, which works later and fails later still."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from far_device import Opened, opening

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor.errors import BackendError, LostDeviceError, OutOfRangeError
from ingle.testkit import own_memory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc"),
]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens devices of this kind, `far` unless they are named."""
    with opening() as make:
        yield make


def on_far(*shape: int) -> it.Tensor:
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return it.asarray(values, device="far")


def trained(device: str, compiled: bool) -> list[float]:
    it.random.seed(0)
    with it.device(device):
        model = nn.Sequential(nn.Embedding(12, 6), nn.Flatten(), nn.Linear(18, 8), nn.LayerNorm(8))
        ids = it.asarray(np.arange(15).reshape(5, 3) % 12)
        labels = it.asarray(np.arange(5) % 8)
    optimizer = optim.Adam(model, lr=0.01)

    def step(ids: it.Tensor, labels: it.Tensor) -> it.Tensor:
        loss = it.cross_entropy(model(ids), labels)
        optimizer.step(loss.backward())
        return loss

    run = compile(step) if compiled else step
    return [run(ids, labels).item() for _ in range(5)]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.filterwarnings("ignore::ingle.tensor.eager.HostFallbackWarning")
def test_a_training_that_runs_late_has_the_numbers_of_one_at_once(
    opened: Opened, compiled: bool
) -> None:
    opened(delay=2e-3)
    np.testing.assert_allclose(trained("far", compiled), trained("numpy", False), rtol=2e-4)


def test_memory_is_the_devices_own(opened: Opened) -> None:
    opened()
    opened("other")
    own_memory.check_uploads("far")
    own_memory.check_views("far")
    own_memory.check_streams("far")
    own_memory.check_late_errors("far")
    own_memory.check_several(["far", "other", "cpu"])


def test_python_runs_ahead(opened: Opened) -> None:
    opened(delay=0.05)
    x = on_far(8, 8)
    step = compile(lambda x: it.softmax(it.softmax(x, axis=0) @ x, axis=1) @ x)
    wanted = step(x).numpy()
    begin = time.perf_counter()
    found = [step(x) for _ in range(4)]
    asked = time.perf_counter() - begin
    for y in found:
        np.testing.assert_array_equal(y.numpy(), wanted)
    assert asked < (time.perf_counter() - begin) / 2


def test_an_index_out_of_range_loses_nothing(opened: Opened) -> None:
    opened(delay=2e-3)
    cell = it.Cell(on_far(6))

    @compile
    def step(x: it.Tensor, index: it.Tensor) -> None:
        cell.value = cell.value * 2.0 + it.sum(it.take(x, index))

    x = on_far(5)
    good, bad = (it.asarray([0, n], device="far") for n in (4, 5))
    step(x, good)
    before = cell.value.numpy()
    for _ in range(2):
        with pytest.raises(OutOfRangeError, match="take"):
            step(x, bad)
        np.testing.assert_array_equal(cell.value.numpy(), before)
    step(x, good)
    np.testing.assert_allclose(cell.value.numpy(), before * 2 + x.numpy()[[0, 4]].sum(), rtol=1e-5)


def test_a_late_error_is_told_where_somebody_waits(opened: Opened) -> None:
    backend = opened()
    x = on_far(5)
    double = compile(lambda x: x * 2.0)
    double(x).numpy()
    backend.tell("fail", "the kernel hit a wall")
    y = double(x)
    with pytest.raises(BackendError, match="far: the kernel hit a wall"):
        y.numpy()
    np.testing.assert_array_equal(double(x).numpy(), x.numpy() * 2)


def test_more_memory_than_there_is(opened: Opened) -> None:
    opened(nbytes=1 << 20)
    own_memory.check_out_of_memory("far", 1 << 20)


def test_a_device_that_is_lost(opened: Opened) -> None:
    backend = opened()
    x = on_far(4, 4)
    quick = compile(lambda x: it.exp(x @ x))
    quick(x).numpy()
    own_memory.check_loss("far", backend.hardware.kill)
    with pytest.raises(LostDeviceError, match="the process is gone"):
        quick(x).numpy()
    assert (it.ones(3, device="cpu") + 1.0).tolist() == [2.0, 2.0, 2.0]


def many(x: it.Tensor) -> it.Tensor:
    """Some kernels one after the other."""
    y = x
    for _ in range(8):
        y = it.softmax(y @ x, axis=-1)
    return y


def test_an_interrupt_leaves_a_whole_state(opened: Opened) -> None:
    """Cells hold what they held, or what the step was to write."""
    opened(delay=0.05)
    x, cell = on_far(6, 6), it.Cell(on_far(6, 6))

    @compile
    def step(x: it.Tensor) -> None:
        cell.value = cell.value + many(x)

    going = threading.Event()

    def interrupting() -> None:
        time.sleep(0.7)
        while going.is_set():  # more than once: an interrupt in a finalizer is lost
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1.0)

    def forever() -> None:
        try:
            while True:
                step(x)
                cell.value.numpy()
        finally:
            going.clear()

    step(x)
    before, change = cell.value.numpy(), many(x).numpy()
    going.set()
    thread = threading.Thread(target=interrupting)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        forever()
    thread.join()
    found = cell.value.numpy() - before
    steps = np.round(found.sum() / change.sum())
    np.testing.assert_allclose(found, steps * change, rtol=1e-3, atol=1e-5)
    step(x)
    np.testing.assert_allclose(
        cell.value.numpy() - before, (steps + 1) * change, rtol=1e-3, atol=1e-5
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_child_is_told(opened: Opened) -> None:
    opened()
    x = on_far(3)
    wanted = (x + 1.0).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of threads
        child = os.fork()
    if not child:
        try:
            (x + 1.0).numpy()
        except BackendError as error:
            os._exit(7 if "spawn" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert (x + 1.0).tolist() == wanted
