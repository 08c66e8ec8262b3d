"""Random numbers: known answers, exact definitions, distributions, generators."""

import copy
import pickle
import threading
import zlib

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

import ingle.tensor as it
from ingle.tensor import random
from ingle.tensor.errors import ArgumentError, DTypeError
from ingle.tensor.ops.random.bits import reference_bits

# The known answers of Random123 for threefry2x32 with 20 rounds: counter, key, result.
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter, key, answer):
    place = (key[0] | key[1] << 32, counter[0] | counter[1] << 32)
    assert tuple(it.random_bits(2, place).tolist()) == answer
    assert tuple(reference_bits(2, place).tolist()) == answer


def test_kernel_equals_body_and_reference_across_parts_and_carries():
    from ingle.tensor.dispatch import execute_body
    from ingle.tensor.ops.random.bits import RANDOM_BITS, Place

    place = Place(0xDEADBEEF12345678, (1 << 32) - 5000)
    op = RANDOM_BITS.op(shape=(20_001,))
    kernel = it.random_bits(20_001, place).numpy()
    (body,) = execute_body(op, place.scalars(), it.default_device())
    np.testing.assert_array_equal(kernel, it.Tensor(body).numpy())
    np.testing.assert_array_equal(kernel[:12_000], reference_bits(12_000, place))


def test_pairs_are_the_words_of_bits_two_by_two():
    from ingle.tensor.dispatch import execute_body
    from ingle.tensor.ops.random.bits import Place
    from ingle.tensor.ops.random.pairs import RANDOM_PAIRS, random_pairs

    place = Place(0xDEADBEEF12345678, (1 << 32) - 5000)
    words = it.random_bits((20_001, 2), place).numpy().astype(np.uint64)
    expected = words[:, 0] << np.uint64(32) | words[:, 1]
    np.testing.assert_array_equal(random_pairs(20_001, place).numpy(), expected)
    op = RANDOM_PAIRS.op(shape=(20_001,))
    (body,) = execute_body(op, place.scalars(), it.default_device())
    np.testing.assert_array_equal(it.Tensor(body).numpy(), expected)


def test_the_numbers_of_a_seed_stay():
    def drawn(draw, *args, **named):
        return draw(*args, **named, generator=random.Generator(7)).tolist()

    assert drawn(random.randint, 0, 1000, 4) == [785, 696, 767, 372]
    assert drawn(random.permutation, 6) == [2, 4, 3, 5, 1, 0]
    assert drawn(random.uniform, 2, dtype="float64") == [0.9084802528512516, 0.6903172181654502]
    assert drawn(random.multinomial, it.asarray([1.0, 2.0, 3.0, 4.0]), 6, True) == [
        2,
        0,
        2,
        3,
        3,
        2,
    ]


@pytest.mark.parametrize(
    ("name", "parameters", "dtype", "checksum", "drawn"),
    [
        ("gamma", (0.6, 2.0), "float32", 2032572, 193_500),
        ("gamma", (2.5, 1.0), "float64", 4149292439, 387_000),
        ("beta", (0.5, 2.0), "float32", 3319785718, 387_000),
        ("poisson", (40.0,), "int64", 3011226310, 387_000),
        ("poisson", (3.0,), "int64", 2901018938, 387_000),
    ],
)
def test_the_numbers_of_a_seed_stay_where_some_are_rejected(
    name, parameters, dtype, checksum, drawn
):
    generator = random.Generator(7)
    x = getattr(random, name)(*parameters, 3000, dtype=dtype, generator=generator)
    assert zlib.crc32(x.numpy().tobytes()) == checksum
    assert generator.state == (7, drawn)


@pytest.mark.slow
def test_rejected_numbers_are_drawn_again_in_few_sizes():
    from ingle.tensor.random._rejection import reserved, until_accepted

    sizes = []

    def attempt(x, goal):
        sizes.append(x.shape[0])
        return x, x < goal

    for count in range(900, 1100, 7):
        place = reserved(random.Generator(count), ("uniform",), (count,), it.float32)
        x = until_accepted(attempt, ("uniform",), place, it.full((count,), 0.4))
        assert x.shape == (count,)
        assert 0 < x.min().item() <= x.max().item() < 0.4
    assert set(sizes) - set(range(900, 1100, 7)) <= {64, 128, 256, 512, 1024}


def test_what_is_never_accepted_is_the_last_attempt():
    from ingle.tensor.random._rejection import ROUNDS, reserved, until_accepted

    tried = []

    def attempt(x, goal):
        tried.append(x.tolist())
        return x, x < goal

    place = reserved(random.Generator(1), ("uniform",), (1,), it.float32)
    x = until_accepted(attempt, ("uniform",), place, it.zeros((1,)))
    assert len(tried) == ROUNDS
    assert x.tolist() == tried[-1][:1]


