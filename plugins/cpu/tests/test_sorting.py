"""Sorts: short rows by kernels, all of them in the order that NumPy has."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain, graph_of
from ingle.fusion.grouping.legality import LONGEST_NETWORK
from ingle.tensor.dtypes import as_dtype

NARROW = ["float32", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "uint32", "bool"]
WIDE = ["float64", "int64", "uint64"]


@pytest.fixture(autouse=True)
def device():
    with it.device("cpu"):
        yield


def drawn(shape, dtype="float32"):
    """Numbers with many equal ones among them, and the largest and smallest."""
    rng, kind = np.random.default_rng(shape), as_dtype(dtype).dtype
    if dtype == "bool":
        return rng.random(shape) < 0.5
    few = [-2.0, -1.0, 1.0, 2.5, np.inf, -np.inf, np.nan]
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        few = [limits.min, limits.max, 0, 1, 2, limits.max - 1]
    return rng.choice(np.array(few, kind), shape)


def agree(function, array, *, kernels=True):
    """Compiled and recorded, what the numpy backend has."""
    with it.device("numpy"):
        want = function(it.asarray(array)).numpy()
    x, compiled = it.asarray(array), compile(function)
    for way in (compiled, compiled, compiled, function, function):
        found = way(x).numpy()
        assert found.dtype == want.dtype
        if found.dtype.kind in "fV":
            found = found.astype(np.float64)
        np.testing.assert_array_equal(found, want.astype(found.dtype))
    kinds = {step.kind for step in explain(function, x, runs=0).steps}
    assert ("host" not in kinds) == kernels


@pytest.mark.sampled(6)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", NARROW + WIDE)
def test_short_rows(dtype, descending):
    for shape, axes in (((5,), [0]), ((3, 4, 70), [0, 1])):
        for axis in axes:
            x = drawn(shape, dtype)
            agree(lambda x, a=axis: it.sort(x, axis=a, descending=descending), x)
            if dtype in NARROW:
                agree(lambda x, a=axis: it.argsort(x, axis=a, descending=descending), x)


@pytest.mark.parametrize("length", [1, 2, 7, LONGEST_NETWORK])
def test_every_length(length):
    x = drawn((300, length))
    agree(lambda x: it.sort(x, axis=1), x)
    agree(lambda x: it.argsort(x.T, axis=0, descending=True), x)


def test_long_rows_and_places_of_wide_elements_are_left_to_numpy():
    agree(lambda x: it.sort(x, axis=1), drawn((30, LONGEST_NETWORK + 1)), kernels=False)
    agree(lambda x: it.argsort(x, axis=0), drawn((300, 4)), kernels=False)
    agree(lambda x: it.argsort(x, axis=1), drawn((300, 4), "int64"), kernels=False)


@pytest.mark.slow
def test_of_views_and_into_parts():
    x = drawn((9, 6))
    for find in (it.sort, it.argsort):
        agree(lambda x, f=find: f(x.T, axis=0), x)
        agree(lambda x, f=find: f(it.flip(x, axis=1)[::2], axis=1), x)
        agree(lambda x, f=find: f(it.broadcast_to(x[:1], (9, 6)), axis=1), x)
        agree(lambda x, f=find: f(it.broadcast_to(x[:, :1], (9, 6)), axis=1), x)
        agree(lambda x, f=find: f(it.ones((9, 6)), axis=1) + x, x)
        agree(lambda x, f=find: it.concat([f(x + 1, axis=1), f(x, axis=1)], axis=1), x)


@pytest.mark.slow
def test_the_largest_of_a_few_and_their_gradients():
    x = np.random.default_rng(0).permutation(120).reshape(15, 8).astype(np.float32)
    agree(lambda x: it.topk(x, 2)[0], x)
    agree(lambda x: it.topk(x, 3, axis=1, largest=False)[1], x)

    def step(x, find):
        x = x.require_grad()
        return (find(x) ** 2).sum().backward()[x]

    agree(lambda x: step(x, lambda x: it.topk(x, 2)[0]), x)
    agree(lambda x: step(x, lambda x: it.sort(x)[:, ::2]), x)


def test_zeros_are_equal_where_places_are_found():
    x = np.array([[0.0, -0.0, 0.0, -0.0, -1.0]] * 40, np.float32)
    order = compile(lambda x: it.argsort(x, axis=1))(it.asarray(x)).numpy()
    np.testing.assert_array_equal(order, [[4, 0, 1, 2, 3]] * 40)


def test_other_numbers_of_rows_compile_no_other_kernel():
    from ingle_cpu.jit.engine import engine

    sort = compile(lambda x: (it.sort(x, axis=1), it.argsort(x, axis=1)))
    for _ in range(3):
        sort(it.asarray(np.zeros((300, 6), np.float32)))
    before = engine().counts
    for _ in range(3):
        sort(it.asarray(np.zeros((777, 6), np.float32)))
    after = engine().counts
    assert (after.compiled, after.loaded) == (before.compiled, before.loaded)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("descending", [False, True])
def test_nan_has_the_bits_that_numpy_gives(dtype: str, descending: bool) -> None:
    """So the first run, which NumPy does, and the ones by a network are the same."""
    x = np.array([[2.0, np.nan, -np.inf], [-np.nan, np.inf, 1.0]], np.float32)
    runs = []
    for _ in range(3):
        sorted_ = it.sort(it.asarray(x, device="cpu").astype(dtype), axis=1, descending=descending)
        runs.append(sorted_.numpy().tobytes())
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("choose", [lambda x: it.topk(x, 3)[0], lambda x: it.kthvalue(x, 5)[0]])
def test_gradients_of_what_is_chosen_sort_nothing(choose):
    def gradient(x):
        x = x.require_grad()
        return it.sum(choose(x) * 2.0).backward()[x]

    x = it.asarray(np.random.default_rng(0).permutation(64).astype(np.float32).reshape(2, 32))
    assert "argsort" not in str(graph_of(gradient, x))
    want = np.where(np.isin(x.numpy(), choose(x).numpy()), np.float32(2), np.float32(0))
    assert (gradient(x).numpy() == want).all()
