"""Speech Commands: words of one second (Warden, 2018, arXiv:1804.03209)."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np

from .base import IndexedDataset
from .errors import DataFileError, MissingDataError, SampleIndexError
from .mnist_source import Split, check_split
from .text_source import read_text

RATE = 16000
"""Samples a second."""


class SpeechCommands(IndexedDataset[Any]):
    """Speech Commands, as pairs of a sound and a label.

    A sound is float32 of shape (16000,), one second at 16 kHz in [-1, 1]; shorter ones end in
    silence. Files that `validation_list.txt` and `testing_list.txt` name are for these splits, all
    others for training; folders that begin with an underscore are left out. Files are read when
    they are asked for. There is no download: unpack the archive yourself.

    Args:
        folder: of the unpacked archive, with a folder for each word.
        split: "train", "valid" or "test".

    Attributes:
        classes: the words, which the labels number.

    Raises:
        MissingDataError: the folder has no words, or one of the lists is missing.
        DataFileError: a file is truncated, or no mono sound of 16 bits at 16 kHz.

    >>> from ingle.dataset import SpeechCommands
    >>> words = SpeechCommands("speech_commands_v0.02", "test")  # doctest: +SKIP
    >>> sound, label = words[0]  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path, split: Split = "train") -> None:
        check_split("SpeechCommands", split)
        self.folder, self._part = Path(folder).expanduser(), split
        words = [p for p in sorted(self.folder.glob("*")) if p.is_dir() and p.name[0] != "_"]
        self.classes = tuple(p.name for p in words)
        if not words:
            raise MissingDataError(
                f"SpeechCommands: {self.folder} has no folders of words; unpack the archive there"
            )
        named = {which: self._listed(which) for which in ("validation", "testing")}
        wanted = {"valid": named["validation"], "test": named["testing"]}.get(split)
        others = named["validation"] | named["testing"]
        self._files = [
            (f"{word.name}/{file.name}", label)
            for label, word in enumerate(words)
            for file in sorted(word.glob("*.wav"))
            if (f"{word.name}/{file.name}" in wanted if wanted is not None
                else f"{word.name}/{file.name}" not in others)
        ]  # fmt: skip

    def _listed(self, which: str) -> set[str]:
        path = self.folder / f"{which}_list.txt"
        if not path.is_file():
            raise MissingDataError(f"SpeechCommands: {self.folder} has no {path.name}")
        return set(read_text(path, "utf-8").split())

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int, /) -> tuple[Any, int]:
        if not -len(self) <= index < len(self):
            raise SampleIndexError(f"SpeechCommands: no sample {index}; there are {len(self)}")
        name, label = self._files[index]
        return read_sound(self.folder / name), label

    def __repr__(self) -> str:
        return f"SpeechCommands({str(self.folder)!r}, {self._part!r}, {len(self)} sounds)"


def read_sound(path: Path) -> Any:
    """One second of a WAV file as float32."""
    try:
        with wave.open(str(path), "rb") as file:
            form = file.getnchannels(), file.getsampwidth() * 8, file.getframerate()
            if form != (1, 16, RATE):
                raise DataFileError(
                    f"{path}: {form[0]} channels of {form[1]} bits at {form[2]} Hz; expected one "
                    f"of 16 bits at {RATE} Hz"
                )
            count = file.getnframes()
            frames = file.readframes(RATE)
    except FileNotFoundError:
        raise MissingDataError(f"{path}: there is no such file") from None
    except (wave.Error, EOFError) as error:
        raise DataFileError(f"{path}: it is no WAV file, or truncated: {error}") from None
    except OSError as error:
        raise DataFileError(f"{path}: it cannot be read: {error.strerror or error}") from error
    data = np.frombuffer(frames, "<i2", len(frames) // 2)  # half a sample may be left of one
    if len(data) < min(count, RATE):
        raise DataFileError(f"{path}: truncated: {len(data)} samples of {count}")
    sound = np.zeros(RATE, np.float32)
    sound[: len(data)] = data / np.float32(32768)
    return sound
