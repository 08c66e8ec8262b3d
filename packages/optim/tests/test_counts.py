"""Counters of updates that parameters share."""

from __future__ import annotations

import sys
from itertools import product
from types import FrameType
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile
from ingle.tensor import Cell
from ingle.tensor.transactions import current_scope


def made(count: int) -> tuple[list[nn.Parameter], optim.Adam]:
    weights = [nn.Parameter([float(i + 1)]) for i in range(count)]
    return weights, optim.Adam(weights, lr=0.25)


def counts(optimizer: optim.Optimizer) -> list[int]:
    return [slot.steps.value for group in optimizer.groups for slot in group.slots]


def cells(optimizer: optim.Optimizer) -> int:
    """How many cells hold the counters."""
    found: set[int] = set()
    for group in optimizer.groups:
        for slot in group.slots:
            found.add(id(slot.steps.counts.cell(slot.steps.place)))  # type: ignore[attr-defined]
    return len(found)


def loss_of(weights: list[nn.Parameter], chosen: Any) -> it.Tensor:
    return sum((weights[i] * weights[i]).sum() for i in chosen)  # type: ignore[return-value]


@pytest.mark.slow
def test_parameters_that_are_updated_together_share_a_counter() -> None:
    weights, adam = made(5)
    for _ in range(3):
        adam.step(loss_of(weights, range(5)).backward())
    assert counts(adam) == [3] * 5
    assert cells(adam) == 1


def test_each_parameter_counts_its_own_updates() -> None:
    rng = np.random.default_rng(0)
    weights, adam = made(4)
    expected = [0] * 4
    for _ in range(20):
        chosen = [i for i in range(4) if rng.random() < 0.6] or [0]
        adam.step(loss_of(weights, chosen).backward())
        for i in chosen:
            expected[i] += 1
        assert counts(adam) == expected


def test_what_is_written_to_one_counter_stays_with_it() -> None:
    weights, adam = made(3)
    adam.step(loss_of(weights, range(3)).backward())
    slots = adam.groups[0].slots
    slots[1].steps.value = 7
    slots[2].steps = 4  # type: ignore[assignment]
    assert counts(adam) == [1, 7, 4]
    adam.step(loss_of(weights, range(3)).backward())
    assert counts(adam) == [2, 8, 5]


def test_a_step_that_fails_leaves_counters_as_they_were() -> None:
    weights, adam = made(3)
    adam.step(loss_of(weights, range(3)).backward())

    def failing() -> None:
        with it.transaction():
            adam.step(loss_of(weights, [0]).backward())
            assert counts(adam) == [2, 1, 1]
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert counts(adam) == [1, 1, 1]
    assert cells(adam) == 1


@pytest.mark.parametrize("loaded", [[5, 5, 5], [5, 2, 5], [1, 2, 3]])
def test_a_state_brings_each_counter_back(loaded: list[int]) -> None:
    weights, adam = made(3)
    adam.step(loss_of(weights, range(3)).backward())
    state = adam.state_dict()
    for slot, steps in zip(adam.groups[0].slots, loaded, strict=True):
        state[f"state.{slot.name}.steps"] = steps
    _, other = made(3)
    other.load_state_dict(state)
    assert counts(other) == loaded
    assert cells(other) == len(set(loaded))
    assert [other.state_dict()[f"state.{i}.steps"] for i in range(3)] == loaded


def test_a_compiled_step_follows_one_number() -> None:
    weights, adam = made(6)
    step = compile(lambda: adam.step(loss_of(weights, range(6)).backward()))
    for _ in range(4):
        step()
    assert counts(adam) == [4] * 6
    assert step.recordings == 2
    (kept,) = step._kept.values()
    # The counter, that of the optimizer and the rate.
    assert len(kept.entries[0].numbers) == 3


def test_compiled_steps_that_take_turns_count_as_plain_ones() -> None:
    def trained(wrap: Any) -> list[Any]:
        weights, adam = made(4)
        first = wrap(lambda: adam.step(loss_of(weights, [0, 1, 2]).backward()))
        second = wrap(lambda: adam.step(loss_of(weights, [2, 3]).backward()))
        for _, step in product(range(5), (first, second)):
            step()
        return [*counts(adam), *[w.value.tolist() for w in weights]]

    assert trained(compile) == trained(lambda f: f)


def test_a_counter_of_ones_own_is_advanced_too() -> None:
    weights, adam = made(2)
    adam.groups[0].slots[0].steps = own = Cell(4)
    adam.step(loss_of(weights, range(2)).backward())
    assert (own.value, counts(adam)) == (5, [5, 1])
    assert current_scope() is None


def lookups(parameters: int) -> int:
    """How often a warm step of AdamW asks where cells are read and written."""
    weights = [nn.Parameter(it.ones((2, 3))) for _ in range(parameters)]
    optimizer = optim.AdamW(weights, lr=0.1)

    def gradients() -> it.Gradients:
        total = it.asarray(0.0)
        for weight in weights:
            total = total + it.sum(weight * weight)
        return total.backward()

    for _ in range(2):
        optimizer.step(gradients())
    last, found = gradients(), 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal found
        found += event == "call" and frame.f_code is current_scope.__code__

    sys.setprofile(count)
    try:
        optimizer.step(last)
    finally:
        sys.setprofile(None)
    return found


def test_a_step_reads_counters_and_moments_of_all_parameters_at_once() -> None:
    # The shape, the dtypes of the gradient and of the parameter, and three writes.
    assert lookups(10) - lookups(2) == 8 * 6
