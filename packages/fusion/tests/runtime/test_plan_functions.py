"""Functions of plans: those that are spelled out and those that iterate do the same."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.runtime import plan_codegen
from ingle.tensor.errors import OutOfRangeError


@pytest.fixture(params=[0, 1 << 30], ids=["iterating", "spelled out"])
def many(request, monkeypatch):
    monkeypatch.setattr(plan_codegen, "MANY", request.param)
    return request.param


def trained(steps: int = 4) -> list[np.ndarray]:
    """The weights after some steps, which write over those before."""
    rng = np.random.default_rng(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    for p in net.parameters():
        p.value = it.asarray(rng.standard_normal(p.shape).astype(np.float32))
    optimizer = optim.AdamW(net, lr=0.1)
    x = it.asarray(rng.standard_normal((16, 6)).astype(np.float32))
    y = it.asarray(rng.integers(0, 3, 16))

    @compile
    def step(x, y):
        loss = it.cross_entropy(net(x), y)
        optimizer.step(loss.backward())
        return loss

    held = [p.value for p in net.parameters()]  # nothing may write over these
    before = [h.numpy().copy() for h in held]
    losses = [step(x, y).item() for _ in range(steps)]
    assert losses[-1] < losses[0]
    for h, b in zip(held, before, strict=True):
        np.testing.assert_array_equal(h.numpy(), b)
    return [np.asarray(losses), *[p.numpy() for p in net.parameters()]]


EXPECTED: list[list[np.ndarray]] = []


def test_training(many):
    EXPECTED.append(trained())
    for found in EXPECTED:
        for a, b in zip(found, EXPECTED[0], strict=True):
            np.testing.assert_array_equal(a, b)


def test_outputs_that_are_views_of_what_there_is(many):
    f = compile(lambda x: (x[::2], it.permute_dims(x, (1, 0)), x + 1.0, (x * 2.0)[1:]))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for _ in range(3):
        rows, turned, more, rest = (t.numpy() for t in f(it.asarray(x)))
        np.testing.assert_array_equal(rows, x[::2])
        np.testing.assert_array_equal(turned, x.T)
        np.testing.assert_array_equal(more, x + 1)
        np.testing.assert_array_equal(rest, (x * 2)[1:])
        x = x + 1


def test_what_only_a_run_finds_is_an_error(many):
    f = compile(lambda x, i: it.take(x, i, axis=0) * 2.0)
    x = it.asarray([1.0, 2.0, 3.0])
    assert [f(x, it.asarray([2])).tolist() for _ in range(3)] == [[6.0]] * 3
    with pytest.raises(OutOfRangeError, match="3"):
        f(x, it.asarray([3]))
    assert f(x, it.asarray([0])).tolist() == [2.0]


def test_operands_that_lie_transposed_and_numbers(many):
    f = compile(lambda a, b, n: a @ b * n + a)
    rng = np.random.default_rng(1)
    a = rng.standard_normal((5, 5))
    for n in (1.5, 2.5, 3.5):
        x, y = it.asarray(a), it.asarray(a)
        np.testing.assert_allclose(f(x.mT, y, n).numpy(), a.T @ a * n + a.T, rtol=1e-12)
