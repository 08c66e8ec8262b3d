"""Kernels that go through large arrays in parts: the parts do not show, whatever their size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.operation import OPERATIONS
from ingle.tensor.ops.random import normal, uniform
from ingle.tensor.ops.random.bits import Place
from ingle.tensor.sample import Draw
from ingle.testkit.bits import same_bits
from ingle_numpy.kernels import (
    activations,
    alignments,
    attention,
    blocks,
    depthwise,
    normalization,
    quotients,
    reduction,
    softmax,
)
from ingle_numpy.kernels import random as random_kernels
from ingle_numpy.kernels.blocks import in_blocks
from ingle_numpy.kernels.selecting import select

NAMES = sorted(
    {
        *activations.KERNELS, *alignments.KERNELS, *attention.KERNELS, *normalization.KERNELS,
        *softmax.KERNELS, "argsort", "conv", "conv_input_gradient", "conv_weight_gradient", "erf",
        "inverse_normal", "kthvalue", "logaddexp", "random_bits", "random_normal", "random_uniform",
        "remainder", "scatter_add", "scatter_extremum", "scatter_prod", "sort", "topk", "where",
    }
)  # fmt: skip


def results(name: str, dtype: str) -> Iterator[np.ndarray]:
    """Of all samples of an operation."""
    operation = OPERATIONS[name]
    assert operation.samples is not None
    assert operation.public is not None
    with it.device("numpy"):
        for sample in operation.samples(Draw(3, dtype)):
            args = [it.asarray(a) if isinstance(a, np.ndarray) else a for a in sample.args]
            found = operation.public(*args, **sample.kwargs)
            yield from (r.numpy() for r in (found if isinstance(found, tuple) else (found,)))


@pytest.mark.parametrize("name", NAMES)
def test_small_parts_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in ("float32", "uint32"):
        whole = list(results(name, dtype))
        with monkeypatch.context() as patch:
            patch.setattr(blocks, "BLOCK", 8)
            patch.setattr(depthwise, "_BLOCK", 256)
            patch.setattr(random_kernels, "_PART", 3)
            parts = list(results(name, dtype))
        for a, b in zip(whole, parts, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_parts_keep_the_order_in_memory(
    order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 7)
    x = np.random.default_rng(0).standard_normal((3, 5, 8)).transpose(order)
    got = in_blocks(lambda a, b: a * b + 1)(x, np.float64(2))
    np.testing.assert_array_equal(got, x * 2 + 1)
    assert got.strides == x.strides
    np.testing.assert_array_equal(in_blocks(np.add)(x, x[::-1]), x + x[::-1])
    np.testing.assert_array_equal(in_blocks(np.add)(x, x[0]), x + x[0])


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float64", "complex64", "complex128"]
)
def test_select(dtype: str) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.uniform(-9, 9, (4, 5)).astype(dtype) for _ in range(2))
    if x.dtype.kind == "f":
        x[0], y[1] = np.nan, -np.inf
    mask, zero = rng.random((4, 5)) < 0.5, x.dtype.type(0)
    for m in (mask, mask[0], mask[:, :1], np.True_):
        for a, b in ((x, y), (x, zero), (zero, y), (x[0], y), (x, y[:, :1]), (x.T[0][:4, None], y)):
            np.testing.assert_array_equal(select(m, a, b), np.where(m, a, b))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64", "float16", "float32"])
@pytest.mark.parametrize("axis", [0, 1])
def test_sorting_is_stable(dtype: str, axis: int) -> None:
    x = np.random.default_rng(2).integers(0, 5, (33, 17)).astype(dtype)
    if x.dtype.kind == "f":
        x[3:6], x[7, ::2], x[8] = np.nan, -np.nan, -np.inf
        x[9], x[10] = -0.0, 0.0
    wanted = np.argsort(x, axis=axis, kind="stable")
    behind = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    with it.device("numpy"):
        t = it.asarray(x)
        np.testing.assert_array_equal(it.argsort(t, axis=axis).numpy(), wanted)
        np.testing.assert_array_equal(it.argsort(t, axis=axis, descending=True).numpy(), behind)
        for k in (0, 1, 5, x.shape[axis]):
            found = it.topk(t, k, axis=axis)[1].numpy()
            np.testing.assert_array_equal(found, np.take(behind, range(k), axis))


def test_remainders() -> None:
    rng = np.random.default_rng(4)
    x, y = (rng.standard_normal(5000) * 10.0 ** rng.integers(-4, 4, 5000) for _ in range(2))
    odd = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 3e38, 1e-45])
    pairs = [(x, y), *((a, b) for a, b in np.array(np.meshgrid(odd, odd)).reshape(2, -1).T)]
    with np.errstate(all="ignore"):
        for a, b in pairs:
            small = np.atleast_1d(a).astype(np.float32), np.atleast_1d(b).astype(np.float32)
            got, wanted = quotients.remainder(*small), np.remainder(*small)
            np.testing.assert_array_equal(got, wanted)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))
            exact = np.floor_divide(*(v.astype(np.float64) for v in small))
            plain = np.isfinite(small[0]) & np.isfinite(small[1])
            found = quotients.floor_divide(*small)[plain]
            np.testing.assert_array_equal(found, exact[plain].astype(np.float32))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_random_floats_are_those_of_the_bodies(dtype: str) -> None:
    to, place = as_dtype(dtype), Place(5, (1 << 32) - 3)
    wide = to if dtype == "float64" else it.float32
    with it.device("numpy"):
        for shape in ((100_001,), (3, 5), (0,), ()):
            inside = uniform.uniform_values(place.words(), shape, wide, inside=True)
            composed = normal._inverse_normal(inside).astype(to)
            pairs: list[tuple[Any, Callable[..., Any]]] = [
                (composed, it.random_normal),
                (uniform.uniform_values(place.words(), shape, to), it.random_uniform),
            ]
            for wanted, function in pairs:
                got = function(shape, place, dtype=to)
                assert same_bits(got, wanted)
        x = it.random_uniform((1000,), place, dtype=wide) + 1e-3
        composed = normal._polynomial_log(x)
        assert same_bits(normal.polynomial_log(x), composed)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_running_sums_and_products_of_rows(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    x = it.asarray(rng.uniform(0.5, 1.5, (7, 3, 6)), dtype=dtype, device="numpy")
    function = getattr(it, name)
    # A view that skips columns, and rows of nothing.
    given = x, x[:, :, ::2], x[::3, 1], x[:, :, :0], x[:0]
    whole = [function(v, axis=-1).numpy() for v in given]
    for size in (1, 20, 50):
        monkeypatch.setattr(reduction, "BLOCK", size)
        for v, want in zip(given, whole, strict=True):
            assert same_bits(function(v, axis=-1).numpy(), want)
