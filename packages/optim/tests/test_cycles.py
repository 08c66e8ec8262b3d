"""Schedules that come back or compose against PyTorch's, and groups by rule."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile
from ingle.optim import schedule
from ingle.tensor.errors import ArgumentError

torch = pytest.importorskip("torch")
lr_scheduler = torch.optim.lr_scheduler


def torch_rates(make: Any, lr: float, steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=lr, momentum=0.9)
    scheduler = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


CYCLE: dict[str, Any] = {"step_size_up": 4, "cycle_momentum": False}
CASES: list[tuple[Any, Any]] = [
    (schedule.Factor(0.5, 4, 0.2), lambda o: lr_scheduler.ConstantLR(o, 0.2, 4)),
    (schedule.Factor(0.5), lambda o: lr_scheduler.ConstantLR(o)),
    (schedule.Lambda(0.5, lambda i: 0.9**i), lambda o: lr_scheduler.LambdaLR(o, lambda i: 0.9**i)),
    (schedule.CosineAnnealing(0.5, 6, 0.1), lambda o: lr_scheduler.CosineAnnealingLR(o, 6, 0.1)),
    (schedule.WarmRestarts(0.5, 5), lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5)),
    (schedule.WarmRestarts(0.5, 3, 2, 0.1),
     lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2, 0.1)),
    (schedule.Cyclic(0.1, 0.5, 4), lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.5, **CYCLE)),
    (schedule.Cyclic(0.1, 0.5, 4, 2, "triangular2"), lambda o: lr_scheduler.CyclicLR(
        o, 0.1, 0.5, step_size_down=2, mode="triangular2", **CYCLE)),
    (schedule.Cyclic(0.1, 0.5, 4, mode="exp_range", gamma=0.9), lambda o: lr_scheduler.CyclicLR(
        o, 0.1, 0.5, mode="exp_range", gamma=0.9, **CYCLE)),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "make"), CASES, ids=lambda v: type(v).__name__)
def test_equals_pytorch(ours: Any, make: Any) -> None:
    want = torch_rates(make, 0.5, 25)
    assert [ours(i) for i in range(25)] == pytest.approx(want, rel=1e-9, abs=1e-12)


def test_noam_is_its_formula() -> None:
    noam = schedule.Noam(2.0, warmup=10, features=64)
    for step in range(1, 50):
        want = 2.0 * 64**-0.5 * min(step**-0.5, step * 10**-1.5)
        assert noam(step - 1) == pytest.approx(want)


def test_composed() -> None:
    parts = [schedule.Exponential(1.0, 0.5), schedule.Step(0.5, 2), 0.25]
    for how, want in (("product", math.prod), ("sum", sum), ("mean", np.mean)):
        both = schedule.Composed(parts, how=how)  # type: ignore[arg-type]
        for i in range(6):
            rates = [p if isinstance(p, float) else p(i) for p in parts]
            assert both(i) == pytest.approx(want(rates))  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "max", "factor": 0.5, "patience": 1, "cooldown": 2}, {"min_lr": 0.05},
     {"threshold": 0.3, "threshold_mode": "abs", "patience": 2}],
)  # fmt: skip
def test_plateau(options: dict[str, Any]) -> None:
    options = {"patience": 2, **options}
    ours = schedule.Plateau(0.5, **options)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    theirs = lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    rng = np.random.default_rng(0)
    for i in range(40):
        value = float(rng.normal() - 0.02 * i)
        ours.observe(value)
        theirs.step(value)
        assert ours(i) == pytest.approx(optimizer.param_groups[0]["lr"])
        if i == 20:
            state, ours = ours.state_dict(), schedule.Plateau(0.5, **options)
            ours.load_state_dict(state)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_plateau_sets_the_rate_of_steps(compiled: bool) -> None:
    w = nn.Parameter(it.zeros(1))
    plateau = schedule.Plateau(1.0, factor=0.5, patience=0)
    optimizer = optim.SGD([w], lr=plateau)

    def step() -> None:
        optimizer.step((-w).sum().backward())

    run = compile(step) if compiled else step
    for _ in range(4):
        run()
    plateau.observe(1.0)
    plateau.observe(1.0)
    run()
    assert w.value.item() == 4.5
    assert optimizer.lr == 0.5


def test_schedules_are_values() -> None:
    for made in (schedule.Cyclic(0.0, 1.0), schedule.WarmRestarts(1.0, 2), schedule.Noam(1, 2, 3)):
        assert pickle.loads(pickle.dumps(made)) == made


def test_groups_by_rule() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 1))
    groups = optim.param_groups(
        model, ("*.bias", {"weight_decay": 0.0}), (model[1], {"lr": 0.5}),
        (lambda path, p: path.startswith("2"), {"lr": schedule.Step(0.1, 5)}),
    )  # fmt: skip
    optimizer = optim.AdamW(groups, lr=0.01, weight_decay=0.1)
    assert [g.names for g in optimizer.groups] == [
        ["0.bias", "1.bias", "2.bias"], ["1.weight"], ["2.weight"], ["0.weight"],
    ]  # fmt: skip
    assert [g.options["weight_decay"] for g in optimizer.groups] == [0.0, 0.1, 0.1, 0.1]
    assert [g.lr(0) for g in optimizer.groups] == [0.01, 0.5, 0.1, 0.01]
    with pytest.raises(ArgumentError, match=r"rule 1, '0.bias', names no parameter"):
        optim.param_groups(model, ("0", {}), ("0.bias", {}))
    with pytest.raises(ArgumentError, match="no parameter matches 'head'"):
        optim.param_groups(model, ("head", {}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedule.CosineAnnealing(1.0, 0), "half must be at least 1"),
        (lambda: schedule.WarmRestarts(1.0, 2, 0), "factor must be at least 1"),
        (lambda: schedule.Cyclic(0.0, 1.0, mode="saw"), "got 'saw'"),  # type: ignore[arg-type]
        (lambda: schedule.Noam(1.0, 0, 8), "warmup must be"),
        (lambda: schedule.Composed([]), "there are no schedules"),
        (lambda: schedule.Composed([1.0], how="max"), "got 'max'"),  # type: ignore[arg-type]
        (lambda: schedule.Plateau(1.0, factor=2.0), "factor must be between 0 and 1"),
        (lambda: schedule.Plateau(1.0, mode="less"), "got 'less'"),  # type: ignore[arg-type]
        (lambda: schedule.Plateau(1.0).load_state_dict({"lr": 1.0}), "bad, best, cooling is"),
        (lambda: optim.SGD(nn.Linear(1, 1), lr=schedule.Lambda(1.0, lambda i: -1.0)).lr,
         "must be a finite number of at least 0, got -1.0 at step 0"),
    ],
)  # fmt: skip
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize("value", ["a", None, [1.0, 2.0]])
def test_what_is_observed_must_be_a_number(value: Any) -> None:
    plateau = schedule.Plateau(0.1)
    with pytest.raises(ArgumentError, match=r"Plateau\.observe: .* must be one number"):
        plateau.observe(value)
    assert (plateau.best, plateau.bad) == (math.inf, 0)
