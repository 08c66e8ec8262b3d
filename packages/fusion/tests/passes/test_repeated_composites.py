"""Composites that come again are copied: graphs are those that bodies would have written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile
from ingle.fusion.passes import by_layers
from ingle.fusion.passes.repeated_composites import Copies
from ingle.fusion.runtime import graph_plans
from ingle.tensor.operation import OPERATIONS
from ingle.tensor.plugins import discover

pytestmark = pytest.mark.skipif("cpu" not in discover().backends, reason="needs ingle-cpu")


def blocks(x: it.Tensor, weights: it.Tensor) -> it.Tensor:
    """Composites of many kinds, each three times, with operands that are one and numbers."""
    for i in range(3):
        w = weights[i]
        x = it.layer_norm(x, 8, w[0], w[1]) + it.softmax(x @ w, axis=-1)
        x = it.gelu(x) + it.logaddexp(x, x) + it.logaddexp(x, w[:4])
        x = it.hypot(x, 2.0) + it.hypot(x, 3.0) + it.var(x, axis=0) + it.log1p(it.abs(x))
        x = x + it.take(x, it.asarray([0, 1, 1, 0]), axis=0)
    return x


def normal(*shape: int) -> it.Tensor:
    return it.asarray(np.random.default_rng(1).normal(size=shape).astype(np.float32))


def graphs(program: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a program's compiled call is expanded to, with the numbers that the host computes."""
    found: list[Any] = []

    decompose = by_layers.decompose

    def noted(*args: Any) -> Any:
        made = decompose(*args)
        found.append((str(made.graph), made.checks, made.scalars.lines, made.scalars.results))
        return made

    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
    with it.device("cpu"):
        program()  # plans of operations that run alone are made once
        monkeypatch.setattr(by_layers, "decompose", noted)
        program()
    monkeypatch.setattr(by_layers, "decompose", decompose)
    return found


def once() -> None:
    compile(blocks)(normal(4, 8), normal(3, 8, 8)).numpy()


def slopes() -> None:
    w = nn.Parameter(normal(3, 8, 8))
    compile(lambda x: blocks(x, w).sum().backward()[w])(normal(4, 8)).numpy()


def training() -> None:
    weights = [nn.Parameter(normal(8, 8)) for _ in range(5)]
    adam = optim.AdamW(weights, lr=0.1)

    @compile
    def step(x: it.Tensor) -> it.Tensor:
        for w in weights:
            x = it.gelu(x @ w)
        loss = (x * x).mean()
        adam.step(loss.backward())
        return loss.detach()

    for _ in range(3):
        step(normal(4, 8)).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("program", [once, slopes, training], ids=lambda f: f.__name__)
def test_copies_are_what_bodies_write(program, monkeypatch):
    copied = 0
    written = Copies.written

    def counting(self, key, inputs):
        nonlocal copied
        made = written(self, key, inputs)
        copied += made is not None
        return made

    monkeypatch.setattr(Copies, "written", counting)
    found = graphs(program, monkeypatch)
    assert copied > 2
    monkeypatch.setattr(Copies, "written", lambda self, key, inputs: None)
    assert found == graphs(program, monkeypatch)


def test_the_second_of_a_kind_is_a_copy_of_the_first(monkeypatch):
    """Though the first one brings the numbers that both take."""
    bodies = []
    layer_norm = OPERATIONS["layer_norm"]
    body = layer_norm.body
    monkeypatch.setattr(layer_norm, "body", lambda *a, **k: bodies.append(a) or body(*a, **k))
    x, scale = normal(3, 6), normal(6)

    def program() -> None:
        @compile
        def f(x, y):
            return it.layer_norm(x, (6,), scale), it.layer_norm(y, (6,), scale)

        f(x, x * 2.0)

    found = graphs(program, monkeypatch)
    copied = len(bodies)
    monkeypatch.setattr(Copies, "written", lambda self, key, inputs: None)
    assert found == graphs(program, monkeypatch)
    assert len(bodies) == 3 * copied


def test_operands_that_are_one_are_told_from_two(monkeypatch):
    def program() -> None:
        @compile
        def f(x, y):
            pairs = (x, x), (y, y), (x, x), (x, y), (y, x), (x, y)
            return [it.logaddexp(a, b) for a, b in pairs]

        x, y = normal(4), normal(2, 4)[1]
        for got, (a, b) in zip(f(x, y), [(x, x), (y, y), (x, x), (x, y), (y, x)], strict=False):
            assert got.tolist() == it.logaddexp(a, b).tolist()

    program()
    found = graphs(program, monkeypatch)
    monkeypatch.setattr(Copies, "written", lambda self, key, inputs: None)
    assert found == graphs(program, monkeypatch)
