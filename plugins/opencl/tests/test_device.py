"""What users meet: training, products of any layout, limits, and faults that are told."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import CompileError, compile
from ingle.fusion.device import CustomKernel, register_kernel
from ingle.tensor import plugins
from ingle.tensor.device import Device
from ingle.tensor.dispatch import handle_of, run1
from ingle.tensor.errors import (
    BackendError,
    DeviceError,
    LostDeviceError,
    OutOfMemoryError,
    OutOfRangeError,
)
from ingle.tensor.operation import OPERATIONS, Operation, Traits
from ingle.testkit import own_memory
from ingle_opencl.backend import OpenCLBackend
from ingle_opencl.devices import device_of

pytestmark = pytest.mark.sampled(4)

SHAPES = [
    ((5, 7), (7, 9)), ((50, 70), (70, 33)), ((4, 3), (3, 4)), ((13, 1), (1, 40)),
    ((1, 64), (64, 40)), ((3, 24, 65), (65, 32)), ((3, 13, 20), (3, 20, 100)),
    ((2, 1, 6, 5), (3, 5, 6)), ((6, 0), (0, 5)),
]  # fmt: skip


def drawn(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


FEW, MANY = SHAPES[2:4], [s for s in SHAPES if s not in SHAPES[2:4]]
"""Drivers take a second and more to compile a product in all layouts; these are small ones."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("a", "b"), [*FEW, *[pytest.param(*s, marks=pytest.mark.slow) for s in MANY]]
)
def test_products_of_any_layout(a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> None:
    """Plain, transposed, sliced and turned operands, with an epilogue that reads a row."""

    def function(x: Any, y: Any) -> Any:
        turned = it.matrix_transpose(it.matrix_transpose(x).astype(dtype))
        return [x @ y, it.relu(turned @ y + 1.0), (x[..., ::-1] @ y[..., ::-1, ::-1]).sum(axis=-1)]

    rounded = [it.asarray(v, device="numpy").astype(dtype) for v in (drawn(a), drawn(b, 1))]
    wide = [v.astype("float64") for v in rounded]
    expected = [wide[0] @ wide[1]]
    expected += [
        it.relu(expected[0] + 1.0),
        (wide[0][..., ::-1] @ wide[1][..., ::-1, ::-1]).sum(axis=-1),
    ]
    found = function(*[v.to_device("opencl") for v in rounded])
    eps = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-2, "bfloat16": 1e-1}[dtype]
    for one, other in zip(found, expected, strict=True):
        assert str(one.dtype) == dtype
        np.testing.assert_allclose(
            one.astype("float64").numpy(), other.numpy(), rtol=eps, atol=eps * max(a[-1], 1)
        )


def trained(device: str, steps: int, compiled: bool) -> list[float]:
    it.random.seed(3)
    with it.device(device):
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 10)
        )
        optimizer = optim.Adam(model, lr=1e-2)
        x = it.asarray(drawn((16, 1, 8, 8)))
        y = it.asarray(np.arange(16) % 10)

        def step(x: Any, y: Any) -> Any:
            loss = it.cross_entropy(model(x), y)
            optimizer.step(loss.backward())
            return loss

        quick = compile(step) if compiled else step
        return [float(quick(x, y)) for _ in range(steps)]


