"""The namespace `linalg`: values against NumPy, gradients against PyTorch, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor import linalg
from ingle.tensor.dispatch import watch
from ingle.tensor.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    LinearAlgebraError,
    OperandError,
    ShapeError,
)

INF = float("inf")


def matrix(*shape: int, dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.normal(size=shape)
    return values.astype(dtype)


def hermitian(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    x = matrix(*shape, dtype=dtype)
    return x @ np.conj(x).mT + np.eye(shape[-1])


def close(got: Any, expected: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(np.asarray(got), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (0, 0), (0, 3, 3)])
def test_square_matrices_equal_numpy(shape: tuple[int, ...], dtype: Any) -> None:
    x = hermitian(*shape, dtype=dtype).astype(dtype)
    t, tolerance = it.asarray(x), 2e-3 if dtype in (np.float32, np.complex64) else 1e-9
    pairs = [
        (linalg.inv(t), np.linalg.inv(x)),
        (linalg.det(t), np.linalg.det(x)),
        (linalg.cholesky(t), np.linalg.cholesky(x)),
        (linalg.cholesky(t, upper=True), np.linalg.cholesky(x, upper=True)),
        (linalg.eigvalsh(t), np.linalg.eigvalsh(x)),
        (linalg.eigh(t).eigenvalues, np.linalg.eigvalsh(x)),
        (linalg.slogdet(t).sign, np.linalg.slogdet(x).sign),
        (linalg.slogdet(t).logabsdet, np.linalg.slogdet(x).logabsdet),
        (linalg.matrix_power(t, 3), np.linalg.matrix_power(x, 3)),
        (linalg.matrix_power(t, 0), np.broadcast_to(np.eye(shape[-1]), shape)),
        (linalg.matrix_power(t, -2), np.linalg.matrix_power(x, -2)),
        (linalg.trace(t), np.trace(x, axis1=-2, axis2=-1)),
    ]
    for got, expected in pairs:
        assert got.shape == np.shape(expected)
        close(got.numpy() / (1 + np.abs(expected)), expected / (1 + np.abs(expected)), tolerance)
    values, vectors = linalg.eigh(t)
    close((vectors * values[..., None, :]) @ it.conj(vectors).mT, x, 10 * tolerance)
    assert values.dtype.name == np.linalg.eigvalsh(x).dtype.name


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 3), (0, 3), (3, 0), (2, 0, 0)])
def test_decompositions_multiply_to_the_matrix(shape: tuple[int, ...], dtype: Any) -> None:
    x = matrix(*shape, dtype=dtype)
    t, (m, n), k = it.asarray(x), shape[-2:], min(shape[-2:])
    for mode, width in (("reduced", k), ("complete", m)):
        q, r = linalg.qr(t, mode=mode)
        assert (q.shape[-2:], r.shape[-2:]) == ((m, width), (width, n))
        close(q @ r, x)
        close(it.conj(q).mT @ q, np.broadcast_to(np.eye(width), (*shape[:-2], width, width)))
        close(it.tril(r, k=-1), np.zeros(r.shape))
    for full in (False, True):
        u, s, vh = linalg.svd(t, full_matrices=full)
        assert u.shape[-1] == (m if full else k)
        close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x)
        close(s, np.linalg.svd(x, compute_uv=False))
    close(linalg.svdvals(t), np.linalg.svd(x, compute_uv=False))
    close(linalg.pinv(t), np.linalg.pinv(x))
    rank = np.linalg.matrix_rank(x) if x.size else np.zeros(shape[:-2], int)
    assert linalg.matrix_rank(t).tolist() == np.asarray(rank).tolist()


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3, 1)), ((3, 3), (2, 3, 4)),
     ((2, 1, 3, 3), (5, 3, 2)), ((0, 0), (0,)), ((2, 3, 3), (3,)), ((0, 3, 3), (3, 2))],
)  # fmt: skip
def test_solve_equals_numpy(a: Any, b: Any) -> None:
    x, y = matrix(*a), matrix(*b, seed=1)
    close(linalg.solve(it.asarray(x), it.asarray(y)), np.linalg.solve(x, y))


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, INF, -INF])
@pytest.mark.parametrize("keepdims", [False, True])
def test_matrix_norms_equal_numpy(order: Any, keepdims: bool) -> None:
    for x in (matrix(3, 5), matrix(2, 4, 3, dtype=np.complex128)):
        got = linalg.matrix_norm(it.asarray(x), ord=order, keepdims=keepdims)
        expected = np.linalg.matrix_norm(x, ord=order, keepdims=keepdims)
        assert got.shape == expected.shape
        close(got, expected)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, -1, -2.5, INF, -INF])
@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (1, True), ((0, 2), False)])
def test_vector_norms_equal_numpy(order: Any, axis: Any, keepdims: bool) -> None:
    for x in (matrix(3, 5, 2), matrix(2, 4, 3, dtype=np.complex128)):
        got = linalg.vector_norm(it.asarray(x), ord=order, axis=axis, keepdims=keepdims)
        expected = np.linalg.vector_norm(x, ord=order, axis=axis, keepdims=keepdims)
        assert got.shape == np.shape(expected)
        close(got, expected)


def test_the_norm_of_a_half_type_does_not_overflow() -> None:
    x = it.full((4,), 300.0, dtype=it.float16)
    assert linalg.vector_norm(x).item() == 600
    assert linalg.vector_norm(x).dtype is it.float16


@pytest.mark.parametrize(
    ("a", "b", "axis"),
    [((3,), (3,), -1), ((2, 3), (3,), -1), ((3, 4), (3, 4), 0), ((5, 1, 3), (2, 3), -1)],
)
def test_cross_equals_numpy(a: Any, b: Any, axis: int) -> None:
    x, y = matrix(*a), matrix(*b, seed=1)
    close(linalg.cross(it.asarray(x), it.asarray(y), axis=axis), np.cross(x, y, axis=axis))


@pytest.mark.parametrize("offset", [-2, 0, 1, 9])
def test_traces_of_other_diagonals(offset: int) -> None:
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    got = linalg.trace(it.asarray(x), offset=offset)
    assert got.tolist() == np.trace(x, offset, -2, -1).tolist()
    assert got.dtype is it.int64
    assert linalg.trace(it.asarray(x), dtype=it.float32).dtype is it.float32


def test_tolerances_of_ranks_and_pseudo_inverses() -> None:
    x = np.stack([np.diag([1.0, 0.1, 0.001]), np.eye(3)])
    assert linalg.matrix_rank(it.asarray(x), rtol=0.01).tolist() == [2, 3]
    limits = it.asarray([0.5, 0.0])
    assert linalg.matrix_rank(it.asarray(x), rtol=limits).tolist() == [1, 3]
    close(linalg.pinv(it.asarray(x), rtol=limits), np.linalg.pinv(x, rtol=np.asarray([0.5, 0.0])))
    with pytest.raises(ShapeError, match=r"pinv: rtol of shape \(2, 2\)"):
        linalg.pinv(it.asarray(x), rtol=it.zeros((2, 2)))


# Gradients.


def symmetric(x: Any) -> Any:
    return (x + x.mT) / 2 + 4


REAL: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[int, ...]]] = {
    "inv": (linalg.inv, lambda t: t.inverse(), (2, 3, 3)),
    "det": (linalg.det, lambda t: t.det(), (2, 3, 3)),
    "logabsdet": (lambda x: linalg.slogdet(x).logabsdet, lambda t: t.slogdet()[1], (3, 3)),
    "cholesky": (
        lambda x: linalg.cholesky(x @ x.mT + it.eye(3, dtype=x.dtype)),
        lambda t: _torch().linalg.cholesky(t @ t.mT + _torch().eye(3, dtype=t.dtype)),
        (2, 3, 3),
    ),
    "qr": (lambda x: linalg.qr(x).R, lambda t: _torch().linalg.qr(t).R, (2, 5, 3)),
    "qr, orthogonal": (lambda x: linalg.qr(x).Q, lambda t: _torch().linalg.qr(t).Q, (5, 3)),
    "qr, wide": (lambda x: linalg.qr(x).R, lambda t: _torch().linalg.qr(t).R, (3, 5)),
    "eigvalsh": (
        lambda x: linalg.eigvalsh(symmetric(x)),
        lambda t: _torch().linalg.eigvalsh(symmetric(t)),
        (2, 4, 4),
    ),
    "eigh": (
        lambda x: linalg.eigh(symmetric(x)).eigenvectors ** 2,
        lambda t: _torch().linalg.eigh(symmetric(t)).eigenvectors ** 2,
        (4, 4),
    ),
    "svdvals": (linalg.svdvals, lambda t: _torch().linalg.svdvals(t), (2, 3, 5)),
    "svd, left": (
        lambda x: linalg.svd(x, full_matrices=False).U ** 2,
        lambda t: _torch().linalg.svd(t, full_matrices=False).U ** 2,
        (5, 3),
    ),
    "svd, right": (
        lambda x: linalg.svd(x, full_matrices=False).Vh ** 2,
        lambda t: _torch().linalg.svd(t, full_matrices=False).Vh ** 2,
        (2, 3, 5),
    ),
    "pinv": (linalg.pinv, lambda t: _torch().linalg.pinv(t), (2, 5, 3)),
    "pinv, wide": (linalg.pinv, lambda t: _torch().linalg.pinv(t), (3, 5)),
    "matrix_power": (
        lambda x: linalg.matrix_power(x, -3),
        lambda t: _torch().linalg.matrix_power(t, -3),
        (3, 3),
    ),
    "nuclear norm": (
        lambda x: linalg.matrix_norm(x, ord="nuc"),
        lambda t: _torch().linalg.matrix_norm(t, "nuc"),
        (2, 3, 4),
    ),
    "norm of order 3": (
        lambda x: linalg.vector_norm(x, ord=3, axis=0),
        lambda t: _torch().linalg.vector_norm(t, 3, 0),
        (4, 3),
    ),
    "largest": (
        lambda x: linalg.vector_norm(x, ord=INF, axis=1),
        lambda t: _torch().linalg.vector_norm(t, INF, 1),
        (4, 3),
    ),
}  # fmt: skip


def _torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", REAL)
def test_gradients_equal_pytorch(name: str, like_torch: Callable[..., None]) -> None:
    ours, theirs, shape = REAL[name]
    like_torch(ours, theirs, [matrix(*shape)], rtol=1e-6, atol=1e-7)


def test_gradients_of_solve_equal_pytorch(like_torch: Callable[..., None]) -> None:
    solve = _torch().linalg.solve
    for a, b in (((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (3,)), ((3, 3), (2, 3, 4))):
        like_torch(linalg.solve, solve, [matrix(*a), matrix(*b, seed=1)], rtol=1e-6, atol=1e-7)


def _product(u: Any, s: Any, vh: Any) -> Any:
    return u @ vh


COMPLEX: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[int, ...]]] = {
    "inv": (lambda x: it.abs(linalg.inv(x)), lambda t: t.inverse().abs(), (3, 3)),
    "det": (lambda x: it.imag(linalg.det(x)), lambda t: t.det().imag, (2, 3, 3)),
    "sign": (lambda x: it.real(linalg.slogdet(x).sign), lambda t: t.slogdet()[0].real, (3, 3)),
    "logabsdet": (lambda x: linalg.slogdet(x).logabsdet, lambda t: t.slogdet()[1], (3, 3)),
    "svdvals": (linalg.svdvals, lambda t: _torch().linalg.svdvals(t), (3, 5)),
    "svd": (
        lambda x: it.abs(linalg.svd(x, full_matrices=False).U),
        lambda t: _torch().linalg.svd(t, full_matrices=False).U.abs(),
        (5, 3),
    ),
    "svd, both": (
        lambda x: it.real(_product(*linalg.svd(x))),
        lambda t: _product(*_torch().linalg.svd(t)).real,
        (3, 3),
    ),
    "qr": (lambda x: it.abs(linalg.qr(x).R), lambda t: _torch().linalg.qr(t).R.abs(), (5, 3)),
    "cholesky": (
        lambda x: it.imag(linalg.cholesky(x @ it.conj(x).mT)),
        lambda t: _torch().linalg.cholesky(t @ t.mH).imag,
        (3, 3),
    ),
    "eigh": (
        lambda x: it.abs(linalg.eigh(x + it.conj(x).mT).eigenvectors),
        lambda t: _torch().linalg.eigh(t + t.mH).eigenvectors.abs(),
        (4, 4),
    ),
    "pinv": (lambda x: it.abs(linalg.pinv(x)), lambda t: _torch().linalg.pinv(t).abs(), (5, 3)),
    "vector_norm": (
        lambda x: linalg.vector_norm(x, ord=3, axis=0),
        lambda t: _torch().linalg.vector_norm(t, 3, 0),
        (4, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients_equal_pytorch(name: str, like_torch: Callable[..., None]) -> None:
    ours, theirs, shape = COMPLEX[name]
    x = matrix(*shape, dtype=np.complex128)
    like_torch(ours, theirs, [x], second=False, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_the_gradient_of_a_singular_determinant_is_exact(rank: int) -> None:
    x = matrix(4, rank) @ matrix(rank, 4, seed=1)
    tracked = it.asarray(x).require_grad()
    got = linalg.det(tracked).backward()[tracked].numpy()
    # The determinant is linear in each element: these differences have no truncation error.
    for i, j in np.ndindex(4, 4):
        step = np.zeros((4, 4))
        step[i, j] = 1
        close(got[i, j], np.linalg.det(x + step) - np.linalg.det(x), 1e-8)


def test_gradients_at_zero_norms_are_zero() -> None:
    for order in (1, 2, 3, INF):
        x = it.zeros(3).require_grad()
        assert linalg.vector_norm(x, ord=order).backward()[x].tolist() == [0, 0, 0]


def test_gradients_of_symmetric_decompositions_are_symmetric() -> None:
    x = it.asarray(hermitian(3, 3)).require_grad()
    for y in (linalg.cholesky(x), linalg.eigh(x).eigenvectors ** 2, linalg.eigvalsh(x)):
        g = y.backward(it.asarray(matrix(*y.shape)))[x].numpy()
        close(g, g.T)


def _beyond(name: str, x: Any) -> Any:
    """What further singular vectors or columns of `q` span, as a projection."""
    if name == "qr":
        rest = linalg.qr(x, mode="complete").Q[..., :, x.shape[-1] :]
        return rest @ it.conj(rest).mT
    u, s, vh = linalg.svd(x)
    rest = u[..., :, s.shape[-1] :] if name == "u" else it.conj(vh).mT[..., :, s.shape[-1] :]
    return rest @ it.conj(rest).mT


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize(("name", "shape"), [("qr", (2, 5, 3)), ("u", (5, 3)), ("vh", (2, 3, 5))])
def test_gradients_of_complete_bases(name: str, shape: tuple[int, ...], dtype: Any) -> None:
    """Of the projection beside the columns, which is 1 less the projection on them."""
    x, g = matrix(*shape, dtype=dtype), matrix(*shape[:-2], 5, 5, dtype=dtype, seed=2)
    tracked = it.asarray(x).require_grad()
    got = _beyond(name, tracked).backward(it.asarray(g))[tracked].numpy()
    step = matrix(*shape, dtype=dtype, seed=3)

    def project(a: np.ndarray) -> np.ndarray:
        a = np.conj(a).mT if name == "vh" else a
        return np.eye(5) - a @ np.linalg.pinv(a)

    moved = (project(x + 1e-6 * step) - project(x - 1e-6 * step)) / 2e-6
    close(np.sum(np.conj(got) * step).real, np.sum(np.conj(g) * moved).real, 1e-6)


def test_complete_decompositions_have_the_gradients_of_reduced_ones() -> None:
    x, g = matrix(5, 3), it.asarray(matrix(5, 3, seed=1))
    for whole, part in (
        (
            lambda t: linalg.svd(t).U[:, :3] ** 2,
            lambda t: linalg.svd(t, full_matrices=False).U ** 2,
        ),
        (lambda t: linalg.qr(t, mode="complete").Q[:, :3], lambda t: linalg.qr(t).Q),
    ):
        a, b = it.asarray(x).require_grad(), it.asarray(x).require_grad()
        close(whole(a).backward(g)[a], part(b).backward(g)[b].numpy())
    a = it.asarray(x).require_grad()
    assert linalg.svd(a).S.sum().backward()[a].shape == (5, 3)


# Errors.


def test_matrices_that_cannot_be_solved() -> None:
    singular = it.zeros((2, 2))
    for call, match in (
        (lambda: linalg.inv(singular), "inv: Singular"),
        (lambda: linalg.solve(singular, it.ones(2)), "solve: Singular"),
        (lambda: linalg.cholesky(-it.eye(2)), "not positive definite"),
    ):
        with pytest.raises(LinearAlgebraError, match=match):
            call().numpy()
    assert issubclass(LinearAlgebraError, np.linalg.LinAlgError)


def test_refusals() -> None:
    square, half = it.eye(3), it.eye(3, dtype=it.float16)
    for call, error, match in (
        (lambda: linalg.inv(it.ones(3)), ShapeError, r"inv: x must have square.*\(3,\)"),
        (lambda: linalg.det(it.ones((2, 3))), ShapeError, "det: x must have square"),
        (
            lambda: linalg.cholesky_solve(it.ones((2, 1)), it.eye(2)),
            ShapeError,
            r"\(2, 1\); the factor comes first.* cholesky_solve\(factor, b\)",
        ),
        (
            lambda: linalg.lu_solve(it.ones(2), it.eye(2), it.arange(2)),
            ShapeError,
            r"\(2,\); the factors come first.* lu_solve\(packed, pivots, b\)",
        ),
        (lambda: linalg.inv(half), DTypeError, "inv: x must be float32"),
        (lambda: linalg.solve(square, it.ones(4)), ShapeError, "solve: .* 3 rows"),
        (lambda: linalg.solve(square, it.asarray(1.0)), ShapeError, "solve: x2"),
        (lambda: linalg.qr(square, mode="thin"), ArgumentError, "mode='thin'"),
        (lambda: linalg.matrix_norm(square, ord=3), ArgumentError, "ord=3"),
        (lambda: linalg.vector_norm(square, ord="fro"), ArgumentError, "ord must be a number"),
        (lambda: linalg.matrix_power(square, 0.5), ArgumentError, "n must be an integer"),
        (lambda: linalg.cross(it.ones(2), it.ones(2)), ShapeError, "3 elements"),
        (lambda: linalg.cross(it.ones(3), it.ones(3), axis=9), AxisError, "cross: axis=9"),
        (lambda: linalg.cross(it.ones((3, 2)), it.ones(2), axis=0), ShapeError, "3 elements"),
        (lambda: linalg.cross(it.ones(3), 2.0), OperandError, "cross: x2 must be a tensor"),
        (lambda: linalg.trace(it.ones(2)), ShapeError, "trace"),
        (lambda: linalg.vector_norm(it.zeros(0), ord=-INF), ShapeError, "vector_norm"),
    ):
        with pytest.raises(error, match=match):
            call()


@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
def test_the_exponential_of_matrices_of_any_norm(size: float) -> None:
    """Of nilpotent and diagonal matrices it is known, and it turns by a skew-symmetric one."""
    steps = it.asarray([[0.0, size, 0.0], [0.0, 0.0, size], [0.0, 0.0, 0.0]], dtype="float64")
    expected = [[1.0, size, size**2 / 2], [0.0, 1.0, size], [0.0, 0.0, 1.0]]
    np.testing.assert_allclose(linalg.matrix_exp(steps).numpy(), expected, rtol=1e-13, atol=1e-13)
    turn = it.asarray([[0.0, -size], [size, 0.0]], dtype="float64")
    expected = [[np.cos(size), -np.sin(size)], [np.sin(size), np.cos(size)]]
    np.testing.assert_allclose(linalg.matrix_exp(turn).numpy(), expected, atol=1e-12)
    both = linalg.matrix_exp(it.asarray([[[size, 0.0], [0.0, -1.0]], [[np.nan, 0.0], [0.0, 0.0]]]))
    np.testing.assert_allclose(both[0].numpy(), np.diag(np.exp([size, -1.0])), rtol=1e-6)
    assert np.isnan(both[1].numpy()).all()


_OF_INFINITY = """
import itertools, sys
import numpy as np
import ingle.tensor as it
from ingle.tensor.errors import LinearAlgebraError

