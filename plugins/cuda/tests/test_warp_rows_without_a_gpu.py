"""Rows that a warp takes alone: the bits of the processor's kernels, on a played GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_without_a_gpu import compiled as compiled
from test_without_a_gpu import softmax

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import Grid, for_rows

DEVICE = "warprows"


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), DEVICE, patch)


@compile
def floats(x: Any) -> Any:
    """Several passes over rows, every reduction, places, and rows that lie across."""
    return (
        it.softmax(x, axis=-1), it.sum(x, axis=-1), it.prod(x, axis=-1), it.max(x, axis=-1),
        it.argmin(x, axis=-1), it.argmax(x, axis=-1), it.any(x > 1.0, axis=-1),
        it.all(x > -9.0, axis=-1), it.var(x, axis=-1), it.sum(x[:, ::3], axis=-1),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("length", [9, 200, 777])
def test_floats(device: Any, dtype: str, length: int) -> None:
    rng = np.random.default_rng(length)
    x = rng.standard_normal((20, length))
    x[::7] = -0.0
    x[1::31, 0], x[2::31, -1], x[5::31, 3:6] = np.nan, -np.inf, 3.0
    found, wanted = (floats(it.asarray(x, device=d).astype(dtype)) for d in (DEVICE, "cpu"))
    for f, w in zip(found, wanted, strict=True):
        a, b = (v.astype("float64").numpy() for v in (f, w))
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)]))


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "bool"])
def test_integers(device: Any, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, (70, 99))

    @compile
    def reduced(x: Any) -> Any:
        return (
            it.sum(x, axis=-1), it.argmax(x.astype("int32"), axis=-1), it.all(x, axis=-1),
            it.max(x.astype("int16"), axis=-1),
        )  # fmt: skip

    found, wanted = (reduced(it.asarray(x.astype(dtype), device=d)) for d in (DEVICE, "numpy"))
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(f.numpy(), w.numpy())


@pytest.mark.slow
def test_scores_of_heads(device: Any) -> None:
    """Short products of a query with many keys, in half precision."""
    rng = np.random.default_rng(1)
    q, k = rng.normal(size=(2, 3, 1, 64)), rng.normal(size=(2, 3, 50, 64))

    @compile
    def scores(q: Any, k: Any) -> Any:
        return it.sum(q.astype("float32") * k.astype("float32"), axis=-1)

    given = {
        d: [it.asarray(v, device=d).astype("bfloat16") for v in (q, k)] for d in (DEVICE, "cpu")
    }
    np.testing.assert_array_equal(scores(*given[DEVICE]).numpy(), scores(*given["cpu"]).numpy())
    sources = explain(scores, *given[DEVICE], source=True, runs=0).sources
    assert any("% 32" in s and "__shfl_down_sync" in s for s in sources)


@pytest.mark.slow
def test_warps_take_rows(compiled: Any) -> None:
    nest = softmax("bfloat16")
    assert for_rows(nest, "nest", (1001, 99, 99, 1, 99, 1), 132)[1] == Grid(126, 256, 1)
    assert for_rows(nest, "nest", (1001, 50257, 50257, 1, 50257, 1), 132)[1] == Grid(1001, 416, 1)
    assert for_rows(nest, "nest", (16384, 50257, 50257, 1, 50257, 1), 132)[1] == Grid(16384, 416, 1)
    assert for_rows(nest, "nest", (1001, 768, 768, 1, 768, 1), 132)[1] == Grid(501, 64, 2)
    source = for_rows(nest, "nest", (1001, 99, 99, 1, 99, 1), 132)[0]
    assert source is not None
    assert "__shared__" not in source
    assert "__syncthreads" not in source
    assert compiled(source)[:4] == b"\x7fELF"
