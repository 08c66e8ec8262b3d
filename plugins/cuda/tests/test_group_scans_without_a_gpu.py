"""Running results along rows that a block of threads takes, on a played GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_without_a_gpu import compiled as compiled

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import Grid, for_rows
from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand, Reduce

DEVICE = "groupscans"


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), DEVICE, patch)


@compile
def running(x: Any) -> Any:
    """Sums and products in order, extremes and their places in parts, of strided rows too."""
    return (
        it.cumulative_sum(x, axis=-1), it.cumulative_prod(x, axis=-1),
        *it.cummax(x, axis=-1), *it.cummin(x[::-1, ::2], axis=-1),
        it.cumulative_sum(x.astype("int32"), axis=-1),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 31, 32, 511, 512, 513, 1700])
def test_of_any_length(device: Any, length: int) -> None:
    x = np.random.default_rng(length).choice([-1.25, 0.75, 1.0, 1.5, -0.875], (5, length))
    found, wanted = (running(it.asarray(x.astype("float32"), device=d)) for d in (DEVICE, "cpu"))
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(f.numpy(), w.numpy())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float64", "bfloat16"])
def test_of_any_dtype(device: Any, dtype: str) -> None:
    """Sums wrap around, of equal elements the last is the place, and float64 shows the order."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9, 600)) if dtype == "float64" else rng.integers(0, 6, (70, 600))

    @compile
    def run(x: Any) -> Any:
        return it.cumulative_sum(x, axis=1), *it.cummax(x, axis=1)

    given = [it.asarray(x, device=d).astype(dtype) for d in (DEVICE, "cpu")]
    for f, w in zip(*map(run, given), strict=True):
        np.testing.assert_array_equal(f.astype("float64").numpy(), w.astype("float64").numpy())


def test_blocks_take_rows(device: Any, compiled: Any) -> None:
    """Short ones are taken by a thread each; NVRTC takes both."""
    x = it.asarray(np.ones((3, 900), np.float32), device=DEVICE)
    (source,) = explain(
        compile(lambda x: it.cumulative_sum(x, axis=1)), x, source=True, runs=0
    ).sources
    assert "__syncthreads" in source
    assert compiled(source)[:4] == b"\x7fELF"
    b = CodeBuilder()
    code, (root,) = b.finish(b.load(0, "int64"))
    after, (stored,) = b.finish(b.append("result", "int64", (), (0, 0)))
    stages = Reduce(code, (("sum", root),), scan=True), Map(after, ((1, stored),))
    nest = Nest(1, (Operand("int64"), Operand("int64", output=True)), (), stages)
    short, grid = for_rows(nest, "nest", (1000, 31, 31, 1, 31, 1), 132)
    assert short is not None
    assert "__syncthreads" not in short
    assert grid == Grid(4, 256, 1)
    assert compiled(short)[:4] == b"\x7fELF"
    assert for_rows(nest, "nest", (1000, 32, 32, 1, 32, 1), 132) == (None, Grid(1000, 64, 1))
