"""Maps over rows whose threads take vectors: the bits of the processor's, on a played GPU."""

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
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), "rowvectors", patch)


def added() -> Nest:
    """bfloat16 rows plus a float32 row."""
    b = CodeBuilder()
    wide = b.append("cast", "float32", (b.load(0, "bfloat16"),))
    code, (root,) = b.finish(
        b.append("cast", "bfloat16", (b.append("add", "float32", (wide, b.load(1, "float32"))),))
    )
    operands = Operand("bfloat16"), Operand("float32"), Operand("bfloat16", True)
    return Nest(1, operands, (), (Map(code, ((2, root),)),))


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [it.float32, it.bfloat16, it.float64, it.int8])
@pytest.mark.parametrize("length", [12, 57, 260, 1001])
def test_the_bits_are_those_of_the_processor(device: Any, dtype: Any, length: int) -> None:
    """Rows that repeat, that lie apart, that begin in between and that are moved as they are."""
    rows = (1 << 14) // length + 2
    x = np.random.default_rng(length).normal(size=(rows, length + 7)) * 20

    @compile
    def mapped(x: Any, row: Any) -> Any:
        inner, later = x[:, :length], x[:, 4 : 4 + length]
        return inner + row, later * x[:, :1], inner > later, (inner + it.abs(later)).astype("int32")

    found = []
    for where in ("rowvectors", "cpu"):
        given = it.asarray(x, dtype=it.float64, device=where).astype(dtype)
        results = mapped(given, given[1, :length] + it.ones(length, dtype=dtype, device=where))
        found.append([r.astype("float64").numpy() for r in results])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_axes_that_change_places(device: Any) -> None:
    """As heads of an attention do."""
    x = np.random.default_rng(0).normal(size=(2, 33, 3, 4, 64)).astype(np.float32)

    @compile
    def moved(x: Any) -> Any:
        q, k, _ = (it.permute_dims(x[:, :, n], (0, 2, 1, 3)) for n in range(3))
        return it.reshape(it.permute_dims(q + k, (0, 2, 1, 3)) + 1.0, (2, 33, -1)), k * q

    given = {d: it.asarray(x, device=d).astype("bfloat16") for d in ("rowvectors", "cpu")}
    for one, other in zip(moved(given["rowvectors"]), moved(given["cpu"]), strict=True):
        np.testing.assert_array_equal(
            one.astype("float32").numpy(), other.astype("float32").numpy()
        )
    sources = explain(moved, given["rowvectors"], source=True, runs=0).sources
    assert any("part0.whole" in source for source in sources)


@pytest.mark.slow
def test_vectors_follow_from_strides(compiled: Any) -> None:
    nest = added()
    for rows, wide, each in ((64, 512, 8), (64, 516, 4), (64, 514, 2), (64, 513, 0), (4, 64, 0)):
        found = for_strides(nest, "nest", (rows, wide, wide, 1, 0, 1, wide, 1))
        assert (found is not None) == (each > 0)
        if found is not None:
            source, grid, taken = found
            assert f"first + {each} <= inner" in source
            assert (grid.blocks, taken) == (-(-rows * -(-wide // each) // 256), rows)
            assert compiled(source)[:4] == b"\x7fELF"
    short = for_strides(nest, "nest", (64, 509, 512, 1, 0, 1, 512, 1))
    assert short is not None
    assert short[1].blocks == 64 * 64 // 256
