"""Distributions against SciPy's, by tests that a right sampler fails once in ten thousand seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

import ingle.fusion as fusion
import ingle.tensor as it
from ingle.autodiff import vmap
from ingle.tensor import random
from ingle.tensor.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from ingle.tensor.random import _elementary, _places, continuous

N = 20000
stats = scipy.stats
LOG_NORMAL = stats.lognorm(0.7, 0, np.exp(0.5))
CONTINUOUS: list[tuple[str, Callable[..., Any], Any]] = [
    ("exponential", lambda **o: random.exponential(N, 2.5, **o), stats.expon(scale=1 / 2.5)),
    ("laplace", lambda **o: random.laplace(N, 1.0, 2.0, **o), stats.laplace(1, 2)),
    ("gumbel", lambda **o: random.gumbel(N, -1.0, 0.5, **o), stats.gumbel_r(-1, 0.5)),
    ("cauchy", lambda **o: random.cauchy(N, 3.0, 2.0, **o), stats.cauchy(3, 2)),
    ("log_normal", lambda **o: random.log_normal(N, 0.5, 0.7, **o), LOG_NORMAL),
    ("gamma 0.3", lambda **o: random.gamma(0.3, shape=N, **o), stats.gamma(0.3)),
    ("gamma 1", lambda **o: random.gamma(1.0, 4.0, N, **o), stats.gamma(1, scale=0.25)),
    ("gamma 25", lambda **o: random.gamma(25.0, 0.5, N, **o), stats.gamma(25, scale=2)),
    ("beta 0.5 0.5", lambda **o: random.beta(0.5, 0.5, N, **o), stats.beta(0.5, 0.5)),
    ("beta 3 7", lambda **o: random.beta(3.0, 7.0, N, **o), stats.beta(3, 7)),
    ("dirichlet", lambda **o: random.dirichlet([2.0, 3.0, 4.0], (N,), **o)[:, 1], stats.beta(3, 6)),
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("draw", "oracle"), [c[1:] for c in CONTINUOUS], ids=[c[0] for c in CONTINUOUS]
)
@pytest.mark.usefixtures("road")
def test_continuous(draw: Any, oracle: Any, dtype: str) -> None:
    x = draw(dtype=dtype, generator=random.Generator(5))
    assert x.dtype.name == dtype
    assert stats.kstest(x.numpy().astype(np.float64), oracle.cdf).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("draw", [c[1] for c in CONTINUOUS], ids=[c[0] for c in CONTINUOUS])
def test_the_same_numbers_again(draw: Any) -> None:
    first, second = (draw(generator=random.Generator(9)).numpy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, draw(generator=random.Generator(10)).numpy())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rate", [0.1, 1.0, 9.9, 10.0, 40.0, 3e4])
def test_poisson(rate: float) -> None:
    x = random.poisson(rate, N, generator=random.Generator(5)).numpy()
    oracle = stats.poisson(rate)
    edges = np.unique(oracle.ppf(np.linspace(0, 1, 30)[1:-1]))
    shares = np.diff(np.concatenate([[0.0], oracle.cdf(edges), [1.0]]))
    counts = np.bincount(np.searchsorted(edges, x), minlength=len(shares))
    kept = shares * N > 5
    assert stats.chisquare(
        np.append(counts[kept], counts[~kept].sum() + 1e-9),
        np.append(shares[kept], shares[~kept].sum() + 1e-9 / N) * N,
        sum_check=False,
    ).pvalue > 1e-4  # fmt: skip


def test_poisson_of_many_rates() -> None:
    rates = np.geomspace(0.01, 1e5, 50)
    x = random.poisson(it.asarray(rates), (400, 50), dtype="float64").numpy()
    assert (abs(x.mean(0) - rates) < 5 * np.sqrt(rates / 400)).all()


@pytest.mark.parametrize("replacement", [False, True])
def test_first_choices(replacement: bool) -> None:
    weights = np.asarray([0.5, 0.0, 2.0, 1.5, 4.0])
    many = it.broadcast_to(it.asarray(weights), (N, 5))
    x = random.multinomial(many, 3, replacement, generator=random.Generator(5)).numpy()
    kept = weights > 0
    for column in range(3 if replacement else 1):
        counts = np.bincount(x[:, column], minlength=5)
        assert not counts[1]
        expected = (weights / weights.sum())[kept] * N
        assert stats.chisquare(counts[kept], expected).pvalue > 1e-4
    assert replacement or all(len(set(row)) == 3 for row in x)


def test_second_choices_without_replacement() -> None:
    weights = np.asarray([1.0, 2.0, 3.0])
    many = it.broadcast_to(it.asarray(weights), (N, 3))
    x = random.multinomial(many, 2, generator=random.Generator(6)).numpy()
    p = weights / weights.sum()
    pairs = {(i, j): p[i] * p[j] / (1 - p[i]) for i in range(3) for j in range(3) if i != j}
    counts = [int(((x[:, 0] == i) & (x[:, 1] == j)).sum()) for i, j in pairs]
    assert stats.chisquare(counts, np.asarray(list(pairs.values())) * N).pvalue > 1e-4


def test_categorical() -> None:
    logits = np.asarray([[0.0, 1.0, -1.0], [2.0, 0.0, -np.inf]])
    x = random.categorical(it.asarray(logits), N, generator=random.Generator(5)).numpy()
    assert x.shape == (N, 2)
    for column, row in zip(x.T, logits, strict=True):
        p = np.exp(row) / np.exp(row).sum()
        counts = np.bincount(column, minlength=3)
        assert stats.chisquare(counts[p > 0], (p * N)[p > 0]).pvalue > 1e-4
        assert not counts[p == 0].any()
    assert random.categorical(it.asarray(logits), axis=0).shape == (3,)


def test_small_concentrations_still_sum_to_one() -> None:
    x = random.dirichlet(it.full((4,), 0.001), (200,)).numpy()
    np.testing.assert_allclose(x.sum(-1), 1.0, rtol=1e-6)
    y = random.beta(it.full((200,), 0.001), it.asarray(0.001)).numpy()
    assert ((y >= 0) & (y <= 1)).all()


def test_exponential_function() -> None:
    for dtype, most in (("float32", 88.0), ("float64", 709.0)):
        x = np.random.default_rng(0).uniform(-most + 2, most, 5000).astype(dtype)
        got = _elementary.exp(it.asarray(x)).numpy()
        np.testing.assert_array_max_ulp(got, np.exp(x.astype("float128")).astype(dtype), 2)
    ends = _elementary.exp(it.asarray([-1e9, 0.0, 1e9], dtype="float64")).tolist()
    assert ends == [0.0, 1.0, float("inf")]


def test_shapes() -> None:
    a = it.asarray([[1.0], [2.0]])
    assert random.gamma(a, it.asarray([1.0, 2.0, 3.0])).shape == (2, 3)
    assert random.gamma(a, shape=(4, 2, 5), dtype="float16").dtype is it.float16
    assert random.poisson(it.ones((0, 3))).shape == (0, 3)
    assert random.exponential().shape == ()


@pytest.mark.slow
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_in_a_compiled_function_draws_the_same(replacement: bool) -> None:
    weights = it.asarray(np.random.default_rng(0).uniform(0, 1, (4, 7)))

    def drawn(weights: it.Tensor, generator: random.Generator) -> it.Tensor:
        return random.multinomial(weights, 3, replacement, generator=generator)

    want = drawn(weights, random.Generator(3)).tolist()
    compiled = fusion.compile(drawn)
    assert compiled(weights, random.Generator(3)).tolist() == want
    for wrong in (weights.at[1, 2].set(-1.0), weights.at[1, 2].set(np.nan), weights.at[1].set(0.0)):
        with pytest.raises(OutOfRangeError):
            compiled(wrong, random.Generator(3)).numpy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bernoulli_of_a_probability_for_each_element(dtype: str) -> None:
    p = it.asarray([0.0, 0.25, 0.7, 1.0], dtype=dtype)
    found = random.bernoulli(p, (20_000, 4), generator=random.Generator(1)).numpy()
    assert found.dtype == np.bool_
    np.testing.assert_allclose(found.mean(axis=0), p.numpy(), atol=0.02)
    assert not found[:, 0].any()
    assert found[:, 3].all()
    assert random.bernoulli(p).shape == (4,)
    one = random.bernoulli(it.asarray(0.25), (50,), generator=random.Generator(2))
    assert one.tolist() == random.bernoulli(0.25, (50,), generator=random.Generator(2)).tolist()


def test_bernoulli_of_tensors_that_are_no_probabilities() -> None:
    for wrong in ([0.5, 1.5], [-0.1], [np.nan]):
        with pytest.raises(ArgumentError, match=r"bernoulli: all of p must be in \[0, 1\]"):
            random.bernoulli(it.asarray(wrong))
        with pytest.raises(OutOfRangeError):
            fusion.compile(random.bernoulli)(it.asarray(wrong)).numpy()
    with pytest.raises(ShapeError, match="bernoulli: p of shape"):
        random.bernoulli(it.ones((2, 1)), (3,))
    with pytest.raises(DTypeError, match="bernoulli: p must be real"):
        random.bernoulli(it.ones(2, dtype="complex64"))


BY_REJECTION = [
    ("gamma", lambda a, g: random.gamma(a, a + 1.0, generator=g)),
    ("gamma of a number", lambda a, g: random.gamma(0.7, 2.0, a.shape, generator=g)),
    ("gamma in float64", lambda a, g: random.gamma(a, dtype="float64", generator=g)),
    ("beta", lambda a, g: random.beta(a, 0.5, generator=g)),
    ("dirichlet", lambda a, g: random.dirichlet(a, (3,), generator=g)),
    ("poisson", lambda a, g: random.poisson(a, generator=g)),
    ("poisson of large rates", lambda a, g: random.poisson(a + 11.0, generator=g)),
    ("poisson of a number", lambda a, g: random.poisson(2.0, a.shape, generator=g)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw", [d for _, d in BY_REJECTION], ids=[n.replace(" ", "-") for n, _ in BY_REJECTION]
)
@pytest.mark.parametrize("shape", [(), (700,), (0, 3), (5, 1)])
def test_what_is_drawn_by_rejection_is_the_same_in_a_compiled_function(
    draw: Any, shape: tuple[int, ...]
) -> None:
    """Other numbers than the first are drawn for what was rejected, and none are lost after it."""
    if not shape and draw is dict(BY_REJECTION)["dirichlet"]:
        shape = (1,)
    rates = np.random.default_rng(1).uniform(0.1, 30.0, shape).astype(np.float32)
    plain, fast = random.Generator(3), random.Generator(3)
    run = fusion.compile(draw)
    for _ in range(3):
        want = draw(it.asarray(rates), plain)
        got = run(it.asarray(rates), fast)
        np.testing.assert_array_equal(got.numpy(), want.numpy())
        assert fast.state == plain.state
        rates = rates * np.float32(0.5)


@pytest.mark.parametrize("device", ["numpy", pytest.param("cpu", marks=pytest.mark.slow)])
def test_a_few_numbers_drawn_by_one_program_are_those_drawn_one_operation_at_a_time(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = np.random.default_rng(1).uniform(0.1, 30.0, 40).astype(np.float32)
    made: list[list[Any]] = []
    for few in (_places.FEW, 0):
        monkeypatch.setattr(_places, "FEW", few)
        generator = random.Generator(3)
        generator.state = (1 << 63, (1 << 64) - 1500)  # the stream begins anew in between
        with it.device(device):
            a = it.asarray(rates)
            draws = [[d(a, generator).tolist() for _ in range(2)] for _, d in BY_REJECTION]
        made.append([*draws, list(generator.state)])
    assert made[0] == made[1]


def test_a_few_numbers_of_ever_other_shapes_are_drawn_again_where_they_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One program for each shape is traced for the first shapes only; behind these a loop that
    draws all again takes three times as long as what draws again what is left."""
    asked: list[bool] = []
    plain = continuous._log_gamma

    def log_gamma(a: it.Tensor, *places: _places.AnyPlace) -> it.Tensor:
        asked.append(isinstance(places[0], _places.TracedPlace))
        return plain(a, *places)

    monkeypatch.setattr(continuous, "_log_gamma", log_gamma)
    with it.device("numpy"):
        for size in range(3, 15):
            random.gamma(it.full((size,), 0.7), dtype="float64")
    assert asked[-6:] == [False] * 6


