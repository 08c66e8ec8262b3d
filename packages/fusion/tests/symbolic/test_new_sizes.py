"""Plain code on sizes that are new: once a few have come, the next ones have a plan at once."""

from __future__ import annotations

import numpy as np
import pytest
from forgotten_plans import forget_logs, forget_plans

import ingle.tensor as it
from ingle.fusion import pipeline
from ingle.fusion.runtime import (
    graph_plans,
    log_families,
    plan,
    plan_cache,
    plan_codegen,
    planning_work,
    replay,
    sized_calls,
)
from ingle.fusion.runtime.log_families import IN_VAIN
from ingle.fusion.runtime.plan_cache import LASTING
from ingle.fusion.symbolic import decompositions, families
from ingle.fusion.symbolic.form import form_of
from ingle.fusion.symbolic.generalization import generalized
from ingle.testkit.bits import same_bits


@pytest.fixture
def counts(monkeypatch):
    """How many logs ran without a plan, and how many plans were filled in."""
    found = {"replayed": 0, "filled": 0, "looked": 0}
    run_alone, filled = replay.Replay.__call__, graph_plans.filled_graph

    def replayed(self, given, numbers):
        names = {node.op.operation.name for node in self._graph.nodes}
        found["replayed"] += {"concat", "softmax"} <= names
        return run_alone(self, given, numbers)

    def looked(*args):
        plan = filled(*args)
        found["looked"] += 1
        found["filled"] += plan is not None
        return plan

    monkeypatch.setattr(log_families, "DEAREST", float("inf"))
    monkeypatch.setattr(replay.Replay, "__call__", replayed)
    monkeypatch.setattr(graph_plans, "filled_graph", looked)
    monkeypatch.setattr(sized_calls, "TRIES", 0)  # short logs would do without a plan each
    forget_plans(monkeypatch)
    monkeypatch.setattr(plan_cache.PlanCache, "_recall", lambda *_: None)
    return found


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")


