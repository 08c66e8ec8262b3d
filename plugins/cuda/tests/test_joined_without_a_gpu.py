"""Launches of one kernel on several operands as one launch, on a GPU played by the processor."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.device.cuda import at_once, render_many
from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand
from ingle.tensor.errors import BackendError
from ingle.testkit.bits import same_bits
from ingle_cuda.driver import compiler, libraries
from ingle_cuda.graphs import joined
from ingle_cuda.graphs.step_builder import KernelStep

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")

PLAYED = "played"
SIZES = (64, 1, 2000, 7, 64, 33, 5, 1024, 64, 12)


def updated(
    folder: Path, monkeypatch: pytest.MonkeyPatch, dtype: str = "float32", joins: bool = True
) -> tuple[list[np.ndarray], int]:
    """Values and moments after some updates, and how many kernels the first one had."""
    gpu = HostGpu(folder)
    made = opened(gpu, PLAYED, monkeypatch)
    made.joins = joins
    rng = np.random.default_rng(0)
    values, moments, gradients = [
        [
            it.astype(it.asarray(rng.standard_normal(n).astype(np.float32), device=PLAYED), dtype)
            for n in SIZES
        ]
        for _ in range(3)
    ]

    @compile
    def step(rate: float, *tensors: it.Tensor) -> list[it.Tensor]:
        found = []
        for value, moment, gradient in zip(*[iter(tensors)] * 3, strict=True):
            moment = 0.9 * moment + 0.1 * gradient * gradient
            found += [value - rate * gradient / (it.sqrt(moment) + 1e-8), moment]
        return found

    given = [t for of in zip(values, moments, gradients, strict=True) for t in of]
    for t in given:
        t.numpy()
    gpu.counts.clear()
    result = [t.numpy() for t in step(0.5, *given)]
    launched = gpu.counts["launched"]
    for n in range(6):  # the same memory again, and other numbers
        result += [t.numpy() for t in step(0.5 / (n + 2), *given)]
    assert gpu.counts["replayed"]
    return result, launched


def same(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> bool:
    return all(same_bits(a, b) for a, b in zip(found, wanted, strict=True))


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_updates_go_together_and_keep_their_bits(
    folder: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    together, few = updated(folder, monkeypatch, dtype)
    alone, many = updated(folder, monkeypatch, dtype, joins=False)
    assert many >= len(SIZES)
    assert few <= 2
    assert same(together, alone)


@needs_a_compiler
@pytest.mark.slow
def test_where_memory_meets_each_is_launched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, few = updated(folder, monkeypatch)
    monkeypatch.setattr(joined.JoinedStep, "is_apart", lambda *_: False)
    found, many = updated(folder, monkeypatch)
    assert (few, many) == (1, len(SIZES))
    assert same(found, wanted)


@needs_a_compiler
@pytest.mark.slow
def test_a_joined_kernel_that_cannot_be_compiled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, _ = updated(folder, monkeypatch)

    def fails(*_: Any) -> None:
        raise BackendError("NVRTC: no")

    monkeypatch.setattr(joined, "compiled", fails)
    with pytest.warns(RuntimeWarning, match=r"played: 10 kernels are launched one by one.*NVRTC"):
        found, many = updated(folder, monkeypatch)
    assert many == len(SIZES)
    assert same(found, wanted)


def update_nest(dtype: str, strided: bool) -> Nest:
    b = CodeBuilder()
    x, rate = b.load(0, dtype), b.append("scalar", dtype, (), 0)
    code, (root,) = b.finish(b.append("mul", dtype, (x, rate)))
    lane = "strided" if strided else "unit"
    operands = (Operand(dtype, False, lane), Operand(dtype, True))
    return Nest(0, operands, (dtype,), (Map(code, ((1, root),)),))


@pytest.mark.parametrize("strided", [False, True])
def test_joined_kernels_compile(strided: bool) -> None:
    try:
        libraries.library("nvrtc")
    except BackendError as error:
        pytest.skip(str(error))
    nest = update_nest("float32", strided)
    assert 8 <= at_once(nest) <= 64
    code = compiler.machine_code(render_many(nest, "many", at_once(nest)), "sm_90")
    assert code[:4] == b"\x7fELF"


@needs_a_compiler
def test_copies_onto_themselves_are_not_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that a compiled step writes over is not copied, nor is a kernel launched for that."""
    made = opened(HostGpu(tmp_path), PLAYED, monkeypatch)
    asked: list[bool] = []
    idle = KernelStep.is_idle

    def is_idle(step: KernelStep, buffers: Sequence[int]) -> bool:
        asked.append(idle(step, buffers))
        return asked[-1]

    monkeypatch.setattr(KernelStep, "is_idle", is_idle)
    cache = it.Cell(it.asarray(np.zeros((64, 8), np.float32), device=PLAYED))

    @compile
    def step(row: Any) -> Any:
        cache.value = it.slice_update(cache.value, row, (3, 0))
        return row + 1.0

    given = it.asarray(np.ones((1, 8), np.float32), device=PLAYED)
    for _ in range(4):
        assert step(given).numpy().tolist() == [[2.0] * 8]
    assert any(asked)
    assert not all(asked)
    found = cache.value.numpy()
    assert found[3].tolist() == [1.0] * 8
    assert found.sum() == 8.0
    assert made.joins


def summed(folder: Path, monkeypatch: pytest.MonkeyPatch, joins: bool) -> tuple[list[Any], int]:
    """Rows less what is summed over them, for several matrices, and how many kernels there are."""
    gpu = HostGpu(folder)
    made = opened(gpu, PLAYED, monkeypatch)
    made.joins = made.joins_launches = joins
    rng = np.random.default_rng(1)
    given = [
        it.asarray(rng.standard_normal(shape).astype(np.float32), device=PLAYED)
        for columns in (40, 130, 40, 7)
        for shape in ((256, columns), (columns,))
    ]

    @compile
    def step(*tensors: it.Tensor) -> list[it.Tensor]:
        found = []
        for x, bias in zip(*[iter(tensors)] * 2, strict=True):
            found += [it.tanh(x) * 2.0, bias - 0.1 * it.sum(it.tanh(x), axis=0)]
        return found

    for t in given:
        t.numpy()
    gpu.counts.clear()
    found = [t.numpy() for t in step(*given)]
    return found, gpu.counts["launched"]


@pytest.mark.slow
@needs_a_compiler
def test_sums_of_blocks_that_nothing_waits_for_are_one_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come last, whatever comes between them in the function."""
    (found, launched), (alone, launched_alone) = (
        summed(tmp_path, monkeypatch, joins) for joins in (True, False)
    )
    assert same(found, alone)
    assert launched <= launched_alone - 3
