"""Runs write over memory that nothing else holds, whatever holds it: through streams and compiled
functions."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.compiled.fast_call_many import MANY
from ingle.fusion.runtime import plan_cache
from ingle.fusion.runtime.graph_plans import GraphPlans
from ingle.fusion.runtime.plan_cache import PlanCache
from ingle.tensor.cell import Cell

COUNTED = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
counted = pytest.mark.skipif(not COUNTED, reason="needs CPython with the GIL")


@pytest.fixture(autouse=True)
def plans_at_once(monkeypatch):
    """From the second run on there is a plan, however few operations it has."""
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")


@pytest.fixture
def runs(monkeypatch):
    """For each run of a plan which of its inputs may be written over."""
    found, over = [], GraphPlans.run_donating

    def spy(self, given, numbers, free, donation):
        found.append(list(free))
        return over(self, given, numbers, free, donation)

    monkeypatch.setattr(GraphPlans, "run_donating", spy)
    return found


def suspended(x):
    yield 1
    yield x


def of_generator(x):
    waiting = suspended(x)
    next(waiting)
    return waiting


HOLDERS = {
    "nobody": lambda x: None,
    "a variable": lambda x: x,
    "a list": lambda x: [x],
    "a closure": lambda x: lambda: x,
    "a generator": of_generator,
    "its handle": lambda x: x._handle,
    "the handle below": lambda x: x._handle.value,
    "a tuple of these": lambda x: (x._handle, x._handle.value),
    "an array": np.asarray,
    "DLPack": np.from_dlpack,
}
LENGTH = 1 << 15
"""Elements from which on a short log is planned, too."""


def fresh(value):
    x = it.asarray(np.full(LENGTH, value, "float32"), device="cpu") + 0
    x._handle.computed()
    return x


@counted
@pytest.mark.parametrize("by", HOLDERS)
@pytest.mark.parametrize("unneeded", [False, True], ids=["whole", "trimmed"])
def test_streams_write_over_what_nobody_holds(runs, by, unneeded):
    for turn in range(5):
        x, other = fresh(turn), fresh(0)
        runs.clear()
        holder = HOLDERS[by](x)
        y, dropped = it.exp(x) * 2, it.sin(other) if unneeded else None
        del x, dropped
        got = np.asarray(y)
        np.testing.assert_allclose(got, np.exp(np.full(LENGTH, turn, "float32")) * 2, rtol=1e-6)
        if runs:
            assert runs[-1] == [by == "nobody"]
        if isinstance(holder, np.ndarray):
            assert (holder == turn).all()
        elif isinstance(holder, it.Tensor):
            assert (np.asarray(holder) == turn).all()
    assert runs


def test_only_what_a_plan_could_write_over_is_looked_at(monkeypatch):
    """A step reads hundreds of weights, and counting the holders of each takes longer than its
    kernels."""
    asked, ask = [], plan_cache.may_overwrite
    monkeypatch.setattr(plan_cache, "may_overwrite", lambda *x: asked.append(1) or ask(*x))
    weights = [fresh(n) for n in range(6)]
    for _ in range(4):
        asked.clear()
        total = it.sum(it.stack([w * 2 for w in weights]))
        assert float(total) == 2 * LENGTH * sum(range(6))
    assert not asked


@counted
def test_a_list_of_inputs_that_only_the_call_holds(monkeypatch, runs):
    """What is left out of a trimmed log must not let the list go that is counted on."""
    run, kept = PlanCache.run, []

    def spy(self, log, outputs, given, *rest):
        if len(given) != 2:
            return run(self, log, outputs, given, *rest)
        kept[:] = given
        del given[:]
        return run(self, log, outputs, [h for h in kept], *rest)  # noqa: C416

    monkeypatch.setattr(PlanCache, "run", spy)
    for turn in range(4):
        x, other = fresh(turn), fresh(0)
        runs.clear()
        y, dropped = it.exp(x) * 3, it.cos(other)
        del x, other, dropped
        np.asarray(y)
    assert runs == [[False]]


@pytest.mark.slow
@counted
def test_what_lies_between_two_pieces_is_written_over_and_what_was_given_is_not(runs):
    for turn in range(4):
        x = fresh(turn)
        runs.clear()
        y = x
        for _ in range(160):
            y = it.tanh(it.cumulative_sum(y * 0.5) + 1)
        np.asarray(y)
        np.testing.assert_array_equal(np.asarray(x), np.full(LENGTH, turn, "float32"))
    assert len(runs) > 1
    assert runs[0] == [False]
    assert any(map(any, runs[1:]))


def stepped(count):
    with it.device("cpu"):
        cells = [Cell(it.zeros((8,)) + 0) for _ in range(count)]

        def step(x):
            for c in cells:
                c.value = c.value * 0.5 + x

        return cells, compile(step), it.ones((8,))


@counted
@pytest.mark.parametrize("by", HOLDERS)
@pytest.mark.parametrize("count", [2, MANY + 1], ids=["lines", "loops"])
def test_compiled_calls_write_over_what_only_a_cell_holds(runs, by, count):
    cells, step, x = stepped(count)
    for turn in range(7):
        runs.clear()
        # The cell's own tensor: what a program gets by `value` is another one.
        holder = HOLDERS[by](cells[1]._value)
        step(x)
        if turn > 3:
            assert len(runs) == 1
            assert runs[0].count(True) == count - (by != "nobody"), runs
        if isinstance(holder, (np.ndarray, it.Tensor)):
            np.testing.assert_array_equal(np.asarray(holder), np.full(8, 2 - 2 * 0.5**turn))
        del holder
    np.testing.assert_array_equal(np.asarray(cells[1].value), np.full(8, 2 - 2 * 0.5**7))


@counted
@pytest.mark.parametrize("count", [2, MANY + 1], ids=["lines", "loops"])
def test_what_a_program_reads_of_a_cell_keeps_its_value(runs, count):
    cells, step, x = stepped(count)
    for _ in range(6):
        runs.clear()
        read = cells[0].value
        before = np.array(read)
        step(x)
        np.testing.assert_array_equal(np.asarray(read), before)
    assert runs[-1].count(True) == count - 1


@pytest.mark.slow
def test_a_stream_that_holds_much_alone_is_run(monkeypatch):
    """Counted for memory only: too low a count runs a stream early, too high a one late."""
    monkeypatch.setattr("ingle.fusion.stream.MOST_BYTES", LENGTH * 4 * 16)
    y, kept = fresh(0), []
    for k in range(400):
        x = fresh(k % 3)
        kept.append(x)
        y = y + x
    np.testing.assert_array_equal(np.asarray(y), np.full(LENGTH, sum(k % 3 for k in range(400))))


@counted
@pytest.mark.parametrize("count", [2, MANY + 1], ids=["lines", "loops"])
def test_a_step_holds_its_state_once_from_its_first_call_on(runs, count):
    """Recording it holds none of what cells held when the plan runs."""
    cells = [Cell(fresh(n)) for n in range(count)]

    def step(x):
        for c in cells:
            c.value = c.value * 0.5 + x

    compiled, x = compile(step), fresh(1)
    lies = [cell._value._handle.value.address for cell in cells]
    for _ in range(4):
        runs.clear()
        compiled(x)
        assert [flags.count(True) for flags in runs] == [count]
        assert [cell._value._handle.value.address for cell in cells] == lies
    np.testing.assert_array_equal(np.asarray(cells[1].value)[:9], np.full(9, 2 - 0.5**4))


def adam(w, m, v, g):
    m, v = m * 0.9 + g * 0.1, v * 0.99 + g * g * 0.01
    return w * 0.999 - m / (it.sqrt(v) + 1e-3) * 0.01, m, v


def momentum(w, m, v, g):
    m = m * 0.9 + g
    w = w - m * 0.01
    return w, m, v * 0.99 + w * 0.01


@counted
@pytest.mark.parametrize("rule", [adam, momentum])
def test_state_stays_where_it_was_beside_what_is_kept(rule):
    """Gradients that somebody holds are as large: they take no place of the state's. So a step
    meets the addresses of the one before it."""
    rng = np.random.default_rng(0)
    given = it.asarray(rng.normal(size=(16, 256)).astype(np.float32), device="cpu")
    layers = [
        [it.Cell(it.asarray(a, device="cpu"), differentiable=not n) for n, a in enumerate(state)]
        for state in rng.uniform(0.01, 0.1, (3, 3, 256, 256)).astype(np.float32)
    ]

    def step():
        x = given
        for w, _, _ in layers:
            x = it.tanh(x @ w)
        gradients = it.mean(x * x).backward()
        held = [gradients[w] for w, _, _ in layers]
        for cells, g in zip(layers, held, strict=True):
            for cell, value in zip(cells, rule(*[c.value for c in cells], g), strict=True):
                cell.value = value
        return held

    def places():
        return [[c.raw._handle.detached().computed().address for c in cells] for cells in layers]

    found = []
    for _ in range(40):  # plans from disk are made anew beside
        held = step()
        found.append(places())
        del held
    assert found[-1] == found[-2] == found[-3]
