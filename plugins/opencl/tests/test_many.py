"""Launches of one kernel on several operands, as one launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.device.executables import TouchedBytes, apart
from ingle.tensor import plugins
from ingle.tensor.device import Device
from ingle.testkit.bits import same_bits
from ingle_opencl import launches, step_builder
from ingle_opencl.backend import OpenCLBackend
from ingle_opencl.devices import device_of

SIZES = (64, 1, 200, 7, 64, 33, 5, 100, 64, 12)


def updated(name: str) -> tuple[list[np.ndarray], int]:
    """Values and moments after an update, on a device of its own, and how many kernels it had."""
    device = Device(name)
    made = OpenCLBackend(device, device_of(0), wide=True)
    plugins._backends[device] = made.composition()
    rng = np.random.default_rng(0)
    values, moments, gradients = [
        [it.asarray(rng.standard_normal(n).astype(np.float32), device=name) for n in SIZES]
        for _ in range(3)
    ]

    @compile
    def step(*tensors: it.Tensor) -> list[it.Tensor]:
        rate, *rest = tensors
        found = []
        for value, moment, gradient in zip(*[iter(rest)] * 3, strict=True):
            moment = 0.9 * moment + 0.1 * gradient * gradient
            found += [value - rate * gradient / (it.sqrt(moment) + 1e-8), moment]
        return found

    launched = 0
    enqueue = made.enqueue

    def counted(*args: Any) -> None:
        nonlocal launched
        launched += 1
        enqueue(*args)

    made.enqueue = counted  # type: ignore[method-assign]
    rate = it.asarray(np.float32(0.1), device=name)
    given = [t for of in zip(values, moments, gradients, strict=True) for t in of]
    found = [t.numpy() for t in step(rate, *given)]
    del plugins._backends[device]
    return found, launched


@pytest.mark.slow
def test_updates_go_together_and_keep_their_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    together, few = updated("opencl_many")
    monkeypatch.setattr(step_builder, "at_once", lambda *_: 1)
    alone, many = updated("opencl_alone")
    assert many == len(SIZES)
    assert few <= many // 2
    for found, wanted in zip(together, alone, strict=True):
        assert same_bits(found, wanted)


@pytest.mark.slow
def test_where_memory_meets_each_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known when a plan runs decides."""
    wanted, few = updated("opencl_apart")
    monkeypatch.setattr(launches, "_apart", lambda *_: False)
    found, many = updated("opencl_met")
    assert many == len(SIZES)
    assert few <= many // 2
    for a, b in zip(found, wanted, strict=True):
        assert same_bits(a, b)


@pytest.mark.parametrize("seed", range(40))
def test_spans_that_meet(seed: int) -> None:
    """At least those that meet are found, and none that are far apart."""
    rng = np.random.default_rng(seed)
    launched, operands = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    places = rng.integers(0, 150, (launched, operands)).tolist()
    spans = [
        [TouchedBytes(0, int(rng.integers(1, 12)), bool(rng.integers(2))) for _ in range(operands)]
        for _ in range(launched)
    ]
    flat = [
        (place + s.first, place + s.last, n, s.written)
        for n in range(launched)
        for place, s in zip(places[n], spans[n], strict=True)
    ]
    meets = any(
        a[2] != b[2] and (a[3] or b[3]) and a[0] < b[1] and b[0] < a[1] for a in flat for b in flat
    )
    assert not (meets and apart(places, spans))
    spread = [[1000 * (n * operands + k) for k in range(operands)] for n in range(launched)]
    assert apart(spread, spans)
    if launched > 1:
        spread[1][0] = spread[0][0]
        written = spans[0][0].written or spans[1][0].written
        assert apart(spread, spans) == (not written)
