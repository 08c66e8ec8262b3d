"""Sums of products that are larger than what they are made of: two that meet are one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain


def gated(x: Any, gate: Any, up: Any) -> Any:
    """Two products of the same rows, one behind a function, times one another."""
    one, other = (it.sum(x[:, None] * weight[None], axis=-1) for weight in (gate, up))
    return it.silu(one) * other


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_products_of_the_same_rows_are_one_kernel(rows: int) -> None:
    """Whether there is one row, of which the products are as large as the matrix, or there are
    more."""
    rng = np.random.default_rng(rows)
    shapes = [(rows, 40), (7, 40), (7, 40)]
    x, gate, up = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    step, given = compile(gated), [it.asarray(v) for v in (x, gate, up)]
    assert len(explain(step, *given, source=True, runs=0).sources) == 1
    one, other = x.astype(np.float64) @ gate.T, x.astype(np.float64) @ up.T
    wanted = one / (1 + np.exp(-one)) * other
    np.testing.assert_allclose(step(*given).numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_a_sum_that_another_one_reads_stays_apart() -> None:
    """One computed from the other's result cannot be summed beside it."""

    @compile
    def chain(x: Any, a: Any, b: Any) -> Any:
        one = it.sum(x[:, None] * a[None], axis=-1)
        other = it.sum(one[:, None] * b[None], axis=-1)
        return one + other

    rng = np.random.default_rng(0)
    x, a, b = (rng.normal(size=shape).astype(np.float32) for shape in [(3, 6), (6, 6), (6, 6)])
    found = chain(*[it.asarray(v) for v in (x, a, b)]).numpy()
    one = x.astype(np.float64) @ a.T
    np.testing.assert_allclose(found, one + one @ b.T, rtol=1e-4, atol=1e-4)
