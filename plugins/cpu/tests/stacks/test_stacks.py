"""Stacks of small matrices, beside LAPACK's answers for each in float64."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.device.targets import AVX512, NEON, target_of
from ingle.tensor import linalg
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.errors import LinearAlgebraError
from ingle.tensor.operation import OPERATIONS
from ingle.testkit.bits import same_bits
from ingle_cpu.jit.engine import engine
from ingle_cpu.stacks.elimination import Wanted, elimination_source
from ingle_cpu.stacks.problem import FEWEST, MOST_ROWS, problem_of
from ingle_cpu.stacks.triangles import cholesky_source, substitution_source

TARGETS = (AVX512, target_of({"avx2", "fma", "f16c"}), target_of(()), NEON)
FLOATS = ["float32", "float64"]
ROWS = [1, 2, 3, 4, 7, MOST_ROWS]
COUNT = FEWEST + 3
WANTED: list[Wanted] = ["determinant", "inverse", "adjugate", "solution"]


def near(rows: int, dtype: str, count: int = COUNT) -> np.ndarray:
    """Matrices whose pivots are not on their diagonals, of small condition numbers."""
    rng = np.random.default_rng(rows)
    x = np.eye(rows)[rng.permutation(rows)] * 2 + rng.uniform(-0.9, 0.9, (count, rows, rows)) / rows
    return x.astype(dtype)


def positive(rows: int, dtype: str) -> np.ndarray:
    x = near(rows, "float64")
    return (x @ x.mT).astype(dtype)


def taken(name: str, *arrays: np.ndarray, **attributes: Any) -> bool:
    """Whether the template takes it."""
    avals = [Aval(a.shape, as_dtype(a.dtype.name)) for a in arrays]
    return problem_of(OPERATIONS[name].op(**attributes), avals) is not None


def assert_near(found: it.Tensor, wanted: np.ndarray, dtype: str) -> None:
    assert found.numpy().dtype == dtype
    scale = np.abs(wanted).max() * np.finfo(dtype).eps
    assert np.abs(found.numpy() - wanted).max() <= (1 if dtype == "float32" else 1024) * scale


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", ROWS)
def test_what_elimination_makes(rows: int, dtype: str) -> None:
    x, b = near(rows, dtype), near(rows, dtype)[..., :2]
    assert all(taken(name, x) for name in ("inv", "det", "slogdet"))
    assert taken("solve", x, b)
    wide = x.astype("float64")
    determinant, inverse = np.linalg.det(wide), np.linalg.inv(wide)
    found = it.asarray(x)
    assert_near(linalg.det(found), determinant, dtype)
    sign, logarithm = linalg.slogdet(found)
    assert (sign.numpy() == np.sign(determinant)).all()
    assert_near(logarithm, np.linalg.slogdet(wide)[1], dtype)
    assert_near(linalg.inv(found), inverse, dtype)
    assert_near(linalg.solve(found, it.asarray(b)), inverse @ b, dtype)
    if rows >= 4:
        assert taken("adjugate", x)
        assert_near(linalg.adjugate(found), determinant[:, None, None] * inverse, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", ROWS)
def test_triangles(rows: int, dtype: str) -> None:
    x, b = positive(rows, dtype), near(rows, dtype)
    assert taken("cholesky", x)
    root = np.linalg.cholesky(x.astype("float64"))
    assert_near(linalg.cholesky(it.asarray(x)), root, dtype)
    for upper in (False, True):
        half = root.mT if upper else root
        other = np.tril(half + np.nan, -1) if upper else np.triu(half + np.nan, 1)
        given = it.asarray((half + other).astype(dtype))
        for unit in (False, True):
            exact = half.copy().astype(dtype).astype("float64")
            if unit:
                exact[:, range(rows), range(rows)] = 1
            assert taken("solve_triangular", x, b, upper=upper, unitriangular=unit)
            found = linalg.solve_triangular(given, it.asarray(b), upper=upper, unitriangular=unit)
            assert_near(found, np.linalg.solve(exact, b.astype("float64")), dtype)


VIEWS = {
    "turned": lambda x: x.mT,
    "steps": lambda x: x[::2, ::-1],
    "axes": lambda x: x.swapaxes(0, 1),
    "corner": lambda x: x[..., 1:, 1:],
    "shared": lambda x: np.broadcast_to(x[:1], x.shape),
}


@pytest.mark.parametrize("view", VIEWS)
def test_matrices_that_lie_apart(view: str) -> None:
    x = near(4, "float64", 60).reshape(10, 6, 4, 4)
    seen = VIEWS[view](x)
    given = it.asarray(seen, copy=False)
    assert_near(linalg.inv(given), np.linalg.inv(seen), "float64")
    b = seen[0, :, :, :2]
    assert_near(linalg.solve(given, it.asarray(b)), np.linalg.solve(seen, b), "float64")
    one = linalg.solve(it.asarray(seen[0, 0]), it.asarray(seen[..., :1]))
    assert_near(one, np.linalg.solve(seen[0, 0], seen[..., :1]), "float64")


def test_bits_are_those_of_a_plan() -> None:
    x = it.asarray(near(5, "float32"))

    def work(x: it.Tensor) -> tuple[it.Tensor, ...]:
        return linalg.inv(x * 2), linalg.det(x * 2), linalg.cholesky(x @ x.mT)

    compiled = compile(work)
    compiled(x)
    for alone, planned in zip(work(x), compiled(x), strict=True):
        same_bits(alone.numpy(), planned.numpy())


def test_determinants_leave_the_range_of_doubles_at_the_end_only() -> None:
    diagonals = [(1e200, 1e200, 1e-300), (5e-324, 1e300, 1), (1e-200, 1e-200, 1), (1e300, 9e9, 1)]
    x = np.zeros((FEWEST, 3, 3))
    for n, diagonal in enumerate(diagonals):
        np.fill_diagonal(x[n], diagonal)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = linalg.det(it.asarray(x)).numpy()[:4]
        logarithm = linalg.slogdet(it.asarray(x))[1].numpy()[:5]
    assert found == pytest.approx([1e100, 5e-324 * 1e300, 0, np.inf], rel=1e-15)
    wanted = [sum(np.log(each)) for each in diagonals]
    assert logarithm == pytest.approx([*wanted, -np.inf], rel=1e-15)


@pytest.mark.parametrize("rows", [2, 5])
def test_what_has_no_answer_is_said_by_numpy(rows: int) -> None:
    x = near(rows, "float32")
    x[3, 1] = 0
    b = it.asarray(x)
    for function in (linalg.inv, lambda x: linalg.solve(x, b)):
        with pytest.raises(LinearAlgebraError, match="Singular matrix"):
            function(it.asarray(x)).numpy()
    with pytest.raises(LinearAlgebraError, match="not positive definite"):
        linalg.cholesky(it.asarray(x)).numpy()
    with pytest.raises(LinearAlgebraError, match="zero on its diagonal"):
        linalg.solve_triangular(it.asarray(x), b, upper=True).numpy()
    assert linalg.det(it.asarray(x)).numpy()[3] == 0
    wanted = linalg.adjugate(it.asarray(x[3].astype("float64"))).numpy()
    assert_near(linalg.adjugate(it.asarray(x))[3], wanted, "float32")


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_has_lapacks_answer(odd: float) -> None:
    x = near(3, "float64")
    x[5, 0, 0] = odd
    for name in ("inv", "det"):
        with np.errstate(all="ignore"):
            wanted = getattr(np.linalg, name)(x)
        found = getattr(linalg, name)(it.asarray(x)).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_what_is_left_to_others() -> None:
    assert not taken("inv", near(3, "float64", FEWEST - 1))
    assert not taken("inv", near(MOST_ROWS + 1, "float64"))
    assert not taken("inv", near(3, "complex128"))
    assert not taken("solve", near(16, "float64"), near(16, "float64", 1).repeat(4, -1))
    assert not taken("adjugate", near(3, "float64"))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_every_kernel_is_valid_for_every_processor(target: Any) -> None:
    for dtype in FLOATS:
        sources = [elimination_source(wanted, dtype, target) for wanted in WANTED]
        sources += [cholesky_source(dtype, target)]
        sources += [substitution_source(unit, dtype, target) for unit in (False, True)]
        for source in sources:
            assert engine().object_code(source)
