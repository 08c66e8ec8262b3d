"""What a measurement of kernels runs: it computes what a run computes."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import explain
from ingle.fusion.runtime.plan import CompiledPlan


@pytest.fixture
def made(monkeypatch):
    """The values that measured plans made, as they lie in memory."""
    found = []
    memory = CompiledPlan._memory

    def noted(plan, given, later=()):
        found.append(memory(plan, given, later))
        return found[-1]

    monkeypatch.setattr(CompiledPlan, "_memory", noted)
    return found


def test_kernels_behind_an_operation_of_the_backend_find_what_the_ones_before_it_made(made):
    rng = np.random.default_rng(0)
    x, weight = (rng.uniform(0.1, 1.0, (96, 96)).astype(np.float32) / 10 for _ in range(2))

    def function(x, weight):
        h = it.matmul(x, weight)
        ranked = it.sort(it.sum(h, axis=0))  # by the backend, between two pieces
        for _ in range(3):  # over the first h
            h = it.matmul(h, weight) * ranked
        return it.sum(h, axis=1)

    with it.device("cpu"):
        x, weight = it.asarray(x), it.asarray(weight)
        plan = explain(function, x, weight, runs=4)
    assert [step.kind for step in plan.steps].count("host") == 1
    assert all(step.seconds > 0 for step in plan.steps)
    other = weight.numpy().astype(np.float64)
    h = x.numpy() @ other
    ranked = np.sort(h.sum(axis=0))
    for _ in range(3):
        h = (h @ other) * ranked
    results = [x.backend.download(v) for v in made[-1] if v is not None and v.dtype == it.float32]
    assert any(np.allclose(r, h.sum(axis=1), 1e-4, 0.0) for r in results if r.shape == (96,))
