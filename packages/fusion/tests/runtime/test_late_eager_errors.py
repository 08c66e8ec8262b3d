"""Libraries that run each operation behind its call: an error that comes late costs no state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile
from ingle.router import Router
from ingle.tensor import plugins
from ingle.tensor.contract import Aval
from ingle.tensor.device import Device
from ingle.tensor.dtypes import from_numpy_dtype
from ingle.tensor.eager import EagerBackend
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Op, infer
from ingle.testkit import own_memory
from ingle_numpy.backend import NumpyBackend

Run = Callable[..., Any]
WAYS = pytest.mark.parametrize("way", [lambda f: f, compile], ids=["plain", "compiled"])


class Unmade(np.ndarray):
    """What a kernel that failed was to make."""

    error: Exception


class Ahead(EagerBackend):
    """Tells of an index out of range when a value is read that depends on it."""

    name = "ahead"
    kernels = NumpyBackend.kernels

    def to_device_array(self, array: np.ndarray) -> np.ndarray:
        return np.array(array)

    def to_host_array(self, array: np.ndarray) -> np.ndarray:
        _ensure(array)
        return np.array(array)

    def compute(self, kernel: Any, op: Op, arrays: Sequence[Any]) -> Any:
        error = next((a.error for a in arrays if isinstance(a, Unmade)), None)
        if error is None:
            try:
                with np.errstate(all="ignore"):
                    found = kernel(op, *arrays)
                return found if isinstance(found, tuple) else np.asarray(found)
            except OutOfRangeError as told:
                error = told
        avals = infer(op, [Aval(a.shape, from_numpy_dtype(a.dtype)) for a in arrays])
        made = tuple([np.zeros(a.shape, a.dtype.dtype).view(Unmade) for a in avals])
        for array in made:
            array.error = error
        return made


class Settling(Ahead):
    """Says whether a value is there before state takes it."""

    def settle(self, array: np.ndarray) -> None:
        _ensure(array)


def _ensure(array: np.ndarray) -> None:
    if isinstance(array, Unmade):
        raise copy(array.error)


@pytest.fixture
def device_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[type[Ahead]], str]]:
    """Makes a device of a kind, by its name."""

    def make(kind: type[Ahead]) -> str:
        name = kind.__name__.lower()
        backend = kind(Device(name))
        monkeypatch.setitem(plugins._backends, backend.device, backend)
        return name

    return make


def test_the_testkit_finds_state_that_is_lost(device_of: Run) -> None:
    own_memory.check_late_errors(device_of(Settling))
    with pytest.raises(AssertionError, match="took what the cell held"):
        own_memory.check_late_errors(device_of(Ahead))


@WAYS
def test_a_step_of_training_that_fails_changes_nothing(device_of: Run, way: Run) -> None:
    step, cells = _training(device_of(Settling), way)
    _fails_and_goes_on(step, cells)


@WAYS
def test_a_routers_member_changes_nothing_either(device_of: Run, way: Run) -> None:
    with Router(device_of(Settling), "numpy") as router:
        step, cells = _training(str(router.devices[0]), way)
        _fails_and_goes_on(step, cells)


def test_one_write_that_fails_changes_nothing(device_of: Run) -> None:
    x = it.asarray([1.0, 2.0], device=device_of(Settling))
    cell = it.Cell(x)
    with pytest.raises(OutOfRangeError, match="hold 5"):
        cell.value = x[it.asarray([0, 5], device=x.device)]
    assert cell.tolist() == [1.0, 2.0]


def test_nor_does_one_that_is_computed_when_it_is_read(device_of: Run) -> None:
    """So short that it runs without a plan."""
    with Router(device_of(Settling), "numpy") as router:
        x = it.asarray([1.0, 2.0], device=router.devices[0])
        cell = it.Cell(x)
        cell.value = it.take(x, it.asarray([0, 5], device=x.device))
        with pytest.raises(OutOfRangeError, match="hold 5"):
            cell.numpy()
        assert cell.tolist() == [1.0, 2.0]


def _training(where: str, way: Run) -> tuple[Run, Callable[[], list[Any]]]:
    """A step that learns from words and labels, and what it changes."""
    it.random.seed(0)
    with it.device("numpy"):
        model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3))
    model.to(where)
    optimizer = optim.AdamW(model, lr=0.1)

    def learn(words: it.Tensor, labels: it.Tensor) -> it.Tensor:
        loss = it.cross_entropy(model(words), labels)
        optimizer.step(loss.backward())
        return loss.detach()

    run = way(learn)

    def step(*words: int) -> float:
        labels = it.asarray([0, 2, 1], device=where)
        found: float = run(it.asarray(words, device=where), labels).item()
        return found

    def cells() -> list[Any]:
        state = {**model.state_dict(), **optimizer.state_dict()}
        return [np.array(value) for value in state.values()]

    return step, cells


def _fails_and_goes_on(step: Run, cells: Run) -> None:
    losses = [step(1, 2, 4) for _ in range(3)]
    held = cells()
    for _ in range(3):
        with pytest.raises(OutOfRangeError):
            step(1, 7, 4)
    for now, before in zip(cells(), held, strict=True):
        np.testing.assert_array_equal(now, before)
    assert step(1, 2, 4) < losses[-1] < losses[0]
