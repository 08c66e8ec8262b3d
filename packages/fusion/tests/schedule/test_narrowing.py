"""What is computed in a half type lies in memory as such, also where it is widened at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile, explain
from ingle.fusion.schedule import scheduler

pytest.importorskip("ingle_cpu")

ROWS, COLUMNS = 96, 80


@pytest.fixture(autouse=True)
def on_cpu() -> Iterator[None]:
    with it.device("cpu"):
        yield


def numbers(*shape: int, dtype: str = "bfloat16") -> it.Tensor:
    drawn = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    return it.asarray(drawn).astype(dtype)


def widened(x: it.Tensor, w: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
    """Two kernels need what follows from a product in float32, along different axes."""
    y = (x @ w).astype("float32")
    return it.max(y * 2.0, axis=1), it.max(y * 4.0, axis=0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_product_is_stored_as_a_half(dtype: str) -> None:
    """The bits are those of the product alone, which is rounded in memory."""
    x, w = numbers(ROWS, 64, dtype=dtype), numbers(64, COLUMNS, dtype=dtype)
    assert explain(widened, x, w, runs=0).arena == 2 * ROWS * COLUMNS
    alone = (x @ w).numpy().astype(np.float32)
    rows, columns = compile(widened)(x, w)
    assert np.array_equal(rows.numpy(), 2 * alone.max(axis=1))
    assert np.array_equal(columns.numpy(), 4 * alone.max(axis=0))


def test_what_is_wide_is_stored_so() -> None:
    x, w = numbers(ROWS, 64, dtype="float32"), numbers(64, COLUMNS, dtype="float32")
    assert explain(widened, x, w, runs=0).arena == 8 * ROWS * COLUMNS


def test_a_reader_that_needs_it_wide_gets_it_wide() -> None:
    """A product of float32 reads memory; then nothing is gained by storing the half as well."""

    def both(x: it.Tensor, w: it.Tensor, v: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
        y = (x @ w).astype("float32")
        return y @ v, it.max(y * 4.0, axis=0)

    x, w = numbers(ROWS, 64), numbers(64, COLUMNS)
    v = numbers(COLUMNS, 32, dtype="float32")
    assert explain(both, x, w, v, runs=0).arena == 4 * ROWS * COLUMNS
    wide = (x.astype("float32").numpy() @ w.astype("float32").numpy()) @ v.numpy()
    np.testing.assert_allclose(compile(both)(x, w, v)[0].numpy(), wide, rtol=0.05, atol=0.1)


def test_logits_of_a_loss_are_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lookup of the right class reads the halves as well."""
    labels = it.asarray(np.arange(ROWS) % COLUMNS)

    def loss(w: it.Tensor, x: it.Tensor) -> Any:
        return it.cross_entropy((x @ w).astype("float32"), labels)

    x, w = numbers(ROWS, 64), numbers(64, COLUMNS)
    moved = explain(lambda x, w: loss(w, x), x, w, runs=0).arena
    assert moved < 3 * ROWS * COLUMNS
    found = compile(value_and_grad(loss))(w, x)
    monkeypatch.setattr(scheduler, "narrowed", lambda plan: plan.stored)
    for a, b in zip(found, compile(value_and_grad(loss))(w, x), strict=True):
        a, b = (v.numpy().astype(np.float32) for v in (a, b))
        np.testing.assert_allclose(a, b, rtol=0.02, atol=1e-3)
