"""Linear algebra: SciPy's LAPACK of large matrices, NumPy's of small ones and without SciPy."""

from __future__ import annotations

import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor.errors import LinearAlgebraError
from ingle_cpu import linear_algebra, scipy_parts

DTYPES = ["float32", "float64", "complex64", "complex128"]
TOLERANCE = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-12, "complex128": 1e-12}
STACK = (5, 80, 80)


@pytest.fixture(autouse=True)
def device():
    with it.device("cpu"):
        yield


@pytest.fixture
def asked(monkeypatch):
    """How often SciPy was asked for."""
    pytest.importorskip("scipy")
    found = []
    real = linear_algebra.scipy_part
    monkeypatch.setattr(linear_algebra, "scipy_part", lambda name: found.append(1) or real(name))
    return found


def drawn(dtype: str, *shape: int) -> Any:
    rng = np.random.default_rng(len(shape))
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def regular(dtype: str, *shape: int) -> Any:
    """Matrices that are well conditioned, not symmetric."""
    return drawn(dtype, *shape) / (3 * shape[-1] ** 0.5) + np.eye(shape[-1], dtype=dtype)


def positive(dtype: str, *shape: int) -> Any:
    x = regular(dtype, *shape)
    return x @ np.conj(x).mT


def close(found: Any, want: Any, dtype: str) -> None:
    found = found.numpy()
    assert found.dtype == want.dtype
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want, rtol=0, atol=TOLERANCE[dtype] * abs(want).max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_square_matrices_agree_with_numpy(dtype: str, asked: Any) -> None:
    x, spd = regular(dtype, *STACK), positive(dtype, *STACK)
    close(it.linalg.cholesky(it.asarray(spd)), np.linalg.cholesky(spd), dtype)
    close(it.linalg.inv(it.asarray(x)), np.linalg.inv(x), dtype)
    close(it.linalg.eigvalsh(it.asarray(spd)), np.linalg.eigvalsh(spd), dtype)
    values, vectors = it.linalg.eigh(it.asarray(spd))
    close(values, np.linalg.eigvalsh(spd), dtype)
    v = vectors.numpy()
    close(it.asarray((v * values.numpy()[:, None]) @ np.conj(v).mT), spd, dtype)
    # Half a stack, whose matrices do not follow each other, and the transposes.
    close(it.linalg.inv(it.asarray(x)[::2].mT), np.linalg.inv(x[::2].mT), dtype)
    assert len(asked) == 5


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 90, 70), (3, 70, 90), (130, 130)])
def test_decompositions_give_the_matrix_back(dtype: str, shape: Any, asked: Any) -> None:
    x = drawn(dtype, *shape)
    k = min(shape[-2:])
    for complete in (False, True):
        q, r = it.linalg.qr(it.asarray(x), mode="complete" if complete else "reduced")
        want = np.linalg.qr(x, mode="complete" if complete else "reduced")
        assert (q.shape, r.shape) == (want[0].shape, want[1].shape)
        close(q @ r, x, dtype)
        close(q @ (it.conj(q).mT @ q), q.numpy(), dtype)
        assert not np.tril(r.numpy(), -1).any()
        u, s, vh = it.linalg.svd(it.asarray(x), full_matrices=complete)
        assert [v.shape for v in (u, s, vh)] == [
            v.shape for v in np.linalg.svd(x, full_matrices=complete)
        ]
        close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, dtype)
    close(it.linalg.svdvals(it.asarray(x)), np.linalg.svd(x, compute_uv=False), dtype)
    assert len(asked) == 5  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("a", "b"),
    [(STACK, (5, 80, 5)), (STACK, (80, 7)), ((2, 1, 96, 96), (3, 96, 2)), ((130, 130), (130,)),
     ((130, 130), (130, 0)), (STACK, (80,))],
)  # fmt: skip
def test_systems_agree_with_numpy(dtype: str, a: Any, b: Any, asked: Any) -> None:
    x, right = regular(dtype, *a), drawn(dtype, *b)
    columns = right[:, None] if right.ndim == 1 else right

    def solved(matrix: Any) -> Any:
        out = np.linalg.solve(matrix, columns)
        return out[..., 0] if right.ndim == 1 else out

    def check(found: Any, matrix: Any) -> None:
        if 0 in right.shape:
            assert found.shape == solved(matrix).shape
        else:
            close(found, solved(matrix), dtype)

    check(it.linalg.solve(it.asarray(x), it.asarray(right)), x)
    for upper in (False, True):
        for unit in (False, True):
            half = np.triu(x, int(unit)) if upper else np.tril(x, -int(unit))
            found = it.linalg.solve_triangular(
                it.asarray(x), it.asarray(right), upper=upper, unitriangular=unit
            )
            check(found, half + np.eye(a[-1], dtype=dtype) if unit else half)
    assert asked or 0 in b


