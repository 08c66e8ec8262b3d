"""How well a model of text predicts, translates and transcribes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.argument_checks import whole
from ingle.tensor.errors import ArgumentError, ShapeError

from .base import Mean, Metric, check_classes, check_range

Decode = Callable[[list[int]], str]
Units = Sequence[Hashable]


class Perplexity(Mean):
    """The exponential of the mean negative log-likelihood of the tokens.

    Outputs are logits of shape (..., vocabulary), targets token numbers of shape (...). The mean
    is over all tokens of all batches, not over batches.

    Args:
        ignore: a target that is no token, such as padding's.

    Raises:
        ShapeError: outputs and targets do not fit as said.
        ArgumentError: a target is not in the vocabulary.

    >>> import ingle.tensor as it
    >>> from ingle.train import Perplexity
    >>> perplexity = Perplexity(ignore=-100)
    >>> perplexity.update(it.zeros((1, 3, 8)), it.asarray([[5, 2, -100]]), 0.0)
    >>> round(perplexity.compute(), 4)
    8.0
    """

    name = "perplexity"

    def __init__(self, ignore: int | None = None) -> None:
        self.ignore = ignore
        super().__init__()

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_classes("Perplexity", outputs, targets)
        wanted = targets.numpy()
        kept = np.ones(wanted.shape, np.bool_) if self.ignore is None else wanted != self.ignore
        check_range("Perplexity", outputs.shape[-1], wanted[kept])
        # The likelihoods are picked where the logits are: all of them may be many.
        index = it.asarray(np.where(kept, wanted, 0)[..., None], device=outputs.device)
        picked = it.take_along_axis(it.log_softmax(outputs, axis=-1), index, axis=-1)
        likelihoods = picked.numpy()[..., 0].astype(np.float64)[kept]
        self.total -= float(likelihoods.sum())
        self.count += int(kept.sum())

    def compute(self) -> float:
        mean = super().compute()
        return math.exp(mean) if mean < 709.0 or math.isnan(mean) else math.inf


class _Sequences(Metric):
    """Reads sequences out of what a model gives: texts, token numbers or logits of tokens."""

    def __init__(self, decode: Decode | None, ignore: int | None) -> None:
        self.decode = decode
        self.ignore = ignore
        self.reset()

    def _split(self, text: str) -> Units:
        return text.split()

    def _pairs(self, outputs: Any, targets: Any) -> Iterator[tuple[Any, Any]]:
        name = type(self).__name__
        found, wanted = self._read(name, "outputs", outputs), self._read(name, "targets", targets)
        if len(found) != len(wanted):
            raise ShapeError(
                f"{name}: there are {len(found)} outputs and {len(wanted)} targets; give one "
                "target for each output"
            )
        return zip(found, wanted, strict=True)

    def _read(self, name: str, side: str, given: Any) -> list[Any]:
        if isinstance(given, Tensor):
            rank = 2 if given.dtype.is_integer else 3
            if len(given.shape) != rank or not (given.dtype.is_integer or given.dtype.is_floating):
                raise ShapeError(
                    f"{name}: {side} must be texts, token numbers of shape (sequences, length) or "
                    f"logits of shape (sequences, length, vocabulary), got "
                    f"{given.dtype}{list(given.shape)}"
                )
            ids = given if rank == 2 else it.argmax(given, axis=-1)
            return [self._tokens(name, row) for row in ids.numpy().tolist()]
        if not isinstance(given, list | tuple):
            raise ShapeError(
                f"{name}: {side} must be a list of texts or a tensor of token numbers, got "
                f"{type(given).__name__}; put a single text into a list"
            )
        return [self._units(name, side, one) for one in given]

    def _tokens(self, name: str, row: list[int]) -> Units:
        kept = [token for token in row if token != self.ignore]
        return kept if self.decode is None else self._split(self.decode(kept))

    def _units(self, name: str, side: str, given: Any) -> Any:
        if not isinstance(given, str):
            raise ArgumentError(
                f"{name}: each of the {side} must be a text, got {type(given).__name__}"
            )
        return self._split(given)


class References(list[Units]):
    """Several references for one output."""


class WithReferences(_Sequences):
    """Takes a list of references for an output, too."""

    def _units(self, name: str, side: str, given: Any) -> Any:
        if side == "targets" and isinstance(given, list | tuple):
            if not given:
                raise ArgumentError(f"{name}: an output has no reference; give at least one")
            return References(super(WithReferences, self)._units(name, side, one) for one in given)
        return super()._units(name, side, given)


class BLEU(WithReferences):
    """BLEU of the whole corpus (Papineni et al., 2002), from 0 to 1.

    The geometric mean of the shares of n-grams that are in a reference, each counted as often as in
    the reference that has it most, times the penalty exp(1 - r/c) where the c units of the outputs
    are fewer than the r of the references nearest in length. Counts are gathered over all batches.

    Outputs are a list of texts, split at spaces, or a tensor of token numbers (sequences, length)
    or of logits of tokens (sequences, length, vocabulary). Targets are the same (no logits), or a
    list with a list of several references for each output.

    Args:
        most: the longest n-grams.
        smooth: whether 1 is added to both counts of n-grams longer than 1 (Lin and Och, 2004), so
            that a text without a common n-gram of `most` is not 0.
        decode: makes a text of token numbers; without it, units are token numbers.
        ignore: a token number that is left out, such as padding's.

    Raises:
        ShapeError: outputs and targets do not fit as said.
        ArgumentError: a list holds what is no text.

    >>> from ingle.train import BLEU
    >>> bleu = BLEU(2)
    >>> bleu.update(["the cat sat here"], [["the cat sat there", "a cat"]], 0.0)
    >>> round(bleu.compute(), 4)
    0.7071
    """

    name = "bleu"
    gathered = ("matches", "totals", "given", "wanted")

    def __init__(
        self,
        most: int = 4,
        *,
        smooth: bool = False,
        decode: Decode | None = None,
        ignore: int | None = None,
    ) -> None:
        self.most = whole("BLEU", "most", most, least=1)
        self.smooth = smooth
        super().__init__(decode, ignore)

    def reset(self) -> None:
        self.matches = [0] * self.most
        self.totals = [0] * self.most
        self.given = self.wanted = 0

    def update(self, outputs: Any, targets: Any, loss: float) -> None:
        for found, wanted in self._pairs(outputs, targets):
            references = wanted if isinstance(wanted, References) else References([wanted])
            self.given += len(found)
            lengths = [len(reference) for reference in references]
            self.wanted += min(lengths, key=lambda size: (abs(size - len(found)), size))
            for n in range(1, self.most + 1):
                have = ngrams(found, n)
                limits: Counter[Units] = Counter()
                for reference in references:
                    limits |= ngrams(reference, n)
                self.matches[n - 1] += (have & limits).total()
                self.totals[n - 1] += have.total()

    def compute(self) -> float:
        if not self.wanted and not self.given:
            return float("nan")
        logarithms = 0.0
        for n, (match, total) in enumerate(zip(self.matches, self.totals, strict=True)):
            more = 1 if self.smooth and n else 0
            if match + more == 0:
                return 0.0
            logarithms += math.log((match + more) / (total + more)) / self.most
        return math.exp(min(0.0, 1.0 - self.wanted / self.given) + logarithms)

    def state(self) -> dict[str, Any]:
        return {
            "matches": [*self.matches],
            "totals": [*self.totals],
            "given": self.given,
            "wanted": self.wanted,
        }


def ngrams(units: Units, n: int) -> Counter[Units]:
    """How often each row of `n` units occurs."""
    return Counter(tuple(units[i : i + n]) for i in range(len(units) - n + 1))


class WordErrorRate(_Sequences):
    """Insertions, deletions and substitutions of words over the words of the targets.

    The edit distance of Levenshtein (1966), summed over all sequences and divided by the summed
    length of the targets; it may exceed 1. Outputs and targets are lists of texts, split at spaces,
    or tensors of token numbers (sequences, length) or, as outputs, of logits of tokens
    (sequences, length, vocabulary).

    Args:
        decode: makes a text of token numbers; without it, units are token numbers.
        ignore: a token number that is left out, such as padding's.

    Raises:
        ShapeError: outputs and targets do not fit as said.
        ArgumentError: a list holds what is no text.

    >>> from ingle.train import WordErrorRate
    >>> rate = WordErrorRate()
    >>> rate.update(["the cat sit down"], ["the cat sat"], 0.0)
    >>> round(rate.compute(), 4)
    0.6667
    """

    name = "wer"
    gathered = ("edits", "count")

    def __init__(self, *, decode: Decode | None = None, ignore: int | None = None) -> None:
        super().__init__(decode, ignore)

    def reset(self) -> None:
        self.edits = 0
        self.count = 0

    def update(self, outputs: Any, targets: Any, loss: float) -> None:
        for found, wanted in self._pairs(outputs, targets):
            self.edits += edit_distance(found, wanted)
            self.count += len(wanted)

    def compute(self) -> float:
        if self.count:
            return self.edits / self.count
        return math.inf if self.edits else float("nan")


class CharErrorRate(WordErrorRate):
    """Insertions, deletions and substitutions of characters over the characters of the targets.

    As `WordErrorRate`, whose arguments and errors it has, with texts split into characters.

    >>> from ingle.train import CharErrorRate
    >>> rate = CharErrorRate()
    >>> rate.update(["kitten"], ["sitting"], 0.0)
    >>> round(rate.compute(), 4)
    0.4286
    """

    name = "cer"

    def _split(self, text: str) -> Units:
        return text


def edit_distance(first: Units, second: Units) -> int:
    """How few insertions, deletions and substitutions turn one sequence into the other.

    >>> from ingle.train.metrics.text import edit_distance
    >>> edit_distance("kitten", "sitting")
    3
    """
    numbers: dict[Hashable, int] = {}
    a, b = (
        np.array([numbers.setdefault(unit, len(numbers)) for unit in units], np.int64)
        for units in (first, second)
    )
    steps = np.arange(len(b) + 1)
    row = steps.copy()
    for i, unit in enumerate(a, 1):
        # Insertions run along the row: a running minimum of what is not yet counted for them.
        changed = np.minimum(row[1:] + 1, row[:-1] + (b != unit))
        row = np.minimum.accumulate(np.concatenate([[i], changed]) - steps) + steps
    return int(row[-1])
