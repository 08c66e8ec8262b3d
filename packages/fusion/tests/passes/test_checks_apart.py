"""Checks of given indices are kernels of their own in front of all others, on devices that go on
meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile, explain, pipeline
from ingle.fusion.ir.graph import Graph
from ingle.fusion.passes.checks_apart import with_checks_apart
from ingle.fusion.runtime import graph_plans
from ingle.tensor.errors import OutOfRangeError


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has plans made as for a device that works by itself."""
    monkeypatch.setattr(pipeline, "checks_of", lambda device: True)
    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
    with it.device("cpu"):
        yield


def classifier() -> tuple[Callable[[it.Tensor, it.Tensor], it.Tensor], list[it.Cell[it.Tensor]]]:
    """A step of training on labels."""
    it.random.seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))
    optimizer = optim.Adam(model, lr=1e-2)

    def step(x: it.Tensor, labels: it.Tensor) -> it.Tensor:
        loss = it.cross_entropy(model(x), labels)
        optimizer.step(loss.backward())
        return loss.detach()

    return step, list(model.parameters())


def batch() -> tuple[it.Tensor, it.Tensor]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, size=12)
    return it.asarray(rng.standard_normal((12, 6)).astype(np.float32)), it.asarray(labels)


def test_the_labels_are_checked_before_the_first_layer() -> None:
    step, _ = classifier()
    steps = [" ".join(s.operations) for s in explain(step, *batch(), runs=0).steps]
    assert steps[0].endswith("any")
    assert "matmul" in steps[1]
    assert not any("any" in s.split() for s in steps[1:])


def test_a_step_has_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for pass_ in (with_checks_apart, lambda graph: graph):
        monkeypatch.setattr(pipeline, "with_checks_apart", pass_)
        step, cells = classifier()
        run = compile(step)
        losses = [run(*batch()).item() for _ in range(5)]
        results.append((losses, [cell.value.numpy() for cell in cells]))
    assert results[0][0] == results[1][0]
    assert results[0][0][-1] < results[0][0][0]
    for one, other in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_wrong_label_leaves_the_weights_alone() -> None:
    step, cells = classifier()
    run = compile(step)
    x, labels = batch()
    for _ in range(3):
        run(x, labels)
    before = [cell.value.numpy().copy() for cell in cells]
    with pytest.raises(OutOfRangeError, match=r"cross_entropy: .* outside of 0 to 4"):
        run(x, labels + 7)
    for cell, value in zip(cells, before, strict=True):
        np.testing.assert_array_equal(cell.value.numpy(), value)


def test_indices_that_are_computed_are_checked_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To compute an index twice may take longer than to wait: these follow from a reduction."""
    seen: list[tuple[Graph, Graph]] = []

    def noted(graph: Graph) -> Graph:
        made = with_checks_apart(graph)
        seen.append((graph, made))
        return made

    monkeypatch.setattr(pipeline, "with_checks_apart", noted)
    x = it.asarray(np.random.default_rng(0).standard_normal((4, 7)).astype(np.float32))
    run = compile(lambda x: it.take(x, it.argmax(x, axis=1) % 4, axis=0) + x[0])
    wanted = x.numpy()[np.argmax(x.numpy(), 1) % 4] + x.numpy()[0]
    np.testing.assert_array_equal(run(x).numpy(), wanted)
    assert seen
    assert all(made is graph for graph, made in seen)
