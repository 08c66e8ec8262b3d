"""What plans and graphs compute, on a GPU played by the processor (`host_gpu`)."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_gpu import HostBackend, HostGpu, Pinned, Stream, opened

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import AFTER_OTHERS
from ingle.fusion.render.c import work
from ingle.tensor.contract import Scalar
from ingle.tensor.device import backend_of, call_staged
from ingle.tensor.errors import (
    BackendError,
    LostDeviceError,
    OutOfMemoryError,
    OutOfRangeError,
)
from ingle_cuda.graphs import launches

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++"),
]

PLAYED = "played"


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    """The backend of the device `played`."""
    return opened(HostGpu(folder), PLAYED, monkeypatch)


def trained(device: str, steps: int) -> list[float]:
    """The losses of a small network with every kind of kernel, whose learning rate changes."""
    it.random.seed(0)
    with it.device(device):
        model = nn.Sequential(
            nn.Embedding(16, 8), nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.3), nn.LayerNorm(8),
            nn.Linear(8, 16),
        )  # fmt: skip
        ids = it.asarray(np.arange(12) % 16)
    optimizer = optim.AdamW(model, lr=1e-2)

    @compile
    def step(ids: it.Tensor) -> it.Tensor:
        loss = it.cross_entropy(model(ids), ids)
        optimizer.step(loss.backward())
        return loss.detach()

    losses = []
    for n in range(steps):
        optimizer.lr = 1e-2 / (1 + n)
        losses.append(step(ids).item())
    return losses


def test_a_training_in_graphs_has_the_numbers_of_the_processor(backend: HostBackend) -> None:
    """Random numbers go on within a graph, and numbers that change are written for it."""
    counts = backend.gpu.counts
    found = trained(PLAYED, 12)
    assert counts["replayed"] > counts["captured"] > 0
    np.testing.assert_allclose(found, trained("cpu", 12), rtol=1e-5)


def test_barriers_with_another_played_gpu_in_the_process(
    backend: HostBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels of each meet its own barriers, whichever module's tests ran before."""
    x = np.random.default_rng(0).standard_normal((4, 70)).astype(np.float32)
    wanted = it.softmax(it.asarray(x, device="numpy"), axis=1).numpy()
    opened(HostGpu(tmp_path), "another", monkeypatch)
    for device in ("another", PLAYED, "another"):
        found = it.softmax(it.asarray(x, device=device), axis=1).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_pinned_memory_is_held_until_its_copy(backend: HostBackend) -> None:
    """A copy finds its memory there; what lies there afterwards is ordinary."""
    memory = Pinned(64)
    place, stream, there = memory.ptr, backend.stream, backend.allocate(64)
    backend.gpu.cupy.cuda.runtime.memcpyAsync(there.address, place, 64, 1, stream.ptr)
    stream.synchronize()
    backend.gpu.cupy.cuda.runtime.memcpyAsync(there.address, place, 64, 1, stream.ptr)
    del memory
    assert place not in Pinned.places
    with pytest.raises(AssertionError, match="given back before its copy"):
        stream.synchronize()


def test_an_index_out_of_range_within_a_graph(backend: HostBackend) -> None:
    with it.device(PLAYED):
        model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16))
    optimizer = optim.Adam(model, lr=0.01)

    @compile
    def step(ids: it.Tensor) -> it.Tensor:
        loss = it.cross_entropy(model(ids), ids)
        optimizer.step(loss.backward())
        return loss

    good, bad = (it.asarray([1, 2, n, 0], device=PLAYED) for n in (3, 30))
    losses = [step(good).item() for _ in range(6)]
    assert backend.gpu.counts["replayed"]
    before = [p.value.numpy() for p in model.parameters()]
    for _ in range(2):
        with pytest.raises(OutOfRangeError):
            step(bad).item()
    held = [p.value for p in model.parameters()], optimizer.state_dict()
    with pytest.raises(OutOfRangeError):  # where nothing can be written over, as it is held
        step(bad).item()
    del held
    for was, now in zip(before, model.parameters(), strict=True):
        assert np.array_equal(was, now.value.numpy())
    assert step(good).item() < losses[-1]


def test_batches_from_many_places_share_a_graph(backend: HostBackend) -> None:
    """Each is copied to where one graph reads it; a batch as it was before is read anew."""
    rng = np.random.default_rng(3)
    batches = [rng.standard_normal((4, 8)).astype(np.float32) for _ in range(12)]
    counts, losses = backend.gpu.counts, {}
    for device in (PLAYED, "cpu"):
        it.random.seed(0)
        with it.device(device):
            model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = optim.Adam(model, lr=1e-2)

        @compile
        def step(x: it.Tensor, model: Any = model, optimizer: Any = optimizer) -> it.Tensor:
            loss = it.mean(model(x) ** 2)
            optimizer.step(loss.backward())
            return loss.detach()

        given = [it.asarray(x, device=device) for x in batches]
        losses[device] = [step(x).item() for _ in range(3) for x in given]
    assert counts["captured"] <= 8
    assert counts["replayed"] > len(batches)
    np.testing.assert_allclose(losses[PLAYED], losses["cpu"], rtol=1e-5)


