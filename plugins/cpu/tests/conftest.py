"""Ways of running the backend, each as a device of its own beside `cpu`."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, run_ahead
from ingle.fusion.runtime.ready_calls import ReadyCalls
from ingle.tensor.contract import Backend
from ingle.tensor.device import Device, backend_of
from ingle.tensor.hooks import hookimpl
from ingle.tensor.plugins import BackendDescription, register, unregister
from ingle_cpu.backend import Cpu
from ingle_cpu.background import async_plan
from ingle_cpu.background.queue import queue
from ingle_cpu.eager.single_operation import SingleOperations
from ingle_cpu.launch import executable


@contextmanager
def installed(name: str, create: Callable[[Device], Backend]) -> Iterator[str]:
    """A device of this name, as if a plugin that brings it were installed."""
    module = types.ModuleType(f"{name}_plugin")
    module.description = BackendDescription(
        create=lambda index: create(Device(name, index)), priority=-9, summary=name
    )

    class Plugin:
        @hookimpl
        def ingle_backends(self):
            return {name: f"{module.__name__}:description"}

    sys.modules[module.__name__] = module
    register(name, Plugin())
    yield name
    unregister(name)
    del sys.modules[module.__name__]


@pytest.fixture(scope="class")
def bare_device():
    """`cpu_bare`: the backend as `INGLE_FUSION=0` gives it, which runs each operation at once."""
    with installed("cpu_bare", Cpu) as name:
        yield name


@pytest.fixture(scope="class")
def exact_device():
    """`cpu_exact`: fused, with half types rounded after each operation."""
    with (
        pytest.MonkeyPatch.context() as patch,
        installed("cpu_exact", lambda device: Cpu(device).fusion) as name,
    ):
        patch.setenv("INGLE_FUSION_EXACT", "1")
        yield name


@pytest.fixture
def first_operations(monkeypatch):
    """The backend, as where no operation ran before: neither it nor the decorator over it knows
    what calls of any shapes come to."""
    above = backend_of("cpu")
    found = above.inner
    fresh = SingleOperations(found, found.fusion, found._single_operations._native)
    monkeypatch.setattr(found, "_single_operations", fresh)
    monkeypatch.setattr(above._at_once, "calls", ReadyCalls(found))
    return found


SIZE = 384


@pytest.fixture
def ahead(monkeypatch):
    """Everything runs ahead, however short it is, and nothing takes too long for it."""
    monkeypatch.setattr(async_plan, "LEAST", 0.0)
    monkeypatch.setattr(executable, "LONG", 60.0)
    monkeypatch.setattr(executable, "MANY", 1 << 40)
    run_ahead(2)
    with it.device("cpu"):
        yield
    run_ahead(0)
    queue().wait_for_all()
    queue().report(everyone=True)


class Slow:
    """Keeps the queue busy for some ten milliseconds."""

    def __init__(self):
        numbers = np.random.default_rng(0).uniform(-1 / SIZE, 1 / SIZE, (SIZE, SIZE))
        self.x = it.asarray(numbers.astype(np.float32))
        self.run = compile(self.work)
        self.warm()

    def warm(self):
        """Has a plan made."""
        for _ in range(4):
            self.run(self.x).numpy()

    def work(self, x):
        y = x
        for _ in range(24):
            y = it.matmul(y, x) + x
        return y

    def __call__(self):
        before = queue().given
        result = self.run(self.x)
        assert queue().given == before + 1
        return result


@pytest.fixture
def slow(ahead):
    """A call that keeps the queue busy."""
    return Slow()


@pytest.fixture
def warmed(ahead):
    """Compiles a function, and runs it until it has a plan."""

    def made(function, *args):
        compiled = compile(function)
        for _ in range(4):
            compiled(*args)
        queue().wait_for_all()
        return compiled

    return made
