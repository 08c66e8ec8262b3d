"""Sums down few columns, of each of which warps take blocks of rows: on a played GPU the bits of
the processor's kernels, and sources that NVRTC compiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_long_totals_without_a_gpu import values
from test_without_a_gpu import compiled as compiled

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import launch_of
from ingle.fusion.device.kernels import CodeBuilder, Nest, Operand, Reduce, Row

DEVICE = "columnsgpu"
SHARED = "above + warp * 32"
"""What sources of such kernels have."""


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU of many processors."""
    with pytest.MonkeyPatch.context() as patch:
        backend = opened(HostGpu(tmp_path_factory.mktemp("gpu")), DEVICE, patch)
        backend.limits = backend.limits._replace(processors=132)
        yield backend


@compile
def bias(x: Any, scale: Any, old: Any) -> tuple[Any, ...]:
    """A gradient that is stored and summed, and an update that follows from the sum."""
    given = it.tanh(x) * scale[:, None]
    return given, old - 0.1 * it.sum(given, axis=0), it.sum(x * x, axis=0)


def check(drawn: Any, dtype: Any) -> None:
    """The bits are those of the processor."""
    rng = np.random.default_rng(1)
    rest = [rng.normal(size=n) for n in drawn.shape]
    found = []
    for on in (DEVICE, "cpu"):
        given = [it.asarray(v, device=on).astype(dtype) for v in (drawn, *rest)]
        if on == DEVICE:
            sources = explain(bias, *given, source=True, runs=0).sources
            assert any(SHARED in source for source in sources)
        found.append([it.astype(v, it.float64).numpy() for v in bias(*given)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
        there = ~np.isnan(one)
        np.testing.assert_array_equal(np.signbit(one[there]), np.signbit(other[there]))


def test_the_bits_are_those_of_the_processor(device: Any) -> None:
    """Of blocks that are not full, of more of them than there are warps, and of columns that leave
    a part of a warp without one."""
    check(values(8 * 32 + 39, 10)[:255], it.float32)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [it.float32, it.float64, it.bfloat16])
@pytest.mark.parametrize(("rows", "columns"), [(33, 7), (128, 256), (96, 4100)])
def test_other_sizes_and_dtypes(device: Any, dtype: Any, rows: int, columns: int) -> None:
    """Of columns that are several units of work, too."""
    check(values(rows, columns), dtype)


def down(combine: str, dtype: str) -> Nest:
    """A nest that reduces down columns."""
    code, store = CodeBuilder(), CodeBuilder()
    found, (root,) = code.finish(code.load(0, dtype))
    stored, (result,) = store.finish(store.append("result", dtype, (), (0, 0)))
    operands = Operand(dtype), Operand(dtype, output=True)
    stages = Reduce(found, ((combine, root),)), Row(stored, ((1, result),))
    return Nest(1, operands, (), stages, lanes="outer")


@pytest.mark.parametrize(
    ("combine", "dtype", "rows", "columns", "shared"),
    [
        ("sum", "float32", 33, 10, True),
        ("sum", "float32", 32, 10, False),  # they are one block
        ("sum", "float64", 1000, 4000, True),  # more blocks than warps
        ("sum", "float32", 128, 20000, False),  # enough columns as they are
        ("sum", "int32", 128, 10, False),
        ("max", "float32", 128, 10, False),
        ("sum", "float32", 128, 0, False),
    ],
)
def test_which_launches_are_shared_out(
    compiled: Any, combine: str, dtype: str, rows: int, columns: int, shared: bool
) -> None:
    """Their grids have a block for 32 columns, and NVRTC takes their sources."""
    nest = down(combine, dtype)
    source, grid, units = launch_of(nest, "nest", [columns, rows, 1, columns, 1, 0], 132)
    assert (source is not None and SHARED in source) == shared
    if shared:
        assert source is not None
        assert grid.threads == 256
        assert grid.blocks * 32 >= columns
        assert units == -(-columns // 128)
        compiled(source)
