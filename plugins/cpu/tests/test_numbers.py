"""What fusing must not change: the same bits alone and fused, and half types that agree."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.autodiff as autodiff
import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.tensor.dtypes import as_dtype


@pytest.fixture(autouse=True)
def on_cpu():
    with it.device("cpu"):
        yield


def numbers(*shape, seed=0, dtype="float32"):
    drawn = np.random.default_rng(seed).uniform(-2, 2, shape)
    return it.asarray(drawn.astype(as_dtype(dtype).dtype))


def three_times(function, *args):
    """Compiled: recorded, verified, and by the fast path; and as stored for later."""
    compiled = compile(function)
    for way in (compiled, function):
        for _ in range(3):
            yield function_results(way(*args))


def function_results(found):
    return [v.numpy() for v in (found if isinstance(found, tuple) else (found,))]


SHAPES = [(5, 3, 4), (1, 17, 5), (33, 64, 5), (4, 8, 8), (70, 130, 90)]


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_products_have_the_bits_that_they_have_alone(m, k, n, turned):
    a = numbers(*((k, m) if "a" in turned else (m, k)))
    b = numbers(*((n, k) if "b" in turned else (k, n)), seed=1)
    bias = numbers(n, seed=2)

    def turn(a, b):
        return (
            it.matrix_transpose(a) if "a" in turned else a,
            it.matrix_transpose(b) if "b" in turned else b,
        )

    alone = it.matmul(*turn(a, b)).numpy()
    want = np.maximum(alone + bias.numpy(), 0)
    for (got,) in three_times(lambda a, b, c: it.relu(it.matmul(*turn(a, b)) + c), a, b, bias):
        np.testing.assert_array_equal(got, want)


def test_sums_have_the_bits_that_they_have_alone():
    x = numbers(37, 129)
    alone = [it.sum(x, axis=a).numpy() for a in (0, 1, None)]

    def several(x):
        return it.sum(x, axis=0) * 1.0, it.sum(x, axis=1) + 0.0, it.sum(x) * 1.0

    for got in three_times(several, x):
        for one, other in zip(got, alone, strict=True):
            np.testing.assert_array_equal(one, other)


def turned_sums(x):
    """Sums of values that the loops of their kernel walk in another order than their own."""
    y = it.exp(x * 0.1)
    z = it.permute_dims(y, (2, 0, 1))
    w = it.permute_dims(x, (1, 0, 2)) * 0.5
    return (
        it.sum(z), it.sum(y), it.sum(z, axis=0), it.sum(y, axis=2), it.sum(y, axis=1),
        it.sum(z, axis=(0, 2)), it.sum(z, axis=2), it.sum(w, axis=(0, 1)), it.sum(w, axis=1),
        it.sum(w + it.permute_dims(z, (2, 1, 0)), axis=(1, 2)),
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(33, 17, 8), (5, 40, 70), (1, 33, 17), (8, 1, 65), (3, 3, 1)])
def test_sums_of_transposed_values_have_the_bits_that_they_have_alone(shape):
    x = numbers(*shape)
    alone = [v.numpy() for v in turned_sums(x)]  # the first time operation by operation
    for got in three_times(turned_sums, x):
        for one, other in zip(got, alone, strict=True):
            np.testing.assert_array_equal(one, other)


def weighted_norm(x, weight, bias, g):
    return it.sum(it.layer_norm(x, (x.shape[-1],), weight, bias) * g)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(200, 100), (4, 64, 48), (129, 16), (3, 5, 70, 33), (20, 40)])
def test_sums_over_rows_of_a_kernel_that_goes_by_rows(shape, dtype):
    """The gradients of a norm's weight and bias: in two steps the bits that they have alone."""
    n = shape[-1]
    args = [numbers(*s, seed=k, dtype=dtype) for k, s in enumerate((shape, (n,), (n,), shape))]
    gradients = autodiff.grad(weighted_norm, argnums=(0, 1, 2))
    alone = [v.numpy() for v in gradients(*args)]
    for got in three_times(gradients, *args):
        for one, other in zip(got, alone, strict=True):
            np.testing.assert_array_equal(one, other)
    x, _, _, g = [a.numpy().astype(np.float64) for a in args]
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    axes = tuple(range(len(shape) - 1))
    np.testing.assert_allclose(alone[1], (g * normal).sum(axes), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(alone[2], g.sum(axes), rtol=1e-4, atol=1e-4)


def test_the_backward_pass_of_a_norm_goes_through_memory_once():
    args = [numbers(256, 512), numbers(512), numbers(512), numbers(256, 512)]
    plan = explain(autodiff.grad(weighted_norm, argnums=(0, 1, 2)), *args, runs=0)
    assert [s.operations[-1] for s in plan.steps] == ["block_sums", "totals", "totals"]
    assert [s.sizes for s in plan.steps] == [(256, 512), (512, 8), (512, 8)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["bool", "float32", "int8", "bfloat16"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (0, 1)])
def test_truth_along_axes(dtype, axis):
    drawn = np.random.default_rng(0).random((7, 33, 130))
    for share in (0.001, 0.05, 0.999):
        values = (drawn < share).astype(as_dtype(dtype).dtype)
        x = it.asarray(values)

        def both(x, axis=axis):
            return it.any(x, axis=axis), it.all(x != 0, axis=axis, keepdims=True)

        truth = values.astype(bool)
        for some, every in three_times(both, x):
            assert some.dtype == every.dtype == bool
            np.testing.assert_array_equal(some, truth.any(axis=axis))
            np.testing.assert_array_equal(every, truth.all(axis=axis, keepdims=True))


def test_any_and_all_are_fused_with_what_they_ask():
    x = numbers(40, 50)
    plan = explain(lambda x: it.any(x * 2.0 > 3.9, axis=1), x, runs=0)
    assert [(s.kind, s.name) for s in plan.steps] == [("nest", "multiply greater any")]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_maximum_equals_its_element_in_half_types(dtype):
    """Its gradient divides by how many elements equal it, which must not be none."""
    x = numbers(6, 10, dtype=dtype)

    def f(x):
        y = it.gelu(it.erf(x))
        return it.sum(it.square(it.max(y, axis=1, keepdims=True) * 3.0))

    def equal(x):
        y = it.tanh(x) * 1.7
        return it.sum((y == it.max(y, axis=1, keepdims=True)).astype("int32"), axis=1)

    for (got,) in three_times(autodiff.grad(f), x):
        assert np.isfinite(got.astype(np.float32)).all()
        assert ((got != 0).sum(axis=1) >= 1).all()
    for (got,) in three_times(equal, x):
        assert (got >= 1).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floors_and_comparisons_see_rounded_half_types(dtype):
    x = it.arange(4000).astype(dtype) * 0.01

    def f(x):
        y = x * 1.1 + 0.3
        return y, it.floor(y), y >= 12.0, it.argmax(it.reshape(y, (40, 100)), axis=0)

    for got in three_times(f, x):
        y = got[0].astype(np.float32)
        np.testing.assert_array_equal(got[1].astype(np.float32), np.floor(y))
        np.testing.assert_array_equal(got[2], y >= 12)
        np.testing.assert_array_equal(got[3], y.reshape(40, 100).argmax(0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_exact_rounds_after_each_operation(dtype, monkeypatch):
    monkeypatch.setenv("INGLE_FUSION_EXACT", "1")
    x, y = numbers(50, 20, dtype=dtype), numbers(50, 20, seed=1, dtype=dtype)

    def f(x, y):
        a = it.tanh(x * y + 0.1) - x / (y * y + 1.0)
        return a, it.sum(a * 3.0, axis=1) * 0.7, it.exp(a - it.max(a, axis=1, keepdims=True))

    steps = [v.numpy() for v in f(x, y)]  # the first time operation by operation
    for got in three_times(f, x, y):
        for one, other in zip(got, steps, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("dtype", "large"), [("float16", 70_000), ("float32", 10**40)])
def test_integers_beyond_a_dtype_are_infinite(dtype, large):
    """Given to a plan, and to a kernel that plain code calls straight."""
    x = numbers(3, dtype=dtype)
    scaled = compile(lambda x, n: it.maximum(x, n) * 2)
    for n in (1, 2, large, -large):
        want = np.maximum(x.numpy(), np.inf if n == large else -np.inf if n == -large else n)
        np.testing.assert_array_equal(scaled(x, n).numpy(), want * 2)
    root = abs(x) + 1
    for n in (1, 2, 1, large):
        found = (root**n).numpy()
    assert np.isposinf(found).all()


def test_gelu_far_from_zero():
    x = it.asarray(np.array([-3772, -20, -6, 6, 20, 3772, np.inf, np.nan], np.float32))
    got = compile(it.gelu)(x).numpy()
    np.testing.assert_array_equal(got, [-0.0, -0.0, -0.0, 6, 20, 3772, np.inf, np.nan])
    np.testing.assert_array_equal(it.erf(x).numpy(), [-1, -1, -1, 1, 1, 1, 1, np.nan])


@pytest.mark.slow
def test_rows_that_are_picked_meet_a_product():
    a, b = numbers(9, 5), numbers(9, 5, seed=1)

    def f(a, b):
        picked = it.relu(it.tanh(it.take(b, it.asarray([4, -2, 0, 1, 2, 3, 0, 1, 4]), axis=1)))
        return it.maximum(picked, it.matmul(a, it.matrix_transpose(a)) * 0.1)

    picked = np.maximum(np.tanh(b.numpy()[:, [4, -2, 0, 1, 2, 3, 0, 1, 4]]), 0)
    want = np.maximum(picked, a.numpy() @ a.numpy().T * 0.1)
    for (got,) in three_times(f, a, b):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_sums_that_share_a_pass_have_their_own_blocks():
    x = numbers(3, 5000)

    def f(x):
        wide = it.exp(x).astype("float64")
        return it.sum(it.exp(x), axis=1), it.sum(wide, axis=1), it.max(x.astype("int8"), axis=1)

    alone = [v.numpy() for v in f(x)]
    for got in three_times(f, x):
        for one, other in zip(got, alone, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("batch", [(), (4,), (2, 3), (2, 1, 3)])
def test_indices_in_the_epilogue_of_a_product(batch):
    a, b = numbers(*batch, 9, 5), numbers(*batch, 9, 5, seed=1)

    def f(a, b):
        scores = it.matmul(a, it.matrix_transpose(b))
        rows, columns = it.arange(9)[:, None], it.arange(9)
        return it.softmax(it.where(rows >= columns, scores, -np.inf), axis=-1)

    scores = a.numpy().astype(np.float64) @ b.numpy().swapaxes(-1, -2)
    scores = np.where(np.arange(9)[:, None] >= np.arange(9), scores, -np.inf)
    want = np.exp(scores - scores.max(-1, keepdims=True))
    want /= want.sum(-1, keepdims=True)
    for (got,) in three_times(f, a, b):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_dropout_in_the_epilogue_of_a_product():
    a = numbers(3, 20, 30)
    masks = [it.random.Generator(5), it.random.Generator(5)]

    def f(a, generator):
        scores = it.matmul(a, it.matrix_transpose(a))
        return it.dropout(scores * 0.5, 0.5, generator=generator)

    compiled = compile(lambda a: f(a, masks[0]))
    for _ in range(4):
        want = it.dropout(it.ones((3, 20, 20)), 0.5, generator=masks[1]).numpy()
        want = want * (a.numpy() @ a.numpy().swapaxes(-1, -2)) * 0.5
        np.testing.assert_allclose(compiled(a).numpy(), want, rtol=1e-5, atol=1e-5)


def test_an_exception_while_writing_down():
    x = numbers(5)
    before = it.exp(x) * 2.0
    with pytest.raises(it.errors.ShapeError):
        before + numbers(4)
    np.testing.assert_allclose((before + 1.0).numpy(), np.exp(x.numpy()) * 2 + 1, rtol=1e-6)
