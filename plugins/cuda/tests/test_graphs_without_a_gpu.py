"""When plans become graphs, on a stub of a GPU with memory on the host and kernels that do nothing.

Everything above the driver is the plugin's own: pool, plans, addresses, captures.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor import plugins
from ingle.tensor.plugins import BackendDescription
from ingle_cuda import backend
from ingle_cuda.driver import devices, memory

_ALIGNED = 256


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is put into the stream, by kind; the stub is the device `stub`."""
    told: Counter[str] = Counter()
    held: dict[int, np.ndarray] = {}

    class Stream:
        ptr, done = 1, True

        def __init__(self, non_blocking: bool) -> None:
            self.before = 0

        def synchronize(self) -> None: ...

        def wait_event(self, event: Any) -> None: ...

        def begin_capture(self, mode: int) -> None:
            told["captured"] += 1
            self.before = told["launched"]

        def end_capture(self) -> Any:
            told["launched"] = self.before
            return SimpleNamespace(launch=lambda stream: told.update(replayed=1))

    def malloc(nbytes: int) -> int:
        array = np.zeros(nbytes + _ALIGNED, np.uint8)
        address = -(-array.ctypes.data // _ALIGNED) * _ALIGNED
        held[address] = array
        return int(address)

    def memcpy(to: int, of: int, nbytes: int, kind: int, stream: int) -> None:
        ctypes.memmove(to, of, nbytes)

    runtime = SimpleNamespace(
        setDevice=lambda number: None, free=lambda address: held.pop(address, None) is None,
        malloc=malloc, memcpyAsync=memcpy, CUDARuntimeError=RuntimeError,
    )  # fmt: skip

    class Pinned(bytearray):
        @property
        def ptr(self) -> int:
            return ctypes.addressof(ctypes.c_char.from_buffer(self))

    class Event:
        def __init__(self, disable_timing: bool) -> None: ...
        def record(self, stream: Any) -> None: ...
        def synchronize(self) -> None: ...

    cupy = SimpleNamespace(
        cuda=SimpleNamespace(
            runtime=runtime,
            Stream=Stream,
            Event=Event,
            alloc_pinned_memory=Pinned,
            driver=SimpleNamespace(launchKernel=None),
        )
    )
    driver = SimpleNamespace(cuCtxGetCurrent=lambda context: 0)
    for module in (backend, memory):
        monkeypatch.setattr(module, "cupy", lambda: cupy)
    monkeypatch.setattr(backend, "driver", lambda: driver)

    def launched(self: Any, *args: Any) -> None:
        told["launched"] += 1

    class Stub(backend.CudaBackend):
        _launch = launched

        def compile_source(self, source: str, name: str) -> Any:
            return SimpleNamespace(function=None, after_others=False)

        def __init__(self, device: it.Device, limits: devices.Limits) -> None:
            super().__init__(device, limits)
            self.products = SimpleNamespace(  # type: ignore[assignment]
                multiply=partial(launched, self),
                open=lambda: told.update(opened=1),
                serve=lambda stream: None,
            )

    limits = devices.Limits(0, "stub", 132, "sm_90", 1 << 34)
    made = Stub(it.Device("stub"), limits).composition()
    monkeypatch.setitem(
        plugins._descriptions, "stub", BackendDescription(create=lambda index: made)
    )
    monkeypatch.setitem(plugins._backends, it.Device("stub"), made)
    return told


def losses_of(model: nn.Module) -> Any:
    optimizer = optim.AdamW(model, lr=1e-3)

    def step(x: it.Tensor, y: it.Tensor) -> it.Tensor:
        loss = it.cross_entropy(model(x), y)
        optimizer.step(loss.backward())
        return loss.detach()

    return compile(step)


def test_a_step_of_training_is_replayed(counts: Counter[str]) -> None:
    """Also where indices are checked before weights are written over, so that their updates need
    other memory: it comes back every other time."""
    with it.device("stub"):
        model = nn.Sequential(
            nn.Embedding(16, 8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.LayerNorm(8),
            nn.Linear(8, 16),
        )  # fmt: skip
        x = y = it.asarray(np.arange(12) % 16)
    step = losses_of(model)
    for _ in range(18):  # inputs that lay elsewhere at first have come to rest by then
        loss = step(x, y)
    before = counts.copy()
    for _ in range(6):
        loss = step(x, y)
    done = counts - before
    assert done["captured"] == 0
    assert done["replayed"] >= 6
    # Two checks of indices, too few for a graph, and the learning rate, where one reads it.
    assert done["launched"] <= 3 * 6
    assert loss.shape == ()


@pytest.mark.slow
def test_a_step_of_plain_code_is_replayed_beside_gradients_that_are_kept(
    counts: Counter[str],
) -> None:
    """These are as large as weights and moments, which stay where they are all the same."""
    with it.device("stub"):
        model = nn.Sequential(*[nn.Linear(64, width) for width in (64, 64, 10)])
        x, y = it.ones((32, 64)), it.asarray(np.arange(32) % 10)
    optimizer = optim.AdamW(model, lr=1e-3)

    def step() -> it.Gradients:
        loss = it.cross_entropy(model(x), y)
        gradients = loss.backward()
        optimizer.step(gradients)
        loss.item()
        return gradients

    for _ in range(40):
        kept = step()
        del kept
    before = counts.copy()
    for _ in range(12):
        kept = step()
        del kept
    done = counts - before
    assert done["captured"] == 0
    assert done["replayed"] >= 12


def test_graphs_can_be_turned_off(counts: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    hardware: Any = plugins._backends[it.Device("stub")]
    hardware.inner.graphs = False
    x = it.ones((8, 8), device="stub")
    run = compile(lambda x: it.softmax(it.softmax(x, axis=0), axis=1) @ x)
    for _ in range(6):
        run(x)
    assert counts["captured"] == 0
    assert counts["launched"] >= 6 * 3


def test_a_graph_without_products_takes_no_memory_for_their_library(counts: Counter[str]) -> None:
    def step(x: it.Tensor) -> it.Tensor:
        for axis in (0, 1, 0, 1):
            x = it.softmax(x, axis=axis)
        return x

    run = compile(step)
    x = it.ones((64, 48), device="stub")
    for _ in range(6):
        run(x)
    assert counts["captured"]
    assert not counts["opened"]


def test_the_place_of_an_extreme_in_a_long_row_is_part_of_a_graph(counts: Counter[str]) -> None:
    run = compile(lambda x: it.argmax(it.softmax(x, axis=-1), axis=-1))
    x = it.ones((1, 32_000), device="stub")
    for _ in range(6):
        run(x)
    assert counts["captured"]
    before = counts["launched"]
    run(x)
    assert counts["launched"] == before
