"""The pool under the backend: what comes from it, what it costs to run out, what it keeps alive."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import BackendError, OutOfMemoryError
from ingle_numpy import memory

MIB = 1 << 20


@pytest.fixture
def limited() -> Iterator[int]:
    """A limit of 16 MiB beyond what is in use, on the default strategy."""
    gc.collect()
    it.memory.release()
    limit = it.memory.stats().reserved + 16 * MIB
    it.memory.limit(limit)
    yield limit
    it.memory.limit(None)
    it.memory.release()


@pytest.mark.parametrize("strategy", ["bins", "slices", "direct"])
def test_results_do_not_depend_on_the_strategy(strategy: str) -> None:
    x = np.linspace(-1, 1, 1 << 17, dtype=np.float32).reshape(256, 512)
    it.memory.strategy(strategy)
    try:
        y = it.asarray(x)
        for _ in range(3):
            y = it.exp(-it.abs(y)) @ it.asarray(x).T @ y / 1e3
        kept = y.numpy()
        del y
        for _ in range(3):
            it.ones((256, 512)) * 2
    finally:
        it.memory.strategy("bins")
    z = x
    for _ in range(3):
        z = np.exp(-np.abs(z)) @ x.T @ z / np.float32(1e3)
    np.testing.assert_allclose(kept, z, rtol=1e-5)


def test_running_out_names_the_operation_and_the_holders(limited: int) -> None:
    held = [it.ones((MIB, 1)), it.exp(it.ones((1, MIB)))]
    with pytest.raises(OutOfMemoryError) as caught:
        it.multiply(it.broadcast_to(held[0].T, (4, MIB)), 2.0)
    message = str(caught.value)
    assert "16.0 MiB for multiply float32[4, 1048576]" in message
    assert "4.0 MiB full float32[1048576, 1]; 4.0 MiB exp float32[1, 1048576]" in message
    # The process goes on, once the traceback lets go of its frames.
    del held, caught
    assert it.sum(it.ones((2, MIB)) * 2.0).item() == 4 * MIB


def test_a_step_that_runs_out_changes_nothing(limited: int) -> None:
    from ingle import nn, optim

    w = nn.Parameter(np.ones((1024, 1024), np.float32))
    adam = optim.Adam([w])
    before = w.value.numpy()
    grads = it.Gradients({w: it.ones((1024, 1024))})
    it.memory.limit(it.memory.stats().in_use + 9 * MIB)
    with pytest.raises(OutOfMemoryError):
        adam.step(grads)
    assert adam.steps.value == 0
    np.testing.assert_array_equal(w.value.numpy(), before)
    it.memory.limit(limited + 64 * MIB)
    adam.step(grads)
    assert adam.steps.value == 1


def test_sizes_that_no_machine_has() -> None:
    with pytest.raises(OutOfMemoryError, match="for multiply float32"):
        it.broadcast_to(it.ones(1 << 15), (1 << 32, 1 << 15)) * 2.0
    # This kernel asks NumPy itself.
    with pytest.raises(OutOfMemoryError, match=r"cumulative_sum: Unable to allocate"):
        it.cumulative_sum(it.broadcast_to(it.ones(1), (1 << 24, 1 << 23)), axis=0)


def test_exports_keep_memory_alive() -> None:
    x = it.ones((512, 512)) * 3.0
    y, part = x.numpy(), it.from_dlpack(x).numpy()[3]
    del x
    others = [it.zeros((512, 512)) + i for i in range(8)]
    assert (y == 3).all()
    assert (part == 3).all()
    assert len(others) == 8


def test_memory_goes_back_when_the_last_view_is_gone() -> None:
    gc.collect()
    before = it.memory.stats().in_use
    x = it.ones((512, 512)) * 3.0
    view = x[2:].numpy()[:, 1]
    del x
    assert it.memory.stats().in_use == before + MIB
    del view
    assert it.memory.stats().in_use == before


def test_every_view_finds_its_ledger() -> None:
    x = it.zeros(1 << 16)
    x[0] = 1
    owned, array = x._handle.owned, x._handle.array
    views = [
        array[2:][::3],
        array.reshape(256, -1).T,
        np.lib.stride_tricks.as_strided(array, (4, 4), (4, 4)),
        np.lib.stride_tricks.sliding_window_view(array, 9)[2:],
        np.broadcast_to(array, (3, 1 << 16)),
        array.view(np.int8),
    ]
    assert all(memory.ledger(view) is owned for view in views)
    assert memory.ledger(array.copy()) is None
    assert memory.ledger(np.ones(3)[1:]) is None


def test_large_results_are_aligned() -> None:
    x = it.ones((300, 301))
    for y in (x + 1, x @ x.T, it.concat([x, x]), x.astype("float64"), it.sqrt(x), x > 0):
        array = y._handle.array
        if array.nbytes >= memory.LARGE:
            assert array.__array_interface__["data"][0] % 64 == 0


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (0, 2, 1)])
def test_results_lie_as_their_inputs_do(order: tuple[int, ...]) -> None:
    """What a permuted tensor is combined to is no slower to read for it."""
    x = it.permute_dims(it.reshape(it.arange(64 * 48 * 40, dtype="float32"), (64, 48, 40)), order)
    y = x * 2.0 + x
    assert (
        np.argsort(y._handle.array.strides).tolist() == np.argsort(x._handle.array.strides).tolist()
    )
    np.testing.assert_array_equal(y.numpy(), x.numpy() * 3)


def test_broadcasting_into_pooled_memory() -> None:
    row, column = it.arange(600, dtype="float32"), it.reshape(it.arange(500.0), (500, 1))
    for y, z in ((row + column, 1), (column * row, 2), (it.maximum(row, column) < 7.0, 3)):
        a, b = row.numpy(), column.numpy()
        want = (a + b, b * a, np.maximum(a, b) < 7)[z - 1]
        np.testing.assert_array_equal(y.numpy(), want)


def test_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(seed: int) -> bool:
        x = it.full((256, 256), float(seed))
        for _ in range(30):
            x = (x * 2.0 - x) + 0.0
            x[0] = float(seed)
        return bool(it.all(x == float(seed)))

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(work, range(24)))


def test_a_backend_without_a_pool_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from ingle_numpy.backend import NumpyBackend

    monkeypatch.setattr(NumpyBackend, "memory", None)
    with pytest.raises(BackendError, match="numpy"):
        it.memory.stats("numpy")


def run(code: str, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


ASK = "import ingle.tensor as it; x = it.ones(1 << 20) + 1.0; x += 1.0; s = it.memory.stats(); "


@pytest.mark.slow
def test_variables() -> None:
    shown = run(
        ASK + "print(s.strategy, s.limit, s.blocks)",
        INGLE_MEMORY="slices", INGLE_MEMORY_LIMIT="64MiB",
    )  # fmt: skip
    assert shown == "slices 67108864 1"
    assert run(ASK + "print(s.blocks, x[5].item())", INGLE_MEMORY="off") == "0 3.0"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_computes() -> None:
    shown = run(
        "import os, ingle.tensor as it\n"
        "x = it.ones((512, 512)) + 1.0\n"
        "child = os.fork()\n"
        "x += 1.0\n"
        "y = (x * 2.0).sum().item()\n"
        "if not child: os._exit(0 if y == 6 * 512 * 512 else 1)\n"
        "print(os.waitpid(child, 0)[1], y)"
    )
    assert shown == "0 1572864.0"
