"""Bodies of composites run once for all sizes: what they write is what they write for each size."""

from __future__ import annotations

import random

import numpy as np
import pytest
from forgotten_plans import forget_logs, forget_plans

import ingle.tensor as it
from ingle.fusion import pipeline
from ingle.fusion.runtime import (
    log_families,
    plan_cache,
    sized_calls,
    sized_graph,
    sized_records,
)
from ingle.fusion.symbolic import decompositions
from ingle.fusion.symbolic.decompositions import written_out
from ingle.testkit.bits import same_bits


class Fills:
    """Fills plans in, and compares each decomposition that bodies did not run for with theirs.

    Attributes:
        substituted, by_bodies: how many there were of either.
        merged: those of the first in which the bodies found one constant and symbols two.
    """

    def __init__(self, monkeypatch):
        self.substituted = self.by_bodies = self.merged = 0
        self._decomposed = pipeline._decomposed
        self._written_out = pipeline._written_out
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(log_families, "DEAREST", float("inf"))
        monkeypatch.setattr(sized_calls, "TRIES", 0)  # they run without a decomposition each
        monkeypatch.setattr(plan_cache.PlanCache, "_recall", lambda *_: None)
        monkeypatch.setattr(pipeline, "_written_out", self.written_out)
        monkeypatch.setenv("INGLE_PLAN_SLICES", "0")
        forget_plans(monkeypatch)

    def alone(self):
        """From here on each log runs by itself."""
        self._monkeypatch.setattr(plan_cache.LogFamilies, "of", lambda *_: None)
        forget_logs(self._monkeypatch)

    def written_out(self, device, fusion, graph, examples, **due):
        ran = []

        def decomposed(*args):
            ran.append(args)
            return self._decomposed(*args)

        with self._monkeypatch.context() as patches:
            patches.setattr(pipeline, "_decomposed", decomposed)
            got = self._written_out(device, fusion, graph, examples, **due)
        if ran:
            self.by_bodies += 1
        if ran or got is None:
            return got
        self.substituted += 1
        want = written_out(*self._decomposed(device, fusion, graph, examples))
        if decompositions._content(got) != decompositions._content(want):
            assert len(got.constants) > len(want.constants)
            assert {*got.constants} == {*want.constants}
            self.merged += 1
        return got


@pytest.fixture
def fills(monkeypatch):
    return Fills(monkeypatch)


def drawn(*shape, seed=0):
    values = np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)
    return it.asarray(values, device="cpu")


WIDTH = 24


def generated(ids, table, weight):
    """What a generator of text does with `(1, length)` tokens."""
    batch, length = ids.shape
    h = it.embedding(ids, table)
    h = it.layer_norm(h + table[:length], (WIDTH,))
    parts = it.permute_dims(it.reshape(h @ weight, (batch, length, 3, 2, -1)), (2, 0, 3, 1, 4))
    mixed = it.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
    h = h + it.gelu(it.reshape(it.permute_dims(mixed, (0, 2, 1, 3)), (batch, length, -1)))
    scores = it.linear(h, table)
    return it.argmax(scores[:, -1:], axis=-1), it.softmax(scores, axis=-1)


def generate(length):
    rng = np.random.default_rng(length)
    ids = it.asarray(rng.integers(0, 200, (1, length)), device="cpu")
    return [np.asarray(y) for y in generated(ids, drawn(200, WIDTH), drawn(WIDTH, 3 * WIDTH))]


@pytest.mark.slow
def test_bodies_run_once_for_all_lengths_of_a_text(fills):
    """What is said of an index that is out of range has the sizes at hand, too."""
    lengths = range(40, 52)
    found = {length: generate(length) for length in lengths}
    assert fills.substituted >= len(lengths) - 7
    assert fills.merged == 0
    fills.alone()
    for length in lengths:
        for a, b in zip(found[length], generate(length), strict=True):
            assert same_bits(a, b), length


