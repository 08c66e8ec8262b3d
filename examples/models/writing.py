"""From prompts to text: a model that writes, its tokenizer, and the command of both."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

import ingle.nn as nn
import ingle.tensor as it
from ingle import importer

from .generation import Choice, Decoder, generate, stream
from .pretrained import Pretrained

UNFINISHED = "\ufffd"
"""How a tokenizer writes bytes that are not a character yet."""


class Writer:
    """Goes on with texts.

    Args:
        model: in evaluation.
        tokenizer: of the tokenizers library.
        end: tokens that end a text.
    """

    def __init__(self, model: Decoder, tokenizer: Tokenizer, end: Sequence[int] = ()) -> None:
        self.model, self.tokenizer, self.end = model, tokenizer, tuple(end)

    @classmethod
    def from_pretrained(
        cls, kind: type[Pretrained], source: str | os.PathLike[str], **options: Any
    ) -> Writer:
        """The model, the tokenizer and the end of texts of a folder or URL.

        `options` are those of `Pretrained.from_pretrained`.
        """
        folder = importer.fetch_pretrained(
            source, checksums=options.pop("checksums", None), progress=options.pop("progress", True)
        )
        model: Any = kind.from_pretrained(folder, **options)
        return cls(model, load_tokenizer(folder), ends(folder))

    def __call__(
        self, prompts: Sequence[str], choice: Choice | None = None, stop: Sequence[str] = ()
    ) -> list[str]:
        """What follows each prompt, up to the first of the `stop` strings in it."""
        choice = self._ending(choice)
        if choice.beams == 1:
            found = [""] * len(prompts)
            for pieces in self.stream(prompts, choice, stop):
                found = [a + b for a, b in zip(found, pieces, strict=True)]
            return found
        numbers = [self.numbers(p) for p in prompts]
        texts = [_Text(self.tokenizer, n, stop) for n in numbers]
        for text, tokens in zip(texts, generate(self.model, numbers, choice), strict=True):
            text.tokens += tokens
        return [text.piece(whole=True) for text in texts]

    def stream(
        self, prompts: Sequence[str], choice: Choice | None = None, stop: Sequence[str] = ()
    ) -> Iterator[list[str]]:
        """The next piece of each text as soon as it is known, "" where there is none.

        What may be the beginning of a stop string, or of a character, waits for the next token.
        """
        numbers = [self.numbers(p) for p in prompts]
        texts = [_Text(self.tokenizer, n, stop) for n in numbers]
        for tokens in stream(self.model, numbers, self._ending(choice)):
            for text, token in zip(texts, tokens, strict=True):
                if token is not None and not text.stopped:
                    text.tokens.append(token)
            yield [text.piece(whole=t is None) for text, t in zip(texts, tokens, strict=True)]
            if all(text.stopped for text in texts):
                return
        yield [text.piece(whole=True) for text in texts]

    def numbers(self, prompt: str) -> list[int]:
        """The tokens of a prompt, with those that the tokenizer puts before it."""
        found: list[int] = self.tokenizer.encode(prompt).ids
        return found

    def _ending(self, choice: Choice | None) -> Choice:
        choice = choice or Choice()
        return choice if choice.end else replace(choice, end=self.end)


class _Text:
    """A text that grows by tokens."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stop: Sequence[str]) -> None:
        self.tokenizer, self.prompt, self.stop = tokenizer, list(prompt), [s for s in stop if s]
        self.tokens: list[int] = []
        self.told, self.stopped = 0, False
        self._before = len(tokenizer.decode(self.prompt))

    def piece(self, whole: bool) -> str:
        """What is new in it and will stay; all there is if it is `whole`."""
        # The prompt is decoded with it: some tokenizers drop the space before the first word.
        text: str = self.tokenizer.decode(self.prompt + self.tokens)[self._before :]
        found = [place for s in self.stop if (place := text.find(s)) >= 0]
        if found:
            self.stopped = True
            text = text[: min(found)]
        elif not whole:
            text = text.rstrip(UNFINISHED)
            text = text[: len(text) - max((_overlap(text, s) for s in self.stop), default=0)]
        piece = text[self.told :]
        self.told = max(self.told, len(text))
        return piece


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of a text are the beginning of a stop string."""
    sizes = range(min(len(text), len(stop) - 1), 0, -1)
    return next((n for n in sizes if text.endswith(stop[:n])), 0)


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a published model.

    Raises:
        WeightsError: the folder has no `tokenizer.json`, or a damaged one.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise importer.WeightsError(
            f"{path}: there is none; the tokenizers library writes it, and transformers' "
            "AutoTokenizer makes it of older files: save_pretrained(FOLDER)"
        )
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no other kind
        raise importer.WeightsError(f"{path}: it is no tokenizer: {error}") from None


def ends(folder: Path) -> tuple[int, ...]:
    """The tokens that end a text, as `generation_config.json` or `config.json` say."""
    for name in ("generation_config.json", "config.json"):
        if (folder / name).is_file():
            found = importer.read_config(folder, name).get("eos_token_id")
            if found is not None:
                return tuple(found) if isinstance(found, list) else (int(found),)
    return ()


def main(kind: type[Pretrained], doc: str | None, argv: Sequence[str] | None = None) -> list[str]:
    """The command of a model that writes: prints what follows the prompts, and returns it."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prompts", nargs="+", metavar="PROMPT")
    parser.add_argument("--weights", required=True, help="a folder, or the URL of one")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--dtype", default="float32", help="what the weights are computed in")
    parser.add_argument("--quantize", choices=["int8", "int4"], help="keep matrices as codes")
    parser.add_argument("--max-new-tokens", type=int, default=50)
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest")
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--top-p", type=float)
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--stop", action="append", default=[], help="end before this text")
    parser.add_argument("--seed", type=int)
    given = parser.parse_args(argv)
    choice = Choice(
        given.max_new_tokens, given.temperature, given.top_k, given.top_p, given.beams,
        seed=given.seed,
    )  # fmt: skip
    with it.device(given.device or it.default_device()):
        writer = Writer.from_pretrained(kind, given.weights, dtype=given.dtype)
        if given.quantize:
            quantized(writer.model, given.quantize)
        if len(given.prompts) > 1 or choice.beams > 1:
            found = writer(given.prompts, choice, given.stop)
            for prompt, text in zip(given.prompts, found, strict=True):
                print(f"{prompt}{text}", end="\n\n")
            return found
        print(given.prompts[0], end="", flush=True)
        pieces = []
        for (piece,) in writer.stream(given.prompts, choice, given.stop):
            print(piece, end="", flush=True)
            pieces.append(piece)
        print()
        return ["".join(pieces)]


def quantized(model: Any, weights: str) -> None:
    """Keeps the matrices of a model as codes: int8 by row, int4 in blocks of 32."""
    config = nn.QuantizationConfig(weights, per="channel" if weights == "int8" else 32)
    nn.quantize(model, config)
