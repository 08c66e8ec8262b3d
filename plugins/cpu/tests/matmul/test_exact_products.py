"""Products of whole numbers and extremes of truths: kernels, though no template serves them."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle_cpu.matmul.machine import takes_bytes


@pytest.fixture(autouse=True)
def device():
    with it.device("cpu"):
        yield


def agree(function, want, *arrays):
    """Compiled and recorded, what NumPy has, and no step of the host."""
    tensors, compiled = [it.asarray(a) for a in arrays], compile(function)
    for way in (compiled, compiled, compiled, function, function):
        found = way(*tensors).numpy()
        np.testing.assert_array_equal(found, want)
        assert found.dtype == want.dtype
    assert {step.kind for step in explain(function, *tensors, runs=0).steps} == {"nest"}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64"])
@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 1)), ((2, 1, 3, 40), (5, 40, 70)), ((4,), (4, 5)),
     ((3, 4), (4,)), ((4,), (4,)), ((1, 600), (600, 130)), ((130, 1), (1, 40))],
)  # fmt: skip
def test_products_of_whole_numbers_wrap_around(dtype, left, right):
    rng, limits = np.random.default_rng(0), np.iinfo(dtype)
    a, b = (
        rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        for shape in (left, right)
    )
    agree(lambda a, b: a @ b, np.asarray(a @ b), a, b)


def test_products_of_transposed_operands_and_of_nothing():
    a, b = np.arange(60, dtype=np.int32).reshape(12, 5), np.arange(84, dtype=np.int32)
    agree(lambda a, b: a.T @ b.T, a.T @ b.reshape(7, 12).T, a, b.reshape(7, 12))
    none = it.zeros((3, 0), dtype=it.int32) @ it.zeros((0, 4), dtype=it.int32)
    np.testing.assert_array_equal(none.numpy(), np.zeros((3, 4), np.int32))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extremes_of_truths(name, keepdims):
    reduce, by_numpy = getattr(it, name), getattr(np, name)
    for shape in ((5,), (4, 7), (3, 130, 5), (200, 300)):
        x = np.random.default_rng(0).random(shape) < 0.3
        for axis in (None, *range(len(shape))):
            agree(
                lambda x, axis=axis: reduce(x, axis=axis, keepdims=keepdims),
                np.asarray(by_numpy(x, axis=axis, keepdims=keepdims)), x,
            )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("right", ["int8", "uint8"])
@pytest.mark.parametrize("left", ["int8", "uint8"])
def test_products_of_bytes_are_exact_for_any_size(left, right):
    """Also where k is no multiple of four, and as k changes from call to call."""
    rng = np.random.default_rng(0)
    product, scaled = compile(it.matmul_integer), compile(_scaled)
    for batch, m, k, n in (
        ((), 1, 4, 1), ((), 7, 64, 33), ((), 7, 65, 33), ((), 7, 68, 33), ((2, 3), 5, 1028, 17),
        ((), 40, 3, 9), ((), 64, 128, 64),
    ):  # fmt: skip
        a, b = (
            rng.integers(np.iinfo(d).min, np.iinfo(d).max, s, dtype=d, endpoint=True)
            for d, s in ((left, (*batch, m, k)), (right, (*batch, k, n)))
        )
        a.flat[:k], b.flat[:k] = np.iinfo(left).min, np.iinfo(right).max
        want = np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(np.int32)
        scale = rng.random(n, np.float32)
        x, y, by = (it.asarray(t) for t in (a, b, scale))
        for way in (product, product, it.matmul_integer):
            np.testing.assert_array_equal(way(x, y).numpy(), want)
        for way in (scaled, scaled, _scaled):
            found = way(x, y, by).numpy()
            np.testing.assert_array_equal(found, np.maximum(want.astype(np.float32) * scale, 0))


def _scaled(a, b, scale):
    return it.relu(it.astype(it.matmul_integer(a, b), it.float32) * scale)


@pytest.mark.skipif(not takes_bytes(4), reason="this processor multiplies no bytes")
def test_what_follows_a_product_of_bytes_is_its_epilogue():
    a, b = it.ones((9, 16), dtype=it.int8), it.ones((16, 5), dtype=it.uint8)
    steps = explain(_scaled, a, b, it.ones(5), runs=0).steps
    assert [step.kind for step in steps] == ["product"]
