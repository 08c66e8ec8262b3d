"""Composites whose bodies are too long stay whole, and are given up as soon as that is clear."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.passes import decompose
from ingle.fusion.runtime import graph_plans
from ingle.tensor.plugins import discover

pytestmark = pytest.mark.skipif("cpu" not in discover().backends, reason="needs ingle-cpu")


def test_a_body_is_not_written_out_beyond_its_limit(monkeypatch):
    """The gradient of a convolution's weights has a product for each place of its result."""
    rng = np.random.default_rng(0)
    x, g = (rng.standard_normal((2, 3, 24, 24)).astype(np.float32) for _ in range(2))
    recorded = [0]
    tick = decompose.tick

    def counted(stage, weight=1):
        recorded[0] += 1
        tick(stage, weight)

    def slopes(x, g):
        first = it.conv_weight_gradient(x, g, (3, 3), padding=1)
        second = it.conv_weight_gradient(x + 1.0, g, (3, 3), padding=1)
        return first, second

    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
    with it.device("cpu"):
        monkeypatch.setattr(decompose, "tick", counted)
        found = [t.numpy() for t in compile(slopes)(it.asarray(x), it.asarray(g))]
    # Twice 256 and a few: once in the plan of both, and once in that of the operation by itself.
    assert recorded[0] < 2.2 * decompose.MOST_NODES
    with it.device("numpy"):
        expected = [t.numpy() for t in slopes(it.asarray(x), it.asarray(g))]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)
