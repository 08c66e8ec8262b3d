"""Counts, diagonals and comparisons against NumPy, PyTorch and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import ingle.tensor as it
from ingle.autodiff import vmap
from ingle.fusion import compile
from ingle.tensor.errors import (
    ArgumentError,
    DTypeError,
    OutOfRangeError,
    ShapeError,
    TraceError,
)

RNG = np.random.default_rng(0)


def test_bincount(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    x = RNG.integers(0, 9, 50)
    np.testing.assert_array_equal(it.bincount(it.asarray(x)).numpy(), np.bincount(x))
    got = it.bincount(it.asarray(x, dtype="uint8"), minlength=20)
    np.testing.assert_array_equal(got.numpy(), np.bincount(x, minlength=20))
    assert it.bincount(it.asarray([], dtype="int64"), minlength=2).tolist() == [0, 0]
    like_torch(
        lambda w: it.bincount(it.asarray(x), w),
        lambda w: torch.zeros(9, dtype=torch.float64).index_add(0, torch.tensor(x), w),
        [RNG.standard_normal(50)],
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bool", "float16", "float32"])
def test_weights_neither_wrap_nor_get_lost(dtype: str) -> None:
    x = np.zeros(5000, np.int64)
    weights = it.asarray(np.ones(5000), dtype=dtype)
    counts = it.bincount(it.asarray(x), weights)
    assert counts.tolist() == [5000]
    assert counts.dtype is it.sum(weights).dtype
    found, _ = it.histogram(it.asarray(x), 1, weight=weights)
    assert found.tolist() == [5000]
    assert found.dtype is it.sum(weights).dtype


def test_a_histogram_of_half_a_type_counts_on() -> None:
    assert it.histogram(it.zeros((5000,), dtype="float16"), 1)[0].tolist() == [5000]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16"])
def test_means_of_many_small_numbers(dtype: str) -> None:
    x, rows = it.zeros((1,), dtype=dtype), it.asarray(np.full(5000, 100), dtype=dtype)
    places = it.zeros((5000,), dtype="int64")
    found = it.scatter_reduce(x, places, rows, "mean", include_self=False)
    assert (found.tolist(), found.dtype) == ([100], x.dtype)


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("bins", "limits"),
    [
        (5, None),
        (7, (-1.0, 0.5)),
        ([-2.0, -0.5, 0.0, 3.0], None),
        ([-1.0, 0.5], None),
        (1, (2.0, 2.0)),
    ],
)
def test_histogram(bins: Any, limits: Any, weighted: bool, density: bool) -> None:
    x = np.round(RNG.standard_normal((6, 10)) * 4) / 4
    weight = RNG.uniform(0.5, 2, x.shape) if weighted else None
    if density and limits == (2.0, 2.0):
        x[0] = 2.0
    got, edges = it.histogram(
        it.asarray(x),
        bins if isinstance(bins, int) else it.asarray(bins, dtype="float64"),
        range=limits,
        weight=None if weight is None else it.asarray(weight),
        density=density,
    )
    expected = np.histogram(x, bins, range=limits, weights=weight, density=density)
    np.testing.assert_allclose(got.numpy(), expected[0])
    np.testing.assert_allclose(edges.numpy(), expected[1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_histogram_of_numbers_to_whose_width_intervals_are_infinite(dtype: str) -> None:
    low, high = (np.array([1, 9]) * np.finfo(dtype).smallest_normal / 8).tolist()
    x = np.linspace(low, high, 50).astype(dtype)
    got, edges = it.histogram(it.asarray(x), 10, range=(low, high))
    np.testing.assert_array_equal(got.numpy(), np.histogram(x, edges.numpy())[0])


def test_histogram_of_nothing() -> None:
    counts, edges = it.histogram(it.zeros(0), 2)
    assert (counts.tolist(), edges.tolist()) == ([0.0, 0.0], [0.0, 0.5, 1.0])


@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_diagonals(like_torch: Any, offset: int) -> None:
    torch = pytest.importorskip("torch")
    for shape in ((4,), (3, 4)):
        like_torch(
            lambda x: it.diag(x, offset=offset),
            lambda x: torch.diag(x, offset),
            [RNG.standard_normal(shape)],
        )
    for axes in ((-2, -1), (0, 2), (1, 0)):
        like_torch(
            lambda x, axes=axes: it.diag_embed(x, offset=offset, axis1=axes[0], axis2=axes[1]),
            lambda x, axes=axes: torch.diag_embed(x, offset, *axes),
            [RNG.standard_normal((2, 3))],
        )


def test_blocks() -> None:
    blocks = [RNG.standard_normal((2, 3)), np.asarray([1.0, 2.0]), np.asarray(3.0)]
    got = it.block_diag(*map(it.asarray, blocks))
    np.testing.assert_array_equal(got.numpy(), scipy.linalg.block_diag(*blocks))


@pytest.mark.parametrize("k", [-3, -1, 0, 2, 9])
@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (4, 0)])
def test_triangles(shape: tuple[int, int], k: int) -> None:
    np.testing.assert_array_equal(it.tri(*shape, k=k).numpy(), np.tri(*shape, k))
    got = it.tril_indices(*shape, offset=k).numpy()
    np.testing.assert_array_equal(got, np.stack(np.tril_indices(shape[0], k, shape[1])))
    got = it.triu_indices(*shape, offset=k).numpy()
    np.testing.assert_array_equal(got, np.stack(np.triu_indices(shape[0], k, shape[1])))


@pytest.mark.parametrize("equal_nan", [False, True])
def test_closeness(equal_nan: bool) -> None:
    odd = np.asarray([0.0, 1.0, 1 + 1e-6, 1e-9, np.inf, -np.inf, np.nan, 1e300])
    a, b = odd[:, None], odd[None, :]
    got = it.isclose(it.asarray(a), it.asarray(b), equal_nan=equal_nan).numpy()
    np.testing.assert_array_equal(got, np.isclose(a, b, equal_nan=equal_nan))
    assert it.allclose(it.asarray(odd), it.asarray(odd), equal_nan=equal_nan) is equal_nan
    assert it.allclose(it.asarray([2, 2]), 2)
    assert it.isclose(1.0, it.asarray([1.0])).tolist() == [True]
    assert not it.allclose(it.asarray([True]), it.asarray([False]))


def test_angles(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    for name in ("deg2rad", "rad2deg"):
        like_torch(getattr(it, name), getattr(torch, name), [RNG.standard_normal(5) * 100])


def test_fmod(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    x, y = RNG.uniform(-20, 20, 40), RNG.uniform(-5, 5, 40)
    np.testing.assert_array_equal(it.fmod(it.asarray(x), it.asarray(y)).numpy(), np.fmod(x, y))
    like_torch(it.fmod, torch.fmod, [x, y], second=False)
    whole = RNG.integers(-20, 20, 40)
    np.testing.assert_array_equal(it.fmod(it.asarray(whole), 3).numpy(), np.fmod(whole, 3))
    got = it.fmod(it.asarray(abs(whole), dtype="uint8"), 3).numpy()
    np.testing.assert_array_equal(got, np.fmod(abs(whole), 3))


def test_errors() -> None:
    with pytest.raises(ArgumentError, match="bincount: x must not be negative, got -1"):
        it.bincount(it.asarray([0, -1]))
    with pytest.raises(DTypeError, match="bincount: x must be integers"):
        it.bincount(it.zeros(2))
    with pytest.raises(ShapeError, match="bincount: weights"):
        it.bincount(it.asarray([0, 1]), it.zeros(3))
    with pytest.raises(ShapeError, match="histogram: bins must be from 1 to"):
        it.histogram(it.zeros(2), 0)
    with pytest.raises(ShapeError, match="at least 2 edges"):
        it.histogram(it.zeros(2), it.asarray([1.0]))
    with pytest.raises(ArgumentError, match="histogram: the edges"):
        it.histogram(it.zeros(2), it.asarray([1.0, 0.0]))
    with pytest.raises(ArgumentError, match="histogram: range"):
        it.histogram(it.zeros(2), 3, range=(1.0, 0.0))
    with pytest.raises(ShapeError, match="diag: x must be"):
        it.diag(it.zeros((1, 2, 3)))
    with pytest.raises(ShapeError, match="same axis"):
        it.diag_embed(it.zeros(2), axis1=0, axis2=-2)
    with pytest.raises(ShapeError, match="block_diag"):
        it.block_diag()


def test_edges_of_a_histogram_are_checked_at_the_run() -> None:
    x = RNG.standard_normal(50)
    run = compile(lambda x, edges: it.histogram(x, edges)[0])
    edges = np.asarray([-1.0, 0.0, 0.5, 2.0])
    want = np.histogram(x, edges)[0]
    np.testing.assert_array_equal(run(it.asarray(x), it.asarray(edges)).numpy(), want)
    with pytest.raises(OutOfRangeError):
        run(it.asarray(x), it.asarray(edges[::-1].copy())).numpy()


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
def test_a_histogram_between_the_least_and_the_largest_can_be_compiled(
    dtype: str, density: bool
) -> None:
    def counted(x: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
        return it.histogram(x * 1, 7, density=density)

    run = compile(counted)
    rows = [RNG.standard_normal(90) * 3, np.full(90, 0.3), -RNG.uniform(0, 1e-3, 90)]
    for row in rows:
        x = it.asarray(row).astype(dtype)
        # In a half type a plan rounds once what plain code rounds twice.
        once = 2e-3 if density and dtype == "float16" else 0.0
        for got, alone in zip(run(x), counted(x), strict=True):
            np.testing.assert_allclose(got.numpy(), alone.numpy(), rtol=once)
        if dtype != "float16":
            values = x.numpy().astype("float32" if dtype == "int64" else dtype)
            counts, edges = np.histogram(values, 7, density=density)
            np.testing.assert_allclose(run(x)[1].numpy(), edges, atol=1e-6 * abs(edges).max())
            if dtype == "float64":
                np.testing.assert_allclose(run(x)[0].numpy(), counts)
    if dtype != "int64":
        for wrong in (np.nan, np.inf):
            bad = x.at[3].set(wrong)
            with pytest.raises(ArgumentError, match="histogram: range must be finite"):
                counted(bad)
            with pytest.raises(OutOfRangeError):
                run(bad)[1].numpy()


def test_histograms_of_a_batch_are_those_of_each() -> None:
    x = it.asarray(RNG.standard_normal((3, 40)))
    counts, edges = vmap(it.histogram)(x)
    for k in range(3):
        want = np.histogram(x[k].numpy())
        np.testing.assert_allclose(counts[k].numpy(), want[0])
        np.testing.assert_allclose(edges[k].numpy(), want[1], rtol=1e-12)


def test_bincount_where_nobody_knows_the_largest_number_says_what_to_write() -> None:
    x = it.asarray([1, 3, 1])
    with pytest.raises(TraceError, match=r"bincount: .* it.scatter_add\(") as caught:
        compile(it.bincount)(x)
    assert "minlength" in str(caught.value)
    with pytest.raises(TraceError, match="bincount"):
        compile(lambda: it.bincount(x))()
    with pytest.raises(TraceError, match="bincount"):
        vmap(it.bincount)(it.stack([x, x]))

    def cure(x: it.Tensor, n: int = 5) -> it.Tensor:
        return it.scatter_add(it.zeros(n, dtype="int64"), x, it.ones_like(x))

    assert compile(cure)(x).tolist() == it.bincount(x, minlength=5).tolist()
    assert vmap(cure)(it.stack([x, x])).tolist() == [[0, 2, 0, 1, 0]] * 2
