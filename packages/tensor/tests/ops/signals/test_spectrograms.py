"""Windows against SciPy, short-time Fourier transforms against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.signal

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 16])
@pytest.mark.parametrize(
    ("name", "options", "oracle"),
    [
        ("hann_window", {}, "hann"),
        ("hamming_window", {}, "hamming"),
        ("hamming_window", {"alpha": 0.6, "beta": 0.4}, ("general_hamming", 0.6)),
        ("blackman_window", {}, "blackman"),
        ("bartlett_window", {}, "bartlett"),
        ("kaiser_window", {"beta": 8.0}, ("kaiser", 8.0)),
    ],
)
def test_windows(name: str, options: Any, oracle: Any, n: int, periodic: bool) -> None:
    got = getattr(it, name)(n, periodic=periodic, dtype="float64", **options)
    expected = scipy.signal.get_window(oracle, n, fftbins=periodic) if n else np.zeros(0)
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-15)
    assert getattr(it, name)(n, dtype="float16").dtype is it.float16


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hop_length": 3},
        {"win_length": 7, "hop_length": 2},
        {"center": False},
        {"normalized": True},
        {"onesided": False},
        {"pad_mode": "constant"},
        {"pad_mode": "replicate", "hop_length": 5},
    ],
)
@pytest.mark.parametrize("n", [9, 12])
@pytest.mark.parametrize("shape", [(50,), (2, 41)])
def test_stft(like_torch: Any, shape: Any, n: int, options: Any) -> None:
    torch = pytest.importorskip("torch")
    window = RNG.uniform(0.5, 1, options.get("win_length", n))

    def parts(x: Any, ours: bool) -> Any:
        return it.abs(x) if ours else torch.abs(x)

    like_torch(
        lambda x: parts(it.stft(x, n, window=it.asarray(window), **options), True),
        lambda x: parts(
            torch.stft(x, n, window=torch.tensor(window), return_complex=True, **options), False
        ),
        [RNG.standard_normal(shape)],
        second=False,
        rtol=1e-7,
        atol=1e-9,
    )
    got = it.stft(it.asarray(np.arange(60.0)), n, window=it.asarray(window), **options)
    expected = torch.stft(
        torch.arange(60, dtype=torch.float64), n, window=torch.tensor(window),
        return_complex=True, **options,
    )  # fmt: skip
    np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-10)


@pytest.mark.parametrize(
    "options",
    [{}, {"hop_length": 3}, {"win_length": 8}, {"normalized": True}, {"onesided": False}],
)
@pytest.mark.parametrize("length", [None, 40, 70])
@pytest.mark.filterwarnings("ignore:The length of signal:UserWarning")
def test_istft(options: Any, length: int | None) -> None:
    torch = pytest.importorskip("torch")
    if length == 70 and "win_length" in options:
        pytest.skip("the last frame's window ends before the frame does")
    window = scipy.signal.get_window("hann", options.get("win_length", 12))
    rows = 12 if not options.get("onesided", True) else 7
    x = RNG.standard_normal((2, rows, 15)) + 1j * RNG.standard_normal((2, rows, 15))
    got = it.istft(it.asarray(x), 12, window=it.asarray(window), length=length, **options)
    expected = torch.istft(
        torch.tensor(x), 12, window=torch.tensor(window), length=length, **options
    )
    np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-10)


def test_there_and_back_for_complex_signals() -> None:
    x = RNG.standard_normal(64) + 1j * RNG.standard_normal(64)
    window = it.hann_window(16, dtype="float64")
    spectrum = it.stft(it.asarray(x), 16, window=window)
    assert spectrum.shape == (16, 17)
    back = it.istft(spectrum, 16, window=window, onesided=False, return_complex=True)
    np.testing.assert_allclose(back.numpy(), x, atol=1e-12)


def test_errors() -> None:
    with pytest.raises(ShapeError, match="hann_window: window_length"):
        it.hann_window(-1)
    with pytest.raises(DTypeError, match="kaiser_window: dtype"):
        it.kaiser_window(3, dtype="int32")
    with pytest.raises(ShapeError, match="stft: window must be real"):
        it.stft(it.zeros(50), 16, window=it.ones(4))
    with pytest.raises(ShapeError, match="stft: a frame has n_fft=16 samples, but the signal"):
        it.stft(it.zeros(5), 16, center=False)
    with pytest.raises(ArgumentError, match="stft: needs n_fft"):
        it.stft(it.zeros(50), 3)
    with pytest.raises(ShapeError, match="istft: n_fft=16 has 9 frequencies"):
        it.istft(it.zeros((8, 3), dtype="complex64"), 16)
    with pytest.raises(ArgumentError, match="istft: the windows"):
        it.istft(it.zeros((9, 3), dtype="complex64"), 16, window=it.hann_window(16), center=False)
