"""Signals: Fourier transforms, windows, mel filters. Complex numbers have a last axis of two."""

from __future__ import annotations

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..registry import operator
from ..values import Host, bounded, dtype_of


def _complex(x: Tensor) -> Tensor:
    dtype = it.complex128 if x.dtype is it.float64 else it.complex64
    if x.shape[-1] == 1:
        return x[..., 0].astype(dtype)
    if x.shape[-1] != 2:
        raise ModelError(f"the last axis must have 1 or 2 elements, got {tuple(x.shape)}")
    unit = it.asarray(np.asarray(1j, dtype.dtype), device=x.device)
    return x[..., 0].astype(dtype) + x[..., 1].astype(dtype) * unit


def _parts(z: Tensor, like: Tensor) -> Tensor:
    return it.stack([it.real(z), it.imag(z)], axis=-1).astype(like.dtype)


def _transformed(
    x: Tensor, length: Host | None, axis: int, inverse: bool, onesided: bool
) -> Tensor:
    n = None if length is None else int(length.reshape(-1)[0])
    at = axis if axis >= 0 else axis + x.ndim
    bounded("DFT", [*x.shape, n or 1])
    if inverse and onesided:
        z = _complex(x)
        back = it.fft.irfft(z, n=n, axis=at)
        return it.expand_dims(back, -1).astype(x.dtype)
    z = _complex(x)
    size = z.shape[at] if n is None else n
    z = it.fft.ifft(z, n=n, axis=at) if inverse else it.fft.fft(z, n=n, axis=at)
    if onesided:
        z = z[(slice(None),) * at + (slice(0, size // 2 + 1),)]
    return _parts(z, x)


@operator("DFT", 20)
def dft(
    x: Tensor, length: Host | None = None, axis: Host | None = None, *, inverse: int = 0,
    onesided: int = 0,
) -> Tensor:  # fmt: skip
    """The discrete Fourier transform along an axis, or its inverse."""
    at = -2 if axis is None else int(axis.reshape(-1)[0])
    return _transformed(x, length, at, bool(inverse), bool(onesided))


@operator("DFT", 17)
def dft_before_20(
    x: Tensor, length: Host | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return _transformed(x, length, axis, bool(inverse), bool(onesided))


@operator("STFT")
def stft(
    x: Tensor, frame_step: Host, window: Tensor | None = None, frame_length: Host | None = None, *,
    onesided: int = 1,
) -> Tensor:  # fmt: skip
    """The Fourier transform of each of many short, overlapping parts."""
    step = int(frame_step.reshape(-1)[0])
    if frame_length is not None:
        size = int(frame_length.reshape(-1)[0])
    elif window is not None:
        size = window.shape[0]
    else:
        raise ModelError("STFT: neither a window nor a frame_length is given")
    count = (x.shape[1] - size) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(size)
    parts = it.take(x, it.asarray(places.reshape(-1), device=x.device), axis=1)
    parts = it.reshape(parts, (x.shape[0], count, size, -1))
    if window is not None:
        parts = parts * it.reshape(window, (-1, 1))
    return _transformed(parts, None, 2, False, bool(onesided))


def _window(size: Host, weights: tuple[float, ...], dtype: int, periodic: int) -> Host:
    """A sum of cosines: periodic, for transforms, or symmetric, for filters."""
    (n,) = bounded("a window", [int(size.reshape(-1)[0])])
    steps = np.arange(n) * 2 * np.pi / (n if periodic else max(n - 1, 1))
    total = sum(w * (-1) ** k * np.cos(k * steps) for k, w in enumerate(weights))
    return np.asarray(total).astype(dtype_of(dtype))


@operator("HannWindow")
def hann_window(size: Host, *, output_datatype: int = 1, periodic: int = 1) -> Host:
    return _window(size, (0.5, 0.5), output_datatype, periodic)


@operator("HammingWindow")
def hamming_window(size: Host, *, output_datatype: int = 1, periodic: int = 1) -> Host:
    return _window(size, (25 / 46, 1 - 25 / 46), output_datatype, periodic)


@operator("BlackmanWindow")
def blackman_window(size: Host, *, output_datatype: int = 1, periodic: int = 1) -> Host:
    return _window(size, (0.42, 0.5, 0.08), output_datatype, periodic)


@operator("MelWeightMatrix")
def mel_weight_matrix(
    bins: Host, length: Host, rate: Host, low: Host, high: Host, *, output_datatype: int = 1
) -> Host:
    """Triangles over frequencies whose corners are evenly spread on the mel scale."""
    count, size = int(bins.reshape(-1)[0]), int(length.reshape(-1)[0])
    hertz = float(rate.reshape(-1)[0])
    ends = 2595 * np.log10(
        1 + np.asarray([float(low.reshape(-1)[0]), float(high.reshape(-1)[0])]) / 700
    )
    mels = np.arange(count + 2) * ((ends[1] - ends[0]) / (count + 2)) + ends[0]
    corners = 700 * (np.power(10.0, mels / 2595) - 1)
    places = ((size + 1) * corners // hertz).astype(np.int64)
    weights = np.zeros((size // 2 + 1, count))
    for i in range(count):
        start, middle, stop = places[i : i + 3].tolist()
        if middle == start:
            weights[middle, i] = 1
        else:
            up = np.arange(start, middle + 1)
            weights[up, i] = (up - start) / (middle - start)
        if stop > middle:
            down = np.arange(middle, stop)
            weights[down, i] = (stop - down) / (stop - middle)
    return weights.astype(dtype_of(output_datatype))
