"""Schedules against PyTorch's schedulers, and their errors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from ingle.optim import schedule
from ingle.tensor.errors import ArgumentError

torch = pytest.importorskip("torch")
lr_scheduler = torch.optim.lr_scheduler


def torch_rates(make: Any, lr: float, steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=lr)
    scheduler = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


CASES = [
    (schedule.Step(0.5, every=3, gamma=0.3), lambda o: lr_scheduler.StepLR(o, 3, 0.3), 10),
    (
        schedule.MultiStep(0.5, [2, 2, 5], gamma=0.3),
        lambda o: lr_scheduler.MultiStepLR(o, [2, 2, 5], 0.3),
        9,
    ),
    (schedule.Exponential(0.5, 0.9), lambda o: lr_scheduler.ExponentialLR(o, 0.9), 20),
    (schedule.Linear(0.5, steps=7), lambda o: lr_scheduler.LinearLR(o, total_iters=7), 12),
    (
        schedule.Linear(0.5, steps=4, start=1.0, end=0.1),
        lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, total_iters=4),
        7,
    ),
    (
        schedule.Cosine(0.5, steps=12, final=0.01),
        lambda o: lr_scheduler.CosineAnnealingLR(o, 12, 0.01),
        13,
    ),
    (
        schedule.Polynomial(0.5, steps=9, power=2.0),
        lambda o: lr_scheduler.PolynomialLR(o, 9, 2.0),
        12,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("ours", "make", "steps"), CASES, ids=lambda v: type(v).__name__)
def test_equals_pytorch(ours: Any, make: Any, steps: int) -> None:
    assert [ours(i) for i in range(steps)] == pytest.approx(
        torch_rates(make, 0.5, steps), rel=1e-9, abs=1e-15
    )


@pytest.mark.parametrize("anneal", ["cos", "linear"])
@pytest.mark.parametrize("three_phase", [False, True])
def test_one_cycle_equals_pytorch(anneal: Any, three_phase: bool) -> None:
    theirs = torch_rates(
        lambda o: lr_scheduler.OneCycleLR(
            o, 0.5, total_steps=21, pct_start=0.25, anneal_strategy=anneal,
            three_phase=three_phase, cycle_momentum=False,
        ),
        0.5,
        20,
    )  # fmt: skip
    ours = schedule.OneCycle(0.5, steps=21, rise=0.25, anneal=anneal, three_phase=three_phase)
    assert [ours(i) for i in range(20)] == pytest.approx(theirs, rel=1e-9)
    assert ours(500) == ours(20) == pytest.approx(0.5 / 25 / 1e4)


def test_sequential_equals_pytorch() -> None:
    def make(optimizer: Any) -> Any:
        parts = [
            lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=100),
            lr_scheduler.ExponentialLR(optimizer, gamma=0.9),
        ]
        return lr_scheduler.SequentialLR(optimizer, parts, milestones=[4])

    ours = schedule.Sequential([0.05, schedule.Exponential(0.5, 0.9)], [4])
    assert [ours(i) for i in range(10)] == pytest.approx(torch_rates(make, 0.5, 10), rel=1e-9)


def test_chain_equals_pytorch() -> None:
    def make(optimizer: Any) -> Any:
        parts = [
            lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4),
            lr_scheduler.ExponentialLR(optimizer, gamma=0.9),
        ]
        return lr_scheduler.ChainedScheduler(parts, optimizer=optimizer)

    ours = schedule.Chain(0.5, [schedule.Linear(1.0, 4, start=0.1), schedule.Exponential(1.0, 0.9)])
    assert [ours(i) for i in range(10)] == pytest.approx(torch_rates(make, 0.5, 10), rel=1e-9)


def test_warmup_leads_into_the_schedule() -> None:
    after = schedule.Cosine(1.0, steps=10)
    ours = schedule.Warmup(after, steps=5, start=0.2)
    assert ours(0) == pytest.approx(0.2)
    assert [ours(i) for i in range(5, 15)] == [after(i) for i in range(10)]
    assert all(a < b for a, b in zip(map(ours, range(5)), map(ours, range(1, 6)), strict=True))
    assert schedule.Warmup(0.3, 0)(0) == 0.3


def test_cosine_with_warmup() -> None:
    ours = schedule.Cosine(1.0, steps=14, final=0.1, warmup=4)
    assert [ours(i) for i in range(5)] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert [ours(4 + i) for i in range(11)] == [schedule.Cosine(1.0, 10, 0.1)(i) for i in range(11)]
    assert ours(99) == pytest.approx(0.1)


@pytest.mark.parametrize("ours", [case[0] for case in CASES], ids=lambda v: type(v).__name__)
def test_schedules_are_values(ours: Any) -> None:
    again = pickle.loads(pickle.dumps(ours))
    assert again == ours
    assert again(3) == ours(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedule.Step(0.1, every=0), "Step: every must be at least 1"),
        (lambda: schedule.Linear(0.1, steps=2.5), "Linear: steps must be an integer"),
        (lambda: schedule.Cosine(0.1, steps=3, warmup=3), "warmup=3 must be shorter than steps=3"),
        (lambda: schedule.OneCycle(0.1, 5, rise=2.0), "rise must be in"),
        (lambda: schedule.OneCycle(0.1, 5, anneal="square"), "anneal must be 'cos' or 'linear'"),
        (lambda: schedule.Sequential([0.1, 0.2], []), "2 schedules need 1 milestones, got 0"),
        (lambda: schedule.Sequential([0.1, 0.2, 0.3], [5, 5]), "milestones must increase"),
        (lambda: schedule.rate_at(lambda step: -1.0, 3), "got -1.0 at step 3"),
        (lambda: schedule.rate_at(float("nan"), 0), "must be a finite number"),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


def test_whole_numbers_may_be_numpys() -> None:
    ours = schedule.Cosine(1.0, steps=np.int64(10), warmup=np.int8(2))
    assert ours == schedule.Cosine(1.0, steps=10, warmup=2)
    assert type(ours.steps) is int
    assert schedule.Plateau(1.0, patience=np.int64(3)).patience == 3
