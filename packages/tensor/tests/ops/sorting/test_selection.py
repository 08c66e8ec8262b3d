"""Order statistics and selection against PyTorch, NumPy and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import ingle.tensor as it
from ingle.autodiff import grad, vmap
from ingle.fusion import compile
from ingle.tensor.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError

RNG = np.random.default_rng(0)
NAN = float("nan")


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("k", [1, 3])
def test_kthvalue(like_torch: Any, k: int, axis: int) -> None:
    torch = pytest.importorskip("torch")
    x = RNG.permutation(4 * 3 * 5).reshape(4, 3, 5).astype(np.float64)
    got, expected = (
        it.kthvalue(it.asarray(x), k, axis=axis),
        torch.kthvalue(torch.tensor(x), k, axis),
    )
    np.testing.assert_array_equal(got[1].numpy(), expected.indices.numpy())
    like_torch(
        lambda x: it.kthvalue(x, k, axis=axis, keepdims=True)[0],
        lambda x: torch.kthvalue(x, k, axis, keepdim=True).values,
        [x],
    )


@pytest.mark.parametrize("shape", [(5,), (4,), (3, 4), (2, 3, 5), ()])
def test_median(shape: Any) -> None:
    torch = pytest.importorskip("torch")
    x = RNG.standard_normal(shape)
    assert it.median(it.asarray(x)).item() == torch.median(torch.tensor(x)).item()
    for axis in range(len(shape)):
        got = it.median(it.asarray(x), axis=axis).numpy()
        np.testing.assert_array_equal(got, torch.median(torch.tensor(x), axis).values.numpy())


def test_median_of_nan_and_gradient(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    x = it.asarray([[1.0, NAN, 2.0], [3.0, 1.0, 2.0]])
    np.testing.assert_array_equal(it.median(x, axis=1).numpy(), [NAN, 2.0])
    assert np.isnan(it.median(x).item())
    like_torch(
        lambda x: it.median(x, axis=0, keepdims=True),
        lambda x: torch.median(x, 0, keepdim=True).values,
        [RNG.standard_normal((6, 3))],
    )


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_quantile(like_torch: Any, interpolation: str, axis: int | None, keepdims: bool) -> None:
    torch = pytest.importorskip("torch")
    q = [0.0, 0.25, 0.31, 0.5, 1.0]
    options = {"interpolation": interpolation}
    like_torch(
        lambda x: it.quantile(x, q, axis=axis, keepdims=keepdims, **options),
        lambda x: torch.quantile(
            x, torch.tensor(q, dtype=torch.float64), axis, keepdim=keepdims, **options
        ),
        [RNG.standard_normal((5, 4))],
        second=False,
    )


def test_quantiles_of_odd_values() -> None:
    x = np.asarray([1.0, np.inf, np.inf, 2.0])
    np.testing.assert_array_equal(it.quantile(it.asarray(x), [0.25, 0.9]).numpy(), [1.75, np.inf])
    # Between minus infinity and a number lies minus infinity, and nothing between both infinities.
    x = np.asarray([-np.inf, -np.inf, 1.0, np.inf])
    shares = [0.0, 0.1, 0.5, 0.9, 1.0]
    expected = [-np.inf, -np.inf, -np.inf, np.inf, np.inf]
    np.testing.assert_array_equal(it.quantile(it.asarray(x), shares).numpy(), expected)
    both = it.asarray([-np.inf, np.inf])
    assert np.isnan(it.quantile(both, 0.5).item())
    assert np.isnan(it.quantile(it.asarray([1.0, NAN]), 0.0).item())
    assert it.quantile(it.asarray([1, 2, 3]), 0.5).dtype is it.float32
    half = it.quantile(it.asarray(np.arange(100), dtype="bfloat16"), it.asarray(0.5))
    assert half.dtype is it.bfloat16
    assert half.shape == ()


@pytest.mark.parametrize("axis", [0, 1])
def test_mode(axis: int) -> None:
    torch = pytest.importorskip("torch")
    x = RNG.integers(-2, 3, (40, 9))
    values, indices = it.mode(it.asarray(x), axis=axis)
    np.testing.assert_array_equal(values.numpy(), torch.mode(torch.tensor(x), axis).values.numpy())
    np.testing.assert_array_equal(values.numpy(), scipy.stats.mode(x, axis=axis).mode)
    picked = np.take_along_axis(x, np.expand_dims(indices.numpy(), axis), axis)
    np.testing.assert_array_equal(np.squeeze(picked, axis), values.numpy())
    assert it.mode(it.asarray(x), axis=axis, keepdims=True)[0].ndim == 2


def test_masked_select(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    mask = RNG.integers(0, 2, (3, 1)).astype(bool)
    like_torch(
        lambda x: it.masked_select(x, it.asarray(mask)),
        lambda x: torch.masked_select(x, torch.tensor(mask)),
        [RNG.standard_normal((2, 3, 4))],
    )


SHARES = {
    "a number": (0.3, 0.3),
    "numbers": ([0.1, 0.75], [0.1, 0.75]),
    "a tensor": (it.asarray(0.25), 0.25),
    "an array": (np.asarray([0.1, 0.75]), [0.1, 0.75]),
}


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles_are_found_where_no_value_can_be_read(name: str, shares: str) -> None:
    """While a function is written down for `compile`, and for each element of a batch."""
    function, (given, plain) = getattr(it, name), SHARES[shares]
    x = RNG.standard_normal((7, 5))
    want = np.quantile(x, plain, axis=0)
    run = compile(lambda x: function(x, given, axis=0))
    for _ in range(3):
        np.testing.assert_allclose(run(it.asarray(x)).numpy(), want, rtol=1e-6)
    batch = vmap(lambda x: function(x, given, axis=0))(it.asarray(np.stack([x, -x])))
    np.testing.assert_allclose(batch[0].numpy(), want, rtol=1e-6)
    slope = compile(grad(lambda x: it.sum(function(x, given, axis=0))))(it.asarray(x))
    assert it.sum(slope).item() == pytest.approx(5 * np.size(plain))


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_shares_that_are_arguments_are_checked_at_the_run(name: str) -> None:
    function, x = getattr(it, name), RNG.standard_normal(9)
    run = compile(lambda x, q: function(x, q))
    for share in (it.asarray(0.25), it.asarray(1.0), 0.5, 0.75):
        found = run(it.asarray(x), share).item()
        assert found == pytest.approx(np.quantile(x, float(share)), rel=1e-6)
    for share in (it.asarray(1.25), it.asarray(-0.25)):
        with pytest.raises(OutOfRangeError):
            run(it.asarray(x), share).item()
    with pytest.raises(ArgumentError, match=r"q must be in \[0, 1\], got 1.5"):
        run(it.asarray(x), 1.5)
    rows = vmap(lambda q: function(it.asarray(x), q))(it.asarray([0.0, 1.0]))
    np.testing.assert_allclose(rows.numpy(), [x.min(), x.max()])


def test_errors() -> None:
    x = it.zeros((2, 3))
    with pytest.raises(ArgumentError, match="kthvalue: k=4 must be between 1 and 3"):
        it.kthvalue(x, 4)
    with pytest.raises(ShapeError, match=r"median: .* no elements"):
        it.median(it.zeros((0,)))
    with pytest.raises(DTypeError, match=r"median: .* got complex64"):
        it.median(it.zeros(2, dtype="complex64"))
    with pytest.raises(ArgumentError, match=r"quantile: q must be in \[0, 1\]"):
        it.quantile(x, 1.5)
    with pytest.raises(ArgumentError, match="quantile: interpolation must be one of"):
        it.quantile(x, 0.5, interpolation="cubic")
    with pytest.raises(ShapeError, match="quantile: q must be a number"):
        it.quantile(x, it.zeros((1, 1)))
    with pytest.raises(ShapeError, match=r"mode: .* no elements"):
        it.mode(it.zeros((0,)))
    with pytest.raises(DTypeError, match="mask must be bool"):
        it.masked_select(x, x)
