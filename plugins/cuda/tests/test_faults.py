"""What goes wrong on a GPU: each is an error that says what to do, and the process goes on.

Scenes that lose the device, or take all of its memory, are processes of their own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile
from ingle.router import Router, data_parallel
from ingle.tensor.device import Device
from ingle.tensor.errors import BackendError, DeviceError, OutOfMemoryError, OutOfRangeError
from ingle_cuda import peers
from ingle_cuda.backend import CudaBackend
from ingle_cuda.driver import devices

pytestmark = pytest.mark.slow


def works() -> None:
    x = it.asarray([1.0, 2.0], device="cuda")
    assert (x * 2.0 + 1.0).tolist() == [3.0, 5.0]


def scene(code: str) -> str:
    """What a program prints that ends well."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_number_that_no_gpu_has() -> None:
    with pytest.raises(BackendError, match=r"no device 'cuda:99': it has \d+ devices?, numbered"):
        it.zeros(2, device="cuda:99")
    works()


def test_devices_do_not_mix() -> None:
    with pytest.raises(DeviceError, match=r"x1: cuda, x2: cpu.*to_device"):
        it.ones(3, device="cuda") + it.ones(3, device="cpu")
    works()


def test_more_memory_than_there_is() -> None:
    with pytest.raises(OutOfMemoryError, match=r"cannot allocate 4\.0 TiB .* smaller batches"):
        it.zeros((1 << 40,), device="cuda").numpy()
    works()


FULL = """
import cupy, gc
import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor.errors import OutOfMemoryError
step = compile(lambda x: it.softmax(x @ x, axis=-1) * 2.0 + it.sum(x))
x = it.ones((512, 512), device="cuda")
wanted = step(x).numpy()
free, _ = cupy.cuda.runtime.memGetInfo()
others = cupy.cuda.runtime.malloc(free - (64 << 20))
try:
    it.ones((1 << 27,), device="cuda").numpy()
except OutOfMemoryError as error:
    print("full", "bytes are free" in str(error))
print((step(x).numpy() == wanted).all())
cupy.cuda.runtime.free(others)
print(float(it.ones((1 << 27,), device="cuda")[5]))
"""


def test_memory_that_others_have() -> None:
    assert scene(FULL).split() == ["full", "True", "True", "1.0"]


def test_an_index_out_of_range_within_a_graph() -> None:
    table = it.asarray(np.arange(8, dtype=np.float32), device="cuda")
    square = it.asarray(np.eye(4, dtype=np.float32), device="cuda")

    @compile
    def step(places: it.Tensor) -> it.Tensor:
        rows = it.take(table, places) * 2.0
        return it.sum(it.softmax(rows @ square, axis=-1) * rows)

    good, bad = (it.asarray([1, 2, n, 0], device="cuda") for n in (3, 30))
    wanted = step(good).item()
    for places in (good, good, good, bad, bad, good, good):
        if places is bad:
            with pytest.raises(OutOfRangeError, match=r"take: .* axis 0 has size 8"):
                step(places).item()
        else:
            assert step(places).item() == wanted
    works()


def test_a_step_with_an_index_out_of_range_changes_nothing() -> None:
    it.random.seed(0)
    with it.device("cuda"):
        model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16))
    optimizer = optim.Adam(model, lr=0.01)

    @compile
    def step(ids: it.Tensor) -> it.Tensor:
        loss = it.cross_entropy(model(ids), ids)
        optimizer.step(loss.backward())
        return loss

    good, bad = (it.asarray([1, 2, n, 0], device="cuda") for n in (3, 30))
    losses = [step(good).item() for _ in range(4)]
    before = [p.value.numpy() for p in model.parameters()]
    for _ in range(2):
        with pytest.raises(OutOfRangeError):
            step(bad).item()
    for was, now in zip(before, model.parameters(), strict=True):
        assert np.array_equal(was, now.value.numpy())
    assert step(good).item() < losses[-1]


def test_ctrl_c_while_the_device_is_busy() -> None:
    a = it.asarray(np.full((2048, 2048), 1e-3, np.float32), device="cuda")

    @compile
    def long(x: it.Tensor) -> it.Tensor:
        for _ in range(100):
            x = it.tanh(x @ a)
        return x

    long(a).numpy()
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

    def forever() -> None:
        x = a
        while True:
            x = long(x)
            float(x[0, 0])

    with pytest.raises(KeyboardInterrupt):
        forever()
    works()
    assert np.isfinite(long(a).numpy()).all()


