"""A device without float64: nothing of it is in any kernel, and what needs it says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile
from ingle.tensor import plugins
from ingle.tensor.device import Device
from ingle.tensor.eager import HostFallbackWarning

NAME = "opencl_single"


@pytest.fixture(scope="module", autouse=True)
def sources() -> Iterator[list[str]]:
    """The device, and the source of each kernel that it compiles."""
    from ingle_opencl.backend import OpenCLBackend
    from ingle_opencl.devices import device_of, limits_of

    seen: list[str] = []

    class Single(OpenCLBackend):
        def compile_source(self, source: str, name: str) -> Any:
            seen.append(source)
            return super().compile_source(source, name)

    hardware = device_of(0)
    device = Device(NAME)
    backend = Single(device, hardware, limits_of(hardware)._replace(float64=False))
    plugins._backends[device] = backend.composition()
    yield seen
    del plugins._backends[device]
    doubles = [s for s in seen if re.search(r"\bdouble\d*\b", s)]
    assert seen
    assert not doubles, doubles[0]


def on_device(seed: int = 0, shape: tuple[int, ...] = (5, 7)) -> Any:
    x = np.random.default_rng(seed).uniform(0.1, 0.9, shape).astype(np.float32)
    return it.asarray(x, device=NAME)


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "log1p", "sqrt", "atan", "sigmoid"])
def test_float32_runs_in_kernels(name: str, recwarn: Any) -> None:
    x = on_device()
    found = getattr(it, name)(x * 1.0).numpy()
    expected = getattr(it, name)(x.to_device("numpy")).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert not [w for w in recwarn.list if w.category is HostFallbackWarning]


@pytest.mark.parametrize("name", ["asinh", "acosh", "atanh", "pow", "sin"])
def test_functions_that_compute_in_float64_run_on_the_host(name: str) -> None:
    x = on_device() + (1.0 if name == "acosh" else 0.0)
    function = (lambda x: it.pow(x, x)) if name == "pow" else getattr(it, name)
    with pytest.warns(HostFallbackWarning, match=name):
        found = function(x).numpy()
    np.testing.assert_allclose(found, function(x.to_device("numpy")).numpy(), rtol=1e-6)


def test_float64_is_stored_moved_and_computed_on_the_host() -> None:
    x = np.arange(6.0).reshape(2, 3)
    a = it.asarray(x, device=NAME)
    np.testing.assert_array_equal(it.concat([a.mT, a.mT[::-1]], axis=1).numpy(),
                                  np.concatenate([x.T, x.T[::-1]], axis=1))  # fmt: skip
    with pytest.warns(HostFallbackWarning):
        found = it.sum(a @ a.mT * 2.0 + it.astype(it.ones((2, 2), device=NAME), "float64")).numpy()
    np.testing.assert_allclose(found, (x @ x.T * 2.0 + 1.0).sum())


@pytest.mark.slow
def test_a_network_trains() -> None:
    it.random.seed(1)
    with it.device(NAME):
        model = nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
        optimizer = optim.AdamW(model, lr=1e-2)
        x, y = on_device(shape=(12, 7)), it.asarray(np.arange(12) % 3)

        def step(x: Any, y: Any) -> Any:
            loss = it.cross_entropy(model(x), y)
            optimizer.step(loss.backward())
            return loss

        quick = compile(step)
        losses = [float(quick(x, y)) for _ in range(8)]
    assert losses[-1] < losses[0]
