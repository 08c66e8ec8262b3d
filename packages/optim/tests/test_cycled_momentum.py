"""Schedules by PyTorch's names of arguments, and momentum that goes with the rate as in PyTorch."""

from __future__ import annotations

import inspect
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

NAMED: dict[str, tuple[Any, dict[str, Any]]] = {
    "ConstantLR": (schedule.Factor, {"total_iters": 3, "factor": 0.2}),
    "LambdaLR": (schedule.Lambda, {"lr_lambda": lambda i: 0.9**i}),
    "StepLR": (schedule.Step, {"step_size": 3, "gamma": 0.5}),
    "MultiStepLR": (schedule.MultiStep, {"milestones": [2, 5], "gamma": 0.5}),
    "ExponentialLR": (schedule.Exponential, {"gamma": 0.9}),
    "LinearLR": (schedule.Linear, {"total_iters": 6, "start_factor": 0.2, "end_factor": 0.9}),
    "PolynomialLR": (schedule.Polynomial, {"total_iters": 6, "power": 2.0}),
    "CosineAnnealingLR": (schedule.CosineAnnealing, {"T_max": 6, "eta_min": 0.1}),
    "CosineAnnealingWarmRestarts": (
        schedule.WarmRestarts, {"T_0": 2, "T_mult": 2, "eta_min": 0.1},
    ),
    "CyclicLR": (
        schedule.Cyclic,
        {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 3, "step_size_down": 2},
    ),
    "OneCycleLR": (
        schedule.OneCycle,
        {"max_lr": 0.5, "total_steps": 20, "pct_start": 0.2, "anneal_strategy": "linear",
         "div_factor": 5.0, "final_div_factor": 10.0, "three_phase": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("theirs", NAMED)
def test_arguments_go_by_pytorchs_names(theirs: str) -> None:
    kind, options = NAMED[theirs]
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.5, momentum=0.9)
    scheduler = getattr(lr_scheduler, theirs)(optimizer, **options)
    first = {} if {"max_lr", "base_lr"} & options.keys() else {"lr": 0.5}
    ours = kind(**first, **options)
    for step in range(20):
        assert ours(step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9, abs=1e-12)
        optimizer.step()
        if step < 19:
            scheduler.step()
    allowed = {*inspect.signature(kind).parameters, *getattr(kind, "__also__", {})}
    assert options.keys() <= allowed


CYCLES: dict[str, tuple[Any, Any, Any]] = {
    "one": (
        schedule.OneCycle(0.1, 20), (), lambda o: lr_scheduler.OneCycleLR(o, 0.1, 20)),
    "three phases": (
        schedule.OneCycle(0.1, 20, anneal="linear", three_phase=True), (0.5, 0.9),
        lambda o: lr_scheduler.OneCycleLR(
            o, 0.1, 20, anneal_strategy="linear", three_phase=True, base_momentum=0.5,
            max_momentum=0.9)),
    "triangles": (
        schedule.Cyclic(0.01, 0.1, 4, 3), (), lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 4, 3)),
    "falling triangles": (
        schedule.Cyclic(0.01, 0.1, 4, mode="triangular2"), (0.6, 0.95),
        lambda o: lr_scheduler.CyclicLR(
            o, 0.01, 0.1, 4, mode="triangular2", base_momentum=0.6, max_momentum=0.95)),
}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case", CYCLES)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_twenty_steps_are_pytorchs(kind: str, case: str, compiled: bool) -> None:
    cycle, bounds, make = CYCLES[case]
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=5), rng.normal(size=(20, 5))
    momentum = cycle.momentum(*bounds)
    theirs = torch.nn.Parameter(torch.tensor(start))
    ours = nn.Parameter(it.asarray(start))
    if kind == "SGD":
        expected = torch.optim.SGD([theirs], lr=0.1, momentum=0.9, nesterov=True)
        optimizer: Any = optim.SGD([ours], lr=cycle, momentum=momentum, nesterov=True)
    else:
        expected = torch.optim.Adam([theirs], lr=0.1)
        optimizer = optim.Adam([ours], lr=cycle, betas=(momentum, 0.999))
    scheduler = make(expected)

    def step(gradient: it.Tensor) -> None:
        optimizer.step((ours * gradient).sum().backward())

    run = compile(step) if compiled else step
    for i, gradient in enumerate(gradients):
        theirs.grad = torch.tensor(gradient)
        expected.step()
        if i < 19:
            scheduler.step()
        run(it.asarray(gradient))
        np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-12)
    if compiled:
        assert run.recordings < 8


def test_a_state_has_no_schedules_and_keeps_those_it_is_loaded_into() -> None:
    cycle = schedule.OneCycle(0.1, 20)

    def make() -> tuple[nn.Parameter, optim.SGD]:
        parameter = nn.Parameter(it.ones(3))
        return parameter, optim.SGD([parameter], lr=cycle, momentum=cycle.momentum())

    def train(parameter: nn.Parameter, optimizer: optim.SGD, steps: int) -> None:
        for _ in range(steps):
            optimizer.step((parameter * parameter).sum().backward())

    whole, optimizer = make()
    train(whole, optimizer, 12)
    first, optimizer = make()
    train(first, optimizer, 5)
    saved = optimizer.state_dict()
    assert "groups.0.momentum" not in saved
    second, optimizer = make()
    second.value = first.value
    optimizer.load_state_dict(saved)
    train(second, optimizer, 7)
    assert second.tolist() == whole.tolist()


def test_bad_numbers_of_a_schedule_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"SGD: momentum must be at least 0\.0, got -1\.0"):
        optim.SGD(nn.Linear(2, 1), momentum=lambda step: -1.0)
    with pytest.raises(ArgumentError, match=r"Adam: betas must be 2 numbers in \[0, 1\)"):
        optim.Adam(nn.Linear(2, 1), betas=(schedule.Constant(1.5), 0.9))
