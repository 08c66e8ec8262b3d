"""Modules: what is registered, under which paths, and what moves the epoch of structure."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.nn import structure
from ingle.tensor.errors import ArgumentError, BackendError, DTypeError, OperandError, ShapeError


class Scale(nn.Module):
    """A parameter, a buffer and a buffer that is not saved."""

    def __init__(self, size: int = 2) -> None:
        self.factor = nn.Parameter(it.ones(size))
        self.count = nn.Buffer(it.asarray(0))
        self.scratch = nn.Buffer(it.zeros(size), persistent=False)
        self.name = "scale"

    def forward(self, x: Any) -> Any:
        return x * self.factor


class Pair(nn.Module):
    """Children in attributes and in a list."""

    def __init__(self) -> None:
        self.first = Scale()
        self.rest = [Scale(), Scale(3)]
        self.heads = {"a": Scale()}

    def forward(self, x: Any) -> Any:
        return self.rest[0](self.first(x))


class Tied(nn.Module):
    """One cell under two names."""

    def __init__(self) -> None:
        self.encode = nn.Linear(3, 4, bias=False)
        self.decode = nn.Linear(3, 4, bias=False)
        self.decode.weight = self.encode.weight


def test_assigning_registers() -> None:
    model = Pair()
    assert [n for n, _ in model.named_parameters()] == [
        "first.factor", "rest.0.factor", "rest.1.factor", "heads.a.factor",
    ]  # fmt: skip
    assert [n for n, _ in model.named_buffers()][:3] == [
        "first.count", "first.scratch", "rest.0.count",
    ]  # fmt: skip
    assert [n for n, _ in model.named_children()] == ["first", "rest", "heads"]
    assert [n for n, _ in model.named_modules()] == [
        "", "first", "rest", "rest.0", "rest.1", "heads", "heads.a",
    ]  # fmt: skip
    assert isinstance(model.rest, nn.ModuleList)
    assert isinstance(model.heads, nn.ModuleDict)
    assert len(list(model.parameters())) == 4
    assert len(list(model.parameters(recurse=False))) == 0


def test_deleting_and_replacing() -> None:
    model = Pair()
    del model.first
    model.rest[0] = Scale(7)
    assert [(n, p.shape) for n, p in model.named_parameters()] == [
        ("rest.0.factor", (7,)), ("rest.1.factor", (3,)), ("heads.a.factor", (2,)),
    ]  # fmt: skip


def test_reassigning_with_none_unregisters() -> None:
    layer = nn.Linear(2, 3)
    layer.bias = None
    assert [n for n, _ in layer.named_parameters()] == ["weight"]


def test_plain_collections_without_modules_stay() -> None:
    model = nn.Module()
    model.sizes = [1, 2]
    model.names = {"a": 1}
    assert type(model.sizes) is list
    assert type(model.names) is dict


def test_a_list_that_got_modules_later_is_refused() -> None:
    model = nn.Module()
    model.layers = []
    model.layers.append(Scale())
    with pytest.raises(OperandError, match=r"Module.layers is a plain list .* use ModuleList"):
        list(model.parameters())


def test_a_list_of_parameters_is_refused() -> None:
    model = nn.Module()
    with pytest.raises(OperandError, match="give each parameter an attribute"):
        model.weights = [nn.Parameter([1.0])]


def test_a_cell_counts_once() -> None:
    model = Tied()
    assert [n for n, _ in model.named_parameters()] == ["encode.weight"]
    assert [n for n, _ in model.named_parameters(remove_duplicate=False)] == [
        "encode.weight", "decode.weight",
    ]  # fmt: skip
    assert model.count_parameters() == 12
    assert set(model.state_dict()) == {"encode.weight", "decode.weight"}


def test_a_module_in_itself_is_refused_where_paths_have_no_end() -> None:
    model = nn.Module()
    model.child = nn.Module()
    model.child.parent = model
    assert len(list(model.modules())) == 2
    with pytest.raises(OperandError, match=r"'child.parent' is a Module that contains itself"):
        model.state_dict()


def test_train_and_eval() -> None:
    model = Pair()
    assert all(m.training for m in model.modules())
    assert model.eval() is model
    assert not any(m.training for m in model.modules())
    model.first.train()
    assert model.first.training
    assert not model.training


def test_the_epoch_moves_with_the_structure_and_not_with_values() -> None:
    model = Pair()

    def moves(change: Any) -> bool:
        before = structure.epoch()
        change()
        return structure.epoch() != before

    assert moves(lambda: setattr(model, "extra", nn.Linear(1, 1)))
    assert moves(lambda: delattr(model, "extra"))
    assert moves(model.eval)
    assert moves(model.freeze)
    assert moves(lambda: model.rest.append(Scale()))
    assert moves(lambda: model.heads.update({"b": Scale()}))
    assert moves(lambda: setattr(model.first, "name", "other"))
    assert not moves(lambda: setattr(model.first.factor, "value", it.zeros(2)))
    assert not moves(model.state_dict)


def test_to_casts_floats_alone_and_keeps_cells() -> None:
    model = Scale()
    factor = model.factor
    model.to(dtype="float64")
    assert model.factor is factor
    assert (model.factor.dtype, model.count.dtype) == (it.float64, it.int64)
    assert model.to(it.float16).factor.dtype is it.float16
    assert model.to("numpy").factor.device == it.Device("numpy")
    with pytest.raises(DTypeError, match="cast to a float dtype, got int32"):
        model.to(dtype="int32")


def test_freezing_by_path_glob_and_predicate() -> None:
    model = Pair()

    def trainable() -> list[str]:
        return [n for n, p in model.named_parameters() if p.requires_grad]

    model.freeze("rest.*", "first")
    assert trainable() == ["heads.a.factor"]
    model.unfreeze(lambda path, parameter: parameter.shape == (3,))
    assert trainable() == ["rest.1.factor", "heads.a.factor"]
    model.unfreeze()
    assert len(trainable()) == 4
    assert model.freeze().count_parameters(trainable_only=True) == 0


def test_a_frozen_parameter_gets_no_gradient() -> None:
    model = Pair()
    model.freeze("first")
    grads = it.sum(model(it.ones(2))).backward()
    assert model.first.factor not in grads
    assert model.rest[0].factor in grads


def test_apply_goes_from_below() -> None:
    seen: list[str] = []
    model = Pair()
    names = {id(m): n for n, m in model.named_modules()}
    assert model.apply(lambda m: seen.append(names[id(m)])) is model
    assert seen[-1] == ""
    assert seen.index("rest.0") < seen.index("rest")


def test_repr() -> None:
    model = nn.Sequential(OrderedDict(one=nn.Linear(2, 3), two=nn.Sequential(nn.Identity())))
    assert repr(model) == (
        "Sequential(\n"
        "  (one): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (two): Sequential(\n"
        "    (0): Identity()\n"
        "  )\n"
        ")"
    )


def test_printed_tree(capsys: pytest.CaptureFixture[str]) -> None:
    model = Tied()
    model.scale = Scale()
    model.freeze("scale")
    model.print_tree()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["Tied", "14"]
    assert "├─ encode: Linear(in_features=3, out_features=4, bias=False)" in lines[1]
    assert lines[2].startswith("│  └─ weight (4, 3) float32")
    assert lines[4].endswith("tied to encode.weight")
    assert "   ├─ factor (2,) float32 frozen" in lines[6]
    assert "   ├─ count () int64 buffer" in lines[7]
    assert lines[-1] == "14 parameters (56 B), 12 trainable, 2 frozen; 3 elements in buffers"


def test_containers() -> None:
    layers = nn.ModuleList([Scale(1), Scale(2)])
    layers.append(Scale(3))
    layers.insert(0, Scale(9))
    assert [p.shape[0] for p in layers.parameters()] == [9, 1, 2, 3]
    assert layers[-1].factor.shape == (3,)
    assert isinstance(layers[1:], nn.ModuleList)
    del layers[0]
    assert [n for n, _ in layers.named_children()] == ["0", "1", "2"]
    heads = nn.ModuleDict({"keys": Scale(1)})
    heads["b"] = Scale(2)
    assert list(heads.keys()) == ["keys", "b"]
    assert "b" in heads
    del heads["b"]
    assert [n for n, _ in heads.named_parameters()] == ["keys.factor"]
    row = nn.Sequential(OrderedDict(a=Scale(2), b=Scale(2)))
    assert row.b is row[1]
    assert [n for n, _ in row[:1].named_children()] == ["a"]
    row.extra = Scale(1)
    assert [n for n, _ in row.named_children()] == ["extra", "a", "b"]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.Sequential(nn.Linear), OperandError, "entry '0' must be a Module, got type"),
        (lambda: nn.ModuleDict({"a.b": Scale()}), ArgumentError, "without dots, got 'a.b'"),
        (lambda: nn.ModuleList([Scale()])[3], IndexError, "index 3 is out of range; it has 1"),
        (lambda: nn.ModuleDict({"a": Scale()})["b"], KeyError, "no module 'b'; there are: a"),
        (lambda: nn.Sequential(Scale()).other, AttributeError, "its modules are 0"),
        (lambda: nn.Module()(1), NotImplementedError, "Module has no forward"),
        (lambda: nn.Parameter([1, 2]), DTypeError, "int64 has no gradients"),
        (lambda: nn.Linear(2.5, 3), ArgumentError, "in_features must be an integer, got 2.5"),
        (lambda: nn.Linear(-1, 3), ArgumentError, "in_features must be at least 0, got -1"),
    ],
)
def test_bad_input(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_errors_name_the_module() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(5, 1)))
    with pytest.raises(it.errors.ShapeError) as caught:
        model(it.ones((2, 3)))
    assert caught.value.__notes__ == [
        "in '1.0' of Sequential: Linear(in_features=5, out_features=1, bias=True)"
    ]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_deepcopy_and_pickle_keep_ties_and_part_from_the_original(again: Any) -> None:
    model = nn.Sequential(Tied(), nn.ModuleDict({"a": nn.Linear(2, 2)})).eval()
    model.freeze("1")
    other = again(model)
    assert [n for n, _ in other.named_parameters()] == [n for n, _ in model.named_parameters()]
    assert other[0].decode.weight is other[0].encode.weight
    assert not other[1]["a"].weight.requires_grad
    assert not other.training
    other[0].encode.weight.value = it.zeros((4, 3))
    assert np.any(model[0].encode.weight.raw.numpy() != 0)


def test_a_parameter_has_the_facts_of_its_tensor() -> None:
    values = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    p = nn.Parameter(values)
    assert (p.ndim, p.size, p.nbytes, len(p)) == (2, 6, 24, 2)
    np.testing.assert_array_equal(p.numpy(), values)
    assert type(p.detach()) is type(p.data) is it.Tensor
    p.data = p.data * 2
    np.testing.assert_array_equal(p.detach().numpy(), 2 * values)
    with pytest.raises(ShapeError):
        p.data = it.zeros(3)
    assert f"{nn.Parameter(0.5):.2f} {nn.Parameter(3.0).item()}" == "0.50 3.0"


def test_a_dtype_in_place_of_a_device():
    with pytest.raises(BackendError, match=r"'float64' is a dtype.*module\.to\(dtype='float64'\)"):
        nn.Linear(2, 2).to("float64")


def test_a_list_in_a_row_of_modules_says_how_it_is_given():
    with pytest.raises(OperandError, match=r"got list; write Sequential\(\*modules\)"):
        nn.Sequential([nn.Linear(2, 3), nn.ReLU()])
