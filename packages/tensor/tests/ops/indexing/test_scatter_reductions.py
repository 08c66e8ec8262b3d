"""scatter_reduce, put_along_axis and embedding_bag against PyTorch and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError

pytestmark = pytest.mark.usefixtures("road")
RNG = np.random.default_rng(0)
REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1])
def test_along_an_axis(like_torch: Any, reduce: str, axis: int, include_self: bool) -> None:
    torch = pytest.importorskip("torch")
    shape = (6, 4)
    indices = RNG.integers(0, shape[axis], (5, 3))
    like_torch(
        lambda x, u: it.put_along_axis(
            x, it.asarray(indices), u, axis=axis, reduce=reduce, include_self=include_self
        ),
        lambda x, u: torch.scatter_reduce(
            x, axis, torch.tensor(indices), u, reduce, include_self=include_self
        ),
        [RNG.standard_normal(shape), RNG.standard_normal((5, 3))],
        # PyTorch refuses second derivatives of products and extrema here.
        second=reduce in ("sum", "mean"),
    )


@pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_rows(like_torch: Any, reduce: str) -> None:
    torch = pytest.importorskip("torch")
    indices = np.asarray([0, 2, 2, 0, 2])
    like_torch(
        lambda x, u: it.scatter_reduce(x, it.asarray(indices), u, reduce),
        lambda x, u: (
            torch.index_reduce(x, 0, torch.tensor(indices), u, reduce)
            if reduce != "sum"
            else torch.index_add(x, 0, torch.tensor(indices), u)
        ),
        [RNG.standard_normal((4, 3)), RNG.standard_normal((5, 3))],
        second=reduce in ("sum", "mean"),
    )


def test_products_at_zeros() -> None:
    x = it.asarray([2.0, 0.0, 3.0], dtype="float64")
    u = it.asarray([0.0, 5.0, 0.0, 7.0], dtype="float64").require_grad()
    out = it.scatter_reduce(x, it.asarray([0, 0, 1, 1]), u, "prod")
    assert out.tolist() == [0.0, 0.0, 3.0]
    assert out.sum().backward()[u].tolist() == [10.0, 0.0, 0.0, 0.0]


def test_ties_share_the_gradient() -> None:
    x = it.asarray([1.0, 5.0], dtype="float64").require_grad()
    u = it.asarray([1.0, 1.0, 2.0], dtype="float64").require_grad()
    grads = it.scatter_reduce(x, it.asarray([0, -2, 1]), u, "amax").sum().backward()
    np.testing.assert_allclose(grads[x].numpy(), [1 / 3, 1])
    np.testing.assert_allclose(grads[u].numpy(), [1 / 3, 1 / 3, 0])


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_integers(reduce: str) -> None:
    x = np.asarray([7, 1, -2], dtype=np.int32)
    u = np.asarray([4, 2, 9], dtype=np.int32)
    got = it.scatter_reduce(it.asarray(x), it.asarray([2, 0, 2]), it.asarray(u), reduce)
    wanted = {
        "sum": [9, 1, 11], "prod": [14, 1, -72], "mean": [4, 1, 3], "amax": [7, 1, 9],
        "amin": [2, 1, -2],
    }  # fmt: skip
    assert got.dtype is it.int32
    assert got.tolist() == wanted[reduce]


def test_nan_wins() -> None:
    u = it.asarray([1.0, float("nan"), 2.0])
    for reduce in ("amax", "amin"):
        got = it.scatter_reduce(it.zeros(1), it.asarray([0, 0, 0]), u, reduce)
        assert np.isnan(got.numpy()).all()


def test_replacing_along_an_axis() -> None:
    x = RNG.standard_normal((3, 4))
    indices = np.argsort(RNG.standard_normal((3, 2)), axis=1)
    values = RNG.standard_normal((3, 1))
    wanted = x.copy()
    np.put_along_axis(wanted, indices, values, 1)
    got = it.put_along_axis(it.asarray(x), it.asarray(indices), it.asarray(values))
    np.testing.assert_array_equal(got.numpy(), wanted)


def test_replacing_by_a_number() -> None:
    x = it.zeros((2, 3))
    got = it.put_along_axis(x, it.asarray([[2], [0]]), 1.5)
    np.testing.assert_array_equal(got.numpy(), [[0, 0, 1.5], [1.5, 0, 0]])
    got = it.put_along_axis(x, it.asarray([[2, 2], [0, 1]]), 2, reduce="sum")
    np.testing.assert_array_equal(got.numpy(), [[0, 0, 4], [2, 2, 0]])
    with pytest.raises(DTypeError, match=r"values=1\.5 does not fit the dtype int64"):
        it.put_along_axis(it.zeros((2, 3), dtype="int64"), it.asarray([[2], [0]]), 1.5)


def test_errors() -> None:
    x, i = it.zeros((3, 2)), it.asarray([0, 1])
    with pytest.raises(ArgumentError, match="scatter_reduce: reduce must be one of"):
        it.scatter_reduce(x, i, it.zeros((2, 2)), "median")
    with pytest.raises(ShapeError, match=r"updates must have shape \(2, 2\)"):
        it.scatter_reduce(x, i, it.zeros((2, 3)), "amax")
    with pytest.raises(DTypeError, match="updates of its dtype"):
        it.scatter_reduce(x, i, it.zeros((2, 2), dtype="float64"), "prod")
    for reduce in REDUCTIONS:
        for bad in (3, -4):
            with pytest.raises(OutOfRangeError):
                it.scatter_reduce(x, it.asarray([0, bad]), it.zeros((2, 2)), reduce).numpy()
    with pytest.raises(ShapeError, match="as many axes"):
        it.put_along_axis(x, i, it.zeros(2))
    with pytest.raises(ShapeError, match="do not broadcast"):
        it.put_along_axis(x, it.asarray([[0]]), it.zeros((1, 2)))


@pytest.mark.parametrize("padding_idx", [None, 2, -1])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("rows", [True, False])
def test_bags(like_torch: Any, mode: str, rows: bool, padding_idx: int | None) -> None:
    torch = pytest.importorskip("torch")
    indices = RNG.integers(0, 5, (4, 3) if rows else (9,))
    offsets = None if rows else np.asarray([0, 2, 2, 7])
    options = {"mode": mode, "padding_idx": padding_idx}
    like_torch(
        lambda w: it.embedding_bag(
            it.asarray(indices), w, None if offsets is None else it.asarray(offsets), **options
        ),
        lambda w: torch.nn.functional.embedding_bag(
            torch.tensor(indices), w, None if offsets is None else torch.tensor(offsets), **options
        ),
        [RNG.standard_normal((5, 3))],
        second=False,
    )


def test_weighted_bags(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    indices = RNG.integers(0, 5, (4, 3))
    like_torch(
        lambda w, p: it.embedding_bag(it.asarray(indices), w, mode="sum", per_sample_weights=p),
        lambda w, p: torch.nn.functional.embedding_bag(
            torch.tensor(indices), w, mode="sum", per_sample_weights=p
        ),
        [RNG.standard_normal((5, 3)), RNG.standard_normal((4, 3))],
        second=False,
    )


def test_errors_of_bags() -> None:
    table, i = it.zeros((5, 3)), it.asarray([0, 1])
    with pytest.raises(ArgumentError, match="embedding_bag: mode"):
        it.embedding_bag(i, table, mode="median")
    with pytest.raises(ShapeError, match="no offsets"):
        it.embedding_bag(i, table)
    with pytest.raises(ArgumentError, match="need mode='sum'"):
        it.embedding_bag(it.asarray([[0]]), table, per_sample_weights=it.ones((1, 1)))
    with pytest.raises(OutOfRangeError):
        it.embedding_bag(it.asarray([[5]]), table).numpy()
