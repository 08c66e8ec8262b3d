"""Whole models against PyTorch's: outputs, one step and twenty, modes, ties, threads."""

from __future__ import annotations

import contextlib
import copy
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.tensor import Gradients, Tensor

torch = pytest.importorskip("torch")


def lenet(m: Any) -> Any:
    return m.Sequential(
        m.Conv2d(1, 6, 5, padding=2), m.ReLU(), m.MaxPool2d(2),
        m.Conv2d(6, 16, 5), m.ReLU(), m.AvgPool2d(2),
        m.Flatten(), m.Linear(16 * 3 * 3, 32), m.Tanh(), m.Linear(32, 10),
    )  # fmt: skip


def mlp(m: Any) -> Any:
    return m.Sequential(
        m.Flatten(), m.Linear(400, 32), m.BatchNorm1d(32), m.ReLU(),
        m.Linear(32, 16), m.LayerNorm(16), m.GELU(), m.Linear(16, 10),
    )  # fmt: skip


def normed(m: Any) -> Any:
    return m.Sequential(
        m.Conv2d(1, 4, 3, stride=2, bias=False), m.BatchNorm2d(4), m.ReLU(), m.Flatten(),
        m.Linear(4 * 9 * 9, 10),
    )  # fmt: skip


MODELS = {"lenet": lenet, "mlp": mlp, "normed": normed}
RATE = 0.05


def data(steps: int, size: int = 8) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [
        (rng.normal(size=(size, 1, 20, 20)).astype(np.float32), rng.integers(0, 10, size))
        for _ in range(steps)
    ]


def both(name: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    ours, theirs = MODELS[name](nn), MODELS[name](torch.nn)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def descend(model: nn.Module, grads: Gradients) -> None:
    with it.transaction():
        for p in model.parameters():
            p.value = p.raw - grads[p] * RATE


def same(ours: Any, theirs: Any, rtol: float, atol: float) -> None:
    given = theirs.state_dict()
    assert list(ours.state_dict()) == list(given)
    for name, value in ours.state_dict().items():
        np.testing.assert_allclose(
            value.numpy(), given[name].numpy(), rtol=rtol, atol=atol, err_msg=name
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("steps", [1, 20])
def test_training_steps_equal_pytorchs(name: str, steps: int) -> None:
    ours, theirs = both(name)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=RATE)
    criterion, torch_criterion = nn.CrossEntropyLoss(), torch.nn.CrossEntropyLoss()
    for x, y in data(steps):
        loss = criterion(ours(it.asarray(x)), it.asarray(y))
        descend(ours, loss.backward())
        optimizer.zero_grad()
        expected = torch_criterion(theirs(torch.tensor(x)), torch.tensor(y))
        expected.backward()
        optimizer.step()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-3)
    same(ours, theirs, rtol=2e-4, atol=5e-5 if steps > 1 else 2e-6)
    x = data(1)[0][0]
    ours.eval()
    theirs.eval()
    with torch.no_grad():
        expected = theirs(torch.tensor(x)).numpy()
    np.testing.assert_allclose(ours(it.asarray(x)).numpy(), expected, rtol=1e-3, atol=2e-4)


@pytest.mark.slow
def test_training_lowers_the_loss() -> None:
    model = mlp(nn)
    x, y = (it.asarray(a) for a in data(1, 32)[0])
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(50):
        loss = criterion(model(x), y)
        losses.append(loss.item())
        descend(model, loss.backward())
    assert losses[-1] < 0.7 * losses[0]


def test_train_and_eval_of_dropout_and_batch_norm() -> None:
    model = nn.Sequential(nn.BatchNorm1d(5), nn.Dropout(0.5))
    x = it.random.normal((16, 5))
    first = model(x)
    assert model[0].num_batches_tracked.raw.item() == 1
    statistics = model[0].running_mean.raw.numpy().copy()
    assert not np.array_equal(first.numpy(), model(x).numpy())
    model.eval()
    before = model[0].running_mean.raw.numpy().copy()
    assert not np.array_equal(before, statistics)
    np.testing.assert_array_equal(model(x).numpy(), model(x).numpy())
    np.testing.assert_array_equal(model[0].running_mean.raw.numpy(), before)
    assert model[0].num_batches_tracked.raw.item() == 2


class Tied(nn.Module):
    """Scores against the rows that words were looked up in."""

    def __init__(self) -> None:
        self.embed = nn.Embedding(7, 4)
        self.score = nn.Linear(4, 7, bias=False)
        self.score.weight = self.embed.weight

    def forward(self, words: Tensor) -> Any:
        return self.score(self.embed(words))


