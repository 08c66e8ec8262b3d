"""Threads: each gets what it would get alone, whatever the others do."""

from __future__ import annotations

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.runtime.graph_plans import GraphPlans
from ingle.tensor.locks import once
from ingle_cpu.threads import pool as pool_module

WAYS = {"plain": lambda f: f, "compiled": compile}
both_ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def together(count, work):
    """What `work(0)`, `work(1)`, … return on as many threads, which start at once."""
    start = threading.Barrier(count)

    def run(k):
        start.wait(30)
        with it.device("cpu"):
            return work(k)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count), timeout=240))


def model(seed):
    generator = it.random.Generator(seed)
    return nn.Sequential(
        nn.Linear(12, 24, generator=generator), nn.BatchNorm1d(24), nn.GELU(),
        nn.Dropout(0.2, generator=generator), nn.Linear(24, 5, generator=generator),
    )  # fmt: skip


def trained(seed, way, steps=12):
    with it.device("cpu"):
        net = model(seed)
        optimizer = optim.AdamW(net, lr=1e-2, max_grad_norm=1.0)

        def step(x, y):
            loss = it.cross_entropy(net(x), y)
            optimizer.step(loss.backward())
            return loss

        step = way(step)
        for k in range(steps):
            x = it.asarray(numbers(32, 12, seed=100 * seed + k))
            step(x, it.asarray(np.arange(32) % 5))
        return {name: v.numpy().copy() for name, v in net.state_dict().items()}


@pytest.mark.slow
@both_ways
def test_ten_threads_train_ten_models(way):
    alone = [trained(seed, way) for seed in range(10)]
    for one, other in zip(alone, together(10, lambda k: trained(k, way)), strict=True):
        for name, value in one.items():
            np.testing.assert_array_equal(other[name], value, err_msg=name)


@pytest.mark.slow
@both_ways
def test_one_models_gradients_on_four_threads(way):
    with it.device("cpu"):
        net = model(3).eval()
        weights = dict(net.named_parameters())

        def gradients(x, y):
            found = it.cross_entropy(net(x), y).backward()
            return {name: found[w] for name, w in weights.items()}

        f = way(gradients)

        def work(k):
            found = []
            for j in range(6):
                x = it.asarray(numbers(16, 12, seed=10 * k + j))
                grads = f(x, it.asarray(np.arange(16) % 5))
                found.append({name: g.numpy().copy() for name, g in grads.items()})
            return found

        alone = [work(k) for k in range(4)]
    for one, other in zip(alone, together(4, work), strict=True):
        for a, b in zip(one, other, strict=True):
            for name, value in a.items():
                np.testing.assert_array_equal(b[name], value, err_msg=name)


def test_one_compiled_function_from_eight_threads_at_its_first_call():
    f = compile(lambda x, k: it.tanh(x * k).sum())
    x = numbers(300)

    def work(k):
        return [f(it.asarray(x), float(k + j)).item() for j in range(5)]

    for k, got in enumerate(together(8, work)):
        want = [np.tanh(x.astype(np.float64) * (k + j)).sum() for j in range(5)]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_numbers_that_change_in_one_log_of_many_threads():
    """The same recorded code with other numbers in each thread: which vary is found out on the
    way, while others run the plan that takes them for constants."""

    def work(k):
        x = it.asarray(numbers(20000, seed=1))
        found = []
        for j in range(12):
            y = ((x * float(k + j) + 1.0) * 2.0 - float(j % 3)) * 0.5
            found.append(it.sum(it.abs(y) + 0.25).item())
        return found

    x = numbers(20000, seed=1).astype(np.float64)
    for k, got in enumerate(together(8, work)):
        want = [(np.abs(((x * (k + j) + 1) * 2 - j % 3) * 0.5) + 0.25).sum() for j in range(12)]
        np.testing.assert_allclose(got, want, rtol=1e-4)


def test_two_threads_that_use_each_others_promises():
    """Each computes on what the other has only written down; neither waits for the other's lock."""
    shelf = [it.asarray(numbers(9, seed=k), device="cpu") for k in range(2)]

    def work(k):
        for _ in range(300):
            other = shelf[1 - k]
            shelf[k] = it.tanh(shelf[k] + other * 0.5)
        return shelf[k].numpy()

    for got in together(2, work):
        assert np.isfinite(got).all()


def test_promises_handed_through_a_queue():
    with it.device("cpu"):
        made = [it.exp(it.asarray(numbers(50, seed=k)) * 2.0) + 1.0 for k in range(32)]

    def work(k):
        return [it.log(x - 1.0).numpy() for x in made[k::4]]

    for k, found in enumerate(together(4, work)):
        for j, got in enumerate(found):
            np.testing.assert_allclose(got, numbers(50, seed=k + 4 * j) * 2, atol=1e-5)


@pytest.mark.slow
def test_plans_of_several_threads_run_at_the_same_time(monkeypatch):
    """Each waits inside of its plan until the other is inside of its own."""
    inside = threading.Barrier(2)
    run = GraphPlans.run_donating

    def meet(self, given, *rest):
        if met and threading.current_thread() not in done:
            done.add(threading.current_thread())
            inside.wait(20)
        return run(self, given, *rest)

    monkeypatch.setattr(GraphPlans, "run_donating", meet)
    done: set[threading.Thread] = set()
    met: list[bool] = []

    def work(k):
        net = model(k)
        optimizer = optim.Adam(net, lr=1e-2)
        for step in range(5):
            if step == 4:
                met.append(True)
            x, y = it.asarray(numbers(32, 12, seed=k)), it.asarray(np.arange(32) % 5)
            optimizer.step(it.cross_entropy(net(x), y).backward())
        return True

    assert together(2, work) == [True, True]
    assert len(done) == 2


def test_threads_that_ask_at_once_get_one_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would have workers of its own, as many as there are cores."""
    entered = threading.Barrier(2)

    def slowly() -> int:
        with suppress(threading.BrokenBarrierError):
            entered.wait(0.1)  # for the other one, which comes where nothing holds it up
        return 2

    monkeypatch.setattr(pool_module, "pool_size", slowly)
    anew = once(inspect.unwrap(pool_module.thread_pool))
    first, second = together(2, lambda _: anew())
    assert first is second