FORK = """
import os
import ingle.tensor as it
from ingle.tensor.errors import LostDeviceError
x = it.asarray([1.0, 2.0], device="cuda")
print((x + 1.0).tolist(), flush=True)
child = os.fork()
if not child:
    for use in (lambda: it.ones(3, device="cuda").tolist(), lambda: x.tolist()):
        try:
            use()
        except LostDeviceError as error:
            print("spawn" in str(error), "compiled" in str(error))
    print(it.ones(1, device="cpu").tolist(), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], (x + 1.0).tolist())
"""


def test_a_forked_child() -> None:
    told = scene(FORK).splitlines()
    assert told == ["[2.0, 3.0]", "True False", "True False", "[1.0]", "0 [2.0, 3.0]"]


LOST = """
import ingle.tensor as it
from ingle.fusion.device import CustomKernel, register_kernel
from ingle.tensor.dispatch import handle_of, run1
from ingle.tensor.errors import LostDeviceError
from ingle.tensor.operation import Operation, Traits
broken = lambda x: run1(BROKEN.op(), handle_of(x, "broken"))
BROKEN = Operation("broken", tensors=("x",), rule=lambda x: x, traits=Traits("opaque"),
                   body=lambda x: x * 0.5, public=broken)
SOURCE = 'extern "C" __global__ void broken(float *x) { *(float *)8 = 1.0f; }'
register_kernel(BROKEN, "cuda", lambda op, avals: CustomKernel(SOURCE, (), 2, "broken"))
x = it.asarray([1.0, 3.0], device="cuda")
for use in (lambda: broken(x).tolist(), lambda: (x + 1.0).tolist(), lambda: x.tolist(),
            lambda: it.ones(2, device="cuda").tolist(), lambda: x.to_device("cpu").tolist()):
    try:
        use()
    except LostDeviceError as error:
        print("checkpoint" in str(error), end=" ")
print((it.ones(2, device="cpu") + 1.0).tolist())
"""


def test_a_device_that_a_kernel_lost() -> None:
    assert scene(LOST).strip() == "True True True True True [2.0, 2.0]"


@pytest.fixture(scope="module")
def twin() -> CudaBackend:
    """The first GPU as a second device, with memory and a stream of its own."""
    return CudaBackend(Device("cuda", 1), devices.limits_of(0))


def test_copies_between_streams_come_in_order(backend: Any, twin: CudaBackend) -> None:
    """Each copy is of what was there, though nobody waits and memory is used again at once."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=1 << 20).astype(np.float32) for _ in range(8)]
    there = [peers.copied(backend.upload(a), twin) for a in arrays]
    back = [peers.copied(h, backend) for h in there]
    del there
    for array, handle in zip(arrays, back, strict=True):
        assert np.array_equal(backend.download(handle), array)


@pytest.mark.parametrize("first", ["cuda", "cpu"])
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_a_model_on_the_gpu_and_the_processor_trains_as_on_one(first: str, compiled: bool) -> None:
    rng = np.random.default_rng(0)
    shapes = ((32, 8), (32,), (4, 32), (4,))
    weights = [rng.normal(size=s).astype(np.float32) * 0.2 for s in shapes]
    x, y = rng.normal(size=(64, 8)).astype(np.float32), rng.integers(0, 4, 64)

    def losses(one: str, other: str) -> list[float]:
        lower, upper = nn.Linear(8, 32).to(one), nn.Linear(32, 4).to(other)
        parameters = [*lower.parameters(), *upper.parameters()]
        for p, w in zip(parameters, weights, strict=True):
            p.value = it.asarray(w, device=p.value.device)
        optimizer = optim.Adam(parameters, lr=0.02)

        def step(x: it.Tensor, y: it.Tensor) -> it.Tensor:
            hidden = it.tanh(lower(x)).to_device(other)
            loss = it.cross_entropy(upper(hidden), y)
            optimizer.step(loss.backward())
            return loss

        run = compile(step) if compiled else step
        batch = it.asarray(x, device=one), it.asarray(y, device=other)
        return [run(*batch).item() for _ in range(20)]

    with Router(first, "cpu" if first == "cuda" else "cuda") as router:
        found = losses(str(router[0]), str(router[1]))
    np.testing.assert_allclose(found, losses("cpu", "cpu"), rtol=1e-5)
    assert found[-1] < 0.8 * found[0]


def test_a_batch_on_the_gpu_and_the_processor() -> None:
    w = it.Cell(it.asarray(np.arange(4, dtype=np.float32), device="cuda"), differentiable=True)
    x = it.asarray(np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32), device="cuda")

    def loss_of(x: it.Tensor) -> it.Tensor:
        return it.mean((x @ w) ** 2)

    whole = loss_of(x)
    loss, found = data_parallel(loss_of, x, devices=["cuda", "cpu"])
    assert loss.item() == pytest.approx(whole.item(), rel=1e-6)
    np.testing.assert_allclose(found[w].numpy(), whole.backward()[w].numpy(), rtol=1e-5)
