"""From sounds to text by Whisper: languages, timestamps, any length; and the command."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tokenizers import Tokenizer

import ingle.tensor as it
from ingle import importer
from ingle.autodiff import no_grad
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError

from .generation import Steps
from .hearing import HOP, RATE, WINDOW, log_mel, read_wav
from .whisper import Listening, Whisper
from .writing import load_tokenizer

TASKS: tuple[str, ...] = ("transcribe", "translate")
SECONDS = 0.02
"""From one timestamp to the next."""


@dataclass(frozen=True, slots=True)
class Segment:
    """What is said between two times, in seconds.

    Attributes:
        start, end: of the text.
        text: what is said.
        tokens: numbers of the tokens of the text.
    """

    start: float
    end: float
    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signs:
    """Tokens that are no text, by number.

    Attributes:
        start: the first of every transcript.
        end: the last.
        silent: the one that says that there are no timestamps.
        languages, tasks: by name: `en`, `transcribe`.
        never, never_first: what is not to be written, at all or as the first token.
        latest_first: the latest timestamp that may be the first, in steps of 20 ms.
    """

    start: int
    end: int
    silent: int
    languages: Mapping[str, int]
    tasks: Mapping[str, int]
    never: tuple[int, ...] = ()
    never_first: tuple[int, ...] = ()
    latest_first: int | None = 50

    @property
    def zero(self) -> int:
        """The timestamp of 0 seconds; the later ones are behind it."""
        return self.silent + 1

    @classmethod
    def of(cls, tokenizer: Tokenizer, settings: Mapping[str, Any]) -> Signs:
        """Those of a tokenizer and a `generation_config.json`."""
        start, end, silent = (
            _number(tokenizer, f"<|{name}|>")
            for name in ("startoftranscript", "endoftext", "notimestamps")
        )
        words = {n: i for n, i in tokenizer.get_vocab().items() if re.fullmatch(r"<\|\w+\|>", n)}
        languages = settings.get("lang_to_id") or {
            n: i for n, i in words.items() if re.fullmatch(r"<\|[a-z]{2,3}\|>", n)
        }
        languages = {n[2:-2]: i for n, i in languages.items()}
        tasks = {t: words[f"<|{t}|>"] for t in TASKS if f"<|{t}|>" in words}
        if not settings.get("is_multilingual", bool(languages)):
            tasks, languages = {}, {}
        return cls(
            start, end, silent, languages, tasks, tuple(settings.get("suppress_tokens") or ()),
            tuple(settings.get("begin_suppress_tokens") or ()),
            settings.get("max_initial_timestamp_index", 50),
        )  # fmt: skip


def _number(tokenizer: Tokenizer, token: str) -> int:
    number: int | None = tokenizer.token_to_id(token)
    if number is None:
        raise importer.WeightsError(f"the tokenizer has no {token}: it is not Whisper's")
    return number


@dataclass
class Rules:
    """Which tokens may come next in one window, by the tokens before.

    Attributes:
        signs: of the tokenizer.
        timestamps: whether they are to be written: in pairs, ever later, and where they are
            likelier together than any other token.
        written: the tokens so far, without the prompt.
    """

    signs: Signs
    timestamps: bool
    written: list[int] = field(default_factory=list)

    def allowed(self, scores: np.ndarray) -> np.ndarray:
        """The scores (vocabulary,), -inf for what may not come."""
        found = scores.copy()
        found[list(self.signs.never)] = -np.inf
        if not self.written:
            found[list(self.signs.never_first)] = -np.inf
        if self.timestamps:
            self._timed(found)
        return found

    def _timed(self, found: np.ndarray) -> None:
        signs, zero = self.signs, self.signs.zero
        found[signs.silent] = -np.inf
        last = [t >= zero for t in self.written[-2:]]
        times = [t for t in self.written if t >= zero]
        if last and last[-1]:
            if all(last):  # a pair is complete, or the first: text
                found[zero:] = -np.inf
            else:  # the second of a pair, or the end
                found[: signs.end] = -np.inf
        if times:
            pending = last[-1] and not all(last)
            found[zero : times[-1] + (not pending)] = -np.inf
        if not self.written:
            found[:zero] = -np.inf
            if signs.latest_first is not None:
                found[zero + signs.latest_first + 1 :] = -np.inf
        logs = found - np.logaddexp.reduce(found)
        if np.logaddexp.reduce(logs[zero:]) > logs[:zero].max():
            found[:zero] = -np.inf


class Transcriber:
    """Writes down what is said.

    Args:
        model: in evaluation.
        tokenizer: of the tokenizers library.
        signs: tokens that are no text; looked up in the tokenizer if not given.
    """

    def __init__(self, model: Whisper, tokenizer: Tokenizer, signs: Signs | None = None) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.signs = signs or Signs.of(tokenizer, {})

    @classmethod
    def from_pretrained(cls, source: str | os.PathLike[str], **options: Any) -> Transcriber:
        """The model, the tokenizer and the settings of a folder or URL."""
        folder = importer.fetch_pretrained(
            source, checksums=options.pop("checksums", None), progress=options.pop("progress", True)
        )
        name = "generation_config.json"
        settings = importer.read_config(folder, name) if (folder / name).is_file() else {}
        tokenizer = load_tokenizer(folder)
        model = Whisper.from_pretrained(folder, **options).eval()
        return cls(model, tokenizer, Signs.of(tokenizer, settings))

    def heard(self, sound: np.ndarray) -> Tensor:
        """The mel bands of a sound (samples,), with thirty seconds of silence behind it."""
        place = self.model.proj_out.weight.raw
        samples = np.pad(sound, (0, WINDOW)).astype(np.float32)
        bands = log_mel(it.asarray(samples[None], device=place.device), self.model.bands)
        return bands.astype(place.dtype)

    def language(self, bands: Tensor) -> str:
        """The likeliest language of the first thirty seconds of what is `heard`."""
        languages = self.signs.languages
        if not languages:
            raise ArgumentError("language: the model knows only one")
        with no_grad():
            scores = Steps(self._listening(bands, 0), [[self.signs.start]], 0).scores[0]
        return max(languages, key=lambda name: scores[languages[name]])

    def segments(
        self, sound: np.ndarray, language: str | None = None, task: str = "transcribe",
        max_new_tokens: int | None = None,
    ) -> Iterator[Segment]:  # fmt: skip
        """What is said with its times, as it is found; thirty seconds are heard at a time.

        Each window begins where the last complete sentence of the one before has ended, as in
        section 3.8 of the paper; what is silent or uncertain is not tried again.

        Args:
            sound: (samples,) at 16 kHz.
            language: such as `en`; the likeliest if not given.
            task: `transcribe`, or `translate` into English.
            max_new_tokens: of a window; half of what the model can read if not given.

        Raises:
            ArgumentError: a language or task that the model does not know.
        """
        bands = self.heard(sound)
        prompt = self.prompt(bands, language, task)
        frame, frames = 0, len(sound) // HOP
        while frame < frames:
            length = min(frames - frame, WINDOW // HOP)
            tokens = self.written(bands, prompt, True, frame, max_new_tokens)
            found, done = self._timed(tokens, frame * HOP / RATE, length * HOP / RATE)
            yield from found
            frame += min(done, length) or length

    def __call__(
        self, sound: np.ndarray, language: str | None = None, task: str = "transcribe",
        max_new_tokens: int | None = None,
    ) -> str:  # fmt: skip
        """All that is said, see `segments`; without timestamps if thirty seconds are enough."""
        if len(sound) > WINDOW:
            pieces = self.segments(sound, language, task, max_new_tokens)
            return "".join(s.text for s in pieces).strip()
        bands = self.heard(sound)
        prompt = [*self.prompt(bands, language, task), self.signs.silent]
        return self._text(self.written(bands, prompt, False, 0, max_new_tokens)).strip()

    def prompt(self, bands: Tensor, language: str | None, task: str) -> list[int]:
        """The tokens that a transcript begins with."""
        signs = self.signs
        if not signs.languages:
            if language not in (None, "en") or task != "transcribe":
                raise ArgumentError(f"transcribe: the model knows English only, not {language}")
            return [signs.start]
        language = language or self.language(bands)
        for name, table in ((language, signs.languages), (task, signs.tasks)):
            if name not in table:
                raise ArgumentError(f"transcribe: {name!r} is none of {', '.join(sorted(table))}")
        return [signs.start, signs.languages[language], signs.tasks[task]]

    def written(
        self, bands: Tensor, prompt: Sequence[int], timestamps: bool, frame: int = 0,
        max_new_tokens: int | None = None,
    ) -> list[int]:  # fmt: skip
        """The tokens of the window at a frame, the likeliest each time, without the end."""
        room = self.model.max_length // 2 if max_new_tokens is None else max_new_tokens
        room = min(room, self.model.max_length - len(prompt))
        rules = Rules(self.signs, timestamps)
        with no_grad():
            steps = Steps(self._listening(bands, frame), [list(prompt)], room)
            scores = steps.scores
            for left in range(room - 1, -1, -1):
                token = int(rules.allowed(scores[0]).argmax())
                if token == self.signs.end:
                    break
                rules.written.append(token)
                if left:
                    scores = steps.after(np.array([token]))
        return rules.written

    def _listening(self, bands: Tensor, frame: int) -> Listening:
        length = 2 * self.model.model.encoder.embed_positions.weight.shape[0]
        return Listening(self.model, bands[..., frame : frame + length])

    def _text(self, tokens: Sequence[int]) -> str:
        text: str = self.tokenizer.decode([t for t in tokens if t < self.signs.end])
        return text

    def _timed(
        self, tokens: Sequence[int], offset: float, length: float
    ) -> tuple[list[Segment], int]:
        """The segments of a window, and how many frames of it they are; 0 for all of it."""
        zero = self.signs.zero
        stamps = [t >= zero for t in tokens]
        cuts = [i for i in range(1, len(tokens)) if stamps[i] and stamps[i - 1]]
        ended = stamps[-2:] == [False, True]
        if not cuts:
            times = [t - zero for t in tokens if t > zero]
            end = times[-1] * SECONDS if times else length
            return [self._segment(tokens, offset, offset + end)] if tokens else [], 0
        found, begin = [], 0
        for cut in [*cuts, *[len(tokens)] * ended]:
            part = tokens[begin:cut]
            first, last = (offset + (part[i] - zero) * SECONDS for i in (0, -1))
            found.append(self._segment(part, first, last))
            begin = cut
        done = 0 if ended else round((tokens[begin - 1] - zero) * SECONDS * RATE) // HOP
        return [s for s in found if s.tokens], done

    def _segment(self, words: Sequence[int], start: float, end: float) -> Segment:
        text = tuple(t for t in words if t < self.signs.end)
        return Segment(round(start, 2), round(end, 2), self._text(text), text)


def clock(seconds: float) -> str:
    """A time as `00:01:02.500`."""
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}.{thousandths:03}"


def main(doc: str | None, argv: Sequence[str] | None = None) -> list[str]:
    """The command: prints what is said in each file, and returns it."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sounds", nargs="+", metavar="WAV")
    parser.add_argument("--weights", required=True, help="a folder, or the URL of one")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--dtype", default="float32", help="what the weights are computed in")
    parser.add_argument("--language", help="such as en; the likeliest if not given")
    parser.add_argument("--task", default="transcribe", choices=TASKS)
    parser.add_argument("--timestamps", action="store_true", help="a line for each piece")
    parser.add_argument("--max-new-tokens", type=int, help="for each half minute")
    given = parser.parse_args(argv)
    found = []
    with it.device(given.device or it.default_device()):
        writer = Transcriber.from_pretrained(given.weights, dtype=given.dtype)
        for path in given.sounds:
            options = read_wav(path), given.language, given.task, given.max_new_tokens
            lines = (
                (
                    f"[{clock(s.start)} --> {clock(s.end)}]{s.text}"
                    for s in writer.segments(*options)
                )
                if given.timestamps
                else iter([writer(*options)])
            )
            for line in lines:
                print(line, flush=True)
                found.append(line)
    return found
