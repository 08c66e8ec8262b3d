"""Stacks of small matrices, computed at once, beside LAPACK's answers for each in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor import linalg
from ingle.tensor.errors import LinearAlgebraError
from ingle_numpy.kernels import small_matrices
from ingle_numpy.kernels.elimination import _STACK
from ingle_numpy.kernels.small_matrices import CHOLESKY, MANY

FLOATS = ["float32", "float64"]


def stack(count: int, n: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(count, n, n)).astype(dtype)


def assert_near(found: Any, wanted: Any, dtype: str, terms: float = 1.0) -> None:
    """Within some steps of the dtype of the largest number that was added up."""
    scale = np.abs(wanted) + terms
    assert found.numpy().dtype == dtype
    error = np.abs(found.numpy() - wanted) / scale
    assert error.max() <= (4 * np.finfo(dtype).eps if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [2, 3])
def test_determinants_inverses_and_solutions(n: int, dtype: str) -> None:
    x = stack(MANY, n, dtype)
    assert small_matrices.by_cofactors(x) == (dtype == "float32")
    wide, b = x.astype("float64"), stack(MANY, n, dtype)[..., :1]
    inverse = np.linalg.inv(wide)
    assert_near(linalg.det(it.asarray(x)), np.linalg.det(wide), dtype)
    assert_near(linalg.inv(it.asarray(x)), inverse, dtype, np.abs(inverse).max())
    wanted = np.linalg.solve(wide, b.astype("float64"))
    assert_near(linalg.solve(it.asarray(x), it.asarray(b)), wanted, dtype, np.abs(inverse).max())
    shared = linalg.solve(it.asarray(x), it.asarray(b[:1]))
    wanted = np.linalg.solve(wide, b[:1].astype("float64"))
    assert_near(shared, wanted, dtype, np.abs(inverse).max())


@pytest.mark.parametrize("name", ["inv", "det", "solve", "cholesky"])
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_leaves_the_others_alone(name: str, odd: float) -> None:
    """It has what LAPACK answers for it alone."""
    x = stack(MANY, 3, "float32")
    if name == "cholesky":
        x = x @ x.mT + np.eye(3, dtype="float32")
        if odd != odd:
            x[5, 0, 0] = odd
            with pytest.raises(LinearAlgebraError, match="not positive definite"):
                linalg.cholesky(it.asarray(x))
            return
    x[5, 0, 0] = odd
    right = (it.asarray(x[..., :1]),) if name == "solve" else ()
    found = getattr(linalg, name)(it.asarray(x), *right).numpy()
    again = getattr(linalg, name)(it.asarray(x[5:6]), *(r[5:6] for r in right)).numpy()
    np.testing.assert_array_equal(found[5:6], again)
    assert np.isfinite(np.delete(found, 5, 0)).all()


def test_one_singular_matrix_of_many_is_told() -> None:
    x = stack(MANY, 3, "float32")
    x[7] = np.arange(9).reshape(3, 3)
    for call in (linalg.inv, lambda a: linalg.solve(a, a)):
        with pytest.raises(LinearAlgebraError, match="Singular matrix"):
            call(it.asarray(x))
    found = linalg.det(it.asarray(x)).numpy()
    assert found[7] == 0
    assert np.count_nonzero(found) == MANY - 1


def test_products_beyond_single_precision() -> None:
    x = np.tile(np.diag(np.float32([1e30, 1e30, 1e-30])), (MANY, 1, 1))
    np.testing.assert_allclose(linalg.det(it.asarray(x)).numpy(), np.float32(1e30), rtol=1e-6)
    np.testing.assert_allclose(
        linalg.inv(it.asarray(x)).numpy()[0].diagonal(), [1e-30, 1e-30, 1e30], rtol=1e-6
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 3, CHOLESKY])
def test_cholesky(n: int, dtype: str) -> None:
    x = stack(MANY, n, dtype)
    x = x @ x.mT + n * np.eye(n, dtype=dtype)
    assert small_matrices.by_steps(x)
    assert_near(linalg.cholesky(it.asarray(x)), np.linalg.cholesky(x.astype("float64")), dtype)
    x[3] = -x[3]
    with pytest.raises(LinearAlgebraError, match="not positive definite"):
        linalg.cholesky(it.asarray(x))


@pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128"])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("n", [1, 5, 37])
def test_triangular_systems(n: int, unit: bool, upper: bool, dtype: str) -> None:
    rng = np.random.default_rng(n)
    x = (rng.normal(size=(_STACK // 2, 1, n, n)) / n + 2 * np.eye(n)).astype(dtype)
    b = rng.normal(size=(2, n, 3)).astype(dtype)
    if dtype[0] == "c":
        x, b = x * np.exp(1j * rng.normal(size=x.shape)).astype(dtype), b * (1 - 2j)
    triangle = np.triu(x, int(unit)) if upper else np.tril(x, -int(unit))
    wide = triangle.astype(np.result_type(dtype, "float64")) + (np.eye(n) if unit else 0)
    found = linalg.solve_triangular(it.asarray(x), it.asarray(b), upper=upper, unitriangular=unit)
    assert found.numpy().dtype == dtype
    worst = 1e-5 if dtype in {"float32", "complex64"} else 1e-12
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(wide, b), worst, worst)


def test_a_zero_on_one_diagonal_of_many_is_told() -> None:
    x = np.tile(np.eye(20), (_STACK, 1, 1))
    x[3, 18, 18] = 0
    with pytest.raises(LinearAlgebraError, match="zero on its diagonal"):
        linalg.solve_triangular(it.asarray(x), it.asarray(x), upper=True)