def test_a_plan_that_writes_nothing_over_shares_its_graph_too(backend: HostBackend) -> None:
    f = compile(lambda x, w: it.sum(it.softmax(it.tanh(x @ w) @ w, axis=-1) * x, axis=0))
    w = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    there = it.asarray(w, device=PLAYED)
    given = [it.asarray(w[:4] + n, device=PLAYED) for n in range(20)]
    for n, x in enumerate(given * 2):
        wanted = f(it.asarray(x.numpy(), device="numpy"), it.asarray(w, device="numpy")).numpy()
        np.testing.assert_allclose(f(x, there).numpy(), wanted, rtol=1e-5, err_msg=str(n))
    assert 0 < backend.gpu.counts["captured"] <= 4
    assert backend.gpu.counts["replayed"] >= 20


def test_inputs_that_come_to_rest_are_copied_no_more(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights lie elsewhere in the first steps of a training, and stay where they are then."""
    with it.device(PLAYED):
        model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 16))
    optimizer = optim.Adam(model, lr=1e-2)
    copied = []
    duplicate = type(backend).duplicate

    def noting(self: HostBackend, to: int, of: int, nbytes: int) -> None:
        copied.append(of)
        duplicate(self, to, of, nbytes)

    monkeypatch.setattr(type(backend), "duplicate", noting)

    @compile
    def step(ids: it.Tensor) -> it.Tensor:
        loss = it.cross_entropy(model(ids), ids)
        optimizer.step(loss.backward())
        return loss.detach()

    ids = it.asarray(np.arange(12) % 16, device=PLAYED)
    kept = []  # so that new memory lies elsewhere
    for _ in range(30):
        step(ids)
        if len(kept) < 4:
            kept.append([p.value for p in model.parameters()])
    captured = backend.gpu.counts["captured"]
    copied.clear()
    for _ in range(10):
        step(ids)
    assert not copied
    assert backend.gpu.counts["captured"] == captured
    many = [it.asarray(np.arange(12) % 5 + n, device=PLAYED) for n in range(10)]
    for _ in range(4):
        for x in many:
            step(x)
    captured = backend.gpu.counts["captured"]
    for x in many:
        step(x)
    assert {len(copied) > 0, backend.gpu.counts["captured"] == captured} == {True}


class OnHost:
    """An offer of attention and its gradient, computed by the device numpy."""

    def __init__(self, backend: HostBackend) -> None:
        self.backend = backend
        self.runs = 0

    def takes(self, op: Any, avals: Any) -> bool:
        return str(op.operation.name).startswith("scaled_dot_product_attention")

    def run(self, op: Any, inputs: Any) -> Any:
        self.runs += 1
        host = backend_of("numpy")
        given = [
            x if isinstance(x, Scalar) else host.upload(self.backend.download(x)) for x in inputs
        ]
        results = call_staged(host, host.execute, op, given)
        return tuple([self.backend.upload(host.download(r)) for r in results])


def test_a_step_with_an_offer_writes_over_its_state(backend: HostBackend) -> None:
    """What the library computes lies before all that writes over parameters and moments."""
    offer = OnHost(backend)
    backend.offers = (offer,)
    losses: dict[str, list[float]] = {}
    places = []
    for device in (PLAYED, "cpu"):
        it.random.seed(0)
        with it.device(device):
            model = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
            x = it.asarray(np.random.default_rng(0).normal(size=(2, 6, 8)).astype(np.float32))
        optimizer = optim.Adam(model, lr=0.01)

        @compile
        def step(x: it.Tensor, model: Any, optimizer: Any) -> it.Tensor:
            q, k, v = it.split(model(x), 8, axis=-1)
            loss = it.mean(it.scaled_dot_product_attention(q, k, v) ** 2)
            optimizer.step(loss.backward())
            return loss

        losses[device] = []
        for _ in range(7):
            losses[device].append(step(x, model, optimizer).item())
            places.append([p._value._handle.computed().address for p in model.parameters()])
    assert offer.runs == 14  # forward and gradient
    assert places[6] == places[5] == places[4]
    np.testing.assert_allclose(losses[PLAYED], losses["cpu"], rtol=1e-4)


def test_more_memory_than_there_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(HostGpu(folder, total=1 << 26), PLAYED, monkeypatch)
    x = it.ones((8, 8), device=PLAYED)
    step = compile(lambda x: it.softmax(it.softmax(x, axis=0), axis=1) @ x)
    wanted = step(x).numpy()
    with pytest.raises(OutOfMemoryError, match=r"cuda:0 refuses .* of 67108864 bytes are free"):
        it.ones((1 << 25,), device=PLAYED).numpy()
    for _ in range(4):
        assert np.array_equal(step(x).numpy(), wanted)


def test_a_kernel_that_the_driver_refuses(backend: HostBackend) -> None:
    x = it.ones(3, device=PLAYED)
    x.numpy()
    backend.gpu.fails["cuLaunchKernel"] = 700
    with pytest.raises(LostDeviceError, match=r"ILLEGAL_ADDRESS.*checkpoint"):
        (x + 1.0).numpy()
    del backend.gpu.fails["cuLaunchKernel"]
    assert (x + 1.0).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_child(backend: HostBackend) -> None:
    x = it.ones(3, device=PLAYED)
    assert (x + 1.0).tolist() == [2.0, 2.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of threads
        child = os.fork()
    if not child:
        told = 0
        for use in (lambda: it.ones(3, device=PLAYED).tolist(), lambda: x.tolist()):
            try:
                use()
            except LostDeviceError as error:
                told += "spawn" in str(error)
        os._exit(told)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert (x + 1.0).tolist() == [2.0, 2.0, 2.0]


def scaled(backend: HostBackend) -> Any:
    """A plan of several kernels with a number that changes, as a graph."""
    square = it.asarray(np.eye(4, dtype=np.float32), device=PLAYED)

    @compile
    def run(x: it.Tensor, factor: float) -> it.Tensor:
        return it.softmax((x @ square) * factor, axis=-1) @ square * factor

    x = it.asarray(np.arange(24, dtype=np.float32).reshape(6, 4), device=PLAYED)

    def call(factor: float) -> np.ndarray:
        return run(x, factor).numpy()

    return call


def several(call: Any, times: int) -> None:
    for _ in range(times):
        call(1.0)


def test_an_interrupt_while_numbers_are_written(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph never takes the numbers of the run that was interrupted for its own."""
    call = scaled(backend)
    wanted = {factor: call(factor) for factor in (1.0, 2.0)}
    for _ in range(6):
        assert np.array_equal(call(1.0), wanted[1.0])
    assert backend.gpu.counts["replayed"]
    enqueue = backend.enqueue

    def interrupted(*args: Any) -> None:
        enqueue(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(backend, "enqueue", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call(2.0)
    monkeypatch.setattr(backend, "enqueue", enqueue)
    assert np.array_equal(call(1.0), wanted[1.0])
    assert np.array_equal(call(2.0), wanted[2.0])


def test_an_interrupt_while_a_graph_is_captured(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = scaled(backend)
    wanted = call(1.0)
    begin = Stream.begin_capture

    def interrupted(self: Stream, mode: int) -> None:
        begin(self, mode)
        raise KeyboardInterrupt

    monkeypatch.setattr(Stream, "begin_capture", interrupted)
    with pytest.raises(KeyboardInterrupt):
        several(call, 4)
    monkeypatch.setattr(Stream, "begin_capture", begin)
    before = backend.gpu.counts["replayed"]
    for _ in range(6):
        assert np.array_equal(call(1.0), wanted)
    assert backend.gpu.counts["replayed"] > before


@pytest.mark.parametrize("when", ["at once", "in a graph"])
def test_a_product_that_the_library_refuses(backend: HostBackend, when: str) -> None:
    backend.tiles = False
    call = scaled(backend)
    wanted = call(1.0)
    backend.gpu.fails["cublasGemmStridedBatchedEx"] = 13
    with pytest.raises(BackendError, match=r"played.*EXECUTION_FAILED"):
        several(call, 1 if when == "at once" else 6)
    del backend.gpu.fails["cublasGemmStridedBatchedEx"]
    for _ in range(6):
        assert np.array_equal(call(1.0), wanted)


@pytest.mark.parametrize("axis", [0, 1])
def test_more_rows_than_blocks(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch, axis: int
) -> None:
    """A block takes several rows where there are more than the driver counts."""
    monkeypatch.setattr(work, "_MOST_GROUPS", 3)
    x = np.random.default_rng(0).standard_normal((50, 70)).astype(np.float32)
    found = it.softmax(it.asarray(x, device=PLAYED), axis=axis).numpy()
    wanted = it.softmax(it.asarray(x, device="numpy"), axis=axis).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_kernels_of_graphs_begin_while_others_end(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the library's: they wait by themselves before they read or write anything."""
    monkeypatch.setattr(launches, "_WORTH_OVERLAP", 2)

    @compile
    def step(x: Any) -> Any:
        return it.softmax(it.tanh(x @ weight) @ weight, axis=-1)

    weight, x = (it.asarray(np.eye(40, dtype=np.float32)[:n], device=PLAYED) for n in (40, 3))
    first = step(x).numpy()
    for _ in range(3):
        np.testing.assert_array_equal(step(x).numpy(), first)
    assert backend.gpu.counts["captured"]
    assert backend.gpu.counts["dependent"]
    sources = explain(step, x, source=True, runs=0).sources
    bodies = [s[s.index("INGLE_KERNEL(nest,") :].split("{", 1)[1] for s in sources]
    for body in bodies:
        ahead, wait, _ = body.partition(AFTER_OTHERS)
        assert wait
        starts = ("const int64_t begin", "const int64_t end", "if (", "for (")
        assert all(line.strip().startswith(starts) for line in ahead.splitlines() if line.strip())