def test_systems_of_a_stack_keep_one_decomposition_at_a_time(asked: Any) -> None:
    x, right = regular("float32", 50, 64, 64), drawn("float32", 50, 64, 1)
    given = it.asarray(x), it.asarray(right)
    want = it.linalg.solve(*given).numpy()
    assert asked
    tracemalloc.start()
    try:
        found = it.linalg.solve(*given).numpy()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(found, want)
    assert most < x.nbytes / 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 90, 70), (3, 70, 90), (130, 130)])
def test_triangles_of_elimination_are_lapacks(dtype: str, shape: Any, asked: Any) -> None:
    x = drawn(dtype, *shape)
    x[..., 1] = 0  # singular: a result like any other
    p, lower, upper = it.linalg.lu(it.asarray(x))
    close(p @ lower @ upper, x, dtype)
    packed, pivots = it.linalg.lu_factor(it.asarray(x[..., ::-1, :]))
    close(it.linalg.lu(it.asarray(x[..., ::-1, :]))[2], np.triu(packed.numpy())[
        ..., : min(shape[-2:]), :], dtype)  # fmt: skip
    assert pivots.dtype is it.int32
    for rows, swaps in zip(
        x[..., ::-1, :].reshape(-1, *shape[-2:]), pivots.numpy().reshape(-1, pivots.shape[-1]),
        strict=True,
    ):  # fmt: skip
        column = abs(rows[:, 0].real) + abs(rows[:, 0].imag)
        assert swaps[0] == np.argmax(column)
    assert len(asked) == 3
    it.linalg.lu_factor(it.asarray(x), pivot=False)[0].numpy()
    assert len(asked) == 3


@pytest.mark.parametrize("dtype", DTYPES)
def test_general_eigenvalues_and_exponentials(dtype: str, asked: Any) -> None:
    x = drawn(dtype, *STACK)
    values, vectors = it.linalg.eig(it.asarray(x))
    wide = np.result_type(dtype, np.complex64)
    assert (values.numpy().dtype, vectors.numpy().dtype) == (wide, wide)
    v, w = vectors.numpy(), values.numpy()
    close(it.asarray(x.astype(wide) @ v), v * w[:, None, :], wide.name)
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), 1, rtol=1e-4)
    alone = np.sort_complex(it.linalg.eigvals(it.asarray(x)).numpy())
    np.testing.assert_allclose(abs(alone - np.sort_complex(w)).max(), 0, atol=20 * TOLERANCE[dtype])
    linalg = pytest.importorskip("scipy.linalg")
    small = x / 8
    small[1] *= 5  # more halvings than the others
    close(it.linalg.matrix_exp(it.asarray(small)), linalg.expm(small), dtype)
    assert len(asked) == 3
    # Eigenvalues that are real, and pairs of conjugates.
    turned = np.kron(np.eye(65), [[0, 1], [-1, 0]]).astype(dtype)
    found = it.linalg.eigvals(it.asarray(turned)).numpy()
    np.testing.assert_allclose(np.sort(found.imag), np.repeat([-1.0, 1.0], 65), atol=1e-6)
    symmetric = it.linalg.eigvals(it.asarray(positive("float32", 130, 130))).numpy()
    np.testing.assert_array_equal(symmetric.imag, 0)


def test_gradients_agree_with_double_precision(asked: Any) -> None:
    x, right = regular("float64", *STACK), drawn("float64", 80, 4)

    def loss(x: Any, right: Any) -> Any:
        lower = it.linalg.cholesky(x @ x.mT)
        q, r = it.linalg.qr(x)
        parts = lower, it.linalg.inv(x), it.linalg.solve(x, right), q, r
        return sum((it.sin(p) ** 2).sum() for p in parts) + (
            it.linalg.solve_triangular(x, right, upper=True) ** 2).sum()  # fmt: skip

    found = {}
    for dtype, where in (("float32", "cpu"), ("float64", "numpy")):
        leaves = [it.asarray(v.astype(dtype), device=where).require_grad() for v in (x, right)]
        grads = loss(*leaves).backward()
        found[where] = [grads[leaf].numpy() for leaf in leaves]
    assert asked
    for got, want in zip(found["cpu"], found["numpy"], strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 * abs(want).max())