@pytest.mark.slow
def test_a_body_that_needs_the_number_is_run_for_each_size(fills, monkeypatch):
    """A window is a table that the body makes on the host, one for each size."""
    tried = []
    keep = decompositions.Decompositions.keep
    monkeypatch.setattr(
        decompositions.Decompositions, "keep", lambda *args: (tried.append(args[1]), keep(*args))
    )

    def windowed(x):
        y = it.softmax(x, axis=0) * it.sum(it.exp(x), axis=0)
        for _ in range(3):
            y = it.log_softmax(it.interpolate(y[None], size=x.shape[0] + 3)[0][:, :8] + 1.0)
        return y

    found = {}
    for length in range(20, 44):
        found[length] = np.asarray(windowed(drawn(length, 8)))
    assert len(tried) <= decompositions.IN_VAIN + decompositions.MOST_MADE
    fills.alone()
    for length, got in found.items():
        assert same_bits(got, np.asarray(windowed(drawn(length, 8))))


STEPS = {
    "softmax": lambda x, draw: it.softmax(x, axis=draw.choice((0, 1))),
    "norm": lambda x, draw: it.layer_norm(x, (WIDTH,)),
    "gelu": lambda x, draw: it.gelu(x),
    "centred": lambda x, draw: x - it.mean(x, axis=0),
    "scaled": lambda x, draw: x / (it.std(x, axis=draw.choice((0, 1)), keepdims=True) + 1.0),
    "attention": lambda x, draw: it.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], is_causal=draw.random() < 0.5
    )[0, 0],
    "triangle": lambda x, draw: it.tril(x @ it.permute_dims(x, (1, 0))) @ x * 0.01,
    "rolled": lambda x, draw: it.roll(x, draw.choice((1, -2)), axis=0),
    "padded": lambda x, draw: it.pad(x, ((1, 2), (0, 0))),
    "cut": lambda x, draw: x[draw.choice((1, 2)) :],
    "last": lambda x, draw: it.concat([x, x[-1:]], axis=0),
    "stepped": lambda x, draw: it.concat([x[::2], x[1::2]], axis=0),
    "taken": lambda x, draw: it.take(x, it.argsort(x[:, 0]), axis=0),
    "placed": lambda x, draw: x.at[-1].set(x[0] * 2.0),
    "windows": lambda x, draw: it.avg_pool1d(it.permute_dims(x, (1, 0))[None], 2)[0].T,
    "runs": lambda x, draw: it.cumulative_sum(it.tanh(x), axis=0),
    "entropy": lambda x, draw: it.logsumexp(x, axis=1, keepdims=True) * x,
    "places": lambda x, draw: x * it.arange(x.shape[0], dtype="float32", device="cpu")[:, None],
    "norms": lambda x, draw: x / (1.0 + it.linalg.vector_norm(x, axis=0)),
}


def program(seed):
    """A random program of composites on `(length, WIDTH)`."""

    def run(length):
        draw = random.Random(seed)
        x = drawn(length, WIDTH, seed=seed)
        made = []
        for _ in range(draw.randint(6, 12)):
            x = it.tanh(STEPS[draw.choice(list(STEPS))](x, draw)) + 0.1
            made.append(x)
        return [np.asarray(y) for y in (*made[-2:], it.sum(x, axis=0))]

    return run


LENGTHS = (33, 35, 37, 36, 40, 41, 50, 64, 65, 34, 39, 90)


@pytest.mark.sampled(4, slow=3)
@pytest.mark.parametrize("seed", range(24))
def test_random_programs_of_many_sizes_have_the_bits_of_each_alone(fills, seed):
    """Each result is that of the operations one by one, in which there are no families."""
    run = program(seed)
    found = {length: run(length) for length in LENGTHS}
    fills.alone()
    for length in LENGTHS:
        for a, b in zip(found[length], run(length), strict=True):
            assert same_bits(a, b), length


