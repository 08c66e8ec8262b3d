"""What is read after a few operations runs as it comes, also where something longer is between."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.runtime.at_once import AHEAD, READ
from ingle_numpy.backend import NumpyBackend


@pytest.fixture(autouse=True)
def below(fused):
    return fused(NumpyBackend)


def waits(tensor):
    return tensor._handle.pending_in is not None


def acted(x):
    for k in range(2):
        x = it.tanh(x * 0.5 + float(k))
    return x


def learned(x):
    for _ in range(2 * AHEAD):
        x = x * 0.5 + 1.0
    return x


def test_an_agent_that_has_learned_acts_as_before():
    x = it.asarray(np.linspace(-1, 1, 8, dtype="f"))
    for episode in range(4):
        waited = []
        for _ in range(READ + 3):
            action = acted(x)
            waited.append(waits(action))
            wanted = x.numpy()
            for k in range(2):
                wanted = np.tanh(wanted * np.float32(0.5) + np.float32(k))
            np.testing.assert_allclose(action.numpy(), wanted, rtol=1e-5)
        assert sum(waited) == READ + 1 if episode == 0 else sum(waited) <= 2
        assert not waited[-1]
        loss = learned(x)
        assert waits(loss)
        np.testing.assert_allclose(loss.numpy(), np.full(8, 2.0), rtol=1e-5)


def test_what_is_long_each_time_is_recorded_each_time():
    x = it.asarray(np.linspace(-1, 1, 8, dtype="f"))
    for _ in range(READ + 2):
        acted(x).numpy()
    assert not waits(acted(x))
    for turn in range(3):
        half = acted(x)
        assert turn == 0 or waits(half), "it begins with the first operation"
        learned(half).numpy()


def test_two_looks_in_turn_are_known_both():
    x, y = (it.asarray(np.linspace(-1, 1, n, dtype="f")) for n in (8, 9))
    for _ in range(READ // 2 + 1):
        acted(x).numpy(), acted(y).numpy()
    assert not waits(acted(x))
    assert not waits(acted(y))