def test_places_of_what_is_drawn_by_rejection_begin_anew_behind_the_last() -> None:
    plain, fast = random.Generator(3), random.Generator(3)
    plain.state = fast.state = (5, (1 << 64) - 700)
    run = fusion.compile(lambda a, g: random.gamma(a, generator=g))
    a = it.full((900,), 0.6)
    want = random.gamma(a, generator=plain)
    np.testing.assert_array_equal(run(a, fast).numpy(), want.numpy())
    assert fast.state == plain.state


@pytest.mark.slow
def test_how_much_is_drawn_by_rejection_depends_on_the_shape_alone() -> None:
    for draw in (random.gamma, random.poisson, lambda a, **o: random.beta(a, 2.0, **o)):
        states = set()
        for rate in (0.01, 0.9, 5.0, 9.9, 10.0, 4000.0):
            generator = random.Generator(3)
            draw(it.full((300,), rate), generator=generator)
            states.add(generator.state)
        assert len(states) == 1


@pytest.mark.slow
def test_gammas_of_a_batch_are_those_of_each() -> None:
    a = it.asarray(np.random.default_rng(1).uniform(0.1, 3.0, (4, 50)))

    def one(row: it.Tensor) -> it.Tensor:
        return random.gamma(row, generator=random.Generator(5))

    got = vmap(one)(a).numpy()
    np.testing.assert_array_equal(got, np.stack([one(row).numpy() for row in a]))


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_parameters_of_what_is_drawn_by_rejection_are_positive_and_finite(wrong: float) -> None:
    """With an infinite one no attempt is ever accepted."""
    for draw in (random.gamma, random.poisson, random.dirichlet):
        with pytest.raises(ArgumentError, match="must be positive and finite, got"):
            draw(it.asarray([1.0, wrong]))
        with pytest.raises(OutOfRangeError):
            fusion.compile(draw)(it.asarray([1.0, wrong])).numpy()
    for draw in (random.gamma, random.poisson):
        with pytest.raises(ArgumentError, match="must be positive and finite, got"):
            draw(float(wrong))


