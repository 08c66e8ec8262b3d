"""Special functions over wide ranges, at poles and beyond, against SciPy and known values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.tensor.errors import ArgumentError, DTypeError, GradientError
from ingle.tensor.operation import OPERATIONS
from ingle.tensor.ops.special.short import short_exp, short_ndtr

special: Any = pytest.importorskip("scipy.special")
INF, NAN = float("inf"), float("nan")
WIDE = 10.0 ** np.linspace(-300, 300, 61)
NEAR = np.linspace(0.01, 12, 240)
BELOW = -np.linspace(0.013, 9.7, 200)


def at(numbers: Any) -> Any:
    return it.asarray(np.asarray(numbers, np.float64))


def agree(name: str, x: Any, reference: Any, rtol: float, atol: float = 0.0) -> None:
    """Both float dtypes; float32 has its own rounding and no other error."""
    want = reference(x)
    np.testing.assert_allclose(getattr(it, name)(at(x)).numpy(), want, rtol=rtol, atol=atol)
    with np.errstate(all="ignore"):
        short = np.asarray(x, np.float32)
        want = reference(short.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(
        getattr(it, name)(it.asarray(short)).numpy(), want, rtol=2.4e-7, atol=max(atol, 1e-44)
    )


def test_erfc_and_erfinv() -> None:
    x = np.concatenate([np.linspace(-7, 26.5, 400), [0.0, INF, -INF, NAN, 1e300, -1e300, 1e-300]])
    agree("erfc", x, special.erfc, 2e-13)
    # SciPy's own error in the far tail is larger than that of Abramowitz and Stegun's value.
    assert it.erfc(at(26.0)).item() == pytest.approx(5.663192408856142846e-296, rel=2e-15)
    x = np.concatenate([np.linspace(-1, 1, 401), 1 - WIDE[15:30], WIDE[:30], [NAN, 1.5, -1.5, INF]])
    agree("erfinv", x, special.erfinv, 5e-15)
    np.testing.assert_allclose(it.erf(it.erfinv(at(x[:400]))).numpy(), x[:400], atol=2e-16)


@pytest.mark.parametrize(("name", "edge"), [("erfc", 10.2), ("erfinv", 1.0)])
def test_short_polynomials_lose_no_place_of_float32(name: str, edge: float) -> None:
    rng = np.random.default_rng(0)
    near_edge = np.float32(edge) - np.arange(2000, dtype=np.float32) * 2.0**-24
    joints = [0.5, 1.0, 10.2, 1 - np.exp(-6.25) / 2, np.sqrt(1 - np.exp(-6.25))]
    around = [np.nextafter(np.float32(j), np.float32(to)) for j in joints for to in (0, 99)]
    x = np.concatenate([rng.uniform(-edge, edge, 20000), near_edge, np.float32(joints), around])
    x = x.astype(np.float32)
    want = getattr(special, name)(x.astype(np.float64))
    got = getattr(it, name)(it.asarray(x)).numpy()
    inside = np.isfinite(want)
    np.testing.assert_array_equal(got[~inside], want[~inside].astype(np.float32))
    # As for all here: two last places, of which `erf` on NumPy takes most.
    far = np.abs(got[inside] - want[inside]) / np.spacing(np.abs(want[inside]).astype(np.float32))
    assert far.max() <= 2.0


@pytest.mark.slow
def test_gamma() -> None:
    # C's lgamma is infinite at -inf, SciPy's minus infinite.
    x = np.concatenate([WIDE, NEAR, [0.0, -0.0, -1.0, -7.0, INF, NAN, 1 + 1e-9, 2 - 1e-12]])
    # SciPy's own error at the zeros is absolute.
    agree("lgamma", x, special.gammaln, 4e-15, 4e-16)
    off = 2.0**-30
    known = -0.5772156649015329 * off + np.pi**2 / 12 * off**2
    assert it.lgamma(at(1 + off)).item() == pytest.approx(known, rel=1e-15)
    agree("lgamma", BELOW, special.gammaln, 1e-14, 1e-14)
    agree("lgamma", -WIDE[WIDE < 0.1], special.gammaln, 1e-14)
    assert it.lgamma(at(-INF)).item() == INF
    assert it.lgamma(at(0.5)).item() == pytest.approx(0.5 * np.log(np.pi), rel=4e-16)


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gradients_through_a_body_at_whole_numbers(name: str) -> None:
    """The reflection, which others than negative numbers do not take, has poles there."""
    body: Any = OPERATIONS[name].body
    x = np.array([0.5, 1.0, 2.0, 3.0, 8.0, 11.0, -0.5, -2.25])
    got = grad(lambda v: it.sum(body(v)))(at(x)).numpy()
    want = special.digamma(x) if name == "lgamma" else [
        float(it.polygamma(1, at(v)).numpy()) for v in x]  # fmt: skip
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.slow
def test_derivatives_of_gamma() -> None:
    root = 1.4616321449683622
    x = np.concatenate([WIDE, NEAR, [root, root + 1e-7, 0.0, -0.0, -1.0, -2.0, INF, -INF, NAN]])
    agree("digamma", x, special.digamma, 2e-14)
    agree("digamma", BELOW, special.digamma, 2e-13, 1e-14)
    for n in (1, 2, 3, 7, 20):
        x = np.concatenate([NEAR, [0.0, -3.0, NAN, INF, 1e5, 1e-5]])
        np.testing.assert_allclose(
            it.polygamma(n, at(x)).numpy(), special.polygamma(n, x), rtol=1e-13
        )
    # SciPy sums many terms for negative numbers: exact enough for small ones.
    np.testing.assert_allclose(
        it.polygamma(1, at(BELOW)).numpy(), special.polygamma(1, BELOW), rtol=1e-12
    )
    third = grad(grad(grad(it.lgamma)))(at(2.5)).item()
    assert third == pytest.approx(special.polygamma(2, 2.5), rel=1e-13)
    with pytest.raises(ArgumentError, match="polygamma: n must be from 0 to 100, got -1"):
        it.polygamma(-1, at(1.0))


@pytest.mark.slow
def test_bessel() -> None:
    x = np.concatenate([np.linspace(-20, 20, 301), [700.0, -700.0, 1e-300, 0.0, -0.0, NAN]])
    agree_up_to = x[np.abs(x) < 80]
    agree("i0", agree_up_to, special.i0, 4e-15)
    agree("i1", agree_up_to, special.i1, 4e-15)
    np.testing.assert_allclose(it.i0(at(x)).numpy(), special.i0(x), rtol=1e-14)
    np.testing.assert_allclose(it.i1(at(x)).numpy(), special.i1(x), rtol=1e-14)
    assert it.i0(at([INF, -INF])).tolist() == [INF, INF]
    assert it.i1(at([INF, -INF])).tolist() == [INF, -INF]
    # i1(x) = x / 2 + x³ / 16 + …
    assert grad(it.i1)(at(0.0)).item() == 0.5
    assert grad(grad(grad(it.i1)))(at(0.0)).item() == pytest.approx(6 / 16)


@pytest.mark.parametrize("low", [-8, 0, 3])
def test_incomplete_gamma(low: int) -> None:
    rng = np.random.default_rng(0)
    a = 10.0 ** rng.uniform(low, low + 3, 300)
    for x in (a * rng.uniform(0.5, 1.5, 300), 10.0 ** rng.uniform(low, low + 3, 300)):
        p, q = special.gammainc(a, x), special.gammaincc(a, x)
        kept = (p > 1e-30) & (q > 1e-30)
        np.testing.assert_allclose(it.igamma(at(a), at(x)).numpy()[kept], p[kept], rtol=1e-11)
        np.testing.assert_allclose(it.igammac(at(a), at(x)).numpy()[kept], q[kept], rtol=1e-11)


def test_incomplete_gamma_at_the_edges() -> None:
    odd = np.array([NAN, INF, 0.0, 1.0, -1.0, 0.5])
    with np.errstate(all="ignore"):
        want = special.gammainc(odd[:, None], odd)
    np.testing.assert_allclose(it.igamma(at(odd[:, None]), at(odd)).numpy(), want, rtol=1e-15)
    # The median of a gamma distribution of a large shape a is near a - 1/3.
    assert it.igamma(at(1e12), 1e12 - 1 / 3).item() == pytest.approx(0.5, abs=1e-7)
    # A chi-squared distribution of two degrees is an exponential one.
    x = at([0.5, 3.0])
    np.testing.assert_allclose(it.igammac(1, x).numpy(), np.exp(-x.numpy()), rtol=1e-15)
    density = grad(lambda x: it.sum(it.igamma(1, x)))(x)
    np.testing.assert_allclose(density.numpy(), np.exp(-x.numpy()), rtol=1e-14)


# Derivatives of P by its shape, by mpmath with 60 digits:
# mp.diff(lambda a: mp.gammainc(a, 0, x, regularized=True), a)
BY_SHAPE = [
    (1e-06, 0.001, -6.331500918790854),
    (0.01, 0.5, -0.5655459117152578),
    (0.3, 1.05, -0.31552530263396283),
    (0.5, 12.0, -4.357465486573707e-06),
    (1.0, 1.0, -0.4317297106348987),
    (1.3, 1.15, -0.3917108390867127),
    (3.0, 0.02, -6.789959227319137e-06),
    (7.0, 7.5, -0.1449027549511783),
    (9.9, 9.7, -0.12891123589225248),
    (25.0, 24.0, -0.08003842834756351),
    (25.0, 60.0, -1.010202848134979e-07),
    (300.0, 310.0, -0.01925383837470143),
    (1.5e6, 1.5e6 * 0.9995, -0.00027009446709394617),
    (1e8, 1e8, -3.989422807338846e-05),
    (40000.0, 39900.0, -0.001762166542151858),
]


@pytest.mark.parametrize(("a", "x", "want"), BY_SHAPE)
def test_incomplete_gamma_by_its_shape(a: float, x: float, want: float) -> None:
    for function, sign in ((it.igamma, 1), (it.igammac, -1)):
        got = grad(lambda v, f=function: it.sum(f(v, x)))(at([a]))
        np.testing.assert_allclose(got.numpy(), [sign * want], rtol=2e-12)


def test_incomplete_gamma_by_its_shape_at_the_edges() -> None:
    a = at([0.0, 1.0, 2.0, INF, 0.0, -1.0, NAN])
    x = at([INF, 0.0, INF, 3.0, 0.0, 1.0, 1.0])
    got = grad(lambda v: it.sum(it.igamma(v, x)))(a)
    np.testing.assert_array_equal(got.numpy(), [0.0, 0.0, 0.0, 0.0, NAN, NAN, NAN])
    # Exponential integrals are the limits for a shape of 0.
    x = at([0.01, 0.7, 1.2, 20.0])
    got = grad(lambda v: it.sum(it.igamma(v, x)))(at([0.0] * 4))
    np.testing.assert_allclose(got.numpy(), -special.exp1(x.numpy()), rtol=1e-13)


def test_incomplete_gamma_has_no_second_derivative_by_its_shape() -> None:
    # Mixed second derivatives are the density's derivative, in either order.
    mixed = grad(lambda x: grad(lambda a: it.igamma(a, x))(at(2.0)))(at(3.0))
    other = grad(lambda a: grad(lambda x: it.igamma(a, x))(at(3.0)))(at(2.0))
    want = 3.0 * np.exp(-3.0) * (np.log(3.0) - special.digamma(2.0))
    np.testing.assert_allclose([mixed.item(), other.item()], want, rtol=1e-13)
    with pytest.raises(GradientError, match="igamma: there is no second derivative by x1"):
        grad(grad(lambda a: it.igamma(a, 1.0)))(at(2.0))


@pytest.mark.parametrize(
    ("function", "reference"), [(short_exp, np.exp), (short_ndtr, special.ndtr)]
)
def test_short_functions_are_of_float32(function: Any, reference: Any) -> None:
    x = np.array([-INF, -3.0, 0.0, 1.5, NAN], np.float32)
    np.testing.assert_allclose(function(it.asarray(x)).numpy(), reference(x), rtol=2.0**-14)
    with pytest.raises(DTypeError, match="x must be float32, got float16; cast it"):
        function(it.asarray([0.0], dtype=it.float16))
