"""What a compiled function reads of objects and their classes: never stale."""

from __future__ import annotations

import ctypes
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import CompileError, compile
from ingle.fusion.compiled import attribute_reads
from ingle.fusion.compiled.snapshots import stays


class Settings:
    def __init__(self):
        self.factor = 2.0


class Falling(Settings):
    """Has an answer for what it does not have."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return 3.0


class Slotted:
    __slots__ = ("extra",)


class Names(set):
    pass


class Recent(deque):
    pass


class Net(nn.Module):
    temperature = 1.0

    def __init__(self):
        self.settings = Settings()

    def forward(self, x):
        return x * self.temperature * getattr(self.settings, "extra", 1.0)


def agree(function, edits):
    """A compiled function gives at each call what the plain one gives, whatever was edited."""
    x = it.ones(2)
    f = compile(function)
    for edit in (lambda: None, lambda: None, *edits):
        edit()
        for _ in range(3):
            np.testing.assert_array_equal(f(x).numpy(), function(x).numpy())


@pytest.mark.parametrize("kind", [Settings, Falling, Slotted])
@pytest.mark.parametrize(
    "read", [lambda o: getattr(o, "extra", 1.0), lambda o: 5.0 if hasattr(o, "extra") else 1.0]
)
def test_attributes_that_come_and_go(kind, read):
    o = kind()
    f = compile(lambda x, o: x * read(o))
    for extra in (None, None, 7.0, None, 7.0, 8.0):
        if extra is not None:
            o.extra = extra
        elif "extra" in getattr(o, "__dict__", ()) or (kind is Slotted and hasattr(o, "extra")):
            del o.extra
        for _ in range(3):
            assert f(it.ones(1), o).item() == read(o)


def test_attributes_of_objects_in_modules_and_of_their_classes():
    net = Net()
    edits = [
        lambda: setattr(net.settings, "extra", 5.0), lambda: setattr(Net, "temperature", 4.0),
        lambda: delattr(net.settings, "extra"), lambda: setattr(net, "temperature", 3.0),
        lambda: setattr(Net, "temperature", 1.0), lambda: delattr(net, "temperature"),
    ]  # fmt: skip
    agree(lambda x: net(x), edits)


@pytest.mark.parametrize("kind", [Names, Recent])
def test_attributes_of_collections(kind):
    kept = kind([2.0])
    kept.factor = 1.0
    f = compile(lambda x, kept: x * kept.factor * sum(kept))
    for edit in (
        lambda: None, lambda: None, lambda: setattr(kept, "factor", 3.0),
        lambda: getattr(kept, "add", getattr(kept, "append", None))(5.0),
    ):  # fmt: skip
        edit()
        for _ in range(3):
            assert f(it.ones(1), kept).item() == kept.factor * sum(kept)


def test_memory_of_c():
    number = ctypes.c_double(1.0)
    numbers = (ctypes.c_int * 2)(1, 2)
    f = compile(lambda x, a, b: x * a.value * b[1])
    for edit in (
        lambda: None, lambda: None, lambda: setattr(number, "value", 5.0),
        lambda: numbers.__setitem__(1, 7),
    ):  # fmt: skip
        edit()
        for _ in range(3):
            assert f(it.ones(1), number, numbers).item() == number.value * numbers[1]


def test_what_contains_itself_is_refused():
    net = Net()
    net.settings = [1.0]
    net.settings.append(net.settings)
    f = compile(lambda x: x * net.settings[0])
    with pytest.raises(CompileError, match="contains itself"):
        f(it.ones(1))


@pytest.mark.parametrize(
    "module",
    [
        lambda: nn.Identity(),
        lambda: nn.Linear(2, 2),
        lambda: nn.Sequential(nn.ReLU()),
        lambda: nn.ParameterDict({}),
    ],
    ids=["Identity", "Linear", "Sequential", "ParameterDict"],
)
@pytest.mark.parametrize("own", ["options", "_options"])
def test_what_is_kept_in_a_module_of_our_own_classes_is_compared(module: Any, own: str) -> None:
    """They announce what they change themselves, and know nothing of what others put there."""
    m = module()

    @compile
    def f(x: it.Tensor) -> it.Tensor:
        held = getattr(m, own)
        return x * held["list"][0] * float(held["array"][0]) * held["tensor"]

    setattr(m, own, {"list": [2.0], "array": np.ones(1), "tensor": it.ones(1)})
    x = it.ones(1)
    assert [f(x).item() for _ in range(3)] == [2.0] * 3
    recorded = f.recordings
    getattr(m, own)["list"][0] = 3.0
    assert f(x).item() == 3.0
    getattr(m, own)["array"] += 1.0
    assert f(x).item() == 6.0
    getattr(m, own)["tensor"][0] = 5.0
    assert f(x).item() == 30.0
    assert f.recordings > recorded
    recorded = f.recordings
    assert f(x).item() == 30.0
    assert f.recordings <= recorded + 1


def test_what_our_own_classes_announce_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    handle = model[0].register_forward_hook(lambda module, args, out: out * 2.0)
    f = compile(lambda x: model(x))
    x = it.ones((1, 2))
    first = f(x).numpy()
    f(x)
    asked = []
    own = attribute_reads.Snapshot.holds
    monkeypatch.setattr(attribute_reads.Snapshot, "holds", lambda *a: (asked.append(a), own(*a))[1])
    f(x)
    assert not asked
    handle.remove()
    np.testing.assert_allclose(f(x).numpy() * 2.0, first, rtol=1e-6)


def test_settings_that_cannot_change_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """How a layer is quantized, of which a language model has some hundred."""
    layer = nn.QuantizedLinear(nn.Linear(64, 8), nn.QuantizationConfig("int8"))
    f, x = compile(lambda x: layer(x)), it.ones((1, 64))
    wanted = f(x).numpy()
    f(x)
    asked = []
    own = attribute_reads.Snapshot.holds
    monkeypatch.setattr(attribute_reads.Snapshot, "holds", lambda *a: (asked.append(a), own(*a))[1])
    recorded = f.recordings
    np.testing.assert_array_equal(f(x).numpy(), wanted)
    assert not asked
    assert f.recordings == recorded
    layer.config = nn.QuantizationConfig("int8", activations="dynamic")  # a layer says that
    f(x)
    assert f.recordings == recorded + 1


def test_which_dataclasses_stay() -> None:
    """Frozen ones of Ingle's whose fields stay; users' are looked at by their attributes."""

    def made(module: str, frozen: bool = True, slots: bool = True) -> Any:
        names = {"__module__": module, "__annotations__": {"value": Any}}
        return dataclass(frozen=frozen, slots=slots)(type("Made", (), names))

    shipped = made("ingle.made")
    assert stays(shipped(1))
    assert stays((shipped("a"), shipped(shipped(None)), frozenset("ab")))
    assert not stays(shipped([1]))
    assert not stays(shipped(made("ingle.made", frozen=False)(1)))
    others = made("ingle.made", slots=False), made("ingle.made", frozen=False), made("own")
    assert not any(stays(kind(1)) for kind in others)


class Scaled(optim.SGD):
    """An optimizer of users', which keeps a list."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model, lr=1.0)
        self.scale = [1.0]

    def step(self, grads: Any) -> None:
        super().step(grads * self.scale[0])


