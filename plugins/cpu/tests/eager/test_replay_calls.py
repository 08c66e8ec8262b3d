"""A graph that runs again and again without a plan: each operation has its call from then on."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import graph_of
from ingle.fusion.runtime import custom_kernels
from ingle.fusion.runtime.ready_calls import ASKED
from ingle.fusion.runtime.replay import Replay
from ingle.tensor.operation import OPERATIONS
from ingle.testkit.bits import same_bits


class Runs:
    """A graph that runs without a plan on the device, which counts what it is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, function, *arrays: np.ndarray) -> None:
        tensors = [it.asarray(a, device="cpu") for a in arrays]
        self.graph = graph_of(function, *tensors)
        self.device = it.zeros(1, device="cpu").backend.inner
        self.replay = Replay(self.device, self.graph)
        self.asked: list[str] = []
        execute = type(self.device).execute

        def counted(device, op, inputs):
            self.asked.append(op.operation.name)
            return execute(device, op, inputs)

        monkeypatch.setattr(type(self.device), "execute", counted)

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        self.asked.clear()
        given = [self.device.upload(a) for a in arrays]
        return [self.device.download(h).copy() for h in self.replay(given, [])]


def function(x, y):
    z = it.permute_dims(it.tanh(x @ y) + it.exp(x), (1, 0))
    return it.softmax(z, axis=-1), it.sum(z * 2.0, axis=0), it.var(it.layer_norm(z, (40,)))


def arrays(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((40, 40)).astype(np.float32) for _ in range(2)]


def test_operations_that_have_a_call_are_not_looked_up_again(monkeypatch):
    runs = Runs(monkeypatch, function, *arrays(0))
    first = runs(*arrays(0))
    count = len(runs.asked)
    for k in range(ASKED):
        runs(*arrays(k))
    found = runs(*arrays(0))
    assert all(same_bits(a, b) for a, b in zip(first, found, strict=True))
    assert 2 * len(runs.asked) < count, runs.asked
    other = Runs(monkeypatch, function, *arrays(7))(*arrays(7))
    assert all(same_bits(a, b) for a, b in zip(other, runs(*arrays(7)), strict=True))


def test_operands_that_lie_otherwise_than_before(monkeypatch):
    runs = Runs(monkeypatch, function, *arrays(0))
    for k in range(ASKED):
        runs(*arrays(k))
    x, y = arrays(3)
    expected = runs(x, y)
    given = [runs.device.upload(np.asfortranarray(a)) for a in (x, y)]
    found = [runs.device.download(h) for h in runs.replay(given, [])]
    assert all(same_bits(a, b) for a, b in zip(expected, found, strict=True))


def test_a_call_that_fails_leaves_the_word_to_the_operation(monkeypatch):
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    good, bad = np.array([0, 3, 1]), np.array([0, 9, 1])
    runs = Runs(monkeypatch, lambda x, i: it.take(x, i, axis=0) * 2.0, table, good)
    for _ in range(ASKED):
        runs(table, good)
    with pytest.raises(IndexError, match="9"):
        runs(table, bad)
    np.testing.assert_array_equal(runs(table, good)[0], table[good] * 2)


def test_a_kernel_that_somebody_registers_takes_the_place_of_a_call(monkeypatch):
    runs = Runs(monkeypatch, lambda x, y: it.atan2(x, y) + 1.0, *arrays(0))
    for k in range(ASKED):
        runs(*arrays(k))
    asked = []
    atan2 = OPERATIONS["atan2"]
    custom_kernels.register_kernel(atan2, "nest", lambda op, avals: asked.append(op))
    try:
        runs(*arrays(0))
        assert asked
    finally:
        custom_kernels._writers.pop((atan2.name, "nest"))
        custom_kernels._operations.pop(atan2.name)
