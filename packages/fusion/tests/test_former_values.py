"""A step that fails changes nothing, though its values are computed after it is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.tensor.errors import OutOfMemoryError, OutOfRangeError

X, Y = np.arange(50) % 7, np.arange(50) % 3
MANY = 50_000


def wrong_rows() -> tuple[Any, Any]:
    return np.where(X == 3, 9, X), Y


def wrong_classes() -> tuple[Any, Any]:
    return X, np.where(Y == 2, 5, Y)


def too_many() -> tuple[Any, Any]:
    return np.arange(MANY) % 7, np.arange(MANY) % 3


@pytest.mark.sampled(3)
@pytest.mark.parametrize("warm", [0, 3], ids=["first", "planned"])
@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam])
@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (wrong_rows, OutOfRangeError), (wrong_classes, OutOfRangeError),
        (too_many, OutOfMemoryError),
    ],
)  # fmt: skip
def test_a_step_that_fails_changes_nothing(
    batch: Callable[[], tuple[Any, Any]], error: type[Exception], optimizer: Any, warm: int
) -> None:
    with it.device("cpu"):
        it.random.seed(1)
        model = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 3))
        stepper = optimizer(model, lr=0.1)

        def step(x: Any, y: Any) -> it.Tensor:
            loss = it.cross_entropy(model(it.asarray(x)), it.asarray(y))
            stepper.step(loss.backward())
            return loss

        for _ in range(warm):
            step(X, Y)
        before = [p.numpy() for p in model.parameters()]
        given = batch()
        if error is OutOfMemoryError:
            it.memory.limit(it.memory.stats("cpu").in_use + 2 * MANY * 8 + (1 << 19), "cpu")
        try:
            with pytest.raises(error):
                step(*given)
        finally:
            it.memory.limit(None, "cpu")
        for parameter, value in zip(model.parameters(), before, strict=True):
            np.testing.assert_array_equal(parameter.numpy(), value)
        assert stepper.steps == warm
        losses = [step(X, Y).item() for _ in range(3)]
        assert losses[-1] < losses[0]


@pytest.mark.parametrize("other", ["numpy", "cpu"])
def test_a_group_of_writes_on_several_devices_lands_whole_or_not_at_all(other: str) -> None:
    w, v = it.Cell(it.zeros(3, device="cpu")), it.Cell(it.zeros(3, device=other))
    count = it.Cell(0)

    def write(index: int) -> None:
        with it.transaction():
            v.value = v.value + 1.0
            count.value = count.value + 1
            taken = it.take(w.value, it.asarray([index], device="cpu"))
            w.value = w.value + taken + 1.0

    write(2)
    with pytest.raises(OutOfRangeError):
        write(3)
    assert (w.value.tolist(), v.value.tolist(), count.value) == ([1.0] * 3, [1.0] * 3, 1)
    write(2)
    assert (w.value.tolist(), v.value.tolist(), count.value) == ([3.0] * 3, [2.0] * 3, 2)


def test_a_cell_whose_value_failed_goes_back_to_the_last_one() -> None:
    """Whoever reads it hears of the error; what was written before that and did not fail stays."""
    x = it.asarray([1.0, 2.0], device="cpu")
    cell, good = it.Cell(x), it.Cell(x)
    cell.value = cell.value * 10.0
    good.value = good.value * 2.0
    cell.value = it.take(cell.value, it.asarray([0, 5], device="cpu"))
    with pytest.raises(OutOfRangeError):
        cell.value.numpy()
    assert cell.value.tolist() == [10.0, 20.0]
    assert good.value.tolist() == [2.0, 4.0]


def test_a_value_that_nobody_asked_for_keeps_its_error() -> None:
    x = it.asarray([1.0, 2.0], device="cpu")
    cell = it.Cell(x)
    other = it.exp(x)
    cell.value = it.take(cell.value, it.asarray([0, 5], device="cpu"))
    assert other.tolist() == pytest.approx(np.exp([1.0, 2.0]).tolist(), rel=1e-6)
    with pytest.raises(OutOfRangeError):
        cell.value.numpy()


@pytest.mark.slow
def test_running_statistics_go_back_with_the_step_that_they_belong_to() -> None:
    """A batch norm's own move stands by itself; within a transaction it is a part of the step."""
    with it.device("cpu"):
        it.random.seed(1)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
        norm, stepper = model[1], optim.SGD(model, lr=0.1, momentum=0.9)

        def step(count: int) -> None:
            with it.transaction():
                loss = it.cross_entropy(model(it.ones((count, 4))), it.zeros(count, dtype=it.int64))
                stepper.step(loss.backward())

        step(50)
        state = norm.running_mean, norm.running_var, norm.num_batches_tracked, *model.parameters()
        before = [cell.numpy() for cell in state]
        it.memory.limit(it.memory.stats("cpu").in_use + 20 * MANY, "cpu")
        try:
            with pytest.raises(OutOfMemoryError):
                step(MANY)
        finally:
            it.memory.limit(None, "cpu")
        for cell, value in zip(state, before, strict=True):
            np.testing.assert_array_equal(cell.numpy(), value)
        assert stepper.steps == 1
        step(50)
        assert norm.num_batches_tracked.value.item() == 2
