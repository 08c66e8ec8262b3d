"""Perplexity, BLEU and error rates beside plain implementations of their formulas."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from metric_batches import gathered

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.train import BLEU, CharErrorRate, Perplexity, WordErrorRate

RNG = np.random.default_rng(0)
WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat"]
WANTED = [" ".join(RNG.choice(WORDS, n)) for n in RNG.integers(4, 12, 40)]


def changed(text):
    """With a word less at times, and others in the place of some."""
    words = text.split()[RNG.integers(0, 2) :]
    return " ".join(w if RNG.random() < 0.8 else str(RNG.choice(WORDS)) for w in words)


FOUND = [changed(text) for text in WANTED]


def test_perplexity_is_that_of_all_tokens_but_the_ignored():
    logits = RNG.normal(size=(40, 6, 11)).astype(np.float32)
    tokens = RNG.integers(0, 11, (40, 6))
    tokens[:, 4:] = -100
    wide = logits.astype(np.float64)
    shares = np.exp(wide) / np.exp(wide).sum(-1, keepdims=True)
    kept = [
        math.log(shares[i, j, tokens[i, j]])
        for i in range(40)
        for j in range(6)
        if tokens[i, j] >= 0
    ]
    found = gathered(Perplexity(ignore=-100), logits, tokens)
    assert found == pytest.approx(math.exp(-sum(kept) / len(kept)), rel=1e-6)
    assert math.isnan(Perplexity().compute())


def test_perplexity_of_the_impossible_is_infinite():
    metric = Perplexity()
    metric.update(it.asarray([[0.0, -1e30]]), it.asarray([1]), 0.0)
    assert metric.compute() == math.inf


def bleu(found, wanted, most, smooth):
    """BLEU in fractions, each n-gram looked for by hand."""
    product, given, length = 1.0, 0, 0
    for text, references in zip(found, wanted, strict=True):
        given += len(text)
        length += sorted((abs(len(r) - len(text)), len(r)) for r in references)[0][1]
    for n in range(1, most + 1):
        matches = total = int(smooth and n > 1)
        for text, references in zip(found, wanted, strict=True):
            grams = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
            total += len(grams)
            for gram in set(grams):
                counts = [
                    sum(tuple(r[i : i + n]) == gram for i in range(len(r))) for r in references
                ]
                matches += min(grams.count(gram), max(counts))
        if not matches:
            return 0.0
        product *= float(Fraction(matches, total)) ** (1 / most)
    return product * min(1.0, math.exp(1 - length / given))


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("most", [1, 2, 4])
def test_bleu_is_papinenis(most, smooth):
    expected = bleu([t.split() for t in FOUND], [[t.split()] for t in WANTED], most, smooth)
    assert gathered(BLEU(most, smooth=smooth), FOUND, WANTED) == pytest.approx(expected, rel=1e-12)
    assert 0.2 < expected < 1


def test_bleu_of_several_references():
    others = (WANTED, WANTED[1:] + WANTED[:1], FOUND[::-1])
    several = [list(texts) for texts in zip(*others, strict=True)]
    split = [[text.split() for text in texts] for texts in several]
    expected = bleu([t.split() for t in FOUND], split, 4, False)
    assert gathered(BLEU(), FOUND, several) == pytest.approx(expected, rel=1e-12)


def test_bleu_of_papinenis_own_example():
    metric = BLEU(1)
    references = ["the cat is on the mat", "there is a cat on the mat"]
    metric.update(["the the the the the the the"], [references], 0.0)
    assert metric.compute() == pytest.approx(2 / 7)


def test_bleu_without_a_common_n_gram():
    for smooth, expected in ((False, 0.0), (True, (2 / 3 * 1 / 3) ** 0.5)):
        metric = BLEU(2, smooth=smooth)
        metric.update(["a b c"], ["c x a"], 0.0)
        assert metric.compute() == pytest.approx(expected)
    assert math.isnan(BLEU().compute())


def edits(first, second):
    @functools.cache
    def between(i, j):
        if not i or not j:
            return i + j
        change = between(i - 1, j - 1) + (first[i - 1] != second[j - 1])
        return min(between(i - 1, j) + 1, between(i, j - 1) + 1, change)

    return between(len(first), len(second))


@pytest.mark.parametrize(("metric", "split"), [(WordErrorRate, str.split), (CharErrorRate, list)])
def test_error_rates_are_levenshteins(metric, split):
    pairs = [(split(f), split(w)) for f, w in zip(FOUND, WANTED, strict=True)]
    expected = sum(edits(f, w) for f, w in pairs) / sum(len(w) for _, w in pairs)
    assert gathered(metric(), FOUND, WANTED) == pytest.approx(expected, rel=1e-14)


def test_error_rates_of_empty_texts():
    rate = WordErrorRate()
    assert math.isnan(rate.compute())
    rate.update([""], [""], 0.0)
    assert math.isnan(rate.compute())
    rate.update(["a b"], [""], 0.0)
    assert rate.compute() == math.inf
    rate.update([""], ["a b c d"], 0.0)
    assert rate.compute() == 1.5


@pytest.mark.parametrize("logits", [False, True])
def test_tokens_and_logits_are_sequences(logits):
    found = np.array([[1, 2, 3, 0], [4, 5, 0, 0]])
    wanted = np.array([[1, 2, 4, 3], [4, 5, 0, 0]])
    given = np.eye(6, dtype=np.float32)[found] if logits else found
    assert gathered(WordErrorRate(ignore=0), given, wanted, (0, 1, 2)) == 1 / 6
    words = ["", "one", "two", "three", "four", "five"]
    decode = lambda row: " ".join(words[i] for i in row)  # noqa: E731
    metric = CharErrorRate(decode=decode, ignore=0)
    expected = 5 / (len("one two four three") + len("four five"))
    assert gathered(metric, given, wanted, (0, 1, 2)) == expected


def test_what_does_not_fit_is_named():
    with pytest.raises(ShapeError, match=r"^BLEU: there are 2 outputs and 1 targets"):
        BLEU().update(["a", "b"], ["a"], 0.0)
    with pytest.raises(ShapeError, match=r"^WordErrorRate: outputs must be a list .* got str"):
        WordErrorRate().update("a b", ["a b"], 0.0)
    with pytest.raises(ArgumentError, match=r"^CharErrorRate: .*targets must be a text, got int"):
        CharErrorRate().update(["a"], [1], 0.0)
    with pytest.raises(ShapeError, match=r"^WordErrorRate: outputs .* got float32\[2, 3\]"):
        WordErrorRate().update(it.zeros((2, 3)), it.zeros((2, 3), dtype="int64"), 0.0)
    with pytest.raises(ArgumentError, match="no reference"):
        BLEU().update(["a"], [[]], 0.0)
    with pytest.raises(ArgumentError, match="most must be at least 1"):
        BLEU(0)
    with pytest.raises(ArgumentError, match=r"^Perplexity: a target is class -100.*ignore=-100"):
        Perplexity().update(it.zeros((1, 2, 3)), it.asarray([[0, -100]]), 0.0)
    with pytest.raises(ShapeError, match=r"^Perplexity: .*got float32\[1, 2, 3\] and int64\[2\]"):
        Perplexity().update(it.zeros((1, 2, 3)), it.asarray([0, 1]), 0.0)
