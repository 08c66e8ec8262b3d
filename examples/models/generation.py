"""Going on with sequences: greedily, by chance, or with beams, several prompts at a time.

A prompt is a list of numbers of tokens. Prompts of a batch may be of any lengths: shorter ones are
padded on their left, and no model sees the padding. Each step computes one token of each prompt;
keys and values of the ones before are kept. The likeliest token is found on the device, which
computes the next one while the host looks at it. Chances and beams are the host's, by NumPy, so
that a seed gives the same text on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

import ingle.nn as nn
import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor import Tensor, transaction
from ingle.tensor.errors import ArgumentError


class Decoder(Protocol):
    """What `generate` needs of a model."""

    max_length: int
    """The longest sequence that it can read."""

    def caches(self, batch: int, length: int) -> Sequence[nn.KVCache]:
        """A cache of each layer with room for `length` tokens of `batch` sequences."""
        ...

    def __call__(
        self,
        tokens: Tensor,
        first: Tensor | None = None,
        caches: Sequence[nn.KVCache] | None = None,
        last: bool = False,
    ) -> Tensor:
        """Scores of the next token at each place.

        Args:
            tokens: (batch, length).
            first: (batch,), where each sequence begins behind its padding, or None for 0.
            caches: of earlier tokens, which get these.
            last: only those of the last place, (batch, 1, vocabulary).
        """
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """How tokens are chosen.

    Args:
        max_new_tokens: how many at most.
        temperature: 0 takes the likeliest; 1 draws by the model's chances, less is more certain.
        top_k: draw only from so many likeliest.
        top_p: draw only from the fewest likeliest that have this share of the chance together;
            Holtzman et al.: The curious case of neural text degeneration (ICLR 2020).
        beams: more than 1 searches for the likeliest sequence, and nothing is drawn.
        length_penalty: sequences of beams are compared by their log chance over this power of
            their length.
        end: tokens that end a sequence; they are not part of the result.
        seed: of what is drawn; another each time if None.

    Raises:
        ArgumentError: a number is out of range, or beams are to be drawn.
    """

    max_new_tokens: int = 50
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    beams: int = 1
    length_penalty: float = 1.0
    end: tuple[int, ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        ranges = {
            "max_new_tokens": self.max_new_tokens >= 0,
            "temperature": self.temperature >= 0.0,
            "top_k": self.top_k is None or self.top_k >= 1,
            "top_p": self.top_p is None or 0.0 < self.top_p <= 1.0,
            "beams": self.beams >= 1,
        }
        for name, fits in ranges.items():
            if not fits:
                raise ArgumentError(f"Choice: {name}={getattr(self, name)} is out of range")
        if self.beams > 1 and self.temperature:
            raise ArgumentError(
                f"Choice: beams={self.beams} search, temperature={self.temperature} draws; give one"
            )


def generate(
    model: Decoder, prompts: Sequence[Sequence[int]], choice: Choice | None = None
) -> list[list[int]]:
    """What follows each prompt, without the prompt and without the token that ended it.

    Args:
        model: in evaluation, on the device where it is to run.
        prompts: tokens, at least one each; of any lengths.
        choice: greedy and 50 tokens if not given.

    Raises:
        ArgumentError: a prompt is empty, or too long for the model with what is to follow.
    """
    choice = choice or Choice()
    if choice.beams > 1:
        from .beams import search

        return search(model, prompts, choice)
    found: list[list[int]] = [[] for _ in prompts]
    for tokens in stream(model, prompts, choice):
        for sequence, token in zip(found, tokens, strict=True):
            if token is not None:
                sequence.append(token)
    return found


def stream(
    model: Decoder, prompts: Sequence[Sequence[int]], choice: Choice | None = None
) -> Iterator[list[int | None]]:
    """The next token of each prompt, as they are computed; None for one that has ended.

    It ends with the last of them, or when the caller has seen enough. Raises what `generate` does,
    and ArgumentError for beams, of which nothing is known before the end.
    """
    choice = choice or Choice()
    if choice.beams > 1:
        raise ArgumentError("stream: beams are compared at the end; use generate, or beams=1")
    steps, running = Steps(model, prompts, choice.max_new_tokens), np.ones(len(prompts), bool)
    for tokens in _drawn(steps, choice) if choice.temperature else _likeliest(steps, choice):
        running &= ~np.isin(tokens, choice.end)
        if not running.any():
            return
        yield [int(t) if r else None for t, r in zip(tokens, running, strict=True)]


def _likeliest(steps: Steps, choice: Choice) -> Iterator[np.ndarray]:
    """The likeliest tokens of each step, of which the next one is on its way meanwhile, where the
    device computes while others do."""
    following = steps.likeliest() if choice.max_new_tokens else None
    left = choice.max_new_tokens
    while following is not None:
        tokens, left = following, left - 1
        coming = tokens.begin_download()
        following = steps.likeliest(tokens) if coming and left else None
        yield tokens.numpy()
        if left and not coming:
            following = steps.likeliest(tokens)


def _drawn(steps: Steps, choice: Choice) -> Iterator[np.ndarray]:
    """Tokens of each step by chance."""
    rng, scores = np.random.default_rng(choice.seed), steps.scores
    for left in reversed(range(choice.max_new_tokens)):
        tokens = np.array([rng.choice(len(p), p=p) for p in chances(scores, choice)])
        yield tokens
        if left:
            scores = steps.after(tokens)


class Steps:
    """A batch of sequences inside a model, which goes on token by token.

    Attributes:
        caches: keys and values of what the model has read.
    """

    def __init__(
        self, model: Decoder, prompts: Sequence[Sequence[int]], more: int, copies: int = 1
    ) -> None:
        longest = max(map(len, prompts), default=0)
        if not prompts or not min(map(len, prompts)):
            raise ArgumentError("generate: each prompt needs at least one token")
        if longest + more > model.max_length:
            raise ArgumentError(
                f"generate: a prompt of {longest} tokens and max_new_tokens={more} are more than "
                f"the {model.max_length} that {type(model).__name__} can read"
            )
        rows = [p for p in prompts for _ in range(copies)]
        padding = [longest - len(p) for p in rows]
        tokens = np.array([[0] * n + list(p) for n, p in zip(padding, rows, strict=True)])
        self.caches = model.caches(len(rows), longest + more)
        place = self.caches[0].keys.raw.device if self.caches else it.default_device()
        self._device = place
        first = self._placed(np.array(padding)) if any(padding) else None
        self._logits = model(self._placed(tokens), first, self.caches, last=True)[:, -1]

        def step(following: Tensor) -> Tensor:
            return model(it.expand_dims(following, 1), first, self.caches, last=True)[:, -1]

        self._step: Callable[[Tensor], Tensor] = compile(step)
        self._next: Callable[[Tensor], Tensor] = compile(lambda tokens: _argmax(step(tokens)))

    @property
    def scores(self) -> np.ndarray:
        """Those of the token that follows the prompts, (sequences, vocabulary) in float64."""
        return _scores(self._logits)

    def after(self, tokens: np.ndarray) -> np.ndarray:
        """Scores of what follows when each sequence goes on with its token."""
        return _scores(self._step(self._placed(tokens)))

    def likeliest(self, tokens: Tensor | None = None) -> Tensor:
        """The likeliest token of each sequence when it goes on with one, or behind its prompt."""
        return _argmax(self._logits) if tokens is None else self._next(tokens)

    def _placed(self, numbers: np.ndarray) -> Tensor:
        """Whole numbers on the model's device."""
        found: Tensor = it.asarray(numbers.astype(np.int32), device=self._device)
        return found

    def reorder(self, rows: np.ndarray) -> None:
        """Sequence i becomes what sequence `rows[i]` was."""
        if (rows == np.arange(len(rows))).all():
            return
        order = self._placed(rows)
        with transaction(flush=False):
            for cache in self.caches:
                cache.keys.value = it.take(cache.keys.raw, order, axis=0)
                cache.values.value = it.take(cache.values.raw, order, axis=0)


