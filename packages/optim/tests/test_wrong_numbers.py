"""Optimizers and schedules are made of numbers: anything else is named, with the argument."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.optim import schedule
from ingle.tensor.errors import ArgumentError, IngleError

STRANGE = ["a", None, [1], (), {}, object(), it.ones(2)]
REQUIRED = {
    "lr": 0.1, "steps": 10, "every": 2, "gamma": 0.9, "milestones": [2, 4], "half": 5, "first": 3,
    "up": 3, "low": 0.01, "high": 0.1, "warmup": 2, "features": 8, "power": 1.0,
}  # fmt: skip
OPTIMIZERS = [
    k for k in vars(optim).values()
    if isinstance(k, type) and issubclass(k, optim.Optimizer) and k is not optim.Optimizer
]  # fmt: skip
SCHEDULES = [
    k for k in vars(schedule).values()
    if isinstance(k, type) and all(
        p.name in REQUIRED or p.default is not p.empty
        for p in inspect.signature(k).parameters.values()
    )
]  # fmt: skip


def arguments(kind: Any) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(kind).parameters.values() if p.kind is not p.VAR_KEYWORD]


def is_number(p: inspect.Parameter) -> bool:
    return isinstance(p.default, (int, float, tuple)) and not isinstance(p.default, bool)


def refused(act: Any, said: str) -> None:
    """Python's own errors fail the test; what is taken as it is does not."""
    try:
        act()
    except IngleError:
        return
    except Exception as error:
        pytest.fail(f"{said}: {type(error).__name__}: {error}")


@pytest.mark.parametrize("kind", OPTIMIZERS, ids=lambda kind: kind.__name__)
def test_options_of_another_kind(kind: Any) -> None:
    for p in arguments(kind):
        for strange in STRANGE if is_number(p) else ():
            refused(lambda: kind(nn.Linear(2, 2), **{p.name: strange}), f"{p.name}={strange!r:.20}")  # noqa: B023


@pytest.mark.parametrize("kind", OPTIMIZERS, ids=lambda kind: kind.__name__)
def test_a_learning_rate_that_is_none(kind: Any) -> None:
    with pytest.raises(ArgumentError, match="must be a number or a schedule, got None"):
        kind(nn.Linear(2, 2), lr=None)


@pytest.mark.parametrize("kind", SCHEDULES, ids=lambda kind: kind.__name__)
def test_numbers_of_schedules(kind: Any) -> None:
    given = {p.name: REQUIRED[p.name] for p in arguments(kind) if p.default is p.empty}
    kind(**given)(3)
    for p in arguments(kind):
        if p.name not in given and not is_number(p):
            continue
        for strange in STRANGE:
            refused(lambda: kind(**{**given, p.name: strange})(3), f"{p.name}={strange!r:.20}")  # noqa: B023


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: schedule.Step(0.1, 2, gamma="0.5"), "Step: gamma must be a number, got '0.5'"),
        (lambda: schedule.Cosine(None, 10), "Cosine: lr must be a number, got None"),
        (
            lambda: schedule.MultiStep(0.1, 3),
            "MultiStep: milestones must be a list of steps, got 3",
        ),
        (lambda: schedule.Plateau(0.1, factor="a"), "Plateau: factor must be a number, got 'a'"),
        (lambda: optim.LossScaler("a"), "LossScaler: init_scale must be a number, got 'a'"),
        (lambda: optim.LossScaler(growth_interval=0), "growth_interval must be at least 1, got 0"),
        (lambda: optim.LBFGS(nn.Linear(2, 2), max_iter=None), "LBFGS: max_iter must be an integer"),
        (lambda: optim.Rprop(nn.Linear(2, 2), etas=(1,)), r"Rprop: etas must be 2 numbers, got"),
        (lambda: optim.Adam(nn.Linear(2, 2), max_grad_norm="1"), "Adam: max_grad_norm must be a n"),
        (lambda: optim.SGD(nn.Linear(2, 2), momentum=()), "SGD: momentum must be a number such as"),
    ],
)
def test_what_is_said(make: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        make()


def test_numbers_of_other_kinds_are_taken() -> None:
    import numpy as np

    rate = np.float32(0.5)
    assert schedule.Step(rate, 2, gamma=it.asarray(0.5))(2) == 0.25
    assert optim.LossScaler(init_scale=np.float64(8)).get_scale() == 8.0
    assert optim.SGD(nn.Linear(2, 2), lr=it.asarray(0.5)).lr == 0.5
