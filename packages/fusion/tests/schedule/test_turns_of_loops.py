"""Turns of a loop over a sequence are planned once: their kernels begin further on in each turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from unrolled_loops import CELLS, STEPS, WIDTH, parameters, sequence, unrolled

import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile
from ingle.fusion.runtime import graph_plans
from ingle.fusion.schedule import scheduler
from ingle.fusion.schedule.scheduler import Scheduler


@pytest.fixture(autouse=True)
def planned_at_once(monkeypatch):
    """Nothing is found on disk, and no plan is half made when a test has ended."""
    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")
    with it.device("cpu"):
        yield


def given(steps=STEPS):
    return [it.asarray(a) for a in (sequence(steps), *parameters())]


def step_of(cell, piece=None):
    """The loss of what the last turn makes, and its gradients."""

    def loss(p, x):
        return it.mean(unrolled(cell, x, p, piece)[-1] ** 2)

    def step(x, *p):
        value, slopes = value_and_grad(loss)(p, x)
        return [value, *slopes]

    return step


def both_ways(function, args, monkeypatch):
    """What a program gives, planned by turns and as a whole, to the bit."""
    now = [y.numpy() for y in compile(function)(*args)]
    with monkeypatch.context() as patch:
        patch.setattr(scheduler, "shortened", lambda *given: None)
        patch.setattr("ingle.fusion.pipeline.recorded_layers", lambda graph, legality: None)
        whole = [y.numpy() for y in compile(lambda *args: function(*args))(*args)]
    for one, other in zip(now, whole, strict=True):
        np.testing.assert_array_equal(one, other)


PIECES = {
    "in order": lambda x, t: x[:, t],
    "from the end": lambda x, t: x[:, x.shape[1] - 1 - t],
    "every other": lambda x, t: x[:, min(2 * t, x.shape[1] - 1)],
    "with the next one": lambda x, t: x[:, t] + x[:, min(t + 1, x.shape[1] - 1)],
}


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("piece", ["in order", "from the end"])
def test_the_plan_is_that_of_the_whole_graph(cell, piece, both):
    compile(step_of(cell, PIECES[piece]))(*given(32))
    assert len(both) == 1, "the turns were not found"
    ((whole, short),) = both
    assert 3 * short < 2 * whole


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("cell", CELLS)
def test_gradients_have_the_bits_of_the_whole(cell, piece, monkeypatch):
    both_ways(step_of(cell, PIECES[piece]), given(40), monkeypatch)


@pytest.mark.slow
def test_a_result_that_turns_write_into(monkeypatch):
    def written(x, *p):
        y, state = it.zeros((3, 40, WIDTH)), (it.zeros((3, WIDTH)),)
        for t in range(40):
            state = CELLS["gru"][0](x[:, t], state, p)
            y = y.at[:, t].set(state[0])
        return [y, it.sum(y, axis=1)]

    both_ways(written, given(40), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [24, 48])
def test_turns_are_planned_once(steps, monkeypatch):
    """Twice as many turns take no more groups."""
    planned: list[Any] = []
    groups = Scheduler.groups

    def noting(self):
        planned.append(len(self._graph.nodes))
        return groups(self)

    monkeypatch.setattr(Scheduler, "groups", noting)
    compile(step_of("lstm"))(*given(steps))
    assert sum(planned) < 1500
