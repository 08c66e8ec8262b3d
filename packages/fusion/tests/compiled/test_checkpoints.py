"""What is computed again in order not to be kept stays so where equal values are one."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import checkpoint, value_and_grad
from ingle.fusion import compile, explain
from ingle.testkit.error_bounds import errors

WIDTH, LAYERS = 64, 6


def block(x, w):
    return it.tanh(it.gelu(x @ w) @ w)


def loss_of(step):
    def loss(weights, x):
        for w in weights:
            x = step(x, w)
        return it.sum(x * x)

    return value_and_grad(loss)


@pytest.fixture
def given():
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((WIDTH, WIDTH)) * 0.1 for _ in range(LAYERS)]
    x = rng.standard_normal((256, WIDTH))
    with it.device("cpu"):
        return [it.asarray(w.astype(np.float32)) for w in weights], it.asarray(x.astype(np.float32))


def between(function, given):
    """Bytes of the arena of the function's plan."""
    return explain(function, *given).arena


@pytest.mark.slow
def test_checkpoints_keep_less_and_give_the_same_gradients(given):
    plain, kept = loss_of(block), loss_of(checkpoint(block))
    want, got = compile(plain)(*given), compile(kept)(*given)
    arrays = [[loss.numpy(), *[g.numpy() for g in grads]] for loss, grads in (want, got)]
    assert max(errors(arrays[1], arrays[0], "float32")) < 64
    assert between(kept, given) < between(plain, given) / 2


def test_depend_orders_and_separates():
    with it.device("cpu"):
        x = it.asarray(np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4))

    def f(x):
        y = it.exp(x)
        total = it.sum(y)
        again = it.exp(it.depend(x, total))
        return total, again.T, it.depend(x, y)

    total, again, same = compile(f)(x)
    np.testing.assert_allclose(again.numpy(), np.exp(x.numpy()).T, rtol=1e-6)
    np.testing.assert_allclose(total.item(), np.exp(x.numpy()).sum(), rtol=1e-6)
    np.testing.assert_array_equal(same.numpy(), x.numpy())


def test_what_is_only_waited_for_is_not_computed():
    with it.device("cpu"):
        x = it.ones((8, 8))
    found = explain(lambda x: it.depend(x * 2.0, it.exp(x)), x)
    assert "exp" not in str(found)
