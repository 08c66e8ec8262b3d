"""Sums of many sums of blocks, whose rows warps share out: on a played GPU the bits of the
processor's kernels, and sources that NVRTC compiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_without_a_gpu import compiled as compiled

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import launch_of
from ingle.fusion.device.kernels import CodeBuilder, Nest, Operand, Reduce, Row

DEVICE = "totalsgpu"
SHARED = "add_up_"
"""What sources of such kernels have a function of."""


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), DEVICE, patch)


@compile
def sums(x: Any) -> tuple[Any, ...]:
    """A sum that is stored, and what follows from one."""
    return it.sum(x, axis=0), it.mean(x, axis=0) + 1.0


def check(drawn: Any, dtype: Any, function: Any = sums) -> None:
    """The bits are those of the processor."""
    found = []
    for on in (DEVICE, "cpu"):
        x = it.asarray(drawn, device=on).astype(dtype)
        if on == DEVICE:
            sources = explain(function, x, source=True, runs=0).sources
            assert any(SHARED in source for source in sources)
        found.append([it.astype(v, it.float64).numpy() for v in function(x)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
        there = ~np.isnan(one)
        np.testing.assert_array_equal(np.signbit(one[there]), np.signbit(other[there]))


def values(rows: int, columns: int) -> Any:
    """Numbers of many sizes, whose sums have large errors; columns of zeros, NaN and infinities,
    and two that overflow."""
    rng = np.random.default_rng(rows)
    drawn = rng.normal(size=(rows, columns)) * rng.choice([1e-7, 1.0, 1e6], (rows, columns))
    drawn[:, 0], drawn[rows // 3, 1], drawn[-1, 2], drawn[5, 3] = -0.0, np.nan, np.inf, -np.inf
    drawn[:, 4], drawn[7, 5], drawn[-7, 5] = 3e38 / 100, np.inf, -np.inf
    return drawn


def test_the_bits_are_those_of_the_processor(device: Any) -> None:
    """Of rows that are no whole pieces, and of columns that leave a part of a block without one."""
    check(values(32 * 128 + 70, 13), it.float32)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [it.float32, it.float64, it.bfloat16])
@pytest.mark.parametrize(("rows", "columns"), [(32 * 128, 9), (32 * 700 - 5, 140)])
def test_other_sizes_and_dtypes(device: Any, dtype: Any, rows: int, columns: int) -> None:
    """Of whole pieces, and of columns that are two units of work."""
    check(values(rows, columns), dtype)


@pytest.mark.slow
def test_sums_along_rows(device: Any) -> None:
    """Whose partial results are columns."""

    @compile
    def along(x: Any) -> tuple[Any, ...]:
        return it.sum(x, axis=1), it.sum(x)

    check(np.random.default_rng(0).normal(size=(2, 2048 * 130)), it.float32, along)


def totals(dtype: str, reductions: int = 1) -> Nest:
    """A nest that adds up columns."""
    code, store = CodeBuilder(), CodeBuilder()
    loads = [code.append("neg", dtype, (code.load(0, dtype),)) for _ in range(reductions - 1)]
    found, roots = code.finish(code.load(0, dtype), *loads)
    stored, (root,) = store.finish(store.append("result", dtype, (), (0, 0)))
    operands = Operand(dtype), Operand(dtype, output=True)
    reduce = Reduce(found, tuple([("totals", root) for root in roots]))
    return Nest(1, operands, (), (reduce, Row(stored, ((1, root),))), lanes="outer")


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "reductions", "shared"),
    [
        ("float32", 128, 64, 1, True),
        ("float32", 127, 64, 1, False),  # they are no piece
        ("float64", 64, 64, 1, True),
        ("float32", 8192, 8000, 1, True),
        ("float32", 8192, 60000, 1, False),  # enough columns as they are
        ("float32", 8192, 64, 2, False),
        ("float32", 8192, 0, 1, False),
    ],
)
def test_which_launches_are_shared_out(
    compiled: Any, dtype: str, rows: int, columns: int, reductions: int, shared: bool
) -> None:
    """Their grids have a block for eight columns, and NVRTC takes their sources."""
    nest = totals(dtype, reductions)
    source, grid, units = launch_of(nest, "nest", [columns, rows, 1, columns, 1, 0], 132)
    assert (source is not None and SHARED in source) == shared
    if shared:
        assert source is not None
        assert grid.blocks * 8 >= columns
        assert grid.grain == 1
        assert units == -(-columns // (1024 if columns >= 4096 else 128))
        compiled(source)
