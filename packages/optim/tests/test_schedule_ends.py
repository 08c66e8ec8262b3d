"""Beyond its end a schedule keeps its last rate, in compiled steps too."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile
from ingle.optim import schedule

ENDED = [
    (schedule.Cosine(0.1, 10, final=0.01, warmup=3), 10, 0.01),
    (schedule.Linear(0.1, 10, end=0.5), 10, 0.05),
    (schedule.Polynomial(0.1, 10, power=2.0, final=0.02), 10, 0.02),
    (schedule.OneCycle(0.1, 10), 9, 0.1 / 25 / 1e4),
    (schedule.OneCycle(0.1, 12, anneal="linear", three_phase=True), 11, 0.1 / 25 / 1e4),
    (schedule.Factor(0.1, 10), 10, 0.1),
    (schedule.Warmup(schedule.Cosine(0.1, 5, final=0.03), 10), 15, 0.03),
    (schedule.Sequential([0.2, schedule.Polynomial(0.1, 5)], [10]), 15, 0.0),
    (schedule.MultiStep(0.1, [5, 10]), 10, 0.001),
    (schedule.Composed([schedule.Cosine(0.1, 10), schedule.Constant(1.0)], "mean"), 10, 0.5),
    (schedule.Chain(0.1, [schedule.Factor(1.0, 5)]), 5, 0.1),
]
"""A schedule, the first step at which it has ended, and its rate from then on."""
NAMES = [f"{i}-{type(one).__name__}" for i, (one, _, _) in enumerate(ENDED)]


@pytest.mark.parametrize(("rates", "end", "last"), ENDED, ids=NAMES)
def test_the_last_rate_stays(rates: Any, end: int, last: float) -> None:
    assert rates(end - 2) != pytest.approx(last, rel=1e-3, abs=1e-9)
    for step in (end, end + 1, end + 7, 10**6, 10**12):
        assert rates(step) == pytest.approx(last, rel=1e-12, abs=1e-15)
        assert math.isfinite(rates(step))


def test_a_compiled_step_goes_on_behind_the_end() -> None:
    model = nn.Linear(2, 1)
    optimizer = optim.SGD(model, lr=schedule.Polynomial(0.1, 3, final=0.01))

    @compile
    def step(x: it.Tensor) -> it.Tensor:
        loss = it.sum(model(x))
        optimizer.step(loss.backward())
        return loss

    biases = []
    for _ in range(7):
        step(it.ones((1, 2)))
        biases.append(model.bias.value.item())
    moved = [a - b for a, b in itertools.pairwise(biases)]
    assert moved[2:] == pytest.approx([0.01] * 4, rel=1e-4)
