"""Numbers that a graph takes from the host's memory, on a GPU played by the processor, which is
behind Python until somebody waits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_gpu import HostBackend, HostGpu, opened

import ingle.tensor as it
from ingle.fusion import compile
from ingle_cuda.graphs.host_numbers import HostNumbers
from ingle_cuda.graphs.launches import Executable
from ingle_cuda.graphs.scalar_table import ScalarTable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++"),
]

PLAYED = "played"
FACTORS = (0.5, 3.0, -1.0, 0.25, 0.25, 2.0, 1.5)


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    return opened(HostGpu(folder), PLAYED, monkeypatch)


def state() -> tuple[it.Cell[it.Tensor], Callable[[float], Any]]:
    """A cell, and a step that adds to what it holds and multiplies that, in several kernels."""
    x = np.linspace(-2.0, 2.0, 24, dtype=np.float32).reshape(6, 4)
    cell = it.Cell(it.asarray(x, device=PLAYED))

    def step(factor: float) -> None:
        y = it.softmax(cell.value * factor, axis=-1)
        cell.value = (cell.value + it.sum(y, axis=0)) * factor

    compiled = compile(step)

    def call(factor: float) -> None:
        with it.device(PLAYED):
            compiled(factor)

    return cell, call


def expected(factors: tuple[float, ...]) -> np.ndarray:
    x = np.linspace(-2.0, 2.0, 24).reshape(6, 4)
    for factor in factors:
        y = np.exp(x * factor - np.max(x * factor, axis=-1, keepdims=True))
        x = (x + np.sum(y / np.sum(y, axis=-1, keepdims=True), axis=0)) * factor
    return x


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where kernels are asked to write numbers, in order."""
    found: list[int] = []
    enqueue = ScalarTable._enqueue

    def noting(table: ScalarTable, to: int, bits: Any) -> None:
        found.append(to)
        enqueue(table, to, bits)

    monkeypatch.setattr(ScalarTable, "_enqueue", noting)
    return found


def test_a_gpu_that_is_behind_takes_each_runs_own(backend: HostBackend, brought: list[int]) -> None:
    cell, step = state()
    for factor in FACTORS:
        step(factor)
    assert backend.gpu.counts["replayed"] >= len(FACTORS) - 3
    assert len(brought) >= len(FACTORS) - 4
    assert np.allclose(cell.value.numpy(), expected(FACTORS), rtol=1e-5)


def test_where_it_has_come_by_nothing_is_launched_for_them(
    backend: HostBackend, brought: list[int]
) -> None:
    cell, step = state()
    for factor in FACTORS:
        step(factor)
        backend.synchronize()
    assert backend.gpu.counts["replayed"] >= len(FACTORS) - 3
    assert len(brought) == 1  # what never changes, once
    assert np.allclose(cell.value.numpy(), expected(FACTORS), rtol=1e-5)


def test_an_interrupt_before_the_launch_is_found_out(
    backend: HostBackend, brought: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, step = state()
    for factor in FACTORS[:3]:
        step(factor)
    found = Executable._graph

    def interrupted(self: Executable, *args: Any, **kwargs: Any) -> Any:
        graph = found(self, *args, **kwargs)
        return None if graph is None else graph._replace(launch=raises)

    def raises(stream: Any) -> None:
        raise KeyboardInterrupt

    value = cell.value.numpy()
    with monkeypatch.context() as patch:
        patch.setattr(Executable, "_graph", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(7.0)
    cell.value = it.asarray(value, device=PLAYED)
    for factor in FACTORS[3:]:
        step(factor)
    assert np.allclose(cell.value.numpy(), expected(FACTORS), rtol=1e-5)
    backend.synchronize()
    brought.clear()
    step(0.5)
    assert not brought


def test_their_memory_is_nobody_elses_while_a_graph_is_under_way(backend: HostBackend) -> None:
    numbers = HostNumbers(backend, 2)
    place = numbers._place
    numbers.write([3, 4])
    numbers.count_launch()
    del numbers
    HostNumbers(backend, 2)
    assert place in backend.given_up
    place.content[0] = 1
    HostNumbers(backend, 2)
    assert place not in backend.given_up
    assert len(backend.given_up) == 1  # the last one, which is free