@pytest.mark.parametrize("compiled", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_network_trains_with_the_numbers_of_the_cpu(compiled: bool) -> None:
    found = trained("opencl", 6, compiled)
    np.testing.assert_allclose(found, trained("numpy", 6, False), rtol=2e-4)
    assert found[-1] < found[0]


@pytest.mark.slow
def test_an_index_out_of_range_is_found_inside_a_plan() -> None:
    x = it.asarray(drawn((5, 3)), device="opencl")
    quick = compile(lambda x, i: it.take(x * 2.0, i, axis=0) + 1.0)
    good, bad = (it.asarray(np.array([0, n]), device="opencl") for n in (4, 5))
    for _ in range(3):
        np.testing.assert_array_equal(quick(x, good).numpy(), x.numpy()[[0, 4]] * 2 + 1)
    late = quick(x, bad)
    with pytest.raises(
        OutOfRangeError, match=r"take: .*test_device.py:\d+, in <lambda>.*called at"
    ):
        late.numpy()
    np.testing.assert_array_equal(quick(x, good).numpy(), x.numpy()[[0, 4]] * 2 + 1)


@pytest.mark.slow
def test_an_index_out_of_range_is_found_inside_a_long_loop() -> None:
    """2,100 turns, whose flags the device reads while others go on."""
    rows, index = drawn((2100, 4)), np.random.default_rng(1).integers(0, 4, 2100)

    def step(c: Any, x: Any) -> Any:
        row, i = x
        c = c * 0.5 + it.take(row, i, axis=0)
        return c, c

    run = compile(lambda c, rows, i: it.scan(step, c, (rows, i)))
    want = list(_folded(rows, index))
    zero, given, good = (it.asarray(x, device="opencl") for x in (np.float32(0), rows, index))
    for place in (0, 1024, 2099):
        np.testing.assert_allclose(run(zero, given, good)[1].numpy(), want, rtol=1e-5, atol=1e-5)
        index[place] = -5
        last, made = run(zero, given, it.asarray(index, device="opencl"))
        for value in (last, made):
            with pytest.raises(OutOfRangeError, match=r"take: .*test_device.py:\d+, in <lambda>"):
                value.numpy()
        index[place] = 3
        want = list(_folded(rows, index))
        good = it.asarray(index, device="opencl")


def _folded(rows: np.ndarray, index: np.ndarray) -> Iterator[np.float32]:
    c = np.float32(0)
    for row, i in zip(rows, index, strict=True):
        c = c * np.float32(0.5) + row[i]
        yield c


@pytest.mark.slow
def test_a_plain_step_that_fails_changes_nothing() -> None:
    with it.device("opencl"):
        model = nn.Embedding(5, 3)
        optimizer = optim.SGD(model, lr=0.1, momentum=0.9)

        def step(rows: Any) -> None:
            optimizer.step((model(it.asarray(rows)) ** 2).sum().backward())

        for _ in range(3):
            step([0, 4, 2])
        before = model.weight.numpy()
        with pytest.raises(OutOfRangeError):
            step([0, 5, 2])
        np.testing.assert_array_equal(model.weight.numpy(), before)
        assert optimizer.steps == 3
        step([0, 4, 2])
        assert (model.weight.numpy() != before).any()


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(BackendError, match=r"opencl:99.*opencl:0|99"):
        it.zeros(3, device="opencl:99")


def test_a_source_that_does_not_compile_is_shown(backend: Any) -> None:
    with pytest.raises(BackendError, match="int nonsense"):
        backend.compile_source("__kernel void k() { int nonsense }", "k")


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        ("DEVICE_NOT_AVAILABLE", LostDeviceError),
        ("MEM_OBJECT_ALLOCATION_FAILURE", OutOfMemoryError),
        ("INVALID_WORK_GROUP_SIZE", BackendError),
    ],
)  # fmt: skip
def test_what_a_driver_raises_names_the_device_and_what_was_done(
    backend: Any, monkeypatch: pytest.MonkeyPatch, code: str, raised: type[Exception]
) -> None:
    import pyopencl as cl

    x = it.asarray(drawn((8,)), device="opencl")

    def refused(*arguments: Any, **options: Any) -> None:
        raise cl.RuntimeError(f"clEnqueueReadBuffer failed: {code}")

    with monkeypatch.context() as patch:
        patch.setattr(backend._cl, "enqueue_copy", refused)
        with pytest.raises(raised, match=r"opencl: .*32 bytes were read"):
            x.numpy()
    assert x.numpy().shape == (8,)


class Gone:
    """The driver of a device that was pulled out: whatever goes into a queue is refused."""

    def __init__(self, cl: Any) -> None:
        self._cl = cl

    def __getattr__(self, name: str) -> Any:
        if name.startswith("enqueue"):
            raise self._cl.RuntimeError(f"{name} failed: DEVICE_NOT_AVAILABLE")
        return getattr(self._cl, name)


@pytest.mark.slow
def test_a_lost_device_says_so_in_every_use(monkeypatch: pytest.MonkeyPatch) -> None:
    spare = OpenCLBackend(Device("opencl_spare"), device_of(0))
    monkeypatch.setitem(plugins._backends, spare.device, spare.composition())
    x = it.asarray(drawn((40,)), device="opencl_spare")
    quick = compile(lambda x: it.exp(x @ x) * 2.0)
    quick(x).numpy()
    own_memory.check_loss(
        "opencl_spare", lambda: monkeypatch.setattr(spare, "_cl", Gone(spare._cl))
    )
    with pytest.raises(LostDeviceError, match="opencl_spare: the device failed while"):
        quick(x).numpy()
    assert (it.ones(3, device="opencl") + 1.0).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y,
        lambda x, y: x @ it.matrix_transpose(y),
        lambda x, y: it.where(y > 0, x, x),
        lambda x, y: it.concat([x, y]),
        compile(lambda x, y: it.sum(x * 2.0 + y)),
    ],
)
def test_operands_on_two_devices_are_named(function: Any) -> None:
    x = it.asarray(drawn((3, 4)), device="opencl")
    with pytest.raises((DeviceError, CompileError), match=r"opencl.*cpu|cpu.*opencl") as error:
        function(x, it.ones((3, 4), device="cpu"))
    assert "move" in str(error.value)
    assert it.sum(x).device == Device("opencl")


