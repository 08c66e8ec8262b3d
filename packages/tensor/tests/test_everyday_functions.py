"""Odd inputs of functions that the testkit's samples leave out: NaN, infinities, zeros, ties."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad, hessian
from ingle.tensor.errors import ArgumentError, DTypeError, ShapeError

INF, NAN = float("inf"), float("nan")
ODD = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -2.5, 7.0])


def at(numbers: Any) -> Any:
    return it.asarray(np.asarray(numbers, np.float64))


@pytest.mark.parametrize("name", ["fmax", "fmin", "heaviside", "copysign"])
def test_pairs_of_odd_numbers(name: str) -> None:
    a, b = ODD[:, None], ODD
    np.testing.assert_array_equal(getattr(it, name)(at(a), at(b)).numpy(), getattr(np, name)(a, b))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16"])
def test_heaviside_keeps_the_dtype(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x1 = np.array([0, 1, 0, 2] if dtype in ("bool", "uint8") else [-3, 0, 5, 0]).astype(dtype)
    x2 = np.array([7, 8, 9, 0]).astype(dtype)
    got = it.heaviside(it.asarray(x1), it.asarray(x2)).numpy()
    want = torch.heaviside(torch.from_numpy(x1), torch.from_numpy(x2)).numpy()
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_gradients_of_clip_where_bounds_cross_or_meet() -> None:
    torch = pytest.importorskip("torch")
    x, low, high = np.array(list(itertools.product(range(4), repeat=3)), float).T
    theirs = [torch.tensor(v, requires_grad=True) for v in (x, low, high)]
    torch.clamp(*theirs).sum().backward()
    ours = grad(lambda *a: it.sum(it.clip(*a)), argnums=(0, 1, 2))(*map(at, (x, low, high)))
    for got, want in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(got.numpy(), want.grad.numpy())
    for bounds in ((2.0, 1.0), (1.0, 1.0), (1.0, 2.0)):
        v = torch.tensor(x, requires_grad=True)
        torch.clamp(v, *bounds).sum().backward()
        got = grad(lambda x, b=bounds: it.sum(it.clip(x, *b)))(at(x))
        np.testing.assert_array_equal(got.numpy(), v.grad.numpy())


def test_fmax_shares_gradients_like_maximum() -> None:
    a, b = at([1.0, 2.0, NAN, 2.0, NAN]), at([2.0, 2.0, 2.0, NAN, NAN])
    first, second = grad(lambda a, b: it.sum(it.fmax(a, b)), argnums=(0, 1))(a, b)
    assert first.tolist() == [0, 0.5, 0, 1, 1]
    assert second.tolist() == [1, 0.5, 1, 0, 0]
    assert it.fmin(3, it.asarray([NAN, 5.0])).tolist() == [3, 3]


def test_nan_to_num() -> None:
    for dtype in ("float32", "float64", "float16", "complex128"):
        x = np.array([NAN, INF, -INF, 2.0]).astype(dtype)
        if dtype == "complex128":
            x.imag = [0, NAN, INF, -INF]
        np.testing.assert_array_equal(it.nan_to_num(it.asarray(x)).numpy(), np.nan_to_num(x))
    assert it.nan_to_num(it.asarray([1, 2])).tolist() == [1, 2]
    assert grad(lambda x: it.sum(it.nan_to_num(x)))(at([NAN, INF, 3.0])).tolist() == [0, 0, 1]


def test_reductions_of_nothing_but_nan() -> None:
    x = at([[NAN, NAN], [NAN, 4.0]])
    assert it.nansum(x, axis=1).tolist() == [0, 4]
    for function in (it.nanmean, it.nanmedian, lambda x, axis: it.nanquantile(x, 0.5, axis=axis)):
        np.testing.assert_array_equal(function(x, axis=1).numpy(), [NAN, 4])
        assert grad(lambda x, f=function: f(x, axis=1)[1])(x).tolist() == [[0, 0], [0, 1]]
    assert it.nanmean(it.full((5000,), 30.0, dtype="float16")).item() == 30
    with pytest.raises(ShapeError, match=r"nanmedian: axis 0 of shape \(0,\) has no elements"):
        it.nanmedian(it.zeros(0))


def test_xlogy() -> None:
    special = pytest.importorskip("scipy.special")
    a, b = ODD[:, None], np.abs(ODD)
    np.testing.assert_allclose(it.xlogy(at(a), at(b)).numpy(), special.xlogy(a, b), rtol=1e-14)
    assert it.xlogy(it.asarray([0.0, 2.0]), 0).tolist() == [0, -INF]
    assert it.xlogy(0, it.asarray([0.0, 2.0])).tolist() == [0, 0]
    zero = hessian(lambda v: it.xlogy(v[0], v[1]))(at([0.0, 4.0])).numpy()
    np.testing.assert_allclose(zero, [[0, 0.25], [0.25, 0]])
    assert np.all(np.isfinite(hessian(lambda v: it.xlogy(v[0], v[1]))(at([0.0, 0.0])).numpy()))


def test_logit() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.array([0.0, 1e-300, 1e-9, 0.25, 0.5 - 1e-9, 0.5, 0.5 + 1e-12, 0.75, 1 - 1e-16, 1, 2, -1])
    np.testing.assert_allclose(it.logit(at(x)).numpy(), special.logit(x), rtol=1e-14)
    x = np.array([-1, 0.2, 2])
    np.testing.assert_allclose(
        it.logit(at(x), 0.1).numpy(), special.logit(np.clip(x, 0.1, 0.9)), rtol=1e-14
    )
    assert grad(lambda x: it.sum(it.logit(x, 0.1)))(at(x)).tolist()[::2] == [0, 0]


def test_sinc() -> None:
    x = np.concatenate([np.linspace(-3, 3, 41), [1e-8, 1e6, 1e15, 0.5, -0.5]])
    np.testing.assert_allclose(it.sinc(at(x)).numpy(), np.sinc(x), atol=1e-15)
    # 1 - (pi x)²/6 + …: the second derivative at 0 is -pi²/3.
    second = grad(grad(it.sinc))(at(0.0)).item()
    assert second == pytest.approx(-(np.pi**2) / 3)
    fourth = grad(grad(grad(grad(it.sinc))))(at(0.0)).item()
    assert fourth == pytest.approx(np.pi**4 / 5)


def test_round_to_digits() -> None:
    x = np.array([2.5, -2.5, 0.125, 1234.5678, 1e300, INF, -INF, NAN, 0.05])
    for decimals in (1, 2, -2, 308, 400, -400):
        found = it.round(at(x), decimals=decimals).numpy()
        with np.errstate(all="ignore"):
            want = np.round(x, max(min(decimals, 308), -308))
        want = np.where((np.abs(x) < 1e200) & (decimals < 308), want, x)
        if decimals == -400:
            want[4] = 0
        np.testing.assert_array_equal(found, want)
    assert it.round(it.asarray([15, 25, -15, -25, 100]), decimals=-1).tolist() == [
        20, 20, -20, -20, 100,
    ]  # fmt: skip
    assert it.round(it.asarray([200, 250], dtype="uint8"), decimals=-2).tolist() == [200, 200]
    assert it.round(it.asarray([7]), decimals=-40).tolist() == [0]
    assert it.round(it.asarray([1.26 + 3.14j]), decimals=1).numpy() == pytest.approx([1.3 + 3.1j])


def test_exp2_and_logspace() -> None:
    x = np.linspace(-1074, 1023, 999)
    np.testing.assert_allclose(it.exp2(at(x)).numpy(), np.exp2(x), rtol=4e-16, atol=5e-324)
    np.testing.assert_allclose(it.logspace(-3, 3, 7).numpy(), np.logspace(-3, 3, 7), rtol=1e-7)
    with pytest.raises(DTypeError, match="logspace: dtype must be float"):
        it.logspace(0, 1, 2, dtype="int64")


def test_divisors() -> None:
    a = np.array([0, 12, -9, 2**62, -(2**63) + 1, 35])[:, None]
    b = np.array([0, 6, -4, 7, 2**61])
    np.testing.assert_array_equal(it.gcd(it.asarray(a), it.asarray(b)).numpy(), np.gcd(a, b))
    np.testing.assert_array_equal(it.lcm(it.asarray(a[:3]), 6).numpy(), np.lcm(a[:3], 6))
    with pytest.raises(DTypeError, match="gcd"):
        it.gcd(it.asarray([1.0]), 2)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "complex128", "int64", "bool"])
def test_membership(dtype: str, many: bool) -> None:
    rng = np.random.default_rng(0)
    x, known = (rng.integers(0, n, (9, 3)).astype(dtype) for n in (40, 60))
    if dtype in ("float64", "complex128"):
        x[0, 0] = known[0, 0] = NAN
    known = known if many else known[:2]
    got = it.isin(it.asarray(x), it.asarray(known))
    np.testing.assert_array_equal(got.numpy(), np.isin(x, known))
    assert it.isin(it.asarray([1, 2]), 2, invert=True).tolist() == [True, False]
    assert it.isin(2, it.asarray([1, 2])).item() is True


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64"])
def test_distinct_slices(dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 2, (30, 3, 2)).astype(dtype)
    for axis in (0, 1, -1):
        asked = {"return_index": True, "return_inverse": True, "return_counts": True}
        found = it.unique(it.asarray(x), axis=axis, **asked)
        for mine, theirs in zip(found, np.unique(x, axis=axis, **asked), strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs.reshape(mine.shape))
    assert it.unique(it.asarray(x[:, :0]), axis=0).shape == (1, 0, 2)
    assert it.unique(it.asarray(x[:0]), axis=0).shape == (0, 3, 2)


def test_runs_like_torch() -> None:
    torch = pytest.importorskip("torch")
    x = np.array([[1, 1, 2, 2, 1], [0, 0, 3, 3, 0]])
    for axis in (None, 0, 1):
        mine = it.unique_consecutive(
            it.asarray(x), axis=axis, return_inverse=True, return_counts=True
        )
        theirs = torch.unique_consecutive(
            torch.tensor(x), return_inverse=True, return_counts=True, dim=axis
        )
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_slopes_and_areas_are_refused_where_they_make_no_sense() -> None:
    x = it.zeros((2, 3))
    with pytest.raises(ShapeError, match="edge_order=2 needs at least 3 elements along axis 0"):
        it.gradient(x, edge_order=2)
    with pytest.raises(ArgumentError, match="spacing must be a number, or have one entry"):
        it.gradient(x, spacing=[1.0])
    with pytest.raises(ShapeError, match=r"the coordinates of axis 1 must have shape \(3,\)"):
        it.gradient(x, spacing=[it.arange(2.0)], axis=1)
    with pytest.raises(ShapeError, match="trapezoid: x must have 3 elements"):
        it.trapezoid(x, it.arange(2.0))
    square = it.asarray([[1.0, 2.0], [3.0, 4.0]])
    wide = it.asarray([[0.0, 1.0], [0.0, 3.0]])
    assert it.trapezoid(square, wide).tolist() == [1.5, 10.5]


def test_like_another_tensor() -> None:
    x = it.zeros((200, 50), dtype="float64")
    uniform, normal = (it.random.rand_like, 0.5, 12**-0.5), (it.random.randn_like, 0, 1)
    for function, mean, spread in (uniform, normal):
        drawn = function(x)
        assert (drawn.shape, drawn.dtype, drawn.device) == (x.shape, x.dtype, x.device)
        assert abs(it.mean(drawn).item() - mean) < 0.05
        assert it.std(drawn).item() == pytest.approx(spread, rel=0.05)
        assert function(x, dtype="float32").dtype is it.float32
    whole = it.random.randint_like(x, 2, 5, dtype="int8")
    assert (whole.dtype, it.unique_values(whole).tolist()) == (it.int8, [2, 3, 4])
    with pytest.raises(DTypeError, match="rand_like: dtype must be a float dtype, got int64"):
        it.random.rand_like(it.asarray([1]))