def test_errors() -> None:
    with pytest.raises(ArgumentError, match="exponential: rate must be positive, got 0"):
        random.exponential(3, 0)
    with pytest.raises(ArgumentError, match="gamma: concentration must be positive and finite"):
        random.gamma(it.asarray([1.0, -1.0]))
    with pytest.raises(ShapeError, match="beta: shapes"):
        random.beta(it.ones(3), 1.0, (2,))
    with pytest.raises(DTypeError, match="laplace: dtype must be a float dtype"):
        random.laplace(3, dtype="int32")
    with pytest.raises(ShapeError, match="dirichlet: concentration"):
        random.dirichlet(it.asarray(1.0))
    with pytest.raises(ArgumentError, match="multinomial: weights must be finite"):
        random.multinomial(it.asarray([1.0, -1.0]), 1)
    with pytest.raises(ArgumentError, match="at least 2 of each row positive"):
        random.multinomial(it.asarray([1.0, 0.0]), 2)
    with pytest.raises(ShapeError, match="categorical: logits"):
        random.categorical(it.zeros((0,)))


@pytest.mark.parametrize("draw", [random.normal, random.laplace, random.uniform])
def test_parameters_of_each_element_are_scaled_and_shifted(draw: Any) -> None:
    with pytest.raises(ArgumentError, match="scale and shift what is drawn"):
        draw((2,), it.asarray([1.0, 2.0]), it.asarray([3.0, 4.0]))