@pytest.mark.slow
def test_threads_share_the_queue() -> None:
    x = it.asarray(drawn((64, 64)), device="opencl")
    expected = np.tanh(x.numpy() @ x.numpy())
    wrong: list[float] = []

    def work(number: int) -> None:
        for _ in range(10):
            found = it.tanh(x @ x * 1.0) + float(number)
            wrong.append(float(abs(found.numpy() - number - expected).max()))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 40
    assert max(wrong) < 1e-4


def test_a_handler_may_launch_the_kernel_that_it_interrupts(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two arguments of a launch another launch of the same kernel sets its own."""
    x, y = (it.asarray(drawn((40,), n), device="opencl") for n in (0, 1))
    for _ in range(3):
        (x * 3.0).numpy()
    find, inside = backend._space.find, []

    def interrupted(address: int) -> Any:
        found = find(address)
        if backend._arguments_of is not None and len(inside) < 2:
            inside.append(None)
            if len(inside) == 2:  # behind the first argument
                inside.append((y * 3.0).numpy())
        return found

    monkeypatch.setattr(backend._space, "find", interrupted)
    outside = (x * 3.0).numpy()
    np.testing.assert_array_equal(outside, x.numpy() * np.float32(3))
    np.testing.assert_array_equal(inside[2], y.numpy() * np.float32(3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_told() -> None:
    x = it.asarray([1.0, 2.0], device="opencl")
    ours, theirs = multiprocessing.Pipe()
    child = os.fork()
    if not child:
        try:
            (x + 1.0).numpy()
            theirs.send("computed")
        except BaseException as error:
            theirs.send(f"{type(error).__name__}: {error}")
        os._exit(0)
    assert ours.poll(60)
    said = ours.recv()
    os.waitpid(child, 0)
    assert said.startswith("BackendError")
    assert "spawn" in said
    assert (x + 1.0).tolist() == [2.0, 3.0]


def halved(x: Any) -> Any:
    """x / 2."""
    return run1(HALVED.op(), handle_of(x, "halved"))


HALVED = Operation(
    "halved_for_tests", tensors=("x",), rule=lambda x: x, traits=Traits("opaque"),
    body=lambda x: x * 0.5, vjp={"x": lambda g: g * 0.5}, public=halved,
)  # fmt: skip
del OPERATIONS[HALVED.name]  # other tests go over all of Ingle's
SOURCE = """
__kernel void halved(__global const float *x, __global float *out, const long n)
{
    const long i = get_global_id(0);
    if (i < n)
        out[i] = x[i] * 0.5f;
}
"""


@pytest.mark.slow
def test_a_kernel_written_by_hand_runs_between_generated_ones() -> None:
    asked = []

    def in_opencl(op: Any, avals: Any) -> CustomKernel:
        asked.append(op)
        return CustomKernel(
            SOURCE, args=(avals[0].shape[0],), units=avals[0].shape[0], name="halved"
        )

    register_kernel(HALVED, "opencl", in_opencl)
    x = it.asarray(drawn((100,)), device="opencl")
    for function in (lambda x: it.exp(halved(x + 1.0)), compile(lambda x: it.exp(halved(x + 1.0)))):
        for _ in range(3):
            found = function(x).numpy()
            np.testing.assert_allclose(found, np.exp((x.numpy() + 1) / 2), rtol=1e-6)
    part = it.asarray(drawn((200,)), device="opencl")[100:]
    np.testing.assert_array_equal(halved(part).numpy(), part.numpy() / 2)
    assert asked


@pytest.mark.slow
def test_without_a_driver_the_device_says_what_to_install(tmp_path: Any) -> None:
    pytest.importorskip("pyopencl")
    program = "import ingle.tensor as it; it.zeros(3, device='opencl')"
    environment = {
        **os.environ,
        "OCL_ICD_VENDORS": str(tmp_path),
        "OPENCL_VENDOR_PATH": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert "no OpenCL device was found; install a driver" in done.stderr