def test_a_draw_continues_where_the_last_one_ended():
    a, b = random.Generator(3), random.Generator(3)
    parts = it.concat([random.uniform(4, generator=a), random.uniform(6, generator=a)])
    np.testing.assert_array_equal(parts.numpy(), random.uniform(10, generator=b).numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_stays_below_one_and_is_uniform(dtype):
    x = random.uniform(50_000, dtype=dtype, generator=random.Generator(1)).numpy().astype(float)
    assert x.min() >= 0
    assert x.max() < 1
    if dtype in ("float32", "float64"):
        assert stats.kstest(x, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(("dtype", "ulp"), [("float32", 16), ("float64", 32)])
def test_inverse_normal_against_scipy(dtype, ulp):
    eps = np.finfo(dtype).eps
    p = np.concatenate([
        np.linspace(1e-6, 1 - 1e-6, 20_001), 2.0 ** -np.arange(2, 24), 1 - 2.0 ** -np.arange(2, 22),
    ]).astype(dtype)  # fmt: skip
    got = it.inverse_normal(it.asarray(p)).numpy().astype(float)
    want = ndtri(p.astype(float))
    assert np.max(np.abs(got - want) / np.maximum(np.abs(want), 0.05)) < ulp * eps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_is_normal_and_symmetric_in_its_tails(dtype):
    x = random.normal(100_000, dtype=dtype, generator=random.Generator(2)).numpy().astype(float)
    assert np.isfinite(x).all()
    assert stats.kstest(x, "norm").pvalue > 1e-3
    assert abs(stats.kurtosis(x)) < 0.1


def test_extreme_uniforms_give_finite_normals():
    ends = it.asarray(np.array([2.0**-24, 1 - 2.0**-24], np.float32))
    low, high = it.inverse_normal(ends).tolist()
    assert low == -high
    assert 5.0 < high < 6.0


@pytest.mark.parametrize(
    ("mean", "std", "low", "high"), [(0, 1, -2, 2), (1, 2, 0, 1.5), (0, 1, 4, 9), (0, 1, -9, -4)]
)
def test_truncated_normal(mean, std, low, high):
    x = random.truncated_normal(20_000, mean, std, low, high, dtype="float64").numpy()
    assert low <= x.min()
    assert x.max() <= high
    law = stats.truncnorm((low - mean) / std, (high - mean) / std, mean, std)
    assert stats.kstest(x, law.cdf).pvalue > 1e-3


def test_randint_bernoulli_permutation():
    x = random.randint(-3, 9, 24_000, generator=random.Generator(4)).numpy()
    assert stats.chisquare(np.bincount(x + 3, minlength=12)).pvalue > 1e-3
    wide = random.randint(0, (1 << 63) - 1, 1000).numpy()
    assert wide.min() >= 0
    assert wide.max() > 1 << 61
    flips = random.bernoulli(0.3, 20_000).numpy()
    assert abs(flips.mean() - 0.3) < 0.02
    order = random.permutation(1000).numpy()
    assert sorted(order) == list(range(1000))
    assert list(order) != sorted(order)
    assert random.permutation(0).shape == (0,)


def test_dropout_scales_repeats_in_the_gradient_and_can_do_nothing():
    x = it.asarray(np.random.default_rng(0).normal(size=(50, 40)))
    y = it.dropout(x, 0.25, generator=random.Generator(8)).numpy()
    kept = y != 0
    assert abs(kept.mean() - 0.75) < 0.03
    np.testing.assert_allclose(y[kept], x.numpy()[kept] / 0.75)
    leaf = x.require_grad()
    out = it.dropout(leaf, 0.25, generator=random.Generator(8))
    np.testing.assert_allclose(out.sum().backward()[leaf].numpy(), kept / 0.75)
    np.testing.assert_array_equal(it.dropout(x, 0.0).numpy(), x.numpy())
    assert not it.dropout(x, 1.0).numpy().any()


def test_generators_are_cells():
    g = random.Generator(11)
    with it.transaction(commit=False):
        inside = random.uniform(3, generator=g)
    np.testing.assert_array_equal(random.uniform(3, generator=g).numpy(), inside.numpy())
    for twin in (copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        assert twin.state == g.state
    assert repr(g) == "Generator(seed=11, drawn=2)"
    assert random.Generator(None).state != random.Generator(None).state


def test_threads_never_draw_the_same_numbers():
    g = random.Generator(0)
    got = []

    def work():
        got.extend(g.draw(1).counter for _ in range(500))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(got) == list(range(4000))


def test_bad_arguments():
    with pytest.raises(ArgumentError, match=r"2\*\*64.*-1"):
        random.Generator(-1)
    with pytest.raises(ArgumentError, match="low=2"):
        random.uniform(3, 2, 1)
    for first, second in ((0, 1), (-1, 1), (2, 3), (0, 10)):
        with pytest.raises(ArgumentError, match=rf"range or two.*\(\(\), {first}, {second}\)"):
            random.uniform(first, second)
    assert random.uniform(3, -1).shape == random.uniform(3, 5, 7).shape == (3,)
    with pytest.raises(ArgumentError, match="std"):
        random.normal(3, std=-1.0)
    with pytest.raises(ArgumentError, match="low < high"):
        random.randint(3, 3)
    with pytest.raises(DTypeError, match="int64"):
        random.uniform(3, dtype="int64")
    with pytest.raises(DTypeError, match="float32"):
        random.randint(3, dtype="float32")
    with pytest.raises(ArgumentError, match=r"\[0, 1\].*1.5"):
        it.dropout(it.ones(2), 1.5)
    with pytest.raises(ArgumentError, match=r"1.5"):
        random.bernoulli(1.5)


def test_sizes_one_by_one_are_no_mean():
    with pytest.raises(ArgumentError, match=r"normal: 3, 4 may be two sizes.*normal\(\(3, 4\)\)"):
        it.random.normal(3, 4)
    for made in (
        it.random.normal(3, 4.0), it.random.normal((3,), 4), it.random.normal(3, 0, 1),
    ):  # fmt: skip
        assert made.shape == (3,)
