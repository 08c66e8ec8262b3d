"""Scatters sort their updates, and combine those of an element in the order they had: on a played
GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_without_a_gpu import compiled as compiled

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import for_scatter
from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand, Row
from ingle.tensor.errors import OutOfRangeError

pytestmark = pytest.mark.sampled(4)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), "scattergpu", patch)


def drawn(rows: int, updates: int, columns: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    at = rng.integers(-rows, rows, updates)
    at[: updates // 3] = rows // 2
    return (
        rng.normal(size=(rows, columns)),
        rng.permutation(at),
        rng.normal(size=(updates, columns)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("sizes", [(9, 300, 5), (40, 5000, 1)])
def test_the_bits_are_those_of_the_processor(
    device: Any, dtype: str, sizes: tuple[int, int, int]
) -> None:
    @compile
    def run(table: Any, at: Any, u: Any) -> Any:
        gradient = grad(lambda t: it.sum(it.take(t, at, axis=0) * u))(table)
        return gradient, it.scatter_add(table * 2, at, u), it.scatter_set(table, at, u * 2)

    found = []
    for where in ("scattergpu", "cpu"):
        given = [
            it.asarray(x, dtype=dtype if x.dtype.kind == "f" else x.dtype, device=where)
            for x in drawn(*sizes)
        ]
        # The third run is one of a graph.
        found.append([it.astype(x, it.float64).numpy() for _ in range(3) for x in run(*given)])
        if where == "scattergpu":
            sources = explain(run, *given, source=True, runs=0).sources
            assert any("rank" in source for source in sources)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_index_out_of_range_is_an_error_afterwards(device: Any) -> None:
    x, at, u = drawn(9, 300, 5)
    at[5] = 9
    run = compile(it.scatter_add)
    with pytest.raises(OutOfRangeError, match="scatter_add"):
        run(*[it.asarray(v, device="scattergpu") for v in (x, at, u)]).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float64", "bool"])
@pytest.mark.parametrize("columns", [1, 100])
def test_it_compiles(compiled: Any, dtype: str, columns: int) -> None:
    row, b = CodeBuilder(), CodeBuilder()
    code, values = row.finish(row.cast(row.load(2, "int32"), "int64"))
    if dtype == "bool":
        root = b.load(1, dtype)
    else:
        both = [b.widen(b.load(n, dtype)) for n in (0, 1)]
        root = b.narrow(b.append("add", b.dtype(both[0]), tuple(both)), dtype)
    each, (root,) = b.finish(root)
    stage: Any = Map(each, ((0, root),)) if columns > 1 else Row(each, ((0, root),))
    operands = Operand(dtype, True, row_base=0), Operand(dtype), Operand("int32", lane="zero")
    nest = Nest(3, operands, (), (Row(code, values=values), stage), scattered=True)
    sizes = [1000, 3, 4000, columns]
    strides = [0, 50, 0, 1, 0, 4000 * columns, columns, 1, 0, 0, 1, 0]
    launches = for_scatter(nest, "nest", [*sizes, *strides])
    assert [grid.blocks for _, grid in launches[:3]] == [47, 47, 47]
    for launch, _ in launches:
        compiled(launch.source)
