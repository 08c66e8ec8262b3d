"""What an assignment to a registered attribute does: PyTorch is the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import OperandError


class Layer(nn.Module):
    """One of each kind of attribute that is registered."""

    def __init__(self) -> None:
        self.weight = nn.Parameter(it.ones(2))
        self.mean = nn.Buffer(it.zeros(2))
        self.calls = it.Cell(0)
        self.child = nn.Identity()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weight", it.zeros(2)), ("weight", np.zeros(2)), ("weight", 0.5), ("weight", [1.0, 2.0]),
        ("mean", np.zeros(2)), ("mean", 0.5), ("calls", 3), ("child", it.zeros(2)), ("child", len),
    ],
)  # fmt: skip
def test_what_would_unregister_is_refused(name: str, value: Any) -> None:
    layer = Layer()
    before = getattr(layer, name)
    with pytest.raises(OperandError, match=rf"Layer\.{name} is an? .*{type(value).__name__}"):
        setattr(layer, name, value)
    assert getattr(layer, name) is before


def test_the_assignment_that_ports_write() -> None:
    layer = Layer()
    with pytest.raises(OperandError, match=r"weight\.value = "):
        layer.weight = layer.weight * 0.5  # type: ignore[assignment]


@pytest.mark.parametrize("name", ["weight", "mean", "calls", "child"])
@pytest.mark.parametrize("value", [None, nn.Parameter([1.0]), nn.Buffer([1.0]), nn.Identity()])
def test_what_is_registered_in_turn_takes_the_place(name: str, value: Any) -> None:
    layer = Layer()
    setattr(layer, name, value)
    assert getattr(layer, name) is value


def test_a_tensor_becomes_the_value_of_a_buffer() -> None:
    layer = Layer()
    buffer = layer.mean
    layer.mean = it.asarray([3.0, 4.0])  # type: ignore[assignment]
    assert layer.mean is buffer
    assert layer.state_dict()["mean"].tolist() == [3.0, 4.0]
    # As in PyTorch, of any shape.
    layer.mean = it.zeros((3, 1))  # type: ignore[assignment]
    assert layer.mean.shape == (3, 1)


def test_a_buffer_is_written_as_part_of_a_transaction() -> None:
    layer = Layer()
    with it.transaction(commit=False):
        layer.mean = layer.mean + 1.0  # type: ignore[assignment]
        assert layer.mean.value.tolist() == [1.0, 1.0]
    assert layer.mean.value.tolist() == [0.0, 0.0]


def test_modules_of_a_container_by_attribute() -> None:
    model = nn.Sequential({"first": nn.Linear(2, 3), "last": nn.Linear(3, 1)})
    model.last = nn.Linear(3, 4)
    assert model(it.ones(2)).shape == (4,)
    assert [n for n, _ in model.named_children()] == ["first", "last"]
    with pytest.raises(OperandError, match="last"):
        model.last = it.ones(3)
    del model.last
    assert [n for n, _ in model.named_children()] == ["first"]
    # A name of the class is the attribute of the class, as when it is read.
    heads = nn.ModuleDict({"training": nn.Identity()}).eval()
    assert heads.training is False
    assert isinstance(heads["training"], nn.Identity)


class Frozen(nn.Module):
    """The habit of frozen statistics: `train` leaves the layer in use."""

    def __init__(self) -> None:
        self.norm = nn.BatchNorm1d(2)

    def train(self, mode: bool = True) -> Frozen:
        super().train(mode)
        self.norm.eval()
        return self


def test_train_and_eval_pass_through_what_submodules_override() -> None:
    model = nn.Sequential(nn.Sequential(Frozen()), nn.Dropout())
    model.train()
    inner = model[0][0]
    assert (inner.training, inner.norm.training, model[1].training) == (True, False, True)
    inner.norm.training = True
    model.eval()
    assert not any(m.training for m in model.modules())


def test_train_of_modules_that_know_each_other_ends() -> None:
    parent, child = nn.Identity(), nn.Identity()
    parent.child, child.parent = child, parent
    parent.eval()
    assert not child.training
    assert not parent.training