def _scores(logits: Tensor) -> np.ndarray:
    found: np.ndarray = logits.astype("float32").numpy().astype(np.float64)
    return found


def _argmax(logits: Tensor) -> Tensor:
    found: Tensor = it.argmax(logits, axis=-1).astype("int32")
    return found


def chances(scores: np.ndarray, choice: Choice) -> np.ndarray:
    """What each token is drawn with, (rows, vocabulary)."""
    scaled = scores / choice.temperature
    if choice.top_k is not None and choice.top_k < scaled.shape[-1]:
        least = np.partition(scaled, -choice.top_k, axis=-1)[:, -choice.top_k, None]
        scaled = np.where(scaled < least, -np.inf, scaled)
    found = np.exp(scaled - scaled.max(-1, keepdims=True))
    found /= found.sum(-1, keepdims=True)
    if choice.top_p is not None and choice.top_p < 1.0:
        order = np.argsort(-found, axis=-1, kind="stable")
        sorted_ = np.take_along_axis(found, order, axis=-1)
        # A token stays if those before it do not have the share by themselves.
        kept = np.cumsum(sorted_, axis=-1) - sorted_ < choice.top_p
        np.put_along_axis(found, order, np.where(kept, sorted_, 0.0), axis=-1)
        found /= found.sum(-1, keepdims=True)
    return np.asarray(found)