class Shelf:
    """What a plan store keeps, in memory."""

    def __init__(self, plan_store):
        self._plan_store = plan_store
        self._content = {}
        self.get, self.put = self._content.get, self._content.__setitem__

    def __getattr__(self, name):
        return getattr(self._plan_store, name)


GROWING = (*range(11, 19), *range(23, 28), 47, 48, 49, 50, 64, 96, 130, 33)


@pytest.mark.sampled(8, slow=3)
@pytest.mark.parametrize("seed", range(24))
def test_random_programs_run_by_plans_for_all_sizes_with_the_bits_of_each_alone(
    fills, monkeypatch, seed
):
    """The first few times as they are, then by plans of their own; in the next process by those
    that the first one has kept."""
    monkeypatch.setattr(sized_calls, "TRIES", 1 << 20)
    device = it.zeros(1, device="cpu").backend.inner
    if device.plan_store is not None:
        monkeypatch.setattr(device, "plan_store", Shelf(device.plan_store))
        monkeypatch.setattr(sized_graph, "stored_sized_plans", sized_records.stored_sized_plans)
    monkeypatch.setattr(sized_graph, "RUNS", 2)
    monkeypatch.setattr(sized_graph.owning, "part", 1.0)
    run = program(seed)
    turns = {length: 4 if length % 8 == 0 else 1 for length in GROWING}
    found = {length: [run(length) for _ in range(turns[length])] for length in GROWING}
    forget_plans(monkeypatch)
    for length in reversed(GROWING):
        found[length].append(run(length))
    fills.alone()
    for length in GROWING:
        alone = run(length)
        for got in found[length]:
            assert all(map(same_bits, got, alone)), length


@pytest.mark.parametrize("name", ["norm", "centred", "scaled", "places", "entropy", "placed"])
def test_bodies_compute_with_sizes(fills, name):
    """Means divide by them, ranges count up to them, and what is checked is compared with them."""

    def run(length):
        draw, x = random.Random(0), drawn(length, WIDTH)
        for _ in range(4):
            x = STEPS[name](it.tanh(x), draw) + 0.1
        return np.asarray(x)

    found = {length: run(length) for length in LENGTHS}
    assert fills.substituted > fills.by_bodies
    fills.alone()
    assert all(same_bits(found[length], run(length)) for length in LENGTHS)


def test_other_defaults_are_another_decomposition(fills):
    """Bodies are public functions, whose results may have the default dtypes."""

    def run(length):
        x = drawn(length, WIDTH)
        for _ in range(5):
            x = it.softmax(it.layer_norm(x, (WIDTH,)), axis=0) + it.gelu(x)
        return np.asarray(x)

    for length in range(40, 48):
        run(length)
    before = fills.by_bodies, fills.substituted
    with it.default_dtypes(integer=it.int32, floating=it.float64):
        run(50)
    assert (fills.by_bodies, fills.substituted) == (before[0] + 1, before[1])
    run(51)
    assert (fills.by_bodies, fills.substituted) == (before[0] + 1, before[1] + 1)


def test_symbols_meet_no_numbers_in_tables_that_last(fills, monkeypatch):
    """Shape rules are remembered by sizes: none that is known for a symbol answers for a number."""
    made = []
    symbolic = pipeline.symbolic_decomposition
    monkeypatch.setattr(
        pipeline,
        "symbolic_decomposition",
        lambda general, *rest: (made.append(general), symbolic(general, *rest))[1],
    )
    for length in range(40, 50):
        generate(length)
    numbers = [size for general in made for size in general.inquiry.symbols]
    assert numbers
    assert all(hash(size) != hash(size.example) for size in numbers)
    for length in range(40, 60):
        table = it.reshape(drawn(length, WIDTH), (1, length, WIDTH))
        assert all(type(n) is int for n in table.shape)
        assert all(type(n) is int for n in it.softmax(table @ drawn(WIDTH, 5), axis=-1).shape)
