"""Sums of pieces in zeros are put together from the pieces, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile, explain, pipeline
from ingle.testkit.bits import same_bits


@pytest.fixture(autouse=True)
def on_cpu():
    with it.device("cpu"):
        yield


@pytest.fixture
def added():
    """Has a function run where such sums are additions."""

    def run(function, *args):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pipeline, "with_concat_of_pads", lambda graph: graph)
            return function(*args)

    return run


def numbers(*shape, seed=0, dtype="float32"):
    drawn = np.random.default_rng(seed).uniform(-9, 9, shape).astype(np.float32)
    return it.asarray(drawn).astype(dtype)


def kernels(function, *args):
    return [step.name for step in explain(function, *args, runs=0).steps]


def in_zeros(piece, shape, first):
    return it.slice_update(it.zeros(shape, dtype=piece.dtype), piece, first)


def alike(added, function, *args):
    got, want = compile(function)(*args).numpy(), added(compile(function), *args).numpy()
    assert got.dtype == want.dtype
    assert same_bits(got, want)
    return got


DTYPES = ["float32", "float64", "bfloat16", "float16", "int32", "int64", "uint8"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_pieces_side_by_side(added, dtype):
    pieces = [numbers(4, n, seed=n, dtype=dtype) for n in (2, 3, 5)]

    def whole(a, b, c):
        b, c = [in_zeros(p, (4, 10), (0, n)) for p, n in ((b, 2), (c, -5))]
        return (c + b) + in_zeros(a, (4, 10), (0, 0))

    assert not any("add" in n for n in kernels(whole, *pieces)) or "float" in dtype
    got = alike(added, whole, *pieces)
    want = np.concatenate([p.numpy() for p in pieces], axis=1)
    np.testing.assert_array_equal(got, want)


def test_zeros_have_no_sign_behind_an_addition(added):
    a, b = it.asarray(np.float32([-0.0, 1.0, np.nan])), it.asarray(np.float32([np.inf, -0.0]))

    def whole(a, b):
        return in_zeros(a, (5,), (0,)) + in_zeros(b, (5,), (3,))

    got = alike(added, whole, a, b)
    np.testing.assert_array_equal(got, np.float32([0.0, 1.0, np.nan, np.inf, 0.0]))
    assert not np.signbit(got[[0, 4]]).any()


def test_pieces_through_views_are_written_by_their_kernels(added):
    """Queries, keys and values of one product: its gradient is made of theirs."""
    x, w = numbers(2, 6, 8), numbers(8, 24, seed=1)

    def loss(x, w):
        qkv = it.reshape(it.reshape(x, (12, 8)) @ w, (2, 6, 3, 2, 4))
        parts = it.permute_dims(qkv, (2, 0, 3, 1, 4))
        q, k, v = parts[0], parts[1], parts[2]
        return it.sum(it.matmul(it.matmul(q, it.matrix_transpose(k)) * 0.01, v))

    def gradient(x, w):
        return value_and_grad(loss, argnums=1)(x, w)[1]

    assert len(kernels(gradient, x, w)) <= len(added(kernels, gradient, x, w)) - 4
    got = alike(added, gradient, x, w)
    with it.device("numpy"):
        want = gradient(it.asarray(x.numpy()), it.asarray(w.numpy())).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("sizes", "firsts"),
    [((2, 3), (0, 3)), ((3, 3), (0, 2)), ((2, 3), (1, 3)), ((3, 3), (0, 0)), ((5, 5), (0, 0))],
)
def test_gaps_and_overlaps_are_added(added, sizes, firsts):
    """None of these is side by side in six."""
    a, b = [numbers(n, 2, seed=n) for n in sizes]

    def whole(a, b):
        return in_zeros(a, (6, 2), (firsts[0], 0)) + in_zeros(b, (6, 2), (firsts[1], 0))

    want = np.zeros((6, 2), np.float32)
    for piece, first in zip((a, b), firsts, strict=True):
        want[first : first + len(piece.numpy())] += piece.numpy()
    np.testing.assert_array_equal(alike(added, whole, a, b), want)


def test_what_is_used_elsewhere_too(added):
    a, b = numbers(2, 3), numbers(4, 3, seed=1)

    def whole(a, b):
        first, second = in_zeros(a, (6, 3), (0, 0)), in_zeros(b, (6, 3), (2, 0))
        both = first + second
        return it.stack([both, first * 2.0, both + second, it.ones((6, 3)) + second])

    x, y = np.zeros((6, 3), np.float32), np.zeros((6, 3), np.float32)
    x[:2], y[2:] = a.numpy(), b.numpy()
    want = np.stack([x + y, x * 2, x + y + y, 1 + y])
    np.testing.assert_allclose(alike(added, whole, a, b), want, rtol=1e-6)


def test_ones_are_no_zeros(added):
    a, b = numbers(2), numbers(3, seed=1)

    def whole(a, b):
        y = it.slice_update(it.ones(5), a, (0,)) + it.slice_update(it.zeros(5), b, (2,))
        return y + it.slice_update(it.full(5, -0.0), a, (0,))

    want = np.r_[a.numpy() * 2, b.numpy() + 1]
    np.testing.assert_allclose(alike(added, whole, a, b), want, rtol=1e-6)


def test_long_sums_are_no_search():
    """What is added up from thousands of other things is left alone, quickly."""
    x = numbers(3)

    def total(x):
        y = x
        for _ in range(1500):
            y = y + x
        return y

    np.testing.assert_allclose(compile(total)(x).numpy(), x.numpy() * 1501, rtol=1e-3)
