"""Elimination against SciPy and PyTorch: values, pivots, gradients, systems solved with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import ingle.tensor as it
from ingle import autodiff
from ingle.tensor import linalg
from ingle.tensor.errors import DTypeError, LinearAlgebraError, OutOfRangeError, ShapeError

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
SHAPES = [(1, 1), (3, 3), (5, 3), (3, 5), (33, 33), (70, 70), (100, 40), (40, 100), (65, 64)]


def matrix(*shape: int, dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.normal(size=shape)
    return values.astype(dtype)


def tolerance(dtype: Any) -> float:
    return 1e-3 if dtype in (np.float32, np.complex64) else 1e-10


def close(got: Any, expected: Any, dtype: Any = np.float64) -> None:
    limit = tolerance(dtype)
    np.testing.assert_allclose(np.asarray(got), expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_factors_equal_scipys(shape: tuple[int, ...], dtype: Any) -> None:
    x = matrix(*shape, dtype=dtype)
    packed, pivots = linalg.lu_factor(it.asarray(x))
    theirs, swaps = scipy.linalg.lu_factor(x)
    assert packed.dtype.dtype == dtype
    assert pivots.dtype is it.int32
    np.testing.assert_array_equal(pivots.numpy(), swaps)
    close(packed, theirs, dtype)
    for ours, expected in zip(linalg.lu(it.asarray(x)), scipy.linalg.lu(x), strict=True):
        assert ours.dtype is packed.dtype
        close(ours, expected, dtype)


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (3, 5, 2), (2, 1, 2, 5), (2, 40, 40)], ids=str)
def test_stacks(shape: tuple[int, ...]) -> None:
    x = matrix(*shape)
    p, lower, upper = linalg.lu(it.asarray(x))
    close(p @ lower @ upper, x)
    packed, pivots = linalg.lu_factor(it.asarray(x))
    for place in np.ndindex(shape[:-2]):
        theirs, swaps = scipy.linalg.lu_factor(x[place])
        close(packed.numpy()[place], theirs)
        np.testing.assert_array_equal(pivots.numpy()[place], swaps)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0, 2, 2), (2, 0, 3)], ids=str)
def test_empty_matrices(shape: tuple[int, ...]) -> None:
    *lead, m, n = shape
    k = min(m, n)
    p, lower, upper = linalg.lu(it.zeros(shape))
    assert (p.shape, lower.shape, upper.shape) == ((*lead, m, m), (*lead, m, k), (*lead, k, n))
    packed, pivots = linalg.lu_factor(it.zeros(shape))
    assert (packed.shape, pivots.shape) == (shape, (*lead, k))


def test_singular_matrices_have_a_zero_in_u() -> None:
    x = np.asarray([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 1.0, 1.0]])
    p, lower, upper = linalg.lu(it.asarray(x))
    close(p @ lower @ upper, x)
    assert np.any(np.abs(np.diag(upper.numpy())) < 1e-15)
    p, lower, upper = linalg.lu(it.zeros((2, 2)))
    assert (p @ lower @ upper).tolist() == [[0, 0], [0, 0]]
    unknown = it.asarray([[float("nan"), 1.0], [1.0, 2.0]])
    assert np.isnan(linalg.lu_factor(unknown).LU.numpy()).any()


def test_permutations() -> None:
    x = matrix(3, 6, 4)
    pivots = linalg.lu_factor(it.asarray(x)).pivots
    order = linalg.lu_permutation(pivots, 6)
    p, lower, upper = linalg.lu(it.asarray(x))
    close(lower @ upper, np.take_along_axis(x, order.numpy()[..., None], -2))
    rows = np.arange(6)
    np.testing.assert_array_equal(p.numpy()[0][order.numpy()[0], rows], np.ones(6))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 3), (3,)), ((5, 5), (5, 2)), ((80, 80), (80, 3)), ((2, 3, 3), (3, 4)),
        ((3, 3), (2, 3, 1)), ((0, 0), (0, 2)),
    ],
    ids=str,
)  # fmt: skip
def test_systems(a: tuple[int, ...], b: tuple[int, ...], adjoint: bool, dtype: Any) -> None:
    x, y = matrix(*a, dtype=dtype), matrix(*b, dtype=dtype, seed=1)
    factors = linalg.lu_factor(it.asarray(x))
    got = linalg.lu_solve(*factors, it.asarray(y), adjoint=adjoint)
    close(got, np.linalg.solve(np.conj(x).mT if adjoint else x, y), dtype)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("n", [1, 3, 64, 65, 150])
def test_triangular_systems_equal_scipys(n: int, unit: bool, upper: bool, dtype: Any) -> None:
    x = (matrix(n, n, dtype=dtype) / n + np.eye(n)).astype(dtype)
    y = matrix(n, 2, dtype=dtype, seed=1)
    want = scipy.linalg.solve_triangular(x, y, lower=not upper, unit_diagonal=unit)
    got = linalg.solve_triangular(it.asarray(x), it.asarray(y), upper=upper, unitriangular=unit)
    close(got, want, dtype)
    vector = linalg.solve_triangular(
        it.asarray(x), it.asarray(y[:, 0]), upper=upper, unitriangular=unit
    )
    close(vector, want[:, 0], dtype)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (5, 3), (2, 3, 5), (1, 4), (4, 1)], ids=str)
@pytest.mark.parametrize("part", [0, 1])
def test_gradients_equal_pytorch(
    part: int, shape: tuple[int, ...], like_torch: Callable[..., None]
) -> None:
    torch = pytest.importorskip("torch")
    like_torch(
        lambda x: linalg.lu(x)[1 + part],
        lambda t: torch.linalg.lu(t)[1 + part],
        [matrix(*shape)],
        rtol=1e-6,
        atol=1e-7,
    )


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)], ids=str)
def test_complex_gradients_equal_pytorch(
    shape: tuple[int, ...], like_torch: Callable[..., None]
) -> None:
    torch = pytest.importorskip("torch")
    for part in (1, 2):
        like_torch(
            lambda x, part=part: it.abs(linalg.lu(x)[part] + 0.5),
            lambda t, part=part: (torch.linalg.lu(t)[part] + 0.5).abs(),
            [matrix(*shape, dtype=np.complex128)],
            second=False,
            rtol=1e-6,
            atol=1e-7,
        )


@pytest.mark.parametrize("adjoint", [False, True])
def test_gradients_of_systems_equal_pytorch(adjoint: bool, like_torch: Callable[..., None]) -> None:
    torch = pytest.importorskip("torch")
    like_torch(
        lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, adjoint=adjoint),
        lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, adjoint=adjoint),
        [matrix(2, 3, 3), matrix(3, 2, seed=1)],
        rtol=1e-6,
        atol=1e-7,
    )


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_gradients_of_triangular_systems_equal_pytorch(
    upper: bool, unit: bool, like_torch: Callable[..., None]
) -> None:
    torch = pytest.importorskip("torch")
    options = {"upper": upper, "unitriangular": unit}
    for a, b in (((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 1))):
        like_torch(
            lambda x, y: linalg.solve_triangular(x, y, **options),
            lambda x, y: torch.linalg.solve_triangular(x, y, **options),
            [matrix(*a) + 3 * np.eye(3), matrix(*b, seed=1)],
            rtol=1e-6,
            atol=1e-7,
        )


def test_batches() -> None:
    x, y = it.asarray(matrix(4, 3, 3)), it.asarray(matrix(4, 3, seed=1))
    got = autodiff.vmap(lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b))(x, y)
    close(got, np.linalg.solve(x.numpy(), y.numpy()[..., None])[..., 0])
    got = autodiff.vmap(lambda b: linalg.solve_triangular(x[0], b, upper=True))(y)
    close(got, scipy.linalg.solve_triangular(x.numpy()[0], y.numpy().T).T)


def test_integers_are_cast() -> None:
    p, lower, upper = linalg.lu(it.asarray([[1, 2], [3, 4]]))
    assert p.dtype is lower.dtype is upper.dtype is it.float32
    close(p @ lower @ upper, [[1, 2], [3, 4]], np.float32)


def test_what_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"lu_factor: .*float32.*got float16"):
        linalg.lu_factor(it.ones((2, 2), dtype="float16"))
    with pytest.raises(ShapeError, match="lu: x must be a matrix"):
        linalg.lu(it.ones(2))
    with pytest.raises(LinearAlgebraError, match=r"solve_triangular: .* zero on its diagonal"):
        linalg.solve_triangular(it.zeros((2, 2)), it.ones(2), upper=True).numpy()
    with pytest.raises(ShapeError, match=r"solve_triangular: .*2 rows.*\(2, 2\)|\(2, 2\).*2 rows"):
        linalg.solve_triangular(it.ones((2, 2)), it.ones(3), upper=True)
    factors = linalg.lu_factor(it.eye(2))
    with pytest.raises(ShapeError, match=r"lu_solve: .*\(2, 2\).*pivots"):
        linalg.lu_solve(*factors, it.ones(3))
    with pytest.raises(
        OutOfRangeError, match=r"lu_permutation: pivots hold 7, .* valid are 0 to 2"
    ):
        linalg.lu_permutation(it.asarray([7]), 3).numpy()
    with pytest.raises(ShapeError, match="lu_permutation: pivots must have shape"):
        linalg.lu_permutation(it.asarray([0, 1]), 1)
    with pytest.raises(DTypeError, match="lu_permutation: pivots must be integers, got float32"):
        linalg.lu_permutation(it.ones(2), 2)