def test_a_tied_weight_has_one_gradient() -> None:
    model = Tied()

    class Theirs(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(7, 4)
            self.score = torch.nn.Linear(4, 7, bias=False)
            self.score.weight = self.embed.weight

    theirs = Theirs()
    model.load_state_dict(theirs.state_dict())
    words = np.asarray([0, 3, 3, 6])
    loss = nn.CrossEntropyLoss()(model(it.asarray(words)), it.asarray(words))
    given = torch.tensor(words)
    expected = torch.nn.CrossEntropyLoss()(theirs.score(theirs.embed(given)), given)
    expected.backward()
    grads = loss.backward()
    assert len(grads) == 1
    np.testing.assert_allclose(
        grads[model.embed.weight].numpy(), theirs.embed.weight.grad.numpy(), rtol=1e-5, atol=1e-6
    )
    descend(model, grads)
    assert model.score.weight is model.embed.weight


def test_a_frozen_part_does_not_move() -> None:
    model = lenet(nn).freeze("0", "3.bias")
    before = {n: v.numpy().copy() for n, v in model.state_dict().items()}
    x, y = (it.asarray(a) for a in data(1)[0])
    grads = nn.CrossEntropyLoss()(model(x), y).backward()
    moved = [n for n, p in model.named_parameters() if p in grads]
    assert moved == [n for n in before if n not in ("0.weight", "0.bias", "3.bias")]


@pytest.mark.slow
def test_a_copy_trains_by_itself() -> None:
    model = lenet(nn)
    other = copy.deepcopy(model)
    x, y = (it.asarray(a) for a in data(1)[0])
    descend(other, nn.CrossEntropyLoss()(other(x), y).backward())
    assert not np.array_equal(other[0].weight.raw.numpy(), model[0].weight.raw.numpy())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("threads", [2, 4])
def test_threads_share_a_model_and_their_gradients_sum_to_the_full_batchs(threads: int) -> None:
    model = lenet(nn)
    criterion = nn.CrossEntropyLoss(reduction="sum")
    x, y = data(1, 16)[0]
    whole = criterion(model(it.asarray(x)), it.asarray(y)).backward()
    results: list[Gradients | None] = [None] * threads

    def work(i: int) -> None:
        part = slice(i * 16 // threads, (i + 1) * 16 // threads)
        results[i] = criterion(model(it.asarray(x[part])), it.asarray(y[part])).backward()

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    total = sum(r for r in results if r is not None)
    assert isinstance(total, Gradients)
    for parameter in model.parameters():
        np.testing.assert_allclose(
            total[parameter].numpy(), whole[parameter].numpy(), rtol=1e-4, atol=1e-5
        )


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Lets threads take turns far more often."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.slow
@pytest.mark.usefixtures("busy_threads")
@pytest.mark.parametrize("within", [contextlib.nullcontext, it.transaction])
def test_threads_move_running_statistics_together(within: Any) -> None:
    layer = nn.BatchNorm1d(1)
    layer.running_var.value = it.zeros(1)
    threads, rounds = 4, 50

    def train(c: float) -> None:
        # Two numbers with mean c and unbiased variance c: then both statistics stay equal.
        batch = it.asarray([[c - (c / 2) ** 0.5], [c + (c / 2) ** 0.5]])
        for _ in range(rounds):
            with within():
                layer(batch)

    workers = [threading.Thread(target=train, args=(float(i + 1),)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    mean, var = layer.running_mean.raw.item(), layer.running_var.raw.item()
    assert 1.0 <= mean <= threads
    assert mean == pytest.approx(var, rel=1e-5)
    if within is contextlib.nullcontext:
        assert layer.num_batches_tracked.raw.item() == threads * rounds


@pytest.mark.usefixtures("busy_threads")
def test_threads_lose_no_batch() -> None:
    layer = nn.BatchNorm1d(1, momentum=None)
    values = [1.0, 2.0, 3.0, 6.0]

    def train(c: float) -> None:
        for _ in range(40):
            layer(it.asarray([[c - 1.0], [c + 1.0]]))

    workers = [threading.Thread(target=train, args=(c,)) for c in values]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert layer.num_batches_tracked.raw.item() == 160
    assert layer.running_mean.raw.item() == pytest.approx(3.0, rel=1e-5)
    assert layer.running_var.raw.item() == pytest.approx(2.0, rel=1e-5)
