"""Steps over state wait for their checks right before their last launch, on a GPU played by the
processor: an index that is out of range leaves everything as it was."""

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
from ingle.fusion.compiled.fast_call_many import MANY
from ingle.fusion.runtime.pending_checks import PendingChecks
from ingle.tensor.errors import OutOfRangeError
from ingle_cuda.graphs.launches import Executable
from ingle_cuda.graphs.scalar_table import ScalarTable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++"),
]

PLAYED = "played"


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    """The backend of the device `played`."""
    return opened(HostGpu(folder), PLAYED, monkeypatch)


class Counting:
    """State that a step changes in three parts, each of which takes rows by an index of its own.

    Args:
        device: where.
        more: cells besides.
    """

    def __init__(self, device: str, more: int) -> None:
        self.device = device
        values = np.linspace(-1.0, 1.0, 48, dtype=np.float32).reshape(8, 6)
        with it.device(device):
            self.first, self.middle, self.last = (it.Cell(it.asarray(values)) for _ in range(3))
            self.more = [it.Cell(it.asarray(values[:1] + n)) for n in range(more)]
            self.square = it.asarray(values[:6])
        self.count = it.Cell(0)
        self.step = compile(self._step)

    def _step(self, i: it.Tensor, j: it.Tensor, k: it.Tensor) -> it.Tensor:
        x = it.take(self.first.value, i, axis=0)
        self.first.value = self.first * 0.5 + it.sum(x)
        x = it.softmax(x @ self.square, axis=-1)
        y = it.take(self.middle.value @ self.square, j, axis=0) * x
        self.middle.value = self.middle + it.mean(y)
        z = it.take(it.softmax(self.last.value, axis=0), k, axis=0) + y
        self.last.value = self.last - it.max(z)
        for cell in self.more:
            cell.value = cell + x[0, 0]
        self.count.value += 1
        return z + self.count.value

    def call(self, wrong: int | None = None) -> np.ndarray:
        """The result of a step, one of whose indices may be wrong."""
        given = [[1, 7, 0], [3, 3, 2], [5, 0, 6]]
        if wrong is not None:
            given[wrong][1] = 8
        return self.step(*[it.asarray(x, device=self.device) for x in given]).numpy()

    @property
    def cells(self) -> list[it.Cell[Any]]:
        return [self.first, self.middle, self.last, *self.more]

    def values(self) -> list[Any]:
        return [self.count.value, *[cell.value.numpy() for cell in self.cells]]

    def addresses(self) -> list[int]:
        """Where the state lies."""
        return [cell._value._handle.computed().address for cell in self.cells]


def same(left: list[Any], right: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("more", [0, MANY])
@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_wrong_index_in_any_part_changes_nothing(
    backend: HostBackend, wrong: int, more: int
) -> None:
    played, expected = Counting(PLAYED, more), Counting("cpu", more)
    for _ in range(5):
        assert np.allclose(played.call(), expected.call(), rtol=1e-5)
    assert backend.gpu.counts["replayed"]
    before, places = played.values(), played.addresses()
    for _ in range(2):
        with pytest.raises(OutOfRangeError, match="take"):
            played.call(wrong)
        assert same(played.values(), before)
    held = [cell.value for cell in played.cells]
    with pytest.raises(OutOfRangeError, match="take"):
        played.call(wrong)
    del held
    assert same(played.values(), before)
    for _ in range(3):
        assert np.allclose(played.call(), expected.call(), rtol=1e-5)
    assert played.addresses() == places  # in place all the time
    assert all(map(np.allclose, played.values(), expected.values()))


def noted(
    log: list[str], monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, word: str
) -> None:
    """Has a log of what begins."""
    of: Callable[..., Any] = getattr(owner, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        log.append(word)
        return of(*args, **kwargs)

    monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize("more", [0, MANY])
def test_all_but_the_last_launch_is_done_before_checks_are_waited_for(
    backend: HostBackend, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting(PLAYED, more)
    for _ in range(4):
        counting.call()
    log: list[str] = []
    noted(log, monkeypatch, PendingChecks, "settle", "waits")
    noted(log, monkeypatch, Executable, "_graph", "graph")
    noted(log, monkeypatch, ScalarTable, "write", "numbers")
    noted(log, monkeypatch, type(backend), "enqueue", "kernel")
    noted(log, monkeypatch, type(backend), "empty", "memory")
    counting.step(*[it.asarray([1, 2, 0], device=PLAYED) for _ in range(3)])
    wait = log.index("waits")
    assert {"graph", "numbers", "memory"} <= {*log[:wait]}
    assert {*log[wait:]} == {"waits"}  # once more at the end, where nothing is left to wait for


def test_an_interrupt_at_the_gate_changes_nothing(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting(PLAYED, MANY)
    for _ in range(4):
        counting.call()
    before = counting.values()

    def interrupted(self: PendingChecks, failures: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PendingChecks, "settle", interrupted)
        with pytest.raises(KeyboardInterrupt):
            counting.call()
    assert same(counting.values(), before)
    counting.call()
    assert counting.count.value == before[0] + 1
