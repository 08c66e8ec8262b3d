"""ROUGE: how much of a reference text a summary has."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from ingle.tensor.errors import ArgumentError

from .text import Decode, References, Units, WithReferences, ngrams

Measure = Literal["f", "precision", "recall"]
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The letters and digits between all other signs, in small letters.

    >>> from ingle.train.metrics.rouge import words
    >>> words("The cat's 2 mats.")
    ['the', 'cat', 's', '2', 'mats']
    """
    return _WORD.findall(text.lower())


class ROUGE(WithReferences):
    """ROUGE-N and ROUGE-L (Lin, 2004), from 0 to 1: the mean over all outputs.

    ROUGE-1 and ROUGE-2 compare words and pairs of words, each counted as often as both texts have
    it; ROUGE-L the longest row of words that both have in this order, others between them. Of
    several references the one counts that gives the most.

    Outputs are a list of texts, or a tensor of token numbers (sequences, length) or of logits of
    tokens (sequences, length, vocabulary). Targets are the same (no logits), or a list with a list
    of several references for each output.

    Args:
        kind: 1, 2, 3, … for words, pairs, triples; "L" for the longest common row.
        measure: "precision", the share of the output that is in the reference; "recall", the share
            of the reference that is in the output; "f", their harmonic mean.
        split: makes units of a text; words in small letters without punctuation if not given.
        decode: makes a text of token numbers; without it, units are token numbers.
        ignore: a token number that is left out, such as padding's.

    Raises:
        ShapeError: outputs and targets do not fit as said.
        ArgumentError: `kind` or `measure` is another, or a list holds what is no text.

    >>> from ingle.train import ROUGE
    >>> rouge = ROUGE("L")
    >>> rouge.update(["The cat sat there."], ["the cat was sitting there"], 0.0)
    >>> round(rouge.compute(), 4), rouge.name
    (0.6667, 'rougeL')
    """

    gathered = ("total", "count")

    def __init__(
        self,
        kind: int | Literal["L"] = "L",
        *,
        measure: Measure = "f",
        split: Callable[[str], Units] = words,
        decode: Decode | None = None,
        ignore: int | None = None,
    ) -> None:
        whole = isinstance(kind, int) and not isinstance(kind, bool) and kind > 0
        if not whole and kind != "L":
            raise ArgumentError(f"ROUGE: kind must be 1, 2, … or 'L', got {kind!r}")
        if measure not in ("f", "precision", "recall"):
            raise ArgumentError(
                f"ROUGE: measure must be 'f', 'precision' or 'recall', got {measure!r}"
            )
        self.kind = kind
        self.measure = measure
        self.split = split
        self.name = f"rouge{kind}"
        super().__init__(decode, ignore)

    def reset(self) -> None:
        self.total = 0.0
        self.count = 0

    def _split(self, text: str) -> Units:
        return self.split(text)

    def update(self, outputs: Any, targets: Any, loss: float) -> None:
        for found, wanted in self._pairs(outputs, targets):
            references = wanted if isinstance(wanted, References) else [wanted]
            self.total += max(self._score(found, reference) for reference in references)
            self.count += 1

    def _score(self, found: Units, wanted: Units) -> float:
        if isinstance(self.kind, int):
            have, want = ngrams(found, self.kind), ngrams(wanted, self.kind)
            common, given, asked = (have & want).total(), have.total(), want.total()
        else:
            common, given, asked = common_row(found, wanted), len(found), len(wanted)
        if not common:
            return 0.0
        if self.measure == "f":
            return 2 * common / (given + asked)
        return common / (given if self.measure == "precision" else asked)

    def compute(self) -> float:
        return self.total / self.count if self.count else float("nan")


def common_row(first: Units, second: Units) -> int:
    """The length of the longest common subsequence, by the bits of large integers (Hyyrö, 2004).

    >>> from ingle.train.metrics.rouge import common_row
    >>> common_row("kitten", "sitting")
    4
    """
    places: dict[object, int] = {}
    for i, unit in enumerate(second):
        places[unit] = places.get(unit, 0) | 1 << i
    every = (1 << len(second)) - 1
    row = every
    for unit in first:
        met = row & places.get(unit, 0)
        row = ((row + met) | (row - met)) & every
    return len(second) - row.bit_count()
