"""Whisper beside transformers: bands, scores, gradients, tokens with and without timestamps."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import whisper
from models.hearing import RATE, WINDOW, log_mel, mel_filters, read_wav
from models.transcribing import Rules, Signs, Transcriber, clock, main
from models.whisper import Whisper
from tokenizers import AddedToken, Tokenizer

import ingle.tensor as it
from ingle.importer import ModelError, WeightsError
from ingle.tensor.errors import ArgumentError

WORDS = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>",
         "<|transcribe|>", "<|nospeech|>", "<|notimestamps|>"]  # fmt: skip
TEXT = 300
"""Tokens of text; the signs are behind them."""
SIGNS = Signs(
    301, 300, 307, {"en": 302, "de": 303}, {"translate": 304, "transcribe": 305}, (7, 8), (9, 300)
)  # fmt: skip


def sound(seconds: float, seed: int = 0) -> np.ndarray:
    """Noise that swells, with a tone in it."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * RATE)) / RATE
    x = rng.normal(size=t.shape) * 0.05 * (1 + np.sin(3 * t)) + 0.3 * np.sin(
        2000 * t * (1 + 0.1 * t)
    )
    return x.astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("bands", [80, 128])
def test_bands_of_sounds(hf: Any, bands: int) -> None:
    extractor = hf.WhisperFeatureExtractor(feature_size=bands)
    np.testing.assert_allclose(mel_filters(bands), extractor.mel_filters.T, atol=1e-12)
    x = sound(3.3)
    want = extractor(x, sampling_rate=RATE, return_tensors="np").input_features
    got = log_mel(it.asarray(np.pad(x, (0, WINDOW - len(x)))[None]), bands)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-4)


@pytest.fixture
def whispering(hf: Any, saved: Any, tokenizer: Tokenizer) -> Any:
    """A folder with a small model, and the model of transformers."""
    config = hf.WhisperConfig(
        vocab_size=TEXT + len(WORDS) + 1501, num_mel_bins=80, d_model=32, encoder_layers=2,
        decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=2,
        encoder_ffn_dim=48, decoder_ffn_dim=64, max_target_positions=64, init_std=0.6, dropout=0.0,
        eos_token_id=300, decoder_start_token_id=301, pad_token_id=300, bos_token_id=300,
    )  # fmt: skip
    theirs = hf.WhisperForConditionalGeneration(config).eval()
    settings = theirs.generation_config
    for name, value in {
        "is_multilingual": True, "no_timestamps_token_id": 307, "suppress_tokens": [7, 8],
        "begin_suppress_tokens": [9, 300], "lang_to_id": {"<|en|>": 302, "<|de|>": 303},
        "task_to_id": {"transcribe": 305, "translate": 304}, "max_initial_timestamp_index": 50,
        "return_timestamps": False, "prev_sot_token_id": 306, "alignment_heads": [[0, 0]],
    }.items():  # fmt: skip
        setattr(settings, name, value)
    folder = saved(theirs)
    full = Tokenizer.from_str(tokenizer.to_str())
    full.add_special_tokens([AddedToken(w, special=True) for w in WORDS])
    assert full.token_to_id("<|endoftext|>") == TEXT
    full.save(str(folder / "tokenizer.json"))
    return folder, theirs


@pytest.mark.slow
def test_scores_and_gradients(whispering: Any, agree: Any) -> None:
    import torch

    folder, theirs = whispering
    ours = Whisper.from_pretrained(folder)
    rng = np.random.default_rng(0)
    bands = rng.normal(size=(2, 80, 3000)).astype(np.float32)
    tokens = rng.integers(0, 300, (2, 7))
    want = theirs(input_features=torch.tensor(bands), decoder_input_ids=torch.tensor(tokens)).logits
    agree(ours, theirs, ours(it.asarray(bands), it.asarray(tokens)), want, 2e-4)


def generated(hf: Any, theirs: Any, bands: Any, prompt: list[int], timestamps: bool) -> list[int]:
    """What transformers writes in one window, by its own rules."""
    import torch
    from transformers.generation.logits_process import (
        LogitsProcessorList,
        SuppressTokensAtBeginLogitsProcessor,
        SuppressTokensLogitsProcessor,
        WhisperTimeStampLogitsProcessor,
    )

    settings = theirs.generation_config
    rules = [
        SuppressTokensAtBeginLogitsProcessor([9, 300], len(prompt)),
        SuppressTokensLogitsProcessor([7, 8]),
    ]
    if timestamps:
        rules.append(WhisperTimeStampLogitsProcessor(settings, begin_index=len(prompt)))
    plain = hf.GenerationConfig(eos_token_id=300, pad_token_id=300, decoder_start_token_id=301)
    found = hf.GenerationMixin.generate(
        theirs, torch.tensor(bands), plain, decoder_input_ids=torch.tensor([prompt]),
        max_new_tokens=20, do_sample=False, logits_processor=LogitsProcessorList(rules),
    )  # fmt: skip
    row: list[int] = found[0].tolist()[len(prompt) :]
    return row[: row.index(300)] if 300 in row else row


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_tokens_are_those_of_transformers(hf: Any, whispering: Any) -> None:
    import torch

    folder, theirs = whispering
    ours = Transcriber.from_pretrained(folder)
    assert ours.signs == SIGNS
    extractor = hf.WhisperFeatureExtractor()
    for seed in range(2):
        x = sound(5, seed)
        bands = extractor(x, sampling_rate=RATE, return_tensors="np").input_features
        heard = ours.heard(x)
        language = theirs.detect_language(torch.tensor(bands))[0]
        assert ours.language(heard) == {302: "en", 303: "de"}[int(language)]
        for timestamps in (False, True):
            prompt = ours.prompt(heard, "de", "transcribe") + [307] * (not timestamps)
            want = generated(hf, theirs, bands, prompt, timestamps)
            assert len(set(want)) > 3
            assert ours.written(heard, prompt, timestamps, 0, 20) == want


