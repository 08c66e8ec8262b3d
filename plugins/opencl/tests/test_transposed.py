"""Maps whose operands lie across their rows go through tiles, with the bits of other kernels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand

pytestmark = pytest.mark.sampled(6)

SHAPES = [(33, 65), (16, 16), (64, 200), (17, 130), (31, 9), (1, 40)]


@pytest.fixture
def sources(wide_backend: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels that were launched as source code."""
    found: list[str] = []
    kernel = type(wide_backend).kernel

    def noting(self: Any, source: Any, *name: str) -> Any:
        if isinstance(source, str) and self is wide_backend:
            found.append(source)
        return kernel(self, source, *name)

    monkeypatch.setattr(type(wide_backend), "kernel", noting)
    return found


def drawn(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).integers(-100, 100, size=shape)
    return values.astype(dtype) if dtype != "bool" else values > 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16", "int64", "bool"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_transposed_operand(shape: tuple[int, int], dtype: str, sources: list[str]) -> None:
    a, b = drawn(shape, dtype), drawn(shape[::-1], dtype, 1)
    run = compile(lambda a, b: a != b.T if dtype == "bool" else (a * b.T + a))
    given = [it.asarray(x, device="opencl_wide") for x in (a, b)]
    want = a != b.T if dtype == "bool" else a * b.T + a
    for _ in range(2):
        np.testing.assert_array_equal(run(*given).numpy(), want)
    assert any("tile1" in s for s in sources) == (min(shape) >= 16)


@pytest.mark.slow
@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_copies_of_permuted_tensors(axes: tuple[int, ...], sources: list[str]) -> None:
    for dtype in ("float32", "int8", "complex64", "float64"):
        x = drawn((19, 21, 37), dtype)
        there = it.asarray(x, device="opencl_wide")
        moved = it.permute_dims(there, axes)
        np.testing.assert_array_equal(moved.numpy(), np.transpose(x, axes))
        if dtype == "complex64":  # has no arithmetic there
            continue
        run = compile(lambda x: it.permute_dims(x, axes) * 2)
        np.testing.assert_array_equal(run(there).numpy(), np.transpose(x, axes) * 2)
    swaps_last = axes[-1] != 2
    assert any("tile" in s for s in sources) == swaps_last


@pytest.mark.slow
def test_several_operands_scalars_and_parts_of_a_tensor(sources: list[str]) -> None:
    a, b, c = (drawn((70, 50, 3), "float32", n) for n in range(3))
    row = drawn((3, 1, 70), "float32", 4)

    @compile
    def run(a: Any, b: Any, c: Any, row: Any, factor: float) -> Any:
        x = it.permute_dims(a, (2, 1, 0)) * factor + it.permute_dims(b, (2, 1, 0))[:, ::1, :]
        return x - row, it.permute_dims(c[1:, 2:], (2, 1, 0)) * 0.5

    given = [it.asarray(x, device="opencl_wide") for x in (a, b, c, row)]
    for factor in (2.0, 3.0):
        first, second = run(*given, factor)
        want = a.T * np.float32(factor) + b.T - row
        np.testing.assert_array_equal(first.numpy(), want)
        np.testing.assert_array_equal(second.numpy(), c[1:, 2:].T * np.float32(0.5))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_outputs_across_rows(machine: Any, dtype: str) -> None:
    """A nest that reads along its rows and writes across them."""
    b = CodeBuilder()
    code, (root,) = b.finish(b.append("neg", dtype, (b.load(0, dtype),)))
    operands = Operand(dtype), Operand(dtype, True, "strided")
    nest = Nest(2, operands, (), (Map(code, ((1, root),)),))
    kernel = machine.kernel(nest)
    x, out = drawn((2, 40, 50), dtype), np.zeros((2, 50, 40), dtype)
    kernel(x, out.transpose(0, 2, 1))
    np.testing.assert_array_equal(out, -x.transpose(0, 2, 1))
    backend = machine.backend
    given = [it.asarray(v, device=str(backend.device)) for v in (x, out)]
    handles = [backend.in_order(h._handle.computed()) for h in given]
    sizes, strides = (2, 40, 50), [(2000, 50, 1), (2000, 1, 40)]
    args = [*sizes, *strides[0], *strides[1]]
    assert (backend.for_launch(nest, args) is not None) == backend.wide
    backend.run_nest(nest, sizes, [h.address for h in handles], args)
    np.testing.assert_array_equal(backend.download(handles[1]), -x.transpose(0, 2, 1))
