"""Sounds: other rates, spectrograms on the mel scale, noise, and masks of time and frequency."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.random import Generator

from .base import Augmentation, draw


def _sounds(name: str, x: Any, least: int = 1) -> Tensor:
    if not isinstance(x, Tensor) or not x.dtype.is_floating or x.ndim < least:
        got = f"{x.dtype}{list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        wanted = "(..., time)" if least == 1 else "(..., frequencies, time)"
        raise ShapeError(f"{name}: expected floats of shape {wanted}, got {got}")
    return x


def _positive(name: str, **values: float) -> None:
    for argument, value in values.items():
        if not value > 0:
            raise ArgumentError(f"{name}: {argument} must be above 0, got {value}")


class Resample(Augmentation):
    """Sounds at another rate, (..., time) to (..., ceil(time * new / old)).

    Band-limited interpolation by a windowed sinc; Smith: Digital audio resampling (1984).

    Args:
        orig_freq, new_freq: rates in Hz.
        zeros: how many zero crossings of the sinc there are at each side.
        rolloff: what share of the lower rate's half is kept.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import Resample
    >>> Resample(16000, 8000)(it.ones((2, 1000))).shape
    (2, 500)
    """

    def __init__(
        self, orig_freq: int, new_freq: int, zeros: int = 16, rolloff: float = 0.95
    ) -> None:
        _positive("Resample", orig_freq=orig_freq, new_freq=new_freq, zeros=zeros, rolloff=rolloff)
        common = math.gcd(int(orig_freq), int(new_freq))
        self.orig_freq, self.new_freq = int(orig_freq) // common, int(new_freq) // common
        self.zeros, self.rolloff = int(zeros), float(rolloff)

    def _kernel(self) -> tuple[np.ndarray, int]:
        """A filter for each of the `new_freq` places between samples, and its reach."""
        old, new = self.orig_freq, self.new_freq
        base = min(old, new) * self.rolloff
        reach = math.ceil(self.zeros * old / base)
        places = np.arange(-reach, reach + old)[None, :] / old
        times = np.clip((places - np.arange(new)[:, None] / new) * base, -self.zeros, self.zeros)
        window = np.cos(times * np.pi / self.zeros / 2.0) ** 2
        return np.sinc(times) * window * base / old, reach

    def __call__(self, x: Any, generator: Generator | None = None) -> Tensor:
        x = _sounds("Resample", x)
        if self.orig_freq == self.new_freq:
            out: Tensor = x
            return out
        kernel, reach = self._kernel()
        *lead, length = x.shape
        flat = it.reshape(x, (math.prod(lead), 1, length))
        padded = it.pad(flat, ((0, 0), (0, 0), (reach, reach + self.orig_freq)))
        weight = it.asarray(kernel[:, None, :], device=x.device).astype(x.dtype)
        found = it.conv1d(padded, weight, stride=self.orig_freq)
        flat = it.reshape(it.swapaxes(found, 1, 2), (math.prod(lead), -1))
        count = math.ceil(self.new_freq * length / self.orig_freq)
        return it.reshape(flat[:, :count], (*lead, count))


def mel_filters(
    n_mels: int, n_fft: int, sample_rate: int, f_min: float = 0.0, f_max: float | None = None
) -> np.ndarray:
    """Triangular filters, (n_mels, n_fft // 2 + 1), evenly apart on the mel scale.

    By 2595 log10(1 + f / 700) (O'Shaughnessy, 1987), as HTK has it; each filter's peak is 1.

    Args:
        n_mels: how many filters.
        n_fft: the length of the transform.
        sample_rate: in Hz.
        f_min, f_max: where the first begins and the last ends, in Hz; half the rate if not given.

    Raises:
        ArgumentError: `f_min` is not from 0 to below `f_max`.

    >>> from ingle.dataset.augment import mel_filters
    >>> mel_filters(40, 512, 16000).shape
    (40, 257)
    """
    _positive("mel_filters", n_mels=n_mels, n_fft=n_fft, sample_rate=sample_rate)
    top = sample_rate / 2.0 if f_max is None else float(f_max)
    if not 0.0 <= f_min < top:
        raise ArgumentError(f"mel_filters: f_min={f_min} must be from 0 to below f_max={top}")
    ends = 2595.0 * np.log10(1.0 + np.asarray([f_min, top]) / 700.0)
    edges = 700.0 * (10.0 ** (np.linspace(ends[0], ends[1], n_mels + 2) / 2595.0) - 1.0)
    bins = np.linspace(0.0, sample_rate / 2.0, n_fft // 2 + 1)
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    filters: np.ndarray = np.maximum(0.0, np.minimum(rising, falling))
    return filters


class MelSpectrogram(Augmentation):
    """The power of sounds in bands of the mel scale: (..., time) to (..., n_mels, frames).

    Args:
        sample_rate: in Hz.
        n_fft: the length of a frame.
        hop_length: from frame to frame; n_fft // 2 if not given.
        n_mels: how many bands.
        f_min, f_max: see `mel_filters`.
        power: of the absolute values: 2 for power, 1 for magnitude.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import MelSpectrogram
    >>> MelSpectrogram(16000, n_mels=40)(it.ones((2, 16000))).shape
    (2, 40, 81)
    """

    def __init__(
        self, sample_rate: int = 16000, n_fft: int = 400, hop_length: int | None = None,
        n_mels: int = 128, f_min: float = 0.0, f_max: float | None = None, power: float = 2.0,
    ) -> None:  # fmt: skip
        self.sample_rate, self.n_fft, self.n_mels = int(sample_rate), int(n_fft), int(n_mels)
        self.hop_length = self.n_fft // 2 if hop_length is None else int(hop_length)
        _positive(type(self).__name__, hop_length=self.hop_length, power=power)
        self.f_min, self.f_max, self.power = f_min, f_max, float(power)
        self._filters = mel_filters(self.n_mels, self.n_fft, self.sample_rate, f_min, f_max)

    def __call__(self, x: Any, generator: Generator | None = None) -> Tensor:
        x = _sounds(type(self).__name__, x)
        window = it.hann_window(self.n_fft, dtype=x.dtype, device=x.device)
        spectrum = it.abs(it.stft(x, self.n_fft, hop_length=self.hop_length, window=window))
        weight = it.asarray(self._filters, device=x.device).astype(x.dtype)
        return weight @ (it.square(spectrum) if self.power == 2.0 else spectrum**self.power)


class LogMelSpectrogram(MelSpectrogram):
    """The natural logarithm of a `MelSpectrogram`, of which nothing is below 1e-10.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import LogMelSpectrogram
    >>> LogMelSpectrogram(16000, n_mels=64)(it.ones((2, 16000))).shape
    (2, 64, 81)
    """

    def __call__(self, x: Any, generator: Generator | None = None) -> Tensor:
        return it.log(it.maximum(super().__call__(x, generator), 1e-10))


class AddNoise(Augmentation):
    """Adds white noise to each sound, (N, ..., time), at a ratio drawn between two.

    Args:
        snr: signal to noise in dB, from and to.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import AddNoise
    >>> sound = it.ones((4, 16000))
    >>> noise = AddNoise(snr=(20.0, 20.0))(sound) - sound
    >>> round(noise.std().item(), 1)
    0.1
    """

    def __init__(self, snr: tuple[float, float] = (10.0, 30.0)) -> None:
        self.snr = float(snr[0]), float(snr[1])

    def __call__(self, x: Any, generator: Generator | None = None) -> Tensor:
        x = _sounds("AddNoise", x, 2 if isinstance(x, Tensor) and x.ndim > 1 else 1)
        ratio = it.exp(draw(x, *self.snr, generator) * (math.log(10.0) / 10.0))
        power = it.mean(it.square(x), axis=-1, keepdims=True)
        noise = it.random.normal(x.shape, dtype=x.dtype, device=x.device, generator=generator)
        out: Tensor = x + noise * it.sqrt(power / ratio)
        return out


class TimeMasking(Augmentation):
    """Fills a run of frames of each spectrogram, (N, ..., frequencies, time); Park et al.:
    SpecAugment (Interspeech 2019).

    Args:
        most: the longest run.
        value: what it is filled with.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import TimeMasking
    >>> masked = TimeMasking(8)(it.ones((4, 64, 100)))
    >>> bool(((masked == 0.0).sum(axis=-1) <= 8).all())
    True
    """

    _axis = -1

    def __init__(self, most: int, value: float = 0.0) -> None:
        if most < 0:
            raise ArgumentError(f"{type(self).__name__}: most must not be negative, got {most}")
        self.most, self.value = int(most), float(value)

    def __call__(self, x: Any, generator: Generator | None = None) -> Tensor:
        x = _sounds(type(self).__name__, x, 2)
        axis, count = x.ndim + self._axis, x.shape[self._axis]
        length = it.floor(draw(x, 0.0, min(self.most, count) + 1.0, generator))
        start = it.floor(draw(x, 0.0, 1.0, generator) * (count - length + 1.0))
        shape = tuple(count if i == axis else 1 for i in range(x.ndim))
        places = it.reshape(it.arange(count, dtype=x.dtype, device=x.device), shape)
        return it.where((places >= start) & (places < start + length), self.value, x)


class FrequencyMasking(TimeMasking):
    """Fills a run of bands of each spectrogram; see `TimeMasking`.

    >>> import ingle.tensor as it
    >>> from ingle.dataset.augment import FrequencyMasking
    >>> FrequencyMasking(8)(it.ones((4, 64, 100))).shape
    (4, 64, 100)
    """

    _axis = -2
