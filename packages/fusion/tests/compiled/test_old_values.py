"""What a compiled function was recorded with is freed without a search for cycles."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile

SIZE = 512


@pytest.fixture
def in_use():
    """Bytes of the device that are in use, where Python's collector does not run."""
    it.zeros(1, device="cpu")
    pool = it.memory.pool_of("cpu")
    gc.collect()
    gc.disable()
    yield lambda: pool.statistics().in_use
    gc.enable()


def batch():
    rng = np.random.default_rng(0)
    return [it.asarray(rng.normal(size=(4, SIZE)).astype("f"), device="cpu") for _ in range(2)]


def trained(model, optimizer, x, y):
    loss = it.mse_loss(model(x), y)
    optimizer.step(loss.backward())
    return loss.detach()


def by_cells(model, optimizer, x, y):
    return compile(lambda x, y: trained(model, optimizer, x, y)), (x, y)


def by_arguments(model, optimizer, x, y):
    def step(model, x, y):
        return trained(model, optimizer, x, y)

    return compile(step), (model, x, y)


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    @compile
    def step(self, x, y):
        return {"loss": [trained(self.model, self.optimizer, x, y)]}


def by_method(model, optimizer, x, y):
    trainer = Trainer(model, optimizer)
    return trainer.step, (x, y)


@pytest.mark.parametrize("made", [by_cells, by_arguments, by_method])
def test_a_step_holds_its_state_once(in_use, made):
    before = in_use()
    model = nn.Linear(SIZE, SIZE, bias=False, device="cpu")
    f, arguments = made(model, optim.Adam(model, lr=1e-3), *batch())
    for _ in range(5):
        f(*arguments)
    del arguments
    held = in_use() - before
    # The weight and two moments; what lies between kernels is less than a second weight.
    assert held < 3.9 * 4 * SIZE * SIZE


def test_a_function_holds_no_old_arguments(in_use):
    (x, _), before = batch(), in_use()
    weight = it.ones((SIZE, SIZE), device="cpu")

    @compile
    def f(weight):
        return value_and_grad(lambda w: it.sum((x @ w) ** 2))(weight)

    for _ in range(4):
        _, gradient = f(weight)
        weight = weight - 0.1 * gradient
        weight.numpy()
        del gradient
    assert in_use() - before < 1.5 * 4 * SIZE * SIZE
