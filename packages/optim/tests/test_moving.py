"""A model that moves, or changes its dtype, under an optimizer; and all-or-nothing loading."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.nn import StateError
from ingle.tensor.device import Device
from ingle.tensor.errors import ShapeError
from ingle.tensor.hooks import hookimpl
from ingle.tensor.plugins import BackendDescription, register, unregister
from ingle_numpy.backend import NumpyBackend

MAKERS = [
    lambda m: optim.SGD(m, lr=0.05, momentum=0.9),
    lambda m: optim.Adam(m, lr=0.1, amsgrad=True),
    lambda m: optim.AdamW(m, lr=0.1, max_grad_norm=0.5),
]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A second device."""
    module: Any = types.ModuleType("elsewhere_backend")
    module.description = BackendDescription(
        create=lambda index: NumpyBackend(Device("elsewhere", index)), priority=-9
    )
    monkeypatch.setitem(sys.modules, "elsewhere_backend", module)

    class Plugin:
        @hookimpl
        def ingle_backends(self) -> dict[str, str]:
            return {"elsewhere": "elsewhere_backend:description"}

    register("elsewhere", Plugin())
    yield "elsewhere"
    unregister("elsewhere")


def model() -> nn.Linear:
    return nn.Linear(3, 2, generator=it.random.Generator(1))


def loss(net: nn.Module, device: str | None = None) -> it.Tensor:
    x = it.asarray(np.arange(12.0, dtype="float32").reshape(4, 3), device=device)
    return it.mean(it.square(net(x)))


def numbers(net: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.numpy().copy() for name, value in net.state_dict().items()}


@pytest.fixture(autouse=True)
def _on_numpy() -> Iterator[None]:
    """Where models come from, so that both devices compute the same bits."""
    with it.device("numpy"):
        yield


def equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("make", MAKERS)
def test_moments_follow_to_another_device(make: Any, elsewhere: str) -> None:
    stays, moves = model(), model()
    one, two = make(stays), make(moves)
    for _ in range(2):
        one.backward_step(loss(stays))
        two.backward_step(loss(moves))
    moves.to(elsewhere)
    for _ in range(2):
        one.backward_step(loss(stays))
        two.backward_step(loss(moves, elsewhere))
    assert equal(numbers(stays), numbers(moves))
    assert moves.weight.device == Device("elsewhere")
    moments = [v for v in two.state_dict().values() if isinstance(v, it.Tensor)]
    assert {v.device for v in moments} == {Device("elsewhere")}


def test_gradients_from_before_the_move_follow_too(elsewhere: str) -> None:
    stays, moves = model(), model()
    one, two = (optim.Adam(m, lr=0.1, max_grad_norm=1.0) for m in (stays, moves))
    grads = loss(moves).backward()
    moves.to(elsewhere)
    two.step(grads)
    one.backward_step(loss(stays))
    assert equal(numbers(stays), numbers(moves))


@pytest.mark.parametrize("make", MAKERS)
def test_moments_follow_to_another_dtype(make: Any) -> None:
    net = model()
    optimizer = make(net)
    optimizer.backward_step(loss(net))
    for dtype, kept in (("float64", it.float64), ("bfloat16", it.float32)):
        net.to(dtype=dtype)
        optimizer.backward_step(it.mean(it.square(net(it.ones((4, 3), dtype=dtype)))))
        moments = [v for v in optimizer.state_dict().values() if isinstance(v, it.Tensor)]
        assert {v.dtype for v in moments} == {kept}
        assert str(net.weight.dtype) == dtype


def test_a_parameter_of_another_shape() -> None:
    net = model()
    optimizer = optim.Adam(net)
    optimizer.backward_step(loss(net))
    net.weight.rebind(it.ones((5, 3)))
    net.bias.rebind(it.zeros(5))
    with pytest.raises(ShapeError, match=r"weight: its exp_avg has shape \(2, 3\), the param"):
        optimizer.backward_step(loss(net))


def trained(make: Any, steps: int) -> tuple[nn.Linear, Any]:
    net = model()
    optimizer = make(net)
    for _ in range(steps):
        optimizer.backward_step(loss(net))
    return net, optimizer


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("steps", [0, 1])
def test_loading_several_things_sets_all_or_nothing(make: Any, steps: int, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    net, optimizer = trained(make, 3)
    optimizer.lr = 0.03
    optimizer.groups[0].options = {**optimizer.groups[0].options, "weight_decay": 0.25}
    nn.save(path, {"model": net, "optimizer": optimizer, "other": nn.Linear(2, 2)})

    again, second = trained(make, steps)
    values, state = numbers(again), str(second.state_dict())
    into = {"model": again, "optimizer": second, "other": nn.Linear(5, 5)}
    with pytest.raises(StateError, match=r"weight: expected shape \(5, 5\)") as caught:
        nn.load(path, into)
    assert any("'other'; nothing of the file was set" in n for n in caught.value.__notes__)
    assert equal(numbers(again), values)
    assert str(second.state_dict()) == state

    nn.load(path, {**into, "other": nn.Linear(2, 2)})
    assert equal(numbers(again), numbers(net))
    assert str(second.state_dict()) == str(optimizer.state_dict())
    optimizer.backward_step(loss(net))
    second.backward_step(loss(again))
    assert equal(numbers(again), numbers(net))