linalg = it.linalg
functions = {
    "svd": lambda x: linalg.svd(x).S, "svdvals": linalg.svdvals, "pinv": linalg.pinv,
    "lstsq": lambda x: linalg.lstsq(x, it.ones_like(x)).solution, "rank": linalg.matrix_rank,
    "nuc": lambda x: linalg.matrix_norm(x, ord="nuc"), "cond": linalg.cond,
    "eigh": lambda x: linalg.eigh(x)[0], "eigvalsh": linalg.eigvalsh, "eigvals": linalg.eigvals,
    "qr": lambda x: linalg.qr(x).R, "det": linalg.det, "adjugate": linalg.adjugate,
}
for value, n, place in itertools.product((np.inf, -np.inf, np.nan), (2, 3, 5), ((0, 0), (-1, -1))):
    x = np.random.default_rng(0).normal(size=(2, n, n)).astype(sys.argv[1])
    x += x.mT
    x[1][place] = value
    for name, function in functions.items():
        try:
            answer = "finite" if np.isfinite(function(it.asarray(x)).numpy()[1]).all() else "NaN"
        except LinearAlgebraError as error:
            assert name == "eigvals" or "NaN and inf among the elements" in str(error), error
            answer = "refused"
        print(name, answer)
"""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_decompositions_of_infinity_end_and_give_no_numbers(dtype: str) -> None:
    """LAPACK iterates for ever for some of them; a process of its own can be ended."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _OF_INFINITY, dtype],
        env={**os.environ, "INGLE_DEVICE": "numpy"}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = set(done.stdout.splitlines())
    refused = ("svd", "svdvals", "pinv", "lstsq", "rank", "nuc", "cond", "adjugate", "eigh")
    assert {a for a in answers if a.startswith(refused)} >= {f"{name} refused" for name in refused}
    assert not [a for a in answers if a.endswith(" finite")]


def test_least_squares_decompose_twice() -> None:
    """Once for the pseudo-inverse, once for the values, of which the rank follows."""
    seen: list[str] = []
    x = it.asarray(np.random.default_rng(0).normal(size=(5, 3)))
    watch(lambda op, inputs, outputs: seen.append(op.operation.name))
    try:
        found = linalg.lstsq(x, it.ones((5,), dtype="float64"))
    finally:
        watch(None)
    assert found.rank.item() == 3
    assert [name for name in seen if name in {"pinv", "svd", "svdvals"}].count("svdvals") == 1
