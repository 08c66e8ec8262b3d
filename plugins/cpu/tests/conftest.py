"""Ways of running the backend, each as a device of its own beside `cpu`."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ingle.tensor.contract import Backend
from ingle.tensor.device import Device
from ingle.tensor.hooks import hookimpl
from ingle.tensor.plugins import BackendDescription, register, unregister
from ingle_cpu.backend import Cpu


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
