"""Logs of a few operations on sizes that are new run by a plan for all sizes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from forgotten_plans import forget_logs, forget_plans

import ingle.tensor as it
from ingle.fusion import pipeline
from ingle.fusion.runtime import graph_plans, log_families, plan_cache, sized_graph
from ingle.fusion.symbolic import decompositions
from ingle.tensor.errors import OutOfRangeError
from ingle.testkit.bits import same_bits


@pytest.fixture
def runs(monkeypatch):
    """What plans for all sizes ran: the numbers of their outputs."""
    found = []
    run = sized_graph.SizedGraph.run

    def noted(self, given, numbers):
        outputs = run(self, given, numbers)
        if outputs is not None:
            found.append(len(outputs))
        return outputs

    monkeypatch.setattr(sized_graph.SizedGraph, "run", noted)
    monkeypatch.setattr(log_families, "DEAREST", float("inf"))
    monkeypatch.setattr(plan_cache.PlanCache, "_recall", lambda *_: None)
    monkeypatch.setattr(sized_graph.owning, "part", 1.0)
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")  # there is a plan from the second sizes on
    forget_plans(monkeypatch)
    return found


def drawn(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


def operands(length):
    weight = it.asarray(drawn(24, 24), device="cpu")
    return it.asarray(drawn(length, 24), device="cpu"), weight


def layer(x, weight):
    y = it.softmax(it.tanh(x) @ weight * 0.7 + 1.0, axis=0)
    z = it.layer_norm(x + y, (24,)) * it.mean(x, axis=0)
    return it.sum(z, axis=1), z[-1:] - it.max(z, axis=0)


def read(results):
    return [np.asarray(y) for y in results]


@pytest.mark.slow
def test_bits_are_those_of_plans_of_their_own(runs, monkeypatch):
    lengths = (*range(3, 20), *range(520, 540, 3), 600, 1023, 1024, 1025, 700, 2, 1)
    found = {length: read(layer(*operands(length))) for length in lengths}
    assert len(runs) > len(lengths) // 2
    monkeypatch.setattr(plan_cache.LogFamilies, "of", lambda *_: None)
    forget_logs(monkeypatch)
    for length in lengths:
        for _ in range(2):
            for a, b in zip(found[length], read(layer(*operands(length))), strict=True):
                assert same_bits(a, b), length


def test_what_comes_again_and_again_has_a_plan_of_its_own(runs, monkeypatch):
    """Of the kernels that the plan for all sizes has: no pass runs again. Until then there is none
    to be kept on disk."""
    monkeypatch.setattr(sized_graph, "RUNS", plan_cache.LASTING)
    kept, keep = [], graph_plans.GraphPlans.keep
    monkeypatch.setattr(
        graph_plans.GraphPlans, "keep", lambda *args: (kept.append(keep(*args)), kept[-1])[1]
    )
    for length in range(520, 600, 4):
        read(layer(*operands(length)))
    assert len(runs) > 10
    filled = []
    fill = graph_plans.filled_graph
    monkeypatch.setattr(
        graph_plans, "filled_graph", lambda *args: (filled.append(fill(*args)), filled[-1])[1]
    )
    monkeypatch.setattr(pipeline, "kernel_sequence", None)
    first, again = read(layer(*operands(596))), read(layer(*operands(596)))
    assert not filled
    before = len(runs) + plan_cache.LASTING - 3
    for _ in range(plan_cache.LASTING + 1):
        for a, b, c in zip(first, again, read(layer(*operands(596))), strict=True):
            assert same_bits(a, b)
            assert same_bits(a, c)
    assert len(runs) == before
    assert [plan is not None for plan in filled] == [True]
    assert kept == [False, False, True]


def test_plans_of_their_own_are_made_in_a_part_of_the_time(runs, monkeypatch):
    """Until then the plan for all sizes goes on."""
    monkeypatch.setattr(sized_graph, "RUNS", 1)
    for length in range(520, 600, 4):
        read(layer(*operands(length)))
    monkeypatch.setattr(sized_graph.owning, "part", 1e-9)
    monkeypatch.setattr(sized_graph.owning, "_resumes_at", 0.0)
    owned = []
    own = graph_plans.GraphPlans._owned
    monkeypatch.setattr(
        graph_plans.GraphPlans, "_owned", lambda *args: (owned.append(args), own(*args))[1]
    )
    before = len(runs)
    for length in (580, 584, 588, 592):
        read(layer(*operands(length)))
    assert (len(owned), len(runs) - before) == (1, 3)


def test_inputs_are_as_they_were(runs):
    for length in range(520, 600, 8):
        x, weight = operands(length)
        kept = x.numpy().copy(), weight.numpy().copy()
        x = x + 0.0
        read(layer(x, weight))
        assert all(map(same_bits, kept, (x.numpy(), weight.numpy())))
    assert runs


@pytest.mark.slow
def test_columns_in_memory_are_products_of_columns(runs):
    for length in range(520, 620, 8):
        x, weight = operands(length)
        columns = it.permute_dims(it.asarray(x.numpy().T.copy(), device="cpu"), (1, 0))
        for a, b in zip(read(layer(columns, weight)), read(layer(x, weight)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_an_index_that_is_out_of_range_is_told(runs):
    for length in range(520, 600, 4):
        x, weight = operands(length)
        places = it.asarray(np.arange(length) % 24, device="cpu")

        def picked(places, x=x, weight=weight):
            y = it.take(it.tanh(x @ weight) * 2.0 + 1.0, places, axis=1)
            return it.sum(it.exp(y - it.max(y)) / 3.0, axis=0) + 1.0

        np.asarray(picked(places))
        with pytest.raises(OutOfRangeError, match="24"):
            np.asarray(picked(places + 24))
    assert runs


def tail(x):
    """The last batch of many, of few operations."""
    y = it.tanh(x @ x[0])
    return y, it.mean(y * y)


def signal(x):
    y = it.conv1d(it.reshape(x, (1, 4, -1)), it.reshape(x[:3], (6, 4, 3)), padding=1)
    return it.tanh(y) * 2.0, it.mean(it.relu(y), axis=-1)


@pytest.mark.parametrize("function", [tail, signal])
def test_few_operations_and_windows_have_such_plans(runs, monkeypatch, function):
    lengths = range(20, 40)
    found = {n: read(function(it.asarray(drawn(n, 24), device="cpu"))) for n in lengths}
    assert len(runs) > len(lengths) // 2
    monkeypatch.setattr(plan_cache.LogFamilies, "of", lambda *_: None)
    forget_logs(monkeypatch)
    for n in lengths:
        alone = read(function(it.asarray(drawn(n, 24), device="cpu")))
        assert all(map(same_bits, found[n], alone)), n


def test_large_results_have_plans_that_may_write_over_inputs(runs, monkeypatch):
    monkeypatch.setattr(sized_graph, "MOST_BYTES", 100)
    for length in range(520, 600, 8):
        read(layer(*operands(length)))
    assert not runs


@pytest.mark.slow
def test_plans_for_all_sizes_of_long_logs_are_made_in_slices(runs, monkeypatch):
    monkeypatch.setenv("INGLE_PLAN_SLICES", "1")

    def long(length):
        x, weight = operands(length)
        for _ in range(4):
            x = layer(x, weight)[0][:, None] * 0.1 + x
        return [x.numpy()]

    found = {}
    for length in range(520, 1200, 2):  # how long a plan takes in slices depends on the machine
        found[length] = long(length)
        if len(runs) >= 12:
            break
    assert runs
    monkeypatch.setattr(plan_cache.LogFamilies, "of", lambda *_: None)
    forget_logs(monkeypatch)
    for length in [*found][-12:]:
        assert all(map(same_bits, found[length], long(length))), length


def test_graphs_that_no_plan_for_all_sizes_serves_are_not_looked_at() -> None:
    """Neither on a device that makes none, nor where they are long: their values are not asked."""
    few: Any = SimpleNamespace(nodes=[None] * sized_graph.MOST_NODES)
    many: Any = SimpleNamespace(nodes=[None] * (sized_graph.MOST_NODES + 1))
    makes = SimpleNamespace(sized_plan=None)
    may_serve = sized_graph.SizedGraph.may_serve
    assert not may_serve(object(), few)
    assert not may_serve(makes, many)
    with pytest.raises(AttributeError, match="outputs"):
        may_serve(makes, few)


def mixed(x):
    y = it.scaled_dot_product_attention(x, x * 0.5, x + 1.0, is_causal=True)
    return it.sum(it.tanh(y) * 2.0 + x, axis=-1), it.softmax(y, axis=-1) - 1.0


def gradients(x):
    x = x.require_grad()
    loss = sum([it.sum(y * y) for y in mixed(x)])
    return loss.detach(), loss.backward()[x]


@pytest.mark.parametrize("function", [mixed, gradients])
def test_attention_that_the_device_computes_whole_is_part_of_such_a_plan(
    runs, monkeypatch, function
):
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")
    lengths = (*range(15, 23), 40, 49, 96, 511, 513)
    found = {n: read(function(it.asarray(drawn(1, 2, n, 16), device="cpu"))) for n in lengths}
    assert len(runs) > len(lengths) // 3
    monkeypatch.setattr(plan_cache.LogFamilies, "of", lambda *_: None)
    forget_logs(monkeypatch)
    for n in lengths:
        alone = read(function(it.asarray(drawn(1, 2, n, 16), device="cpu")))
        assert all(map(same_bits, found[n], alone)), n


def test_where_bodies_differ_a_plan_is_made_of_the_first_such_size_and_serves_it(runs, monkeypatch):
    """Attention of 16 queries and more is computed whole: all else that is known is of fewer."""
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")
    monkeypatch.setattr(decompositions, "_of", type(decompositions._of)())
    made = []
    bodies = pipeline._decomposed_for_all
    monkeypatch.setattr(
        pipeline, "_decomposed_for_all", lambda *args: (made.append(args), bodies(*args))[1]
    )
    served = {}
    for n in range(6, 24):
        before = len(runs), len(made)
        read(mixed(it.asarray(drawn(1, 2, n, 16), device="cpu")))
        logs = [graph for _, _, graph, *_ in made[before[1] :] if len(graph.nodes) > 1]
        served[n] = len(runs) - before[0], len(logs)
    assert [n for n, (ran, _) in served.items() if not ran and n > 8] == []
    assert [n for n, (_, made) in served.items() if made and n > 8] == [16], "once for all others"


def test_no_plan_for_all_sizes_is_tried_with_what_the_device_computes_by_itself(runs, monkeypatch):
    tried = []
    made = sized_graph.any_size_plan
    monkeypatch.setattr(
        sized_graph, "any_size_plan", lambda *args: (tried.append(args), made(*args))[1]
    )
    for length in range(120, 160, 4):
        x = it.asarray(drawn(length, 3, 3), device="cpu")
        solved = it.linalg.solve(x, it.tanh(x) * 2.0 + 1.0)
        read((it.sum(it.exp(-solved * solved), axis=-1), it.softmax(solved, axis=-1) - 1.0))
    assert (tried, runs) == ([], [])
