"""Distances, angles and covariances against PyTorch and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_normalize(like_torch: Any, p: float, axis: int) -> None:
    functional = pytest.importorskip("torch").nn.functional
    like_torch(
        lambda x: it.normalize(x, p=p, axis=axis),
        lambda x: functional.normalize(x, p=p, dim=axis),
        [RNG.standard_normal((3, 4, 2))],
    )


@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((3, 4), (4,)), ((2, 1, 4), (3, 1))])
def test_cosine_similarity(like_torch: Any, shapes: Any) -> None:
    functional = pytest.importorskip("torch").nn.functional
    like_torch(
        lambda x, y: it.cosine_similarity(x, y, axis=-1),
        lambda x, y: functional.cosine_similarity(x, y, dim=-1),
        [RNG.standard_normal(s) for s in shapes],
    )


def test_zero_vectors_have_finite_gradients() -> None:
    x = it.zeros((2, 3)).require_grad()
    for out in (it.normalize(x), it.cosine_similarity(x, it.ones((2, 3)))):
        assert not out.numpy().any()
        assert np.isfinite(out.sum().backward()[x].numpy()).all()


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("keepdims", [False, True])
def test_pairwise_distance(like_torch: Any, p: float, keepdims: bool) -> None:
    functional = pytest.importorskip("torch").nn.functional
    like_torch(
        lambda x, y: it.pairwise_distance(x, y, p=p, keepdims=keepdims),
        lambda x, y: functional.pairwise_distance(x, y, p=p, keepdim=keepdims),
        [RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))],
    )


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("rows", [(3, 5), (40, 30), (0, 4)])
def test_cdist(like_torch: Any, p: float, rows: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch")
    like_torch(
        lambda x, y: it.cdist(x, y, p=p),
        lambda x, y: torch.cdist(x, y, p=p),
        [RNG.standard_normal((2, rows[0], 4)), RNG.standard_normal((1, rows[1], 4))],
        second=False,
        rtol=1e-7,
        atol=1e-9,
    )


def test_how_many_features_differ() -> None:
    x = it.asarray([[1.0, 2.0, 3.0], [1.0, 0.0, 4.0]])
    assert it.cdist(x, x, p=0).tolist() == [[0.0, 2.0], [2.0, 0.0]]


def test_distances_of_equal_rows() -> None:
    x = it.asarray(RNG.integers(-4, 4, (30, 3)), dtype="float64").require_grad()
    out = it.cdist(x, x)
    assert np.isfinite(out.sum().backward()[x].numpy()).all()
    far = it.asarray(RNG.standard_normal((30, 3)) + 1000.0)
    exact = np.linalg.norm(far.numpy()[:, None] - far.numpy(), axis=-1)
    np.testing.assert_allclose(it.cdist(far, far).numpy(), exact, atol=1e-6)


@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize("weights", ["none", "f", "a", "both"])
def test_cov(like_torch: Any, correction: int, weights: str) -> None:
    torch = pytest.importorskip("torch")
    f = np.asarray([1, 2, 1, 3, 1]) if weights in ("f", "both") else None
    a = RNG.uniform(0.5, 2, 5) if weights in ("a", "both") else None
    like_torch(
        lambda x: it.cov(
            x,
            correction=correction,
            fweights=None if f is None else it.asarray(f),
            aweights=None if a is None else it.asarray(a),
        ),
        lambda x: torch.cov(
            x,
            correction=correction,
            fweights=None if f is None else torch.tensor(f),
            aweights=None if a is None else torch.tensor(a),
        ),
        [RNG.standard_normal((3, 5))],
    )


def test_cov_and_corrcoef_of_others() -> None:
    x = RNG.standard_normal(7)
    np.testing.assert_allclose(it.cov(it.asarray(x)).numpy(), np.cov(x))
    assert it.corrcoef(it.asarray(x)).item() == 1.0
    z = RNG.standard_normal((3, 6)) + 1j * RNG.standard_normal((3, 6))
    np.testing.assert_allclose(it.cov(it.asarray(z)).numpy(), np.cov(z))
    np.testing.assert_allclose(it.corrcoef(it.asarray(z)).numpy(), np.corrcoef(z))
    real = RNG.standard_normal((4, 6))
    np.testing.assert_allclose(it.corrcoef(it.asarray(real)).numpy(), np.corrcoef(real))


def test_errors() -> None:
    with pytest.raises(DTypeError, match="cosine_similarity: x1 must be real"):
        it.cosine_similarity(it.zeros((1, 2), dtype="complex64"), it.zeros((1, 2)))
    with pytest.raises(ShapeError, match="cdist: x1 must be"):
        it.cdist(it.zeros((2, 3)), it.zeros((2, 4)))
    with pytest.raises(ArgumentError, match="cdist: p"):
        it.cdist(it.zeros((2, 3)), it.zeros((2, 3)), p=-1)
    with pytest.raises(ShapeError, match="cov: x must be"):
        it.cov(it.zeros((1, 2, 3)))
    with pytest.raises(ShapeError, match="cov: fweights must have"):
        it.cov(it.zeros((2, 3)), fweights=it.asarray([1]))
    with pytest.raises(DTypeError, match="cov: fweights must be integers"):
        it.cov(it.zeros((2, 3)), fweights=it.ones(3))


def test_weighted_covariances_of_complex_variables() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 5)) + 1j * rng.standard_normal((3, 5))
    often, much = rng.integers(1, 4, 5), rng.uniform(0.5, 2, 5)
    found = it.cov(it.asarray(x), fweights=it.asarray(often), aweights=it.asarray(much))
    np.testing.assert_allclose(found.numpy(), np.cov(x, fweights=often, aweights=much))


def test_a_number_is_no_vector() -> None:
    x = it.ones((3, 2))
    for function in (it.cdist, it.pairwise_distance, it.cosine_similarity):
        with pytest.raises(it.errors.OperandError, match="x2 must be a tensor, got float"):
            function(x, 1.0)
    assert it.searchsorted(it.asarray([1.0, 2.0, 5.0]), 3.0).item() == 2
