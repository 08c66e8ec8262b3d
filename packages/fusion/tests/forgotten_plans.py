"""A planner that knows nothing, whatever tests before have run: for tests that count plans."""

from __future__ import annotations

import pytest

import ingle.tensor as it
from ingle.fusion.runtime import plan_cache, sized_calls
from ingle.fusion.symbolic import decompositions, families, first_graphs


def forget_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No log of the device `cpu` has come before, and none is going on."""
    x = it.zeros(1, device="cpu")
    x.tolist()  # what is recorded from here on is a new stream,
    for _ in range(2):  # whatever has been read before, also again and again
        x.backend.noted(short=False)
    monkeypatch.setattr(x.backend, "planner", plan_cache.PlanCache(x.backend.inner))


def forget_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, and nothing is known of graphs that differ in sizes alone."""
    for tables in (families, first_graphs, decompositions, sized_calls):
        monkeypatch.setattr(tables, "_of", type(tables._of)())
    forget_logs(monkeypatch)
