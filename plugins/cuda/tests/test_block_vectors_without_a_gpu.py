"""Sums over rows beside maps: the bits of kernels of their own, on a played GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_without_a_gpu import compiled as compiled

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle_cuda import backend

ROWS = 288
"""Blocks of rows for each of the played GPU's processors."""


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), "blockgpu", patch)


def step(x: Any, inner: Any, bias: Any, outer: Any, added: Any) -> list[Any]:
    """Two layers around a gelu in half precision, with all gradients."""
    leaves = [v.require_grad() for v in (x, inner, bias, outer, added)]
    with it.precision("bfloat16"):
        h = it.gelu(it.linear(leaves[0], leaves[1], leaves[2]))
        y = it.linear(h, leaves[3], leaves[4])
        found = it.mean(y * y).backward()
    return [found[v] for v in leaves]


def drawn(length: int) -> list[Any]:
    rng = np.random.default_rng(length)
    shapes = (2, ROWS // 2, 64), (length, 64), (length,), (64, length), (64,)
    return [
        it.asarray(rng.normal(size=shape).astype(np.float32), device="blockgpu") for shape in shapes
    ]


@pytest.mark.slow
@pytest.mark.parametrize("length", [1024, 1032])
def test_a_bias_is_summed_where_its_gradient_is_computed(
    device: Any, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """Behind the product before."""
    given = drawn(length)
    found = explain(compile(step), *given, source=True, runs=0)
    assert sum("block_sums" in s.operations for s in found.steps) == 1
    assert any("last_of_row" in source for source in found.sources)
    together = [v.numpy() for v in compile(step)(*given)]
    monkeypatch.setattr(backend, "sums_beside_maps", lambda *_: 0)
    assert not any("block_sums" in s.operations for s in explain(step, *given, runs=0).steps)
    apart = compile(lambda *given: step(*given))(*given)
    for a, b in zip(together, apart, strict=True):
        np.testing.assert_array_equal(a, b.numpy())


def sums(flat: Any, factor: Any, first: int, length: int) -> list[Any]:
    """Rows that begin at an element of memory, each times a number and rounded, with their sums."""
    x = it.reshape(flat[first:], (2, ROWS // 2, length))
    made = it.reshape(it.astype(x * factor, it.bfloat16), (ROWS, length))
    return [made, it.sum(it.astype(made, it.float32), axis=0)]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("length", [1024, 1032])
def test_the_bits_are_those_of_the_processor(device: Any, length: int, first: int) -> None:
    """Also of rows that begin anywhere, and whose last vector is half of one."""
    rng = np.random.default_rng(length)
    values = rng.normal(size=ROWS * length + first), rng.normal(size=(2, ROWS // 2, 1))

    def both(on: str) -> list[Any]:
        given = [it.asarray(v.astype(np.float32), device=on) for v in values]
        program = compile(lambda a, b: sums(a, b, first, length))
        if on == "blockgpu":
            sources = explain(program, *given, source=True, runs=0).sources
            assert any("last_of_row" in source for source in sources)
        return [v.astype(it.float32).numpy() for v in program(*given)]

    for found, expected in zip(both("blockgpu"), both("cpu"), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_they_compile(device: Any, compiled: Any) -> None:
    sources = explain(step, *drawn(1024), source=True, runs=0).sources
    (source,) = [s for s in sources if "last_of_row" in s]
    assert compiled(source)[:4] == b"\x7fELF"
