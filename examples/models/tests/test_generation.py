"""Choosing tokens, padding, beams and streams, on models whose chances are known."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from models.generation import Choice, Steps, chances, generate, stream
from models.gpt2 import GPT2
from models.writing import Writer

import ingle.nn as nn
import ingle.tensor as it
from ingle.tensor.errors import ArgumentError


class Chain:
    """A Markov chain: the scores of what follows depend on the last token alone."""

    max_length = 100

    def __init__(self, table: np.ndarray) -> None:
        self.table = it.asarray(table.astype(np.float32))

    def caches(self, batch: int, length: int) -> list[nn.KVCache]:
        return []

    def __call__(
        self, tokens: it.Tensor, first: Any = None, caches: Any = None, last: bool = False
    ) -> it.Tensor:
        return it.embedding(tokens[:, -1:] if last else tokens, self.table)


class Near(Chain):
    """One whose scores are a product, and nearly equal."""

    def __init__(self, dtype: str) -> None:
        rng = np.random.default_rng(0)
        near = rng.normal(size=(1, 64)) + rng.normal(size=(5000, 64)) * 0.002
        super().__init__(rng.normal(size=(5000, 64)))
        self.table = self.table.astype(dtype)
        self.weight = it.asarray(near.astype(np.float32)).astype(dtype)

    def __call__(
        self, tokens: it.Tensor, first: Any = None, caches: Any = None, last: bool = False
    ) -> it.Tensor:
        return it.linear(super().__call__(tokens, first, caches, last), self.weight)


@pytest.fixture
def chain() -> Chain:
    return Chain(np.random.default_rng(3).normal(size=(6, 6)) * 2)


@pytest.fixture(scope="module")
def writer() -> GPT2:
    it.random.seed(0)
    model = GPT2(50, 40, 16, 2, 2).eval()
    model.load_state_dict({n: v * 8 for n, v in model.state_dict().items()})
    return model


@pytest.mark.slow
def test_padding_changes_nothing(writer: GPT2) -> None:
    prompts = [[3, 14, 15, 9, 26, 5], [35], [8, 9, 7]]
    together = generate(writer, prompts, Choice(12))
    for prompt, tokens in zip(prompts, together, strict=True):
        assert [tokens] == generate(writer, [prompt], Choice(12))
        # Without a cache, the whole sequence anew for each token:
        sequence = list(prompt)
        for token in tokens:
            scores = writer(it.asarray(np.array([sequence])))[0, -1].numpy()
            assert scores.argmax() == token
            sequence.append(token)


@pytest.mark.parametrize("itself", [False, True])
def test_the_next_token_is_on_its_way_where_the_device_works_by_itself(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, itself: bool
) -> None:
    """Elsewhere nobody waits for a token that comes later; in both cases none is computed that
    there is no room for."""
    asked: list[int] = []
    monkeypatch.setattr(it.Tensor, "begin_download", lambda tensor: itself)
    likeliest = Steps.likeliest

    def counted(steps: Steps, tokens: Any = None) -> Any:
        asked.append(len(asked))
        return likeliest(steps, tokens)

    monkeypatch.setattr(Steps, "likeliest", counted)
    found, before = [], []
    for (token,) in stream(chain, [[2]], Choice(4)):
        found.append(token)
        before.append(len(asked))
    table = chain.table.numpy().argmax(-1)
    wanted = [int(table[2])]
    while len(wanted) < 4:
        wanted.append(int(table[wanted[-1]]))
    assert found == wanted
    assert before == ([2, 3, 4, 4] if itself else [1, 2, 3, 4])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_likeliest_token_is_the_first_of_equals(dtype: str) -> None:
    """And one whose score is NaN, as NumPy has it."""
    table = np.zeros((4, 4), np.float32)
    table[0, [1, 3]] = 5.0
    table[1, 2] = np.nan
    table[2] = -np.inf
    chain = Chain(table)
    chain.table = chain.table.astype(dtype)
    assert generate(chain, [[0], [1], [2], [3]], Choice(1)) == [[1], [2], [0], [0]]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_likeliest_token_is_that_of_the_scores(dtype: str) -> None:
    """Many of which are equal once they are rounded."""
    chain = Near(dtype)
    steps, token = Steps(chain, [[7], [8]], 20), np.array([3, 4])
    for _ in range(10):
        found = steps.likeliest(it.asarray(token.astype(np.int32))).numpy()
        np.testing.assert_array_equal(found, steps.after(token).argmax(-1))
        token = found


@pytest.mark.slow
def test_a_seed_draws_the_same(writer: GPT2) -> None:
    choice = Choice(20, temperature=9.0, seed=5)
    first = generate(writer, [[1, 2]], choice)
    assert first == generate(writer, [[1, 2]], choice)
    assert first != generate(writer, [[1, 2]], Choice(20, temperature=9.0, seed=6))


def test_draws_follow_the_chances(chain: Chain) -> None:
    choice = Choice(1, temperature=0.7, seed=0)
    drawn = np.array(generate(chain, [[2]] * 4000, choice))[:, 0]
    logits = chain.table.numpy()[2].astype(np.float64) / 0.7
    want = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(np.bincount(drawn, minlength=6) / 4000, want, atol=0.03)


def test_cut_off_chances() -> None:
    scores = np.log(np.array([[0.5, 0.05, 0.3, 0.15]]))
    kept = chances(scores, Choice(temperature=1.0, top_k=2))
    np.testing.assert_allclose(kept, [[0.625, 0.0, 0.375, 0.0]])
    kept = chances(scores, Choice(temperature=1.0, top_p=0.7))
    np.testing.assert_allclose(kept, [[0.625, 0.0, 0.375, 0.0]])
    kept = chances(scores, Choice(temperature=1.0, top_p=0.01))
    np.testing.assert_allclose(kept, [[1.0, 0.0, 0.0, 0.0]])
    kept = chances(scores, Choice(temperature=0.5))
    squares = np.array([[0.25, 0.0025, 0.09, 0.0225]])
    np.testing.assert_allclose(kept, squares / squares.sum())
    both = chances(scores, Choice(temperature=1.0, top_k=3, top_p=0.5))
    np.testing.assert_allclose(both, [[1.0, 0.0, 0.0, 0.0]])


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_wide_beams_find_the_likeliest(chain: Chain, penalty: float) -> None:
    """With as many beams as there are sequences, the search is one through all of them."""
    logs = chain.table.numpy().astype(np.float64)
    logs -= np.logaddexp.reduce(logs, axis=-1, keepdims=True)
    best: dict[tuple[int, ...], float] = {}
    for length in (1, 2, 3):
        for tokens in itertools.product(range(6), repeat=length):
            total = sum(logs[a, b] for a, b in itertools.pairwise((4, *tokens)))
            if 0 in tokens[:-1] or (length < 3 and tokens[-1] != 0):
                continue
            best[tokens] = total / length**penalty
    want = max(best, key=best.__getitem__)
    choice = Choice(3, beams=216, end=(0,), length_penalty=penalty)
    assert generate(chain, [[4]], choice) == [[t for t in want if t != 0]]


def test_ends(chain: Chain) -> None:
    likeliest = chain.table.numpy().argmax(-1)
    path = [int(likeliest[2])]
    while likeliest[path[-1]] not in path:
        path.append(int(likeliest[path[-1]]))
    for at, token in enumerate(path):
        assert generate(chain, [[2]], Choice(10, end=(token,))) == [path[:at]]
    assert list(stream(chain, [[2]], Choice(0))) == []
    assert generate(chain, [[2]], Choice(0)) == generate(chain, [[2]], Choice(0, beams=2)) == [[]]


class Script:
    """Says the tokens that it was given, whatever it reads."""

    max_length = 1000

    def __init__(self, rows: Sequence[Sequence[int]], vocabulary: int) -> None:
        self.rows, self.vocabulary = rows, vocabulary
        self.at: Any = None

    def caches(self, batch: int, length: int) -> list[nn.KVCache]:
        self.at = nn.Buffer(it.zeros((), dtype="int32"), persistent=False)
        return []

    def __call__(
        self, tokens: it.Tensor, first: Any = None, caches: Any = None, last: bool = False
    ) -> it.Tensor:
        rows = it.asarray(np.array(self.rows, np.int32))
        now = it.take(rows, it.reshape(self.at.raw, (1,)), axis=1)
        self.at.value = self.at.raw + 1
        return it.one_hot(now, self.vocabulary).astype("float32")


def spoken(tokenizer: Any, texts: Sequence[str]) -> Writer:
    rows = [tokenizer.encode(t).ids for t in texts]
    longest = max(map(len, rows)) + 1
    rows = [r + [0] * (longest - len(r)) for r in rows]
    return Writer(Script(rows, 300), tokenizer, end=[0])


def test_streams_end_with_whole_texts(tokenizer: Any) -> None:
    texts = ["over the lazy dog, 字 and Ünter", "again"]
    writer = spoken(tokenizer, texts)
    pieces = list(writer.stream(["the fox ", "dog "], Choice(40)))
    assert ["".join(p[i] for p in pieces) for i in range(2)] == texts
    assert not any("\ufffd" in piece for step in pieces for piece in step)
    assert len(pieces) > 5


def test_stop_strings(tokenizer: Any) -> None:
    texts = ["over the lazy dog and again", "runs and runs dog"]
    writer = spoken(tokenizer, texts)
    want = ["over the lazy ", "runs and runs "]
    assert writer(["a", "the"], Choice(40), stop=["dog"]) == want
    stops = ["dog and", "og"]
    pieces = list(spoken(tokenizer, texts).stream(["a", "the"], Choice(40), stops))
    want = ["over the lazy d", "runs and runs d"]
    assert ["".join(p[i] for p in pieces) for i in range(2)] == want
    whole = spoken(tokenizer, texts)(["a", "the"], Choice(40), stop=["dogs"])
    assert whole == texts


@pytest.mark.parametrize(
    ("options", "message"),
    [({"temperature": -1.0}, "temperature=-1.0"), ({"top_k": 0}, "top_k=0"),
     ({"top_p": 0.0}, "top_p=0.0"), ({"beams": 0}, "beams=0"),
     ({"beams": 2, "temperature": 1.0}, "give one"), ({"max_new_tokens": -1}, "max_new_tokens=-1")],
)  # fmt: skip
def test_choices_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Choice(**options)


def test_bad_prompts(writer: GPT2) -> None:
    with pytest.raises(ArgumentError, match="at least one token"):
        generate(writer, [[1], []])
    with pytest.raises(ArgumentError, match="prompt of 30 tokens and max_new_tokens=20 are more"):
        generate(writer, [[1] * 30], Choice(20))
    with pytest.raises(ArgumentError, match="use generate"):
        next(stream(writer, [[1]], Choice(beams=2)))
