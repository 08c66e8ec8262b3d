"""A model, an optimizer, a schedule and clipping together, against PyTorch, and with threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.tensor import Gradients

torch = pytest.importorskip("torch")


def network(m: Any) -> Any:
    # No bias before the normalisation: its gradient is rounding noise, which Adam scales up.
    return m.Sequential(
        m.Conv2d(1, 6, 3, bias=False), m.BatchNorm2d(6), m.ReLU(), m.MaxPool2d(2), m.Flatten(),
        m.Linear(6 * 4 * 4, 32), m.LayerNorm(32), m.GELU(), m.Linear(32, 10),
    )  # fmt: skip


def batches(steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(16, 1, 10, 10)), rng.integers(0, 10, 16)) for _ in range(steps)]


OPTIMIZERS: dict[str, tuple[Any, Any]] = {
    "sgd": (
        lambda p, lr: optim.SGD(p, lr, momentum=0.9, weight_decay=1e-3, max_grad_norm=1.0),
        lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, weight_decay=1e-3),
    ),
    "adamw": (
        lambda p, lr: optim.AdamW(p, lr, max_grad_norm=1.0),
        lambda p, lr: torch.optim.AdamW(p, lr),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_twenty_steps_in_float64(name: str) -> None:
    ours, theirs = network(nn).to(dtype="float64"), network(torch.nn).double()
    ours.load_state_dict(theirs.state_dict())
    make, torch_make = OPTIMIZERS[name]
    optimizer = make(ours, optim.schedule.Cosine(0.01, steps=20))
    torch_optimizer = torch_make(theirs.parameters(), 0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(torch_optimizer, 20)
    criterion, torch_criterion = nn.CrossEntropyLoss(), torch.nn.CrossEntropyLoss()
    for x, y in batches(20):
        optimizer.backward_step(criterion(ours(it.asarray(x)), it.asarray(y)))
        torch_optimizer.zero_grad()
        torch_criterion(theirs(torch.tensor(x)), torch.tensor(y)).backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        torch_optimizer.step()
        scheduler.step()
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(
            ours.state_dict()[key].numpy(), value.numpy(), rtol=1e-9, atol=1e-11, err_msg=key
        )


@pytest.mark.slow
def test_gradients_of_threads_add_up_to_one_step() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(dtype="float64")
    whole = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(dtype="float64")
    whole.load_state_dict(model.state_dict())
    x, y = it.random.normal((16, 6), dtype="float64"), it.random.randint(3, shape=16)
    criterion = nn.CrossEntropyLoss(reduction="sum")
    parts: list[Gradients] = []

    def work(i: int) -> None:
        some = slice(4 * i, 4 * i + 4)
        parts.append(criterion(model(x[some]), y[some]).backward())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    optim.SGD(model, lr=0.1).step(sum(parts[1:], parts[0]) / 16.0)
    optim.SGD(whole, lr=0.1).backward_step(nn.CrossEntropyLoss()(whole(x), y))
    for name, value in whole.state_dict().items():
        np.testing.assert_allclose(model.state_dict()[name].numpy(), value.numpy(), rtol=1e-10)


def test_groups_by_path_decay_weights_alone() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = optim.AdamW(
        [
            {"params": nn.select(model, "0.weight")},
            {"params": nn.select(model, exclude=["0.weight"]), "weight_decay": 0.0, "lr": 0.0},
        ],
        lr=0.1,
        weight_decay=0.5,
    )
    before = {n: v.numpy().copy() for n, v in model.state_dict().items()}
    zeros = Gradients({p: it.zeros_like(p) for p in model.parameters()})
    optimizer.step(zeros)
    for name, parameter in model.named_parameters():
        factor = 0.95 if name == "0.weight" else 1.0
        np.testing.assert_allclose(parameter.raw.numpy(), before[name] * factor, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_train(dtype: str) -> None:
    model = nn.Linear(8, 1).to(dtype=dtype)
    x = it.random.normal((64, 8)).astype(dtype)
    target = it.sum(x, axis=1, keepdims=True)
    optimizer = optim.Adam(model, lr=0.05)
    losses = []
    for _ in range(60):
        loss = nn.MSELoss()(model(x), target)
        losses.append(float(loss))
        optimizer.backward_step(loss)
    assert losses[-1] < 0.05 * losses[0]


def test_what_is_changed_in_an_optimizer_is_seen_by_compiled_steps():
    compile = pytest.importorskip("ingle.fusion").compile

    def trained(way):
        w = nn.Parameter([1.0, 2.0])
        optimizer = optim.SGD([w], lr=lambda step: 0.1)
        step = way(lambda: optimizer.step((w * w).sum().backward()))
        (group,) = optimizer.groups
        changes = {
            3: lambda: group.options.update(weight_decay=0.5),
            5: lambda: setattr(optimizer, "max_grad_norm", 0.1), 7: lambda: group.set_lr(0.5, 7),
            9: lambda: group.set_lr(lambda step: 0.01, 9),
            11: lambda: setattr(optimizer, "max_grad_norm", None),
        }  # fmt: skip
        found = []
        for k in range(13):
            changes.get(k, lambda: None)()
            step()
            found.append(w.value.tolist())
        return found

    np.testing.assert_allclose(trained(compile), trained(lambda f: f), rtol=1e-5)
