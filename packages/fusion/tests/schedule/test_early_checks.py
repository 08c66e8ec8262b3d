"""Checks of indices come first: state is written over from then on, and none before."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile, pipeline
from ingle.fusion.runtime import graph_plans
from ingle.fusion.schedule.donation import donors
from ingle.fusion.schedule.early_checks import with_early_checks
from ingle.fusion.schedule.schedule import HostStep, arguments_of
from ingle.tensor.errors import OutOfRangeError


@pytest.fixture
def plans(monkeypatch):
    """For each plan how many outputs could lie in inputs, and how many do."""
    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
    found = []

    def noted(schedule, pairs, flags):
        made = donors(schedule, pairs, flags)
        found.append((sum(len(outputs) for _, outputs in pairs), len(made.taken)))
        return made

    monkeypatch.setattr(pipeline, "donors", noted)
    with it.device("cpu"):
        yield found


def writer():
    """A step of a small net with tokens in front, and its parameters."""
    model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 16))
    optimizer = optim.Adam(model, lr=1e-2)

    @compile
    def step(ids, labels, counted=None):
        loss = it.cross_entropy(model(ids), labels)
        if counted is not None:
            rows = it.broadcast_to(loss, (12, 8))
            loss = loss + it.sum(it.scatter_add(it.zeros((16, 8)), counted, rows))
        optimizer.step(loss.backward())
        return loss.detach()

    return step, list(model.parameters())


def test_every_weight_behind_an_embedding_is_updated_in_place(plans):
    step, cells = writer()
    ids = it.asarray(np.arange(12) % 16)
    losses = [step(ids, ids).item() for _ in range(4)]
    assert losses[-1] < losses[0]
    compiled = [counts for counts in plans if counts[0]]
    assert compiled == [(3 * len(cells), 3 * len(cells))]


@pytest.mark.parametrize("wrong", ["ids", "labels"])
def test_a_wrong_index_leaves_the_weights_alone(plans, wrong):
    step, cells = writer()
    good, bad = it.asarray(np.arange(12) % 16), it.asarray(np.arange(12) + 5)
    for _ in range(3):
        step(good, good)
    before = [cell.value.numpy().copy() for cell in cells]
    with pytest.raises(OutOfRangeError):
        step(bad, good) if wrong == "ids" else step(good, bad)
    for cell, value in zip(cells, before, strict=True):
        np.testing.assert_array_equal(cell.value.numpy(), value)
    assert np.isfinite(step(good, good).item())


def test_calls_that_only_check_move_and_all_else_keeps_its_order(monkeypatch, plans):
    moved = []

    def noted(sequence, flags):
        made = with_early_checks(sequence, flags)
        moved.append((sequence, made, flags))
        return made

    monkeypatch.setattr(pipeline, "with_early_checks", noted)
    step, _ = writer()
    ids = it.asarray(np.arange(12) % 16)
    for _ in range(3):
        step(ids, ids, ids + 0)
    assert any(list(before.calls) != list(after.calls) for before, after, _ in moved)
    for before, after, flags in moved:
        roots = {before.views.of(f).root for f in flags}
        checks = [
            call
            for call in before.calls
            if not isinstance(call, HostStep)
            and {a.root for a in arguments_of(call) if a.output} <= roots
        ]
        assert [c for c in before.calls if c not in checks] == [
            c for c in after.calls if c not in checks
        ]
        known = {n for n, value in enumerate(after.graph.values) if value.kind != "result"}
        for call in after.calls:
            assert not isinstance(call, HostStep)
            assert {a.root for a in arguments_of(call) if not a.output} <= known
            known.update(a.root for a in arguments_of(call) if a.output)
