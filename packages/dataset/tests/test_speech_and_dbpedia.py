"""Sources that are read from unpacked archives, made here in small."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from ingle.dataset import (
    DBPEDIA_CLASSES,
    DataFileError,
    Loader,
    MissingDataError,
    SampleIndexError,
    SpeechCommands,
    dbpedia,
)


def spoken(path: Path, values: np.ndarray, rate: int = 16000) -> None:
    path.parent.mkdir(exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(values.astype("<i2").tobytes())


def test_speech_commands(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    made = {}
    for word in ("yes", "no", "_background_noise_"):
        for i in range(4):
            made[f"{word}/{i}.wav"] = rng.integers(-32768, 32768, 16000 - 1000 * i)
            spoken(tmp_path / word / f"{i}.wav", made[f"{word}/{i}.wav"])
    (tmp_path / "validation_list.txt").write_text("yes/1.wav\n")
    (tmp_path / "testing_list.txt").write_text("no/3.wav\nyes/2.wav\n")
    train, valid, test = (SpeechCommands(tmp_path, s) for s in ("train", "valid", "test"))
    assert (len(train), len(valid), len(test)) == (5, 1, 2)
    assert train.classes == ("no", "yes")
    sound, label = test[0]
    assert (sound.shape, sound.dtype, label) == ((16000,), np.float32, 0)
    np.testing.assert_array_equal(sound[:13000] * 32768, made["no/3.wav"])
    assert not sound[13000:].any()
    sounds, labels = next(iter(Loader(train, 5, tensors=False)))
    assert sounds.shape == (5, 16000)
    assert labels.tolist() == [0, 0, 0, 1, 1]
    with pytest.raises(SampleIndexError, match="no sample 2; there are 2"):
        test[2]
    spoken(tmp_path / "yes" / "0.wav", np.zeros(10), rate=8000)
    with pytest.raises(DataFileError, match=r"0\.wav: 1 channels of 16 bits at 8000 Hz"):
        list(train)
    (tmp_path / "yes" / "0.wav").write_bytes(b"RIFF")
    with pytest.raises(DataFileError, match=r"0\.wav: it is no WAV file"):
        list(train)
    spoken(tmp_path / "yes" / "0.wav", np.zeros(10))
    whole = (tmp_path / "yes" / "0.wav").read_bytes()
    (tmp_path / "yes" / "0.wav").write_bytes(whole[:-1])
    with pytest.raises(DataFileError, match=r"0\.wav: truncated: 9 samples of 10"):
        list(train)
    (tmp_path / "yes" / "0.wav").unlink()
    (tmp_path / "yes" / "0.wav").mkdir()
    with pytest.raises(DataFileError, match=r"0\.wav: it cannot be read: Is a directory"):
        list(train)
    (tmp_path / "yes" / "0.wav").rmdir()
    (tmp_path / "testing_list.txt").write_bytes(b"\xff")
    with pytest.raises(DataFileError, match=r"testing_list\.txt: the bytes ff"):
        SpeechCommands(tmp_path)
    (tmp_path / "testing_list.txt").unlink()
    with pytest.raises(MissingDataError, match=r"no testing_list\.txt"):
        SpeechCommands(tmp_path)
    with pytest.raises(MissingDataError, match="no folders of words"):
        SpeechCommands(tmp_path / "yes")


def test_dbpedia(tmp_path: Path) -> None:
    lines = [f'{i % 14 + 1},"Title {i}"," About ""{i}""."' for i in range(280)]
    (tmp_path / "train.csv").write_text("\n".join(lines))
    (tmp_path / "test.csv").write_text("\n".join(lines[:14]))
    assert dbpedia(tmp_path, "test")[3] == ('Title 3 About "3".', 3)
    train, valid = dbpedia(tmp_path), dbpedia(tmp_path, "valid")
    assert (len(train), len(valid), len(DBPEDIA_CLASSES)) == (266, 14, 14)
    assert sorted(label for _, label in valid) == list(range(14))
    (tmp_path / "test.csv").write_text('15,"a","b"\n')
    with pytest.raises(DataFileError, match=r"test\.csv: line 1, row 0: column 'label'"):
        dbpedia(tmp_path, "test")
    with pytest.raises(MissingDataError, match=r"has no train\.csv; unpack"):
        dbpedia(tmp_path / "nowhere")
