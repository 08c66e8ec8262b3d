"""Fourier transforms: SciPy's of many numbers, NumPy's of few and where SciPy is missing."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle_cpu import fourier, scipy_parts


@pytest.fixture(autouse=True)
def device():
    with it.device("cpu"):
        yield


@pytest.fixture
def asked(monkeypatch):
    """How often SciPy was asked for."""
    found = []
    real = fourier.scipy_part
    monkeypatch.setattr(fourier, "scipy_part", lambda name: found.append(1) or real(name))
    return found


def drawn(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_numbers_agree_with_numpy(dtype, norm, asked):
    pytest.importorskip("scipy")
    x = drawn(24, 30, 31).astype(dtype)
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    for name, axes in (("fftn", (1, 2)), ("ifftn", (0, 2)), ("rfftn", (2, 1)), ("irfftn", (0, 1))):
        want = getattr(np.fft, name)(x, axes=axes, norm=norm)
        found = getattr(it.fft, name)(it.asarray(x), axes=axes, norm=norm).numpy()
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, atol=tolerance * abs(want).max())
    assert asked


def test_bits_follow_from_a_row_alone_and_from_no_plan():
    x = drawn(70, 300)
    rows = it.fft.fft(it.asarray(x)).numpy()
    again = it.fft.fft(it.asarray(x[::-1].copy())).numpy()
    np.testing.assert_array_equal(rows, again[::-1])
    compiled = compile(lambda x: it.fft.fft(x * 1.0))
    np.testing.assert_array_equal(compiled(it.asarray(x)).numpy(), rows)


def test_few_numbers_need_no_scipy(asked):
    it.fft.fft(it.asarray(drawn(8, 30))).numpy()
    assert it.fft.fft(it.zeros((0, 300))).shape == (0, 300)
    assert not asked


def test_without_scipy_numpy_transforms(monkeypatch):
    x = drawn(100, 300)

    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(scipy_parts, "late", absent)
    monkeypatch.setattr(scipy_parts, "missing", {})
    found = it.fft.rfft(it.asarray(x)).numpy()
    np.testing.assert_array_equal(found, np.fft.rfft(x))
    assert len(scipy_parts.missing) == 1


def test_a_missing_scipy_keeps_nothing_of_who_asked_for_it_first(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(scipy_parts, "late", absent)
    monkeypatch.setattr(scipy_parts, "missing", {})

    def first():
        array = drawn(100, 300)
        it.fft.rfft(it.asarray(array)).numpy()
        return weakref.ref(array)

    assert first()() is None
    assert scipy_parts.missing
