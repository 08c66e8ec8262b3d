"""A handler raises at every place where Python looks for signals: nothing stays behind.

Python runs handlers after calls of C functions and where functions of Python begin. A function for
`sys.setprofile` is called at the same places, and what it raises counts as raised there.
"""

from __future__ import annotations

import gc
import signal
import sys
from contextvars import Context, copy_context

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import checkpoint, checkpointing, grad, jvp, no_grad, vmap
from ingle.fusion import compile
from ingle.testkit.interrupting import interrupted, late

pytestmark = pytest.mark.skipif(
    sys.implementation.name != "cpython" or not hasattr(signal, "SIGALRM"),
    reason="where signals are looked for is CPython's affair",
)
SOURCES = ("/ingle/", "/ingle_cpu/", "/ingle_numpy/")


@pytest.fixture(autouse=True)
def handler():
    """Ingle asks whether an error comes from a handler of signals."""
    before = signal.signal(signal.SIGALRM, late)
    yield
    signal.signal(signal.SIGALRM, before)


def state():
    """What this thread has set in Ingle's context variables, and whether the collector runs."""
    found = {v: value for v, value in copy_context().items() if v.name.startswith("ingle")}
    untouched = Context()
    return (
        {v.name: x for v, x in found.items() if x is not untouched.run(v.get)}, gc.isenabled()
    )  # fmt: skip


def walk():
    x = it.asarray(np.linspace(-1, 1, 12, dtype=np.float32))
    y = it.sin(x) * 2.0 + it.softmax(x)
    low, high = it.split(y, 6)
    return it.concat([high, low]).numpy()


def settings():
    with it.device("numpy"), it.default_dtypes(floating="float64", integer="int32"), no_grad():
        x = it.linspace(0, 1, 5) + it.arange(5)
    return x.numpy()


def transaction():
    cell = it.Cell(it.zeros(3))
    with it.transaction():
        cell.value = cell + 1.0
        with it.transaction(commit=False):
            cell.value = cell * 7.0
    return cell.value.numpy()


def gradients():
    x = it.asarray(np.arange(1.0, 5.0, dtype=np.float32))
    with checkpointing("balanced"):
        first = grad(lambda x: it.sum(it.exp(it.sin(x)) * x))(x)
    second = grad(checkpoint(lambda x: it.sum(it.tanh(x) ** 2)))(x)
    _, third = jvp(lambda x: it.cos(x) * x, (x,), (x,))
    return np.stack([first.numpy(), second.numpy(), third.numpy(), vmap(it.sum)(it.eye(4)).numpy()])


def training():
    generator = it.random.Generator(5)
    net = nn.Sequential(
        nn.Linear(4, 3, generator=generator), nn.GELU(), nn.Dropout(0.2, generator=generator)
    )
    optimizer = optim.AdamW(net, lr=1e-2)
    with it.anomaly():
        loss = it.sum(net(it.ones((2, 4))))
    optimizer.step(loss.backward())
    return np.concatenate([v.numpy().ravel() for v in net.state_dict().values()])


def looping():
    def step(carry, x):
        return carry * 0.5 + x, carry

    last, all_ = it.scan(step, it.ones(3), it.ones((4, 3)))
    return np.concatenate([last.numpy(), all_.numpy().ravel()])


class Scale:
    def __init__(self):
        self.by = it.asarray([2.0, 3.0])


def compiled():
    scale, generator = Scale(), it.random.Generator(3)

    @compile
    def f(x, scale):
        return it.softmax(x * scale.by) + it.random.uniform((2,), generator=generator)

    return np.stack([f(it.ones(2), scale).numpy() for _ in range(3)])


def check(program, places):
    """Interrupts a program at these places, and looks at the thread and what it computes next."""
    want, before = program(), state()
    program()
    for place in places:
        on = interrupted(program, place, SOURCES)
        assert state() == before, place
        np.testing.assert_allclose(program(), want, rtol=1e-5, err_msg=str(place))
        if not on:
            return place
    return 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("device", ["cpu", "numpy"])
@pytest.mark.parametrize("program", [walk, settings, transaction], ids=lambda f: f.__name__)
def test_no_place_leaves_anything_set(device, program):
    with it.device(device):
        assert check(program, range(1, 100_000)) > 50


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("device", ["cpu", "numpy"])
@pytest.mark.parametrize(
    "program", [gradients, training, looping, compiled], ids=lambda f: f.__name__
)
def test_few_of_many_places_leave_anything_set(device, program):
    """Every place of these takes minutes."""
    with it.device(device):
        check(program, range(7, 6000, 151))
