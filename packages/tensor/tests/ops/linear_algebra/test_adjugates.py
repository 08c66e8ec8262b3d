"""Adjugates beside determinants of minors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor import linalg


def stack(count: int, n: int, dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(n)
    values = rng.normal(size=(count, n, n))
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.normal(size=(count, n, n))
    return values.astype(dtype)


def cofactors(x: np.ndarray) -> np.ndarray:
    """Transposed, from determinants of minors in double precision."""
    n = len(x)
    wide = x.astype(np.result_type(x.dtype, np.float64))
    minors = [[np.delete(np.delete(wide, i, 0), j, 1) for i in range(n)] for j in range(n)]
    signs = (-1.0) ** np.add.outer(np.arange(n), np.arange(n))
    return signs * np.linalg.det(np.asarray(minors))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_adjugates_equal_cofactors_however_close_to_singular(n: int, dtype: Any) -> None:
    """A stack whose matrices go different ways; each alone has the same bits."""
    x = stack(6, n, dtype)
    x[1, -1] = 2 * x[1, 0]
    x[2:5, -1] = 2 * x[2:5, 0] + x[2:5, -1] * np.asarray([[1e-3], [1e-6], [1e-9]])
    x[5] *= 1e-60 if dtype != np.float32 else 1e-7
    found = linalg.adjugate(it.asarray(x)).numpy()
    worst = 1e-6 if dtype == np.float32 else 1e-12
    for one, alone in zip(found, x, strict=True):
        expected = cofactors(alone)
        np.testing.assert_allclose(one, expected, rtol=0, atol=worst * np.abs(expected).max())
        np.testing.assert_array_equal(linalg.adjugate(it.asarray(alone)).numpy(), one)


def test_the_gradient_of_a_determinant_needs_no_singular_values(monkeypatch: Any) -> None:
    """They take ten times as long as elimination, and only matrices close to singular need them."""
    monkeypatch.delattr(np.linalg, "svd")
    x = it.asarray(stack(4, 5, np.float64), device="numpy").require_grad()
    found = it.sum(linalg.det(x)).backward()[x].numpy()
    np.testing.assert_allclose(found, np.stack([cofactors(a).T for a in x.numpy()]), rtol=1e-9)


def test_determinants_beyond_all_numbers_have_gradients_of_that_size(monkeypatch: Any) -> None:
    monkeypatch.delattr(np.linalg, "svd")
    x = it.asarray(np.eye(5) * 1e90 + 1e88, device="numpy")
    assert np.isinf(linalg.det(x).item())
    assert np.isinf(linalg.adjugate(x).numpy()).all()
