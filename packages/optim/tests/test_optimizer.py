"""What holds for every optimizer: names, atomic steps, states, and what is said of bad input."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.nn import Parameter, StateError, select
from ingle.optim import NonFiniteError, schedule
from ingle.tensor import Gradients, Tensor
from ingle.tensor.errors import ArgumentError, GradientError, OperandError, ShapeError


class Quadratic(nn.Module):
    """A loss with gradients of its own for two parameters and one that is tied."""

    def __init__(self) -> None:
        self.inner = nn.ModuleDict({"a": Weight(3), "b": Weight(2)})
        self.inner["c"] = Weight(3)
        self.inner["c"].weight = self.inner["a"].weight

    def forward(self) -> Tensor:
        return sum((it.sum(it.square(m.weight - 1.0)) for m in self.inner.values()), it.zeros(()))


class Weight(nn.Module):
    def __init__(self, size: int) -> None:
        self.weight = Parameter(it.arange(size).astype("float32"))


KINDS = [optim.SGD, optim.Adam, optim.AdamW]


def values(model: nn.Module) -> dict[str, Any]:
    return {n: v.numpy().copy() for n, v in model.state_dict().items()}


def equal(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return set(a) == set(b) and all(np.array_equal(np.asarray(a[n]), np.asarray(b[n])) for n in a)


@pytest.mark.parametrize("kind", KINDS)
def test_both_ways_of_stepping(kind: Any) -> None:
    one, two = Quadratic(), Quadratic()
    first, second = kind(one, lr=0.1), kind(two, lr=0.1)
    for _ in range(5):
        loss = one()
        first.step(loss.backward())
        grads = second.backward_step(two())
        assert two.inner["b"].weight in grads
    assert equal(values(one), values(two))
    assert first.steps.value == 5


def test_a_tied_weight_has_one_gradient_and_one_update() -> None:
    model = Quadratic()
    sgd = optim.SGD(model, lr=0.25)
    sgd.backward_step(model())
    assert sgd.groups[0].names == ["inner.a.weight", "inner.b.weight"]
    # Twice 2 * (w - 1), once.
    assert model.inner["c"].weight.raw.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "given",
    [
        lambda m: m,
        lambda m: m.parameters(),
        lambda m: list(m.named_parameters()),
        lambda m: select(m),
        lambda m: [{"params": m.inner["a"]}, {"params": m.inner["b"].parameters()}],
        lambda m: {"params": m},
    ],
)
def test_what_may_be_given(given: Any) -> None:
    model = Quadratic()
    optimizer = optim.SGD(given(model), lr=0.25)
    optimizer.backward_step(model())
    assert model.inner["a"].weight.raw.tolist() == [1.0, 1.0, 1.0]
    assert model.inner["b"].weight.raw.tolist() == [0.5, 1.0]


def test_parameters_without_gradient_and_frozen_ones_are_left_alone() -> None:
    model = Quadratic()
    adam = optim.Adam(model, lr=0.1)
    grads = model().backward()
    model.freeze("inner.a")
    adam.step(grads)
    assert model.inner["a"].weight.raw.tolist() == [0.0, 1.0, 2.0]
    assert [s.steps.value for s in adam.groups[0].slots] == [0, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_in_the_middle_changes_nothing(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Quadratic()
    optimizer = kind(model, lr=schedule.Exponential(0.1, 0.5))
    optimizer.backward_step(model())
    before, state = values(model), optimizer.state_dict()
    last = dict(model.named_parameters())["inner.b.weight"]

    def fails(parameter: Parameter, new: Any) -> None:
        it.Cell.rebind(parameter, new)
        if parameter is last:
            raise KeyboardInterrupt

    monkeypatch.setattr(Parameter, "rebind", fails)
    with pytest.raises(KeyboardInterrupt):
        optimizer.backward_step(model())
    assert equal(values(model), before)
    assert equal(optimizer.state_dict(), state)
    monkeypatch.undo()
    optimizer.backward_step(model())
    other = Quadratic()
    again = kind(other, lr=schedule.Exponential(0.1, 0.5))
    for _ in range(2):
        again.backward_step(other())
    assert equal(values(model), values(other))


def test_an_exception_in_the_first_step_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    model, other = Quadratic(), Quadratic()
    optimizer = optim.SGD(model, lr=0.1, momentum=0.9)
    update = optim.SGD.update

    def fails(self: Any, *rest: Any) -> None:
        update(self, *rest)
        raise KeyboardInterrupt

    monkeypatch.setattr(optim.SGD, "update", fails)
    with pytest.raises(KeyboardInterrupt):
        optimizer.backward_step(model())
    monkeypatch.undo()
    again = optim.SGD(other, lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.backward_step(model())
        again.backward_step(other())
    assert equal(values(model), values(other))


def test_a_user_who_holds_an_old_weight() -> None:
    model = Quadratic()
    best = model.inner["b"].weight.value
    optim.SGD(model, lr=0.1).backward_step(model())
    assert best.tolist() == [0.0, 1.0]
    assert model.inner["b"].weight.raw.tolist() != [0.0, 1.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda m: optim.SGD(m, lr=0.05, momentum=0.9),
        lambda m: optim.Adam(m, lr=0.1, amsgrad=True),
        lambda m: optim.AdamW(m, lr=schedule.Cosine(0.1, steps=10), betas=(0.8, 0.9)),
    ],
)
def test_resuming_is_exact(make: Any, tmp_path: Path) -> None:
    whole, part = Quadratic(), Quadratic()
    optimizer = make(whole)
    first = make(part)
    for _ in range(3):
        optimizer.backward_step(whole())
        first.backward_step(part())
    nn.save(tmp_path / "c", {"model": part, "optimizer": first})
    resumed = Quadratic()
    second = make(resumed)
    nn.load(tmp_path / "c", {"model": resumed, "optimizer": second})
    assert equal(second.state_dict(), first.state_dict())
    for _ in range(4):
        optimizer.backward_step(whole())
        second.backward_step(resumed())
    assert equal(values(whole), values(resumed))
    assert equal(optimizer.state_dict(), second.state_dict())


def test_options_and_a_set_rate_are_resumed() -> None:
    model = Quadratic()
    one, two = optim.Adam(model, lr=0.1, betas=(0.5, 0.6)), optim.Adam(model)
    one.lr = 0.03
    two.load_state_dict(one.state_dict())
    assert two.lr == 0.03
    assert two.groups[0].options == one.groups[0].options


def test_loading_into_an_optimizer_that_has_run_clears_what_is_not_there() -> None:
    model = Quadratic()
    fresh = optim.Adam(model).state_dict()
    used = optim.Adam(model)
    used.backward_step(model())
    used.load_state_dict(fresh)
    assert equal(used.state_dict(), fresh)
    assert used.steps.value == 0


def test_states_that_do_not_fit() -> None:
    model = Quadratic()
    adam = optim.Adam(model)
    adam.backward_step(model())
    state = adam.state_dict()
    with pytest.raises(StateError, match="it is the state of Adam"):
        optim.SGD(model).load_state_dict(state)
    with pytest.raises(StateError, match=r"missing from group 0: inner\.b\.weight"):
        adam.load_state_dict({**state, "groups.0.parameters": ["inner.a.weight"]})
    part = optim.Adam(select(model, "inner.a"))
    with pytest.raises(StateError, match=r"unexpected in group 0: inner\.b\.weight"):
        part.load_state_dict(state)
    part.load_state_dict(state, strict=False)
    bad = {**state, "state.inner.a.weight.exp_avg": it.zeros(9)}
    with pytest.raises(StateError, match=r"exp_avg: expected shape \(3,\), got \(9,\)"):
        adam.load_state_dict(bad)
    with pytest.raises(OperandError, match="got the names a, b"):
        adam.load_state_dict({"a": 1, "b": 2})
    two = optim.Adam([{"params": model.inner["a"]}, {"params": model.inner["b"]}])
    assert [g.names for g in two.groups] == [["0.weight"], ["1.weight"]]
    with pytest.raises(StateError, match="groups: expected 2, got 1"):
        two.load_state_dict(state)


def test_learning_rates() -> None:
    model = Quadratic()
    sgd = optim.SGD(model, lr=schedule.Step(0.1, every=2))
    rates = []
    for _ in range(4):
        rates.append(sgd.lr)
        sgd.backward_step(model())
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01])
    sgd.lr = 0.5
    assert sgd.lr == 0.5
    sgd.lr = lambda step: 1.0 / (1 + step)
    assert sgd.lr == 0.2


def nan_gradient(model: Quadratic) -> Gradients:
    grads = model().backward()
    cell = model.inner["b"].weight
    return Gradients({k: grads[k] * (float("nan") if k is cell else 1.0) for k in grads.cells()})


def test_nonfinite_gradients_and_losses() -> None:
    model = Quadratic()
    before = values(model)
    adam = optim.Adam(model, error_if_nonfinite=True)
    with pytest.raises(NonFiniteError, match=r"step 0 the gradients of inner.b.weight are NaN"):
        adam.step(nan_gradient(model))
    with pytest.raises(NonFiniteError, match=r"the loss is inf at step 0.*max_grad_norm"):
        adam.backward_step(model() * float("inf"))
    assert equal(values(model), before)
    with pytest.raises(NonFiniteError, match="norm of the gradients is nan"):
        optim.clip_grad_norm(nan_gradient(model), 1.0, error_if_nonfinite=True)
    optim.Adam(model).step(nan_gradient(model))
    assert np.isnan(values(model)["inner.b.weight"]).all()


W = Parameter([1.0])
GIVEN: list[tuple[Any, type[Exception], str]] = [
    (lambda: optim.SGD([], lr=0.1), ArgumentError, "SGD: there are no parameters"),
    (lambda: optim.SGD(nn.Identity()), ArgumentError, "there are no parameters"),
    (lambda: optim.SGD(W), OperandError, "got Parameter; put it into a list"),
    (lambda: optim.SGD(3), OperandError, "expected a module, parameters or groups, got int"),
    (lambda: optim.SGD([it.ones(1)]), OperandError, "expected a Parameter, got Tensor"),
    (lambda: optim.SGD([W, W]), ArgumentError, "'1' is given twice, first as '0'"),
    (lambda: optim.SGD([{"params": [W], "momemtum": 1}]), ArgumentError, "any of lr, momentum"),
    (lambda: optim.SGD([("a", W), ("a", Parameter([2.0]))]), ArgumentError, "have the name a"),
    (lambda: optim.SGD([W], lr=-1.0), ArgumentError, "got -1.0 at step 0"),
    (lambda: optim.SGD([W], momentum=-1.0), ArgumentError, "momentum must be at least 0"),
    (lambda: optim.SGD([W], nesterov=True), ArgumentError, "nesterov=True needs momentum"),
    (lambda: optim.Adam([W], betas=(1.0, 0.9)), ArgumentError, r"betas must be 2 numbers in"),
    (lambda: optim.Adam([W], eps=-1.0), ArgumentError, "eps must be at least 0"),
    (lambda: optim.Adam([W], max_grad_norm=0.0), ArgumentError, "max_grad_norm must be above 0"),
    (lambda: optim.Adam([W]).step(it.ones(1)), OperandError, r"optimizer.step\(loss.backward"),
    (lambda: optim.Adam([W]).step(Gradients({})), ArgumentError, "of another model"),
    (lambda: optim.Adam([W]).step(Gradients({W: it.ones(3)})), ShapeError, "'0' has shape"),
    (lambda: optim.Adam([W]).backward_step(it.ones(())), GradientError, "records gradients"),
    (lambda: optim.clip_grad_norm([it.ones(1)], 1.0), OperandError, "expected the gradients"),
    (
        lambda: optim.SGD(nn.Linear(1, 1)).step(it.asarray(1.0)),
        OperandError,
        r"got Tensor; write optimizer.step\(loss.backward",
    ),
    (lambda: optim.clip_grad_norm(Gradients({}), 1.0), ArgumentError, "no gradients in this"),
    (lambda: optim.clip_grad_norm(Gradients({W: W.raw}), -1.0), ArgumentError, "at least 0"),
    (lambda: optim.clip_grad_value(Gradients({W: W.raw}), -1.0), ArgumentError, "at least 0"),
]


@pytest.mark.parametrize(("make", "error", "message"), GIVEN)
def test_bad_input(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_what_is_assigned_to_rates_counters_and_moments_is_written() -> None:
    w = nn.Parameter([1.0])
    optimizer = optim.SGD([w], lr=0.1, momentum=0.9)
    group = optimizer.groups[0]
    cells = (group.rate, optimizer.steps, group.slots[0].steps)
    group.rate = 0.5
    optimizer.backward_step((w * 1.0).sum())
    assert w.value.tolist() == [0.5]
    optimizer.steps = 7
    group.slots[0].steps = 3
    assert (f"{optimizer.steps}", optimizer.steps + 1, group.slots[0].steps.value) == ("7", 8, 3)
    assert cells == (group.rate, optimizer.steps, group.slots[0].steps)
    group.rate = lambda step: 1.0 / (1 + step)
    assert optimizer.lr == 1 / 8
    group.rate = 0.25
    assert (group.schedule, optimizer.lr) == (None, 0.25)
    with pytest.raises(ArgumentError, match="learning rate"):
        group.rate = -1.0
    (name,) = group.slots[0].moments
    assert group.slots[0].moments[name].tolist() == [1.0]
    with pytest.raises(KeyError, match=f"no moment 'x'; there are: {name}"):
        group.slots[0].moments["x"]
    assert dict(group.slots[0].moments.items()).keys() == {name}


def test_groups_that_are_added_later_are_trained_like_those_from_the_start() -> None:
    def models() -> tuple[nn.Module, nn.Module]:
        return tuple(nn.Linear(2, 2, generator=it.random.Generator(i)) for i in (1, 2))  # type: ignore

    def train(optimizer: optim.Optimizer, body: nn.Module, head: nn.Module) -> dict[str, Any]:
        for _ in range(3):
            optimizer.backward_step((head(body(it.ones((1, 2)))) ** 2).sum())
        return {k: v if isinstance(v, (int, float, str, list)) else v.tolist()
                for k, v in optimizer.state_dict().items()}  # fmt: skip

    first, second = models(), models()
    later = optim.Adam(first[0], lr=0.1)
    later.add_param_group({"params": first[1], "lr": 0.01, "weight_decay": 0.1})
    groups = [{"params": second[0]}, {"params": second[1], "lr": 0.01, "weight_decay": 0.1}]
    assert train(later, *first) == train(optim.Adam(groups, lr=0.1), *second)
    with pytest.raises(ArgumentError, match="twice"):
        later.add_param_group({"params": first[1]})
    with pytest.raises(ArgumentError, match="weight_decay"):
        later.add_param_group({"params": nn.Linear(2, 2), "weight_decay": -1.0})
    assert len(later.groups) == 2


@pytest.mark.parametrize("name", ["zero_grad", "param_groups", "state"])
def test_what_optimizers_lack_is_told_with_what_to_write(name: str) -> None:
    optimizer = optim.SGD(nn.Linear(2, 2), lr=0.1)
    with pytest.raises(AttributeError, match=f"SGD has no attribute '{name}', as it has in PyT"):
        getattr(optimizer, name)
    assert not hasattr(optimizer, "anything")


def test_a_rate_in_quotes_is_none() -> None:
    with pytest.raises(ArgumentError, match=r"learning rate: must be a number .* got '0\.1'"):
        optim.Adam(nn.Linear(2, 2), lr="0.1")


def test_a_group_is_shown_with_its_rate_or_schedule_and_options() -> None:
    group = optim.SGD(nn.Linear(2, 1), lr=0.5, momentum=0.9).groups[0]
    assert repr(group).startswith("Group(2 parameters, lr=0.5, momentum=0.9, ")
    group.rate = optim.schedule.Step(0.5, 2)
    assert f"lr={group.schedule!r}, momentum" in repr(group)


def test_a_rate_that_is_another_groups_cell_gives_its_number() -> None:
    first, second = (optim.SGD(nn.Linear(1, 1), lr=lr).groups[0] for lr in (0.5, 0.25))
    first.rate = second.rate
    second.rate = 3.0
    assert (first.lr(0), second.lr(0)) == (0.25, 3.0)
