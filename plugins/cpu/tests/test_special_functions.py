"""Incomplete gamma functions by SciPy and without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle_cpu import scipy_parts, special_functions

mpmath = pytest.importorskip("mpmath")


def _given(count: int = special_functions.MANY) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    a = 10 ** rng.uniform(-3, 4.2, count)
    x = np.where(rng.random(count) < 0.5, a * rng.uniform(0.9, 1.1, count), rng.uniform(0, 9))
    odd = [0.0, 1.0, np.inf, np.nan, -1.0, 3e7]
    a[:36], x[:36] = np.repeat(odd, 6), np.tile(odd, 6)
    return a.astype(np.float32), x.astype(np.float32)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_many_numbers_are_those_of_few(name: str, dtype: str) -> None:
    """Few go by NumPy, and many by SciPy but for large shapes."""
    function = getattr(it, name)
    a, x = (it.asarray(v, dtype=dtype, device="cpu") for v in _given())
    many = function(a, x).numpy().astype(np.float32)
    few = function(a.to_device("numpy"), x.to_device("numpy")).numpy().astype(np.float32)
    np.testing.assert_array_equal(np.isnan(many), np.isnan(few))
    tiny, eps = np.finfo(dtype).tiny, np.finfo(dtype).eps
    np.testing.assert_allclose(many, few, rtol=float(eps), atol=float(tiny) / 2)


def test_many_numbers_against_mpmath() -> None:
    a, x = _given()
    got = it.igamma(it.asarray(a, device="cpu"), it.asarray(x, device="cpu")).numpy()
    places = np.flatnonzero((a > 0) & (a < 300) & (x > 0) & (x < 300))[:60]
    for i in places:
        with mpmath.workdps(30):
            want = mpmath.gammainc(float(a[i]), 0, float(x[i]), regularized=True)
        assert got[i] == pytest.approx(float(want), rel=2e-7, abs=1e-38)


@pytest.mark.slow
def test_operands_broadcast_and_have_gradients() -> None:
    scipy_special = pytest.importorskip("scipy.special")
    a = it.asarray(np.linspace(0.5, 9, 80, dtype=np.float32)[:, None], device="cpu")
    x = it.asarray(np.linspace(0.1, 20, 60, dtype=np.float32), device="cpu").require_grad()
    out = it.igammac(a, x)
    want = scipy_special.gammaincc(a.numpy().astype(float), x.numpy().astype(float))
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-6)
    slope = it.sum(out).backward()[x].numpy()
    wide, at = a.numpy().astype(float), x.numpy().astype(float)
    density = np.exp((wide - 1) * np.log(at) - at - scipy_special.gammaln(wide))
    np.testing.assert_allclose(slope, -density.sum(0), rtol=1e-4)
    assert it.igamma(a[:0], x).shape == (0, 60)


def test_without_scipy_it_is_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    a, x = (it.asarray(v, device="cpu") for v in _given())
    with_scipy: Any = it.igamma(a, x).numpy()
    monkeypatch.setitem(scipy_parts.missing, "scipy.special", "it is not there")
    np.testing.assert_allclose(it.igamma(a, x).numpy(), with_scipy, rtol=2e-7, atol=1e-38)