@pytest.mark.slow
def test_the_command(whispering: Any, tmp_path: Path, capsys: Any) -> None:
    folder, _ = whispering
    path = tmp_path / "speech.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(RATE)
        levels = (np.repeat(sound(33)[:, None], 2, 1) * 32000).astype("<i2")
        file.writeframes(levels.tobytes())
    np.testing.assert_allclose(read_wav(path), levels[:, 0] / 32768, atol=1e-6)
    arguments = ["--weights", str(folder), "--max-new-tokens", "6", str(path), "--language", "en"]
    (text,) = main(whisper.__doc__, arguments)
    assert capsys.readouterr().out == text + "\n"
    lines = main(whisper.__doc__, [*arguments, "--timestamps"])
    assert lines[0].startswith("[00:00:")
    assert "".join(line.partition("]")[2] for line in lines).strip() == text
    with pytest.raises(ArgumentError, match="'fr' is none of de, en"):
        main(whisper.__doc__, [*arguments[:-1], "fr"])


def test_timestamps_come_in_pairs_and_late() -> None:
    rules = Rules(SIGNS, True)
    zero = SIGNS.zero
    scores = np.zeros(zero + 100)
    first = rules.allowed(scores)
    assert np.isinf(first[:zero]).all()
    assert np.isinf(first[zero + 51 :]).all()
    scores[:zero] = 20
    rules.written = [zero + 10]
    assert np.isinf(rules.allowed(scores)[zero:]).all()  # text after a beginning
    rules.written = [zero + 10, 5, zero + 20]
    after = rules.allowed(scores)
    assert np.isinf(after[: SIGNS.end]).all()
    assert np.isfinite(after[SIGNS.end])
    assert np.isinf(after[zero : zero + 20]).all()
    assert np.isfinite(after[zero + 20])
    rules.written = [zero + 10, 5]
    assert np.isinf(rules.allowed(scores)[zero : zero + 11]).all()
    assert np.isinf(rules.allowed(scores)[[7, 8, 307]]).all()


def test_windows_are_cut_where_sentences_end() -> None:
    made = Transcriber.__new__(Transcriber)
    made.signs = SIGNS
    made._text = lambda tokens: "-".join(map(str, tokens))  # type: ignore[method-assign]
    zero = SIGNS.zero

    def cut(*tokens: int) -> Any:
        segments, done = made._timed(tokens, 60.0, 30.0)
        return [(s.start, s.end, s.text) for s in segments], done

    pair = [(60.0, 61.0, "1-2")]
    assert cut(zero, 1, 2, zero + 50, zero + 50, 3) == (pair, 100)
    assert cut(zero, 1, 2, zero + 50) == (pair, 0)
    assert cut(zero, 1, zero + 50, zero + 60, 2, zero + 70) == (
        [(60.0, 61.0, "1"), (61.2, 61.4, "2")], 0,
    )  # fmt: skip
    assert cut(1, 2) == ([(60.0, 90.0, "1-2")], 0)
    assert cut() == ([], 0)
    assert clock(3725.5) == "01:02:05.500"


@pytest.mark.parametrize(("width", "rate"), [(1, RATE), (3, RATE), (4, RATE), (2, 8000)])
def test_wav_files(tmp_path: Path, width: int, rate: int) -> None:
    path = tmp_path / "x.wav"
    x = np.sin(np.arange(800) / 9) * 0.5
    numbers = np.round(x * (1 << (8 * width - 1))).astype(np.int64)
    data = (numbers + 128).astype(np.uint8).tobytes() if width == 1 else b"".join(
        int(n).to_bytes(width, "little", signed=True) for n in numbers
    )  # fmt: skip
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)
    found = read_wav(path)
    if rate == RATE:
        np.testing.assert_allclose(found, x, atol=2 ** (1 - 8 * width) + 1e-6)
    else:
        assert found.shape == (1600,)
        np.testing.assert_allclose(found[200:1400:2], x[100:700], atol=0.01)


def test_what_cannot_be_heard_is_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(b"RIFF nothing")
    with pytest.raises(ModelError, match=r"x\.wav.*ffmpeg"):
        read_wav(path)
    with pytest.raises(WeightsError, match="startoftranscript"):
        Signs.of(tokenizer, {})
