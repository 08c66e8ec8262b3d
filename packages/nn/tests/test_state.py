"""State dicts: what is in them, what is taken, and everything that is wrong at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.nn import StateError
from ingle.tensor.errors import OperandError


class Net(nn.Module):
    """Parameters, a saved and an unsaved buffer, and a tied pair."""

    def __init__(self) -> None:
        self.one = nn.Linear(2, 3)
        self.two = nn.Linear(2, 3)
        self.two.bias = self.one.bias
        self.count = nn.Buffer(it.asarray(0))
        self.scratch = nn.Buffer(it.zeros(2), persistent=False)


def arrays(model: nn.Module) -> dict[str, Any]:
    return {name: value.numpy() for name, value in model.state_dict().items()}


def test_paths_in_pytorchs_order() -> None:
    assert list(Net().state_dict()) == [
        "count", "one.weight", "one.bias", "two.weight", "two.bias",
    ]  # fmt: skip


def test_a_state_dict_is_a_snapshot() -> None:
    model = Net()
    state = model.state_dict()
    before = state["one.weight"].numpy().copy()
    model.one.weight.value = it.zeros((3, 2))
    state["one.bias"] += 1.0
    assert not np.array_equal(state["one.bias"].numpy(), model.one.bias.raw.numpy())
    np.testing.assert_array_equal(state["one.weight"].numpy(), before)


@pytest.mark.parametrize("kind", ["ingle", "numpy", "torch", "lists"])
def test_what_values_may_be(kind: str) -> None:
    model, other = Net(), Net()
    state: dict[str, Any] = model.state_dict()
    if kind == "numpy":
        state = arrays(model)
    elif kind == "torch":
        torch = pytest.importorskip("torch")
        state = {
            n: torch.tensor(v, requires_grad=v.dtype.kind == "f") for n, v in arrays(model).items()
        }
    elif kind == "lists":
        state = {n: v.tolist() for n, v in arrays(model).items()}
    other.load_state_dict(state)
    for name, value in arrays(model).items():
        np.testing.assert_array_equal(other.state_dict()[name].numpy(), value)
    assert other.two.bias is other.one.bias


def test_bfloat16_from_pytorch() -> None:
    torch = pytest.importorskip("torch")
    layer = nn.Linear(2, 2, dtype="bfloat16")
    given = torch.nn.Linear(2, 2, dtype=torch.bfloat16)
    layer.load_state_dict(given.state_dict())
    np.testing.assert_array_equal(
        layer.weight.raw.numpy().astype(np.float32), given.weight.detach().float().numpy()
    )


def test_values_are_cast_to_the_cells_float_dtype() -> None:
    model = nn.Linear(2, 3)
    model.load_state_dict({"weight": np.ones((3, 2), np.float64), "bias": np.ones(3, np.float16)})
    assert model.weight.dtype is it.float32
    assert model.bias.raw.tolist() == [1.0, 1.0, 1.0]


def test_the_caller_may_write_to_the_array_afterwards() -> None:
    given = np.ones(3, np.float32)
    model = nn.Linear(2, 3)
    model.load_state_dict({"weight": np.ones((3, 2), np.float32), "bias": given})
    given[:] = 5
    assert model.bias.raw.tolist() == [1.0, 1.0, 1.0]


def test_all_problems_at_once_and_nothing_set() -> None:
    model = Net()
    before = arrays(model)
    bad = {
        "one.weight": np.zeros((2, 3), np.float32),
        "count": np.asarray(1.5),
        "one.bias": np.zeros(3, np.float32),
        "three.weight": np.zeros(1),
    }
    with pytest.raises(StateError) as caught:
        model.load_state_dict(bad)
    text = str(caught.value)
    for part in (
        "missing: two.weight\n",
        "unexpected: three.weight",
        "one.weight: expected shape (3, 2), got (2, 3)",
        "count: expected dtype int64, got float64",
        "does not fit Net, nothing was set",
        "strict=False",
    ):
        assert part in text
    for name, value in arrays(model).items():
        np.testing.assert_array_equal(value, before[name])


def test_not_strict() -> None:
    model = Net()
    found = model.load_state_dict(
        {"two.weight": np.ones((3, 2)), "other": np.ones(1)}, strict=False
    )
    assert found.unexpected_keys == ["other"]
    assert "two.weight" not in found.missing_keys
    assert set(found.missing_keys) == set(model.state_dict()) - {"two.weight"}
    assert model.load_state_dict(model.state_dict()) == ([], [])
    assert float(it.sum(model.two.weight)) == 6.0
    with pytest.raises(StateError, match=r"one.weight: expected shape"):
        model.load_state_dict({"one.weight": np.ones(1)}, strict=False)


def test_one_name_of_a_tied_cell_is_enough_and_two_must_agree() -> None:
    model = Net()
    state = arrays(model)
    del state["two.bias"]
    model.load_state_dict(state)
    state["two.bias"] = np.full(3, 9.0)
    with pytest.raises(StateError, match=r"two.bias and one.bias are one tied cell"):
        model.load_state_dict(state)
    state["two.bias"] = state["one.bias"] = np.asarray([1, np.nan, 2], np.float32)
    model.load_state_dict(state)


def test_what_is_no_state_dict() -> None:
    with pytest.raises(OperandError, match=r"use ingle.nn.load\(path, module\)"):
        Net().load_state_dict("model.safetensors")  # type: ignore[arg-type]
    with pytest.raises(OperandError, match="'x': expected a tensor or array"):
        nn.state.as_tensor("hello", "'x'")