def test_what_has_no_answer_is_told(asked: Any) -> None:
    x = positive("float32", 130, 130)
    with pytest.raises(LinearAlgebraError, match="cholesky: Matrix is not positive definite"):
        it.linalg.cholesky(it.asarray(-x)).numpy()
    x[5] = x[6] = 0
    for call in (
        it.linalg.inv, lambda a: it.linalg.solve(a, a),
        lambda a: it.linalg.solve_triangular(a, a, upper=True),
    ):  # fmt: skip
        with pytest.raises(LinearAlgebraError, match="Singular matrix"):
            call(it.asarray(x)).numpy()
    assert asked


def test_a_matrix_that_is_not_finite_has_numpys_answer(asked: Any) -> None:
    x = positive("float64", 130, 130)
    x[7, 3] = np.nan
    given = it.asarray(x)
    for name in ("inv", "qr"):
        with np.errstate(all="ignore"):
            want = getattr(np.linalg, name)(x)
        found = getattr(it.linalg, name)(given)
        for got, part in zip(*[v if isinstance(v, tuple) else (v,) for v in (found, want)],
                             strict=True):  # fmt: skip
            np.testing.assert_array_equal(np.isnan(got.numpy()), np.isnan(part))
    for name in ("eigh", "eigvalsh", "svd", "svdvals"):
        with pytest.raises(LinearAlgebraError, match="did not converge"):
            getattr(it.linalg, name)(given)[0].numpy()
    for name in ("eig", "eigvals"):
        with pytest.raises(LinearAlgebraError, match="must not contain infs or NaNs"):
            getattr(it.linalg, name)(given)[0].numpy()
    assert np.isnan(it.linalg.matrix_exp(given).numpy()).all()
    assert asked


def test_a_matrix_alone_has_the_bits_that_it_has_in_a_stack() -> None:
    x = regular("float32", 2, 130, 130)
    both, first = it.asarray(x), it.asarray(x[0])
    for call in (it.linalg.inv, lambda a: it.linalg.qr(a)[0], lambda a: it.linalg.solve(a, a)):
        np.testing.assert_array_equal(call(both)[0].numpy(), call(first).numpy())
    compiled = compile(lambda x: it.linalg.solve_triangular(x * 1.0, x + 0.0, upper=True))
    want = it.linalg.solve_triangular(first, first, upper=True).numpy()
    for _ in range(3):
        np.testing.assert_array_equal(compiled(first).numpy(), want)


def test_small_matrices_need_no_scipy(asked: Any) -> None:
    for shape in ((20, 20), (400, 20, 20), (0, 200, 200)):
        x = it.asarray(regular("float32", *shape))
        it.linalg.inv(x).numpy()
        it.linalg.solve_triangular(x, x, upper=False).numpy()
    assert not asked


def test_without_scipy_numpy_computes(monkeypatch: Any) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(scipy_parts, "late", absent)
    monkeypatch.setattr(scipy_parts, "missing", {})
    x = regular("float32", *STACK)
    np.testing.assert_array_equal(it.linalg.inv(it.asarray(x)).numpy(), np.linalg.inv(x))
    for unit in (False, True):
        half = np.triu(x, int(unit)) + (np.eye(80, dtype=np.float32) if unit else 0)
        found = it.linalg.solve_triangular(
            it.asarray(x), it.asarray(x), upper=True, unitriangular=unit
        )
        close(found, np.linalg.solve(half, x), "float32")
    assert len(scipy_parts.missing) == 1


def test_a_missing_scipy_keeps_nothing_of_who_asked_for_it_first(monkeypatch: Any) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(scipy_parts, "late", absent)
    monkeypatch.setattr(scipy_parts, "missing", {})

    def first() -> Any:
        array = regular("float32", *STACK)
        it.linalg.inv(it.asarray(array)).numpy()
        return weakref.ref(array)

    assert first()() is None
    assert scipy_parts.missing
