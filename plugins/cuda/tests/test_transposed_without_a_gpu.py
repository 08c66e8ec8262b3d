"""Maps whose operands lie across their rows: tiles in shared memory, on a played GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_without_a_gpu import compiled as compiled

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import for_strides
from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), "tilegpu", patch)


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [it.float32, it.bfloat16, it.float64])
@pytest.mark.parametrize("shape", [(33, 65), (64, 200), (130, 17), (9, 31)])
def test_the_bits_are_those_of_the_processor(
    device: Any, dtype: Any, shape: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=shape), rng.normal(size=shape[::-1])
    both = compile(lambda a, b: (a * b.T + 0.5, it.permute_dims(a, (1, 0)) - b))
    found = []
    for where in ("tilegpu", "cpu"):
        given = [it.asarray(x, dtype=dtype, device=where) for x in (a, b)]
        found.append([it.astype(x, it.float64).numpy() for _ in range(3) for x in both(*given)])
        if where == "tilegpu":
            sources = explain(both, *given, source=True, runs=0).sources
            assert any("first_column" in source for source in sources) == (min(shape) >= 16)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_neighbours_of_one_kernel_are_not_joined(device: Any) -> None:
    given = [np.random.default_rng(n).normal(size=(40, 36)).astype(np.float32) for n in range(3)]
    run = compile(lambda *given: [it.exp(x.T) + 1 for x in given])
    for _ in range(3):
        made = run(*[it.asarray(x, device="tilegpu") for x in given])
        wanted = run(*[it.asarray(x, device="cpu") for x in given])
        for one, other in zip(made, wanted, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_an_eager_copy(device: Any) -> None:
    x = np.random.default_rng(1).normal(size=(3, 40, 70)).astype(np.float32)
    for axes in [(0, 2, 1), (2, 1, 0), (1, 0, 2)]:
        moved = it.permute_dims(it.asarray(x, device="tilegpu"), axes)
        np.testing.assert_array_equal(moved.numpy(), np.transpose(x, axes))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float64"])
def test_it_compiles(compiled: Any, dtype: str) -> None:
    b = CodeBuilder()
    wide = "float32" if dtype == "bfloat16" else dtype
    x, y = (b.append("cast", wide, (b.load(n, dtype),)) for n in range(2))
    code, (root,) = b.finish(b.append("cast", dtype, (b.append("add", wide, (x, y)),)))
    operands = Operand(dtype), Operand(dtype, lane="strided"), Operand(dtype, True, "strided")
    nest = Nest(2, operands, (), (Map(code, ((2, root),)),))
    numbers = [3, 100, 80, 8000, 80, 1, 8000, 1, 100, 8000, 1, 100]
    found = for_strides(nest, "nest", numbers)
    assert found is not None
    source, grid, _ = found
    side = 64 if dtype in ("bfloat16", "int8") else 32
    assert grid.blocks == 3 * -(-100 // side) * -(-80 // side)
    compiled(source)
