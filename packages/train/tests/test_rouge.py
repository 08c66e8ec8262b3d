"""ROUGE beside a plain implementation of its formulas, and beside Google's."""

import math
from collections import Counter

import numpy as np
import pytest
from metric_batches import gathered

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.train import ROUGE

RNG = np.random.default_rng(0)
WORDS = ["The", "a", "cat", "dog's", "sat,", "ran", "on", "under", "mat."]
WANTED = [" ".join(RNG.choice(WORDS, n)) for n in RNG.integers(1, 14, 40)]
FOUND = [" ".join(RNG.choice(WORDS, n)) for n in RNG.integers(0, 14, 40)]
KINDS = (1, 2, 3, "L")


def units(text):
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


def plain(kind, found, wanted):
    """Precision, recall and F of one pair, the longest row by a table of all prefixes."""
    a, b = units(found), units(wanted)
    if kind == "L":
        table = np.zeros((len(a) + 1, len(b) + 1), int)
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                table[i + 1, j + 1] = (
                    table[i, j] + 1 if x == y else max(table[i, j + 1], table[i + 1, j])
                )
        common, given, asked = table[-1, -1], len(a), len(b)
    else:
        have, want = (
            Counter(tuple(row[i : i + kind]) for i in range(len(row) - kind + 1)) for row in (a, b)
        )
        common = sum(min(n, want[g]) for g, n in have.items())
        given, asked = sum(have.values()), sum(want.values())
    precision, recall = common / max(given, 1), common / max(asked, 1)
    both = precision + recall
    return {
        "precision": precision,
        "recall": recall,
        "f": 2 * precision * recall / both if both else 0.0,
    }


@pytest.mark.parametrize("measure", ["f", "precision", "recall"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_that_of_the_formula(kind, measure):
    found = gathered(ROUGE(kind, measure=measure), FOUND, WANTED)
    wanted = [plain(kind, a, b)[measure] for a, b in zip(FOUND, WANTED, strict=True)]
    assert found == pytest.approx(np.mean(wanted), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_that_of_rouge_score(kind):
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer([f"rouge{kind}"])
    wanted = [
        scorer.score(target, text)[f"rouge{kind}"].fmeasure
        for text, target in zip(FOUND, WANTED, strict=True)
    ]
    assert gathered(ROUGE(kind), FOUND, WANTED) == pytest.approx(np.mean(wanted), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_of_several_references_counts(kind):
    references = [
        [a, b, c] for a, b, c in zip(WANTED, WANTED[1:] + WANTED[:1], FOUND[::-1], strict=True)
    ]
    best = [
        max(plain(kind, a, r)["f"] for r in rs) for a, rs in zip(FOUND, references, strict=True)
    ]
    assert gathered(ROUGE(kind), FOUND, references) == pytest.approx(np.mean(best), rel=1e-12)


def test_tokens_and_other_units():
    metric = ROUGE("L", ignore=0)
    metric.update(it.asarray([[5, 6, 7, 0]]), it.asarray([[5, 7, 0, 0]]), 0.0)
    assert metric.compute() == pytest.approx(0.8)
    letters = ROUGE(1, split=list)
    letters.update(["ab"], ["bc"], 0.0)
    assert letters.compute() == 0.5
    umlauts = ROUGE(1)
    umlauts.update(["Über Straße_2"], ["über, straße 2!"], 0.0)
    assert umlauts.compute() == 1.0


def test_nothing_and_mistakes():
    assert math.isnan(ROUGE().compute())
    empty = ROUGE()
    empty.update([""], [""], 0.0)
    assert empty.compute() == 0.0
    with pytest.raises(ShapeError, match="ROUGE: there are 1 outputs and 2 targets"):
        ROUGE().update(["a"], ["a", "b"], 0.0)
    with pytest.raises(ArgumentError, match=r"kind must be 1, 2, … or 'L', got 0"):
        ROUGE(0)
    with pytest.raises(ArgumentError, match="measure must be"):
        ROUGE(1, measure="g")
    with pytest.raises(ArgumentError, match="an output has no reference"):
        ROUGE().update(["a"], [[]], 0.0)
