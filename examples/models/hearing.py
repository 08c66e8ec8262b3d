"""Sounds for Whisper: reading WAV files, and the logarithm of their power in mel bands.

Radford et al.: Robust speech recognition via large-scale weak supervision (2022), section 2.2. The
mel scale is that of Slaney: Auditory toolbox (1998), linear below 1 kHz.
"""

from __future__ import annotations

import os
import wave

import numpy as np

import ingle.tensor as it
from ingle.dataset.augment import Resample
from ingle.importer import ModelError
from ingle.tensor import Tensor

RATE = 16_000
"""Samples a second."""
HOP = 160
"""Samples from frame to frame: a hundred frames a second."""
FRAME = 400
WINDOW = 30 * RATE
"""Samples that the model hears at a time."""


def read_wav(path: str | os.PathLike[str]) -> np.ndarray:
    """The sound of a WAV file: (samples,) in float32 at 16 kHz, its channels averaged.

    Raises:
        ModelError: it is missing or damaged, or holds something else than whole numbers.
    """
    name = os.fspath(path)
    try:
        with wave.open(name, "rb") as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            data = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise ModelError(
            f"{name}: it is no WAV file of whole numbers: {error}; convert it with "
            "ffmpeg -i IN -ar 16000 -ac 1 -c:a pcm_s16le OUT.wav"
        ) from None
    data = data[: len(data) // (width * channels) * width * channels]
    if width == 1:
        levels = np.frombuffer(data, np.uint8).astype(np.float32) - 128
    elif width == 3:  # the upper bytes of 32 bits
        parts = np.frombuffer(data, np.uint8).reshape(-1, 3)
        wide = np.pad(parts, ((0, 0), (1, 0))).view("<i4").reshape(-1)
        levels = wide.astype(np.float32) / np.float32(256)
    else:
        levels = np.frombuffer(data, f"<i{width}").astype(np.float32)
    sound = levels.reshape(-1, channels).mean(1) / np.float32(1 << (8 * width - 1))
    if rate != RATE:
        sound = Resample(rate, RATE)(it.asarray(sound)).numpy()
    return np.asarray(sound, np.float32)


def _hertz_to_mel(hertz: np.ndarray) -> np.ndarray:
    above = 15 + np.log(np.maximum(hertz, 1000) / 1000) * 27 / np.log(6.4)
    return np.where(hertz < 1000, hertz * 3 / 200, above)


def _mel_to_hertz(mel: np.ndarray) -> np.ndarray:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))


def mel_filters(bands: int) -> np.ndarray:
    """Triangles of equal area, (bands, frequencies), evenly apart on Slaney's scale to 8 kHz."""
    limits = _hertz_to_mel(np.array([0.0, RATE / 2]))
    places = _mel_to_hertz(np.linspace(limits[0], limits[1], bands + 2))
    hertz = np.arange(FRAME // 2 + 1) * (RATE / FRAME)
    slopes = (hertz - places[:, None]) / np.diff(places, append=np.inf)[:, None]
    rising, falling = slopes[:-2], 1 - slopes[1:-1]
    triangles = np.maximum(np.minimum(rising, falling), 0)
    return np.asarray(triangles * (2 / (places[2:] - places[:-2]))[:, None])


def log_mel(sounds: Tensor, bands: int) -> Tensor:
    """What Whisper's encoder takes: (batch, samples) to (batch, bands, samples // 160)."""
    window = it.hann_window(FRAME, device=sounds.device)
    spectrum = it.stft(sounds, FRAME, hop_length=HOP, window=window)[..., :-1]
    power = it.square(it.abs(spectrum))
    filters = it.asarray(mel_filters(bands).astype(np.float32), device=sounds.device)
    levels = it.log10(it.maximum(it.matmul(filters, power), 1e-10))
    # Nothing is quieter than the loudest place by more than 80 dB.
    levels = it.maximum(levels, it.max(levels, axis=(1, 2), keepdims=True) - 8.0)
    return (levels + 4.0) / 4.0
