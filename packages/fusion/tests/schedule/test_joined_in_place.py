"""Pieces of a join that others read: copies go where nobody writes their places, bits stay."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, pipeline
from ingle.fusion.runtime import graph_plans
from ingle.fusion.schedule import joined_in_place as module
from ingle.fusion.schedule.joined_in_place import joined_in_place
from ingle.testkit.bits import same_bits


@pytest.fixture
def plans(monkeypatch):
    """How many calls each plan had before, and has now."""
    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
    found = []

    def noted(sequence):
        made = joined_in_place(sequence)
        found.append((len(sequence.calls), len(made.calls)))
        return made

    monkeypatch.setattr(pipeline, "joined_in_place", noted)
    with it.device("cpu"):
        yield found


def both(f, *arrays, monkeypatch):
    """The results of a compiled function, and without this pass."""
    given = [it.asarray(a) for a in arrays]
    outputs = [o.numpy().copy() for o in compile(f)(*given)]
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "joined_in_place", lambda sequence: sequence)
        for one, other in zip(outputs, compile(lambda *x: f(*x))(*given), strict=True):
            assert same_bits(one, other.numpy())
    return outputs


RNG = np.random.default_rng(11)


def recurrent(n):
    """A state that each step reads and all steps stack."""

    def f(x, w):
        h, rows = it.zeros(x.shape[1:]), []
        for k in range(n):
            h = it.tanh(h @ w + x[k])
            rows.append(h)
        return it.stack(rows), it.sum(h)

    return f


def test_states_are_written_into_the_stack(plans, monkeypatch):
    x, w = RNG.normal(size=(9, 4, 6)).astype("f4"), RNG.normal(size=(6, 6)).astype("f4")
    stacked, total = both(recurrent(9), x, w, monkeypatch=monkeypatch)
    (before, now), *_ = plans
    assert before - now >= 8, "all but the last one, at least"
    h = np.zeros((4, 6))
    for k in range(9):
        h = np.tanh(h @ w.astype("f8") + x[k])
        np.testing.assert_allclose(stacked[k], h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(total, h.sum(), rtol=1e-4, atol=1e-4)


def test_what_is_returned_too_keeps_memory_of_its_own(plans, monkeypatch):
    def f(x):
        y = it.exp(x)
        z = it.sum(y, axis=0)
        return it.concat([y, y * z]), y, z

    x = RNG.normal(size=(3, 5))
    joined, y, z = both(f, x, monkeypatch=monkeypatch)
    np.testing.assert_allclose(joined, np.concatenate([y, y * z]), rtol=1e-15)


def test_a_piece_of_two_joins_lies_in_one(plans, monkeypatch):
    def f(x):
        y = it.cumulative_sum(x, axis=0)
        z = it.cumulative_sum(y[::-1], axis=0)
        return it.concat([y, z, y]), it.concat([z, y]), it.sum(y * z)

    x = RNG.normal(size=(4, 3))
    first, second, total = both(f, x, monkeypatch=monkeypatch)
    y = np.cumsum(x, axis=0)
    z = np.cumsum(y[::-1], axis=0)
    np.testing.assert_allclose(first, np.concatenate([y, z, y]), rtol=1e-12)
    np.testing.assert_allclose(second, np.concatenate([z, y]), rtol=1e-12)
    np.testing.assert_allclose(total, (y * z).sum(), rtol=1e-12)


def test_joins_of_joins_and_what_is_written_over_them(plans, monkeypatch):
    def f(x):
        y = it.sin(x) @ x
        inner = it.concat([y, it.cos(y) @ x])
        outer = it.concat([inner, inner * 2.0, y])
        w = it.slice_update(outer, y, (2, 0))
        return outer, w, it.sum(y, axis=0), it.sum(inner, axis=1)

    x = RNG.normal(size=(4, 4))
    outer, w, down, along = both(f, x, monkeypatch=monkeypatch)
    y = np.sin(x) @ x
    inner = np.concatenate([y, np.cos(y) @ x])
    want = np.concatenate([inner, inner * 2, y])
    np.testing.assert_allclose(outer, want, rtol=1e-12)
    want[2:6] = y
    np.testing.assert_allclose(w, want, rtol=1e-12)
    np.testing.assert_allclose(down, y.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(along, inner.sum(axis=1), rtol=1e-12)


def program(seed):
    """Joins of values that are read elsewhere, some returned, updated, viewed or joined again."""
    rng = np.random.default_rng(seed)
    steps = [(int(rng.integers(8)), *rng.integers(0, 1 << 30, 2)) for _ in range(14)]
    kept = rng.integers(0, 1 << 30, 4)

    def run(xp, x):
        values = [x]
        for kind, a, b in steps:
            u, v = values[a % len(values)], values[b % len(values)]
            match kind:
                case 0 | 1:
                    made = xp.concat([u, v], axis=0)
                case 2:
                    made = xp.cumulative_sum(u, axis=0)
                case 3:
                    made = u[::-1] if a % 2 else u[1:]
                case 4:
                    made = u[: min(len(u.shape) and u.shape[0], 3)] * 2.0
                case 5:
                    made = xp.concat([u, u * -1.0, v], axis=0)
                case 6:
                    made = xp.cumulative_sum(u, axis=0) - xp.max(u)
                case _:
                    made = u - xp.sum(v)
            values.append(made if 0 < made.shape[0] < 200 else x)
        return [values[k % len(values)] for k in kept] + [xp.sum(values[-1])]

    return run


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 40, 10))
def test_random_joins(plans, monkeypatch, start):
    # Whole numbers: NumPy's sums of these are exact in any order.
    for seed in range(start, start + 10):
        run = program(seed)
        x = np.random.default_rng(seed).integers(-3, 4, (3, 2)).astype("f8")
        found = both(lambda x, run=run: run(it, x), x, monkeypatch=monkeypatch)
        for one, other in zip(found, run(np, x), strict=True):
            np.testing.assert_array_equal(one, other)
    assert any(now < before for before, now in plans)


def test_spans_that_meet_are_found(monkeypatch):
    """By a look at each pair."""
    for seed in range(300):
        rng = np.random.default_rng(seed)
        spans = [(int(a), int(a + n)) for a, n in rng.integers(0, 12, (6, 2)) // [1, 3]]
        calls = [SimpleNamespace(written=[(7, *span), (8, 0, 9)]) for span in spans]
        with monkeypatch.context() as patch:
            patch.setattr(module, "_written", lambda call: call.written)
            alone = module._writes_alone(calls, {7})
        want = {
            i
            for i, (a, b) in enumerate(spans)
            if not any(i != j and c <= b and a <= d for j, (c, d) in enumerate(spans))
        }
        assert alone == want
