"""Layers that come again are planned once: the plan is that of the whole graph, call by call."""

from __future__ import annotations

import numpy as np
import pytest
from layer_models import Block, Residual

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.ir.graph import Graph
from ingle.fusion.ir.layers import layers_of
from ingle.fusion.ir.repeated_runs import Run, runs_of
from ingle.fusion.ir.short_graph import UnlikeError
from ingle.fusion.runtime import graph_plans
from ingle.fusion.schedule import repeated_layers, scheduler
from ingle.fusion.schedule.moved_groups import LoweredGroup
from ingle.fusion.schedule.repeated_layers import ordered
from ingle.fusion.schedule.scheduler import Scheduler
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.operation import OPERATIONS

LAYERS = 16


@pytest.fixture(autouse=True)
def planned_at_once(monkeypatch):
    """Nothing is found on disk, and no plan is half made when a test has ended: its thread would
    have the scheduler as that test has patched it, and give back what another one has."""
    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")
    with it.device("cpu"):
        yield


class Alternating(nn.Module):
    """Layers that are not alike: of three each is another, but they come again."""

    def __init__(self, width):
        self.one, self.two, self.three = (nn.Linear(width, width) for _ in range(3))

    def __call__(self, x):
        return it.relu(self.three(it.tanh(self.two(it.gelu(self.one(x))))))


def network(make, count=LAYERS):
    return nn.Sequential(*[layer for _ in range(count) for layer in make()])


MODELS = {
    "transformer": (lambda: [Block(16)], (2, 8, 16)),
    "many rows": (lambda: [Block(16)], (4, 128, 16)),
    "residual": (lambda: [Residual(4)], (2, 4, 8, 8)),
    "mlp": (lambda: [nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.ReLU()], (8, 32)),
    "random": (
        lambda: [nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.1), nn.LayerNorm(32)],
        (8, 32),
    ),
    "alternating": (lambda: [Alternating(16)], (8, 16)),
    "norms first": (lambda: [nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU()], (8, 16)),
    "dropout": (lambda: [nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.1)], (8, 16)),
    "many rows of an mlp": (lambda: [nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU()], (300, 32)),
}


def given(*shape):
    return it.asarray(np.random.default_rng(1).normal(size=shape).astype(np.float32))


def trained(name, steps=2):
    """The losses of some compiled steps, and what the parameters became."""
    make, shape = MODELS[name]
    it.random.seed(0)
    model, x = network(make), given(*shape)
    optimizer = optim.AdamW(model, lr=1e-3)

    def step(x):
        y = model(x)
        loss = it.mean(y * y)
        optimizer.step(loss.backward())
        return loss.detach()

    run = compile(step)
    losses = [run(x).numpy() for _ in range(steps)]
    return [*losses, *[p.value.numpy() for _, p in model.named_parameters()]]


@pytest.mark.slow
@pytest.mark.sampled(2, slow=0)
@pytest.mark.parametrize("name", MODELS)
def test_the_plan_is_that_of_the_whole_graph(both, name):
    trained(name)
    assert both, "no layers were found"
    assert all(3 * short < 2 * whole for whole, short in both)


@pytest.mark.slow
def test_layers_are_planned_once(monkeypatch):
    """More layers take no more groups, and give the bits that the whole graph gives.

    Of the first parameters, which come again as plain code and so have a plan, nothing is counted.
    """
    planned, groups = [], Scheduler.groups

    def noting(self):
        nodes = self._graph.nodes
        if any(node.op.operation.name == "matmul" for node in nodes):
            planned.append(len(nodes))
        return groups(self)

    monkeypatch.setattr(Scheduler, "groups", noting)
    now = trained("mlp")
    assert len(planned) == 1
    monkeypatch.setattr(scheduler, "shortened", lambda *given: None)
    whole = trained("mlp")
    assert 3 * planned[0] < 2 * planned[1]
    for one, other in zip(now, whole, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_what_has_become_unlike_is_planned_whole(monkeypatch):
    """A pass may decide otherwise in the middle; then nothing is written again."""
    want = trained("mlp")

    def unlike(self, groups, pieces):
        raise UnlikeError

    monkeypatch.setattr(repeated_layers.Shortened, "groups", unlike)
    for one, other in zip(trained("mlp"), want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_kernels_that_reach_over_many_layers_are_no_layers():
    """Each kernel takes as many operations as it may have: they end where no layer does."""
    x = given(3)

    def total(x):
        y = x
        for _ in range(1500):
            y = y + x
        return y

    np.testing.assert_allclose(compile(total)(x).numpy(), x.numpy() * 1501, rtol=1e-3)


@pytest.mark.slow
def test_values_that_all_layers_give_to_one_place():
    """A mean of what every layer made: nothing can be left out of it."""
    layers = [nn.Linear(16, 16) for _ in range(40)]

    def every(x):
        found = []
        for layer in layers:
            x = it.tanh(layer(x)) * it.exp(x) - it.sin(x) / 3.0
            x = x - it.mean(x, axis=-1, keepdims=True)
            found.append(x)
        return it.mean(it.stack(found), axis=0)

    x = given(4, 16)
    want = every(x).numpy()
    np.testing.assert_allclose(compile(every)(x).numpy(), want, rtol=1e-4, atol=1e-5)


FLOAT = Aval((4, 4), as_dtype("float32"))


def chain(graph, value, names, weight):
    for name in names:
        op = OPERATIONS[name].op()
        args = (value, weight) if name in ("add", "multiply", "matmul") else (value,)
        (value,) = graph.append(op, args, [FLOAT])
    return value


def layered(layers, broken=None, shared=False):
    """Layers of 13 operations, each with a weight; one of them may differ."""
    graph = Graph()
    value = graph.input(FLOAT)
    weights = [graph.input(FLOAT) for _ in range(layers)]
    for layer in range(layers):
        names = ["matmul", "tanh", "add", "exp", "multiply", "abs", "negative"] * 2
        if layer == broken:
            names[3] = "sin"
        value = chain(graph, value, names[1:], weights[0 if shared else layer])
    graph.outputs = (value,)
    return graph


def test_runs_are_found():
    assert runs_of(layered(10)) == [Run(1, 13, 9)]
    assert runs_of(layered(2)) == []
    runs = runs_of(layered(30, broken=10))
    assert sorted(r.blocks for r in runs) == [10, 19]
    assert all(r.period == 13 for r in runs)


def test_weights_belong_to_layers():
    layers = layers_of(layered(12))
    assert layers is not None
    weights = {value: spot for value, spot in layers.value_spots.items() if 1 <= value <= 12}
    assert len({place for place, _ in weights.values()}) == 1
    numbers = [weights[value][1] for value in sorted(weights)]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    shared = layers_of(layered(12, shared=True))
    assert shared is not None
    assert all(value not in shared.value_spots for value in range(1, 13))


def test_few_layers_are_none():
    assert layers_of(layered(6)) is None


def test_groups_wait_for_what_they_need():
    groups = [
        LoweredGroup((5,), (), ()),
        LoweredGroup((2,), (5,), ()),
        LoweredGroup((9,), (2,), ()),
        LoweredGroup((3,), (), ()),
    ]
    assert [g.first for g in ordered(groups)] == [3, 5, 2, 9]
    with pytest.raises(UnlikeError):
        ordered([LoweredGroup((1,), (2,), ())])
    with pytest.raises(UnlikeError):
        ordered([LoweredGroup((1,), (2,), ()), LoweredGroup((2,), (1,), ())])
    with pytest.raises(UnlikeError):
        ordered([LoweredGroup((1,), (), ()), LoweredGroup((1,), (), ())])
