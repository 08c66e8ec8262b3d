"""Methods by PyTorch's names, and hooks by path."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import ingle.tensor as it
from ingle import nn
from ingle.nn import functional
from ingle.nn.porting import KERAS
from ingle.tensor.errors import ArgumentError


def written_for(m: Any, ones: Any) -> Any:
    """A module written for PyTorch, in either library."""

    class Shifted(m.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_parameter("scale", m.Parameter(ones(3)))
            self.register_parameter("absent", None)
            self.register_buffer("shift", ones(3))
            self.register_buffer("scratch", ones(3), persistent=False)
            self.add_module("linear", m.Linear(3, 2))
            self.register_module("act", m.ReLU(inplace=True))

        def forward(self, x: Any) -> Any:
            return self.act(self.linear(x * self.scale + self.shift + self.scratch))

    return Shifted()


def test_a_module_of_pytorch_runs_as_it_is() -> None:
    torch = pytest.importorskip("torch")
    theirs, ours = written_for(torch.nn, torch.ones), written_for(nn, it.ones)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    want = theirs.double()(torch.ones((4, 3), dtype=torch.float64)).detach().numpy()
    got = ours.double()(it.ones((4, 3), dtype="float64")).numpy()
    assert abs(got - want).max() < 1e-12
    for name, dtype in (("float", "float32"), ("half", "float16"), ("bfloat16", "bfloat16")):
        assert getattr(ours, name)().scale.dtype.name == dtype


def test_parts_by_path() -> None:
    model = written_for(nn, it.ones)
    assert model.get_submodule("") is model
    assert model.get_submodule("linear") is model.linear
    assert model.get_parameter("linear.weight") is model.linear.weight
    assert model.get_buffer("scratch") is model.scratch
    assert not any(p.requires_grad for p in model.requires_grad_(False).parameters())
    assert all(p.requires_grad for p in model.requires_grad_().parameters())
    with pytest.raises(ArgumentError, match=r"get_submodule: there is no 'head'; there are linear"):
        model.get_submodule("head")
    with pytest.raises(ArgumentError, match=r"get_buffer: there is no 'scale'"):
        model.get_buffer("scale")
    with pytest.raises(ArgumentError, match=r"a name is a string without dots, got 'a\.b'"):
        model.register_buffer("a.b", it.ones(1))


def test_hooks_by_path() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 1))
    seen: list[str] = []
    handles = nn.register_hooks(model, lambda path, m, args, y: seen.append(path), "0", "*.1", "0")
    model(it.ones((1, 2)))
    assert sorted(seen) == ["0", "0.1"]
    handles.remove()
    with nn.register_hooks(model, lambda path, m, args, y: y * 0.0, "1"):
        assert model(it.ones((1, 2))).item() == 0.0
    seen.clear()
    model(it.ones((1, 2)))
    assert seen == []
    with pytest.raises(ArgumentError, match=r"matches 'decoder\.\*'; there are for example 0, 0.0"):
        nn.register_hooks(model, lambda *found: None, "decoder.*")


@pytest.mark.parametrize("module", [nn.Linear(2, 2), nn.Sequential(nn.ReLU()), nn.ModuleDict({})])
@pytest.mark.parametrize("name", ["cuda", "zero_grad", "compile"])
def test_what_modules_lack_is_told_with_what_to_write(module: nn.Module, name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}', as it has in PyTorch; here:"):
        getattr(module, name)
    assert not hasattr(module, "anything")
    with pytest.raises(AttributeError, match=r"has no attribute 'wieght'$"):
        getattr(nn.Linear(2, 2), "wieght")  # noqa: B009


@pytest.mark.parametrize("name", sorted(KERAS))
def test_what_keras_has_is_told_with_what_to_write(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}', as it has in Keras; here:"):
        getattr(nn.Linear(1, 1), name)


def test_activations_take_inplace_where_pytorch_does() -> None:
    theirs_of = pytest.importorskip("torch").nn.functional
    x = it.asarray([-2.0, -0.2, 0.3, 8.0])
    for name in functional._IN_PLACE:
        theirs = list(inspect.signature(getattr(theirs_of, name)).parameters)
        assert theirs[-1] == "inplace"
        options = {"threshold": (0.1, 3.0), "dropout": (0.5, False)}.get(name, ())
        want = getattr(it, name)(x, *options).tolist()
        assert getattr(functional, name)(x, *options, inplace=True).tolist() == want
        missing = len(theirs) - 2 - len(options)
        if not missing:
            assert getattr(functional, name)(x, *options, True).tolist() == want
    assert functional.leaky_relu(x, 0.5, True).tolist() == it.leaky_relu(x, 0.5).tolist()
    with pytest.raises(TypeError):
        functional.relu(x, 3)
    with pytest.raises(ArgumentError, match="tensors never change, softmax returns"):
        functional.softmax(x, axis=0, inplace=True)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mul_", "write x.value = x * y"),
        ("clamp_", "write x.value = it.clip(x, low, high)"),
        ("normal_", "write x.value = it.random.normal(x.shape)"),
        ("requires_grad_", "write x.requires_grad = False"),
        ("zero_", "write x[...] = v"),
    ],
)
def test_what_changes_a_parameter_in_place(name: str, told: str) -> None:
    weight = nn.Linear(2, 2).weight
    with pytest.raises(AttributeError) as caught:
        getattr(weight, name)
    assert str(caught.value) == f"Parameter has no attribute {name!r}; {told}"