def test_what_is_kept_in_an_optimizer_is_compared() -> None:
    model = nn.Linear(1, 1, bias=False)
    model.weight.value = it.zeros((1, 1))
    optimizer, other = Scaled(model), optim.SGD(model, lr=1.0)
    other.options = [1.0]  # type: ignore[attr-defined]

    @compile
    def step(x: it.Tensor) -> None:
        optimizer.step(it.sum(model(x) * other.options[0]).backward())  # type: ignore[attr-defined]

    x = it.ones((1, 1))
    for _ in range(4):
        step(x)
    assert model.weight.item() == -4.0
    optimizer.scale[0] = 10.0
    step(x)
    assert model.weight.item() == -14.0
    other.options[0] = 100.0  # type: ignore[attr-defined]
    step(x)
    assert model.weight.item() == -1014.0


def test_what_our_own_optimizers_announce_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(2, 2)
    optimizer = optim.Adam(model)
    step = compile(lambda x: optimizer.step(it.sum(model(x)).backward()))
    x = it.ones((1, 2))
    for _ in range(4):
        step(x)
    asked = []
    own = attribute_reads.Snapshot.holds
    monkeypatch.setattr(attribute_reads.Snapshot, "holds", lambda *a: (asked.append(a), own(*a))[1])
    step(x)
    assert not asked
