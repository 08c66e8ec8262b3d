"""One thin path through every package, in each way of executing there is.

An MLP with tied weights, batch normalisation and dropout is trained by Adam under a schedule, and
compared with the same steps in PyTorch, whose dropout is given the same masks. Around it: a user
who holds an old weight, an exception in the middle of a step, train and eval, and two threads.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.optim import schedule
from ingle.tensor.plugins import discover

STEPS, BATCH, WIDTH = 6, 16, 8


def compiled(step):
    return pytest.importorskip("ingle.fusion").compile(step)


WAYS = {
    "eager": ("numpy", lambda step: step),
    "recorded": ("cpu", lambda step: step),
    "compiled": ("cpu", compiled),
}
"""Names of ways to execute: the device, and what becomes of a step."""


@pytest.fixture(params=WAYS)
def way(request):
    device, _ = WAYS[request.param]
    if device not in discover().backends:
        pytest.skip(f"the device {device} is not installed")
    with it.device(device):
        yield request.param


class Net(nn.Module):
    def __init__(self, seed=0):
        generator = it.random.Generator(seed)
        # Batch norm cancels a bias: its gradient is noise, which Adam scales to full steps.
        self.first = nn.Linear(WIDTH, WIDTH, bias=False, generator=generator)
        self.second = nn.Linear(WIDTH, WIDTH, generator=generator)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(WIDTH)
        self.drop = nn.Dropout(0.25, generator=it.random.Generator(seed + 1))
        self.head = nn.Linear(WIDTH, 3, generator=generator)

    def forward(self, x):
        x = self.drop(it.relu(self.norm(self.first(x))))
        return self.head(it.tanh(self.second(x)))


def data(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(STEPS, BATCH, WIDTH)).astype(np.float32)
    return x, rng.integers(0, 3, (STEPS, BATCH))


def train(way, seed=0, steps=STEPS):
    """Trains a net and returns it with its optimizer and losses."""
    device, wrap = WAYS[way]
    with it.device(device):
        net = Net(seed)
        optimizer = optim.Adam(net, lr=schedule.Cosine(1e-2, steps=STEPS))
        step = wrap(step_of(net, optimizer))
        x, y = data(seed)
        losses = [step(it.asarray(x[i]), it.asarray(y[i])).item() for i in range(steps)]
    return net, optimizer, losses


def step_of(net, optimizer):
    def step(x, y):
        loss = it.cross_entropy(net(x), y)
        optimizer.step(loss.backward())
        return loss

    return step


def numbers(net):
    return {k: v.numpy().copy() for k, v in net.state_dict().items()}


@pytest.mark.slow
def test_training_equals_pytorch(way):
    torch = pytest.importorskip("torch")
    start = numbers(Net())
    first = torch.nn.Linear(WIDTH, WIDTH, bias=False)
    second, head = (torch.nn.Linear(WIDTH, n) for n in (WIDTH, 3))
    second.weight = first.weight
    norm = torch.nn.BatchNorm1d(WIDTH)
    twin = torch.nn.ModuleDict({"first": first, "second": second, "norm": norm, "head": head})
    twin.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in start.items()})
    optimizer = torch.optim.Adam(twin.parameters(), lr=1e-2)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    masks = it.random.Generator(1)
    x, y = data()
    losses = []
    for i in range(STEPS):
        mask = it.dropout(it.ones((BATCH, WIDTH)), 0.25, generator=masks).numpy()
        hidden = torch.relu(norm(first(torch.from_numpy(x[i])))) * torch.from_numpy(mask.copy())
        out = head(torch.tanh(second(hidden)))
        loss = torch.nn.functional.cross_entropy(out, torch.from_numpy(y[i]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
        losses.append(loss.item())

    net, _, got = train(way)
    np.testing.assert_allclose(got, losses, rtol=2e-5)
    for name, value in twin.state_dict().items():
        np.testing.assert_allclose(
            net.state_dict()[name].numpy(), value.numpy(), rtol=2e-4, atol=2e-6, err_msg=name
        )


@pytest.mark.slow
def test_training_repeats_bit_for_bit(way):
    (a, _, first), (b, _, second) = train(way), train(way)
    assert first == second
    for name, value in numbers(a).items():
        np.testing.assert_array_equal(value, numbers(b)[name])


def test_tied_cells_are_one_parameter(way):
    net = Net()
    cells = [p for _, p in net.named_parameters()]
    assert len(cells) == len(set(cells)) == 6
    net, _, _ = train(way)
    np.testing.assert_array_equal(net.first.weight.value.numpy(), net.second.weight.value.numpy())


def test_a_held_weight_survives_the_next_steps(way):
    net = Net()
    step = WAYS[way][1](step_of(net, optim.Adam(net, lr=0.1)))
    x, y = data()
    held = []
    for i in range(4):
        held.append((net.first.weight.value, net.first.weight.value.numpy().copy()))
        step(it.asarray(x[i]), it.asarray(y[i]))
    for value, before in held:
        np.testing.assert_array_equal(value.numpy(), before)
    assert not np.array_equal(net.first.weight.value.numpy(), before)


class StopError(Exception):
    pass


def test_an_exception_in_the_middle_of_a_step_changes_nothing(way):
    net, optimizer, _ = train(way, steps=2)
    before, state = numbers(net), optimizer.state_dict()
    drawn = net.drop.generator.state
    x, y = data()
    step = WAYS[way][1](step_of(net, optimizer))

    def step_that_fails():
        with it.transaction():
            step(it.asarray(x[2]), it.asarray(y[2]))
            assert not np.array_equal(net.first.weight.raw.numpy(), before["first.weight"])
            raise StopError

    for _ in range(3):
        with pytest.raises(StopError):
            step_that_fails()
        assert net.drop.generator.state == drawn
        for name, value in numbers(net).items():
            np.testing.assert_array_equal(value, before[name], err_msg=name)
        assert str(optimizer.state_dict()) == str(state)

    step(it.asarray(x[2]), it.asarray(y[2]))
    np.testing.assert_array_equal(
        net.first.weight.raw.numpy(), train(way, steps=3)[0].first.weight.raw.numpy()
    )


def test_eval_uses_running_statistics_and_no_dropout(way):
    net, _, _ = train(way)
    run = WAYS[way][1](lambda x: net(x))
    x = it.asarray(data()[0][0])
    net.eval()
    statistics = net.norm.running_mean.value.numpy().copy()
    first, second, third = (run(x).numpy() for _ in range(3))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)
    np.testing.assert_array_equal(net.norm.running_mean.value.numpy(), statistics)
    one_by_one = np.concatenate([run(x[i : i + 1]).numpy() for i in range(BATCH)])
    np.testing.assert_allclose(one_by_one, first, rtol=1e-4, atol=1e-6)
    net.train()
    assert not np.array_equal(run(x).numpy(), run(x).numpy())
    assert not np.array_equal(net.norm.running_mean.value.numpy(), statistics)


@pytest.mark.slow
def test_two_threads_train_two_models_as_one_would(way):
    alone = [train(way, seed)[0] for seed in (0, 7)]
    with ThreadPoolExecutor(2) as pool:
        together = [net for net, _, _ in pool.map(lambda seed: train(way, seed), (0, 7))]
    for a, b in zip(alone, together, strict=True):
        for name, value in numbers(a).items():
            np.testing.assert_array_equal(value, numbers(b)[name], err_msg=name)


def test_every_way_learns_the_same(way):
    _, _, losses = train(way)
    np.testing.assert_allclose(losses, train("eager")[2], rtol=2e-6)