def drawn(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


WEIGHT, SCALE = drawn(24, 24), drawn(24)


def mixed(x, factor=0.7):
    """A layer's work on `(length, 24)`, and a row of it."""
    weight, scale = (it.asarray(a, device=x.device) for a in (WEIGHT, SCALE))
    y = it.layer_norm(x, (24,), scale)
    y = it.softmax(y @ weight * factor + 1.0, axis=-1)
    z = it.gelu(it.concat([x, y], axis=0) @ weight)
    return it.sum(z, axis=0), z[-1:] * it.max(z, axis=0)


def run(length, function=mixed, device="cpu"):
    x = it.asarray(drawn(length, 24), device=device)
    return [np.asarray(y) for y in function(x)]


@pytest.mark.slow
def test_what_may_never_come_again_has_no_plan_that_takes_longer_than_it_saves(
    counts, at_once, monkeypatch
):
    """What comes again has its plan in any case."""
    monkeypatch.setattr(log_families, "DEAREST", 0.0)
    for length in (520, 540, 560, 580, 600, 620):
        run(length)
    assert (counts["replayed"], counts["filled"]) == (5, 1)
    run(600), run(620)
    assert counts["replayed"] == 5


def test_the_fourth_size_has_a_plan_when_it_comes_for_the_first_time(counts, at_once):
    for length in (520, 540, 560):
        run(length)
    assert counts == {"replayed": 3, "filled": 0, "looked": 0}
    got = {length: run(length) for length in (580, 600, 640)}
    assert counts["replayed"] == 3
    assert counts["filled"] == 3
    for length, results in got.items():
        for ours, theirs in zip(results, run(length, device="numpy"), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


@pytest.mark.slow
def test_a_plan_that_is_filled_in_gives_the_bits_of_operations_alone(counts, at_once, monkeypatch):
    lengths = (*range(513, 530), 600, 1023, 1024, 1025, 700)
    found = {length: run(length) for length in lengths}
    assert counts["filled"] > len(lengths) // 2
    monkeypatch.setattr(plan_cache.LogFamilies, "of", lambda *_: None)
    forget_logs(monkeypatch)
    for length in lengths:
        before = counts["replayed"]
        alone = run(length)
        assert counts["replayed"] == before + 1
        for a, b in zip(found[length], alone, strict=True):
            assert same_bits(a, b), length


def test_a_size_that_comes_again_keeps_the_plan_that_was_filled_in(counts, at_once):
    for length in (520, 540, 560, 580):
        run(length)
    first = run(580)
    assert counts["filled"] == 1
    for a, b in zip(first, run(580), strict=True):
        assert same_bits(a, b)
    assert counts["looked"] == 1


@pytest.mark.parametrize(("part", "kept"), [(1e-9, 1), (1.0, 3)])
def test_what_was_filled_in_is_kept_on_disk_little_by_little(
    counts, at_once, monkeypatch, part, kept
):
    """What has to wait is kept at a later run."""
    found = []
    keeping = it.zeros(1, device="cpu").backend.planner.keeping
    monkeypatch.setattr(keeping, "part", part)
    monkeypatch.setattr(graph_plans.GraphPlans, "keep", lambda *args: (found.append(args), True)[1])
    for length in (520, 540, 560):
        run(length)
    for _ in range(LASTING):
        run(580), run(600), run(640)
    assert len(found) == kept
    monkeypatch.setattr(keeping, "part", 1.0)
    run(580), run(600), run(640)
    assert len(found) == 3


@pytest.mark.slow
def test_the_plan_is_made_in_slices_between_runs(counts, monkeypatch):
    monkeypatch.setenv("INGLE_PLAN_SLICES", "1")
    monkeypatch.setattr(planning_work, "SLICES_OF_A_FORM", 1)
    # A slice of the usual length is enough where the kernels have been compiled before.
    monkeypatch.setattr(planning_work, "SLICE", 1)
    monkeypatch.setattr(planning_work, "LEAST_SLICE", 1)

    def long(x):
        for _ in range(6):
            x = mixed(x)[1] + x
        return x, x * 2.0

    found = [run(520 + 3 * k, long) for k in range(36)]
    assert counts["filled"] > 5
    assert counts["replayed"] > 3
    for k in (2, 20, 35):
        for ours, theirs in zip(found[k], run(520 + 3 * k, long, "numpy"), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_numbers_that_change_with_the_size_are_followed(counts, at_once):
    for length in (520, 540, 560, 580, 600, 620):
        (ours, _), (theirs, _) = (
            run(length, lambda x: mixed(x, 1.0 / x.shape[0]), device) for device in ("cpu", "numpy")
        )
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)
    assert counts["filled"] == 2


def test_numbers_that_change_from_run_to_run_vary_for_new_sizes_too(counts, at_once):
    for length in (520, 540, 560, 580, 600, 620):
        for factor in (0.5, 0.25):
            (ours, _), (theirs, _) = (
                run(length, lambda x: mixed(x, factor), device)  # noqa: B023
                for device in ("cpu", "numpy")
            )
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)
    assert counts["replayed"] <= 4
    assert counts["filled"] >= 2


@pytest.mark.slow
def test_what_no_plan_serves_is_not_looked_for_for_ever(counts, at_once, monkeypatch):
    monkeypatch.setattr(families.Family, "found", lambda *_: None)
    for length in range(520, 560):
        run(length)
    assert counts["looked"] <= IN_VAIN + 1


def test_a_first_run_of_a_plan_that_was_filled_in_generates_no_code(counts, at_once, monkeypatch):
    """Most sizes never come again."""
    for length in (520, 540, 560):
        run(length)
    made = []
    spelled = plan.plan_function
    monkeypatch.setattr(plan, "plan_function", lambda *args: (made.append(args), spelled(*args))[1])
    first = run(580)
    assert counts["filled"] == 1
    assert not made
    for a, b in zip(first, run(580), strict=True):
        assert same_bits(a, b)
    assert len(made) == 1


def test_plans_of_many_sizes_share_the_code_of_their_functions(counts, at_once):
    for length in (520, 540, 560, 580):
        run(length), run(length)
    before = plan_codegen._code.cache_info()
    for length in (600, 620, 640):
        run(length), run(length)
    after = plan_codegen._code.cache_info()
    assert counts["filled"] == 4
    assert (after.misses, after.hits) == (before.misses, before.hits + 3)


def test_what_the_plans_for_all_sizes_do_not_hold_for_is_not_written_out_to_find_that(
    counts, at_once, monkeypatch
):
    """Bodies of composites take longer than many an operation."""
    monkeypatch.setattr(decompositions, "_of", type(decompositions._of)())
    for length in (520, 540, 560, 580):
        run(length)
    assert counts["filled"] == 1
    written = []
    by_bodies = pipeline._decomposed
    monkeypatch.setattr(
        pipeline, "_decomposed", lambda *args: (written.append(args), by_bodies(*args))[1]
    )
    monkeypatch.setattr(decompositions.Decompositions, "found", lambda *_: None)
    run(600)
    assert counts["looked"] == 2
    assert not [graph for _, _, graph, *_ in written if len(graph.nodes) > 1], "more than one each"


def test_sizes_that_are_equal_by_chance_are_no_mistake_of_a_plan_for_all(monkeypatch):
    """Where sizes are equal, a graph has fewer numbers than others of its form: a plan for all of
    these was made of such a graph by the numbers of the others, one place off."""
    rng, asked = np.random.default_rng(5), []

    def noted(graph, examples, apart=False):
        asked.append(form_of(graph).numbers == tuple(examples[-1]))
        return generalized(graph, examples, apart)

    monkeypatch.setattr(pipeline, "generalized", noted)
    with it.device("cpu"):
        for height, width in ((9, 5), (4, 7), (11, 6), (8, 8), (5, 5), (10, 10)):
            a = rng.standard_normal((1, 2, height, width)).astype(np.float32)
            x = it.asarray(a).require_grad()
            y = it.avg_pool2d(x, 2, stride=1, padding=1, count_include_pad=False)
            got = (y * y).sum().backward()[x].numpy()
            padded, ones = (np.pad(z, ((0, 0), (0, 0), (1, 1), (1, 1))) for z in (a, 0 * a + 1))
            window = np.lib.stride_tricks.sliding_window_view
            count = window(ones, (2, 2), (2, 3)).sum((4, 5))
            out = window(padded, (2, 2), (2, 3)).sum((4, 5)) / count
            want = np.zeros(padded.shape)
            for i, j in np.ndindex(2, 2):
                want[:, :, i : i + height + 1, j : j + width + 1] += 2 * out / count
            np.testing.assert_allclose(got, want[:, :, 1:-1, 1:-1], rtol=1e-5, atol=1e-6)
    assert asked
    assert all(asked)
