"""A trace of some steps, as viewers read it, and its table."""

import json

import numpy as np
import pytest
from learners import loader, make, weights

from ingle.tensor.errors import ArgumentError
from ingle.train import Profiler


def test_the_trace_has_every_part_of_the_steps_that_were_asked_for(tmp_path):
    profiler = Profiler(tmp_path / "deep" / "trace.json", steps=4, skip=2)
    learner = make(callbacks=[profiler])
    learner.fit(loader(), epochs=2)
    trace = json.loads((tmp_path / "deep" / "trace.json").read_text())
    events = trace["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    steps = [e for e in spans if e["cat"] == "step"]
    assert [e["name"] for e in steps] == ["step 5", "step 6", "step 7", "step 8"]
    for part in ("data", "forward", "metrics", "backward", "optimizer"):
        assert sum(e["name"] == part for e in spans) >= 4
    names = {e["name"] for e in spans if e["cat"] == "module"}
    assert names == {"model: Sequential", "0: Linear", "1: Dropout", "2: Linear"}
    forwards = [e for e in spans if e["name"] == "forward"]
    for event in spans:
        assert event["dur"] >= 0
        if event["cat"] == "module":
            assert any(inside(event, forward) for forward in forwards)
    assert [e["ph"] for e in events].count("C") == 4
    assert not learner.spans.always
    assert not learner.spans.listeners
    head, *rows = profiler.table().splitlines()
    assert head.split() == ["part", "calls", "total", "mean", "share"]
    assert sum(float(row.split()[-1].rstrip("%")) for row in rows[:5]) <= 101


def inside(event, other):
    return (
        other["ts"] - 1 <= event["ts"]
        and event["ts"] + event["dur"] <= other["ts"] + other["dur"] + 1
    )


def test_looking_changes_no_weight_and_ends_with_the_training(tmp_path):
    watched = make(callbacks=[Profiler(tmp_path / "trace.json", steps=100, skip=0)])
    watched.fit(loader(), epochs=2)
    plain = make()
    plain.fit(loader(), epochs=2)
    np.testing.assert_array_equal(weights(watched), weights(plain))
    assert (tmp_path / "trace.json").is_file()
    with pytest.raises(ArgumentError, match="steps must be at least 1"):
        Profiler(tmp_path / "trace.json", steps=0)
