"""Plain code on a device that records: the same numbers, as little work as was needed."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import PlanWarning
from ingle.fusion.runtime.plan_cache import PlanCache
from ingle_numpy.backend import NumpyBackend


class Counting(NumpyBackend):
    """Notes what it executes."""

    def __init__(self, device):
        super().__init__(device)
        self.seen = []

    def execute(self, op, inputs):
        self.seen.append(op.operation.name)
        return super().execute(op, inputs)


@pytest.fixture(autouse=True)
def below(fused):
    return fused(Counting)


def test_nothing_runs_before_a_value_is_needed(below):
    x = it.asarray([1.0, 2.0])
    y = it.sin(x * 2.0) + x
    assert below.seen == []
    np.testing.assert_allclose(y.numpy(), np.sin([2.0, 4.0]) + np.array([1, 2]), rtol=1e-6)
    assert below.seen == ["multiply", "sin", "add"]
    y.numpy()
    assert len(below.seen) == 3


def test_dead_values_are_computed_only_on_the_way(below):
    x = it.ones(40000)
    for _ in range(3):
        below.seen.clear()
        kept = x * 2.0
        it.exp(x)
        gc.collect()
        for _ in range(8):
            kept = kept + 1.0
        kept.numpy()
    assert below.seen.count("add") == 8


def test_branches_on_values_see_eagers_numbers(below):
    x = it.asarray(10.0)
    steps = 0
    while x > 1.0:
        x = x / 2.0 if steps % 2 else x - 1.0
        steps += 1
    assert (steps, float(x)) == (5, 0.75)


def test_shapes_that_depend_on_values(below):
    x = it.asarray([0.0, 3.0, 0.0, 4.0]) * 2.0
    assert it.nonzero(x)[0].tolist() == [1, 3]
    assert x[x > 1.0].tolist() == [6, 8]


def test_a_group_of_writes_starts_the_work(below):
    net = nn.Linear(3, 2)
    optimizer = optim.SGD(net, lr=0.1)
    loss = (net(it.ones((4, 3))) ** 2).sum()
    assert "sum" not in below.seen
    optimizer.step(loss.backward())
    assert "sum" in below.seen
    done = len(below.seen)
    net.weight.value.numpy()
    loss.item()
    assert len(below.seen) == done


def test_numbers_that_change_become_inputs(below):
    x = it.ones(40000)
    x.numpy()
    fusion = x.backend
    for k in range(6):
        assert (((x * float(k) + 1.0) * 2.0) - 1.0)[0].item() == 2 * (k + 1) - 1
    forms = [f for f in fusion.planner._forms.values() if f.runs == 6]
    assert len(forms) == 1
    assert sum(forms[0].varying) == 1


def test_an_error_while_running_is_everybodys_error(below):
    x = it.asarray([[2.0, 0.0], [0.0, 0.0]])
    bad = it.linalg.inv(x)
    after = bad + 1.0
    with pytest.raises(it.errors.IngleError):
        after.numpy()
    with pytest.raises(it.errors.IngleError):
        bad.numpy()
    assert (x + 1.0).tolist() == [[3, 1], [1, 1]]


def test_a_value_of_another_thread(below):
    x = it.arange(100) * 2
    with ThreadPoolExecutor(4) as pool:

        def use(k):
            with it.device("noting"):
                return int((x + k).sum())

        got = list(pool.map(use, range(16)))
    assert got == [9900 + 100 * k for k in range(16)]


def test_gradients_pass_through(below):
    w = it.Cell(it.asarray([1.0, 2.0]), differentiable=True)
    loss = (it.exp(w) * w).sum()
    grads = loss.backward()
    want = np.exp([1.0, 2.0]) * (1 + np.array([1.0, 2.0]))
    np.testing.assert_allclose(grads[w].numpy(), want, rtol=1e-6)


def test_a_long_stream_runs_by_itself(below):
    x = it.ones(3)
    for _ in range(9000):
        x = x + 1.0
    assert len(below.seen) > 1000
    assert x.tolist() == [9001] * 3


def test_an_error_among_many_outputs_leaves_the_others_their_places(below):
    bad = it.linalg.inv(it.zeros((2, 2)))
    parts = it.unstack(bad)
    after = it.ones(3) * 5.0
    with pytest.raises(it.errors.IngleError):
        parts[1].numpy()
    assert after.tolist() == [5, 5, 5]


def test_a_plan_that_fails_is_said_and_the_values_are_right(monkeypatch):
    with it.device("cpu"):
        x = it.asarray(np.linspace(0, 1, 40_000, dtype=np.float32))
    # What an earlier test has asked for and nobody has read would be part of the first log, which
    # then were not the second one's, and no plan due; what one has planned would need none.
    x.backend.flush()
    monkeypatch.setattr(x.backend, "planner", PlanCache(x.backend.inner))

    def fails(*_args):
        raise RuntimeError("out of ideas")

    def step():
        y = x
        for _ in range(8):
            y = y * 0.4375 + 1.0
        return y.numpy()

    want = step()
    monkeypatch.setattr("ingle.fusion.runtime.plan_cache.prepare", fails)
    with pytest.warns(PlanWarning, match="RuntimeError: out of ideas"):
        got = step()
    np.testing.assert_array_equal(got, want)


@pytest.mark.filterwarnings("error")
def test_an_error_of_what_nobody_wants_is_nobodys(below):
    it.linalg.inv(it.zeros((2, 2)))
    a, b = it.ones(3) * 5.0, it.ones(3) * 7.0
    assert a.tolist() == [5, 5, 5]
    assert b.tolist() == [7, 7, 7]


def test_what_nobody_holds_is_not_even_computed_at_the_first_time(below):
    x = it.ones(40_000)
    for _ in range(2):
        below.seen.clear()
        for k in range(200):
            y = it.exp(x * (k * 0.01))
        y = y + 1.0
        np.testing.assert_allclose(y.numpy(), np.exp(1.99) + 1, rtol=1e-5)
        assert below.seen.count("exp") == 1


def test_values_nobody_holds_take_no_memory():
    with it.device("cpu"):
        x = it.ones(1_000_000)
        x.numpy()
        before = it.memory.stats().peak
        for k in range(300):
            y = x * float(k)
        y.numpy()
        kept = [(x * float(k)).sum() for k in range(40)]
        assert [float(v) for v in kept] == [1e6 * k for k in range(40)]
        assert it.memory.stats().peak - before < 40 * x.nbytes


def test_dead_work_makes_no_other_plan(below):
    x = it.ones(40_000)
    x.numpy()
    x.backend.planner._forms.clear()
    for k in range(6):
        for _ in range(k):
            it.sin(x)
        y = x
        for _ in range(8):
            y = y * 2.0
        assert y[0].item() == 256.0
    assert len([f for f in x.backend.planner._forms.values() if f.runs]) == 1
