"""The namespace `fft`: every function against NumPy, its gradients against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor import fft
from ingle.tensor.errors import ArgumentError, AxisError, DTypeError, ShapeError

NORMS = ("backward", "ortho", "forward")
ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL_AXES = ("fftn", "ifftn", "rfftn", "irfftn")
REAL_INPUT = ("rfft", "rfftn", "ihfft")


def values(name: str, *shape: int, single: bool = False) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    x = rng.normal(size=shape)
    if name in REAL_INPUT:
        return x.astype(np.float32) if single else x
    x = x + 1j * rng.normal(size=shape)
    return x.astype(np.complex64) if single else x


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ONE_AXIS)
def test_transforms_of_one_axis_equal_numpy(name: str, norm: str) -> None:
    ours, theirs = getattr(fft, name), getattr(np.fft, name)
    for shape, kwargs in (
        ((8,), {}), ((7,), {}), ((2, 5, 3), {"axis": 1}), ((4, 6), {"n": 3}), ((4, 6), {"n": 11}),
        ((3, 1), {"n": 1}), ((0, 4), {}), ((127,), {}), ((5, 4), {"axis": -2, "n": 8}),
    ):  # fmt: skip
        x = values(name, *shape)
        got, expected = ours(it.asarray(x), norm=norm, **kwargs), theirs(x, norm=norm, **kwargs)
        assert (got.shape, got.dtype.name) == (expected.shape, expected.dtype.name)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", SEVERAL_AXES)
def test_transforms_of_several_axes_equal_numpy(name: str, norm: str) -> None:
    ours, theirs = getattr(fft, name), getattr(np.fft, name)
    x = values(name, 4, 5, 6)
    for kwargs in (
        {}, {"axes": (0, 2)}, {"axes": (2, 0)}, {"axes": (1,)}, {"s": (3, 8), "axes": (0, 1)},
        {"s": (5, 4, 3), "axes": (2, 1, 0)},
    ):  # fmt: skip
        got, expected = ours(it.asarray(x), norm=norm, **kwargs), theirs(x, norm=norm, **kwargs)
        assert got.shape == expected.shape
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [*ONE_AXIS, *SEVERAL_AXES])
def test_single_precision_stays_single(name: str) -> None:
    x = values(name, 3, 9, single=True)
    got, expected = getattr(fft, name)(it.asarray(x)), getattr(np.fft, name)(x)
    assert got.dtype.name == expected.dtype.name
    assert got.dtype.itemsize == (8 if got.dtype.is_complex else 4)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_other_dtypes_are_cast() -> None:
    for dtype in (it.int32, it.bool, it.float16, it.bfloat16, it.float32):
        assert fft.fft(it.ones(3, dtype=dtype)).dtype is it.complex64
        assert fft.rfft(it.ones(3, dtype=dtype)).dtype is it.complex64
        assert fft.irfft(it.ones(3, dtype=dtype)).dtype is it.float32


@pytest.mark.parametrize("n", [1, 2, 3, 8, 13, 60])
def test_inverses_undo(n: int) -> None:
    x, z = it.asarray(values("rfft", 2, n)), it.asarray(values("fft", 2, n))
    for norm in NORMS:
        for got, expected in (
            (fft.ifft(fft.fft(z, norm=norm), norm=norm), z),
            (fft.irfft(fft.rfft(x, norm=norm), n=n, norm=norm), x),
            (fft.hfft(fft.ihfft(x, norm=norm), n=n, norm=norm), x),
            (fft.ifftn(fft.fftn(z, norm=norm), norm=norm), z),
            (fft.irfftn(fft.rfftn(x, norm=norm), s=(2, n), axes=(0, 1), norm=norm), x),
        ):
            np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", [*ONE_AXIS, *SEVERAL_AXES])
def test_gradients_equal_pytorch(name: str, norm: str, like_torch: Callable[..., None]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(fft, name), getattr(torch.fft, name)
    one = name in ONE_AXIS
    for n in (5, 8, 4):
        mine: dict[str, Any] = {"n": n, "axis": 1} if one else {"s": (n, 3), "axes": (1, 0)}
        other: dict[str, Any] = {"n": n, "dim": 1} if one else {"s": (n, 3), "dim": (1, 0)}

        def real_loss(x: Any, mine: Any = mine) -> Any:
            y = ours(x, norm=norm, **mine)
            return it.real(y) + it.imag(y) * 3 if y.dtype.is_complex else y**2

        def their_loss(t: Any, other: Any = other) -> Any:
            y = theirs(t, norm=norm, **other)
            return y.real + y.imag * 3 if y.is_complex() else y**2

        like_torch(real_loss, their_loss, [values(name, 2, 5)], second=name in REAL_INPUT)


def test_frequencies_and_shifts_equal_numpy() -> None:
    for n in (1, 2, 5, 8):
        for d in (1.0, 0.25, -3.0):
            for name in ("fftfreq", "rfftfreq"):
                got = getattr(fft, name)(n, d=d, dtype=it.float64)
                expected = getattr(np.fft, name)(n, d)
                np.testing.assert_allclose(got.numpy(), expected, rtol=1e-15)
        assert fft.fftfreq(n).dtype is it.float32
    x = np.arange(30).reshape(2, 5, 3)
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 0, (1, 2), (-1,)):
            got = getattr(fft, name)(it.asarray(x), axes=axes)
            assert got.tolist() == getattr(np.fft, name)(x, axes).tolist()


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: fft.fft(x, norm="none"), ArgumentError, "fft: norm='none'"),
        (lambda x: fft.hfft(x, norm="none"), ArgumentError, "hfft: norm='none'"),
        (lambda x: fft.fft(x, n=0), ShapeError, "fft: the lengths"),
        (lambda x: fft.fft(x[:, :0]), ShapeError, "must be from 1 to"),
        (lambda x: fft.fft(x, axis=2), AxisError, "fft: axis=2"),
        (lambda x: fft.fftn(x, axes=(0, 0)), ArgumentError, "must not name an axis twice"),
        (lambda x: fft.fftn(x, s=(2,), axes=(0, 1)), ArgumentError, "a length for each"),
        (lambda x: fft.rfftn(x, axes=()), ArgumentError, "at least 1 axis"),
        (lambda x: fft.rfft(x * 1j), DTypeError, "rfft: needs a real tensor"),
        (lambda x: fft.irfft(x[:, :1]), ShapeError, "how long the result is"),
        (lambda x: fft.fftfreq(0), ArgumentError, "fftfreq: n must be at least 1"),
        (lambda x: fft.fftfreq(3, d=0.0), ArgumentError, "d must be a number other than 0"),
        (lambda x: fft.rfftfreq(3, dtype=it.int32), DTypeError, "rfftfreq: dtype"),
    ],
)
def test_refusals(call: Callable[..., Any], error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call(it.ones((2, 3)))
