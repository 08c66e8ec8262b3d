"""Running ahead: plans in the background give what they give at once, and everybody waits."""

from __future__ import annotations

import functools
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile, run_ahead
from ingle.tensor.errors import ArgumentError, SettingError
from ingle.testkit.error_bounds import check
from ingle.testkit.program_generator import random_program
from ingle.testkit.programs import execute
from ingle_cpu.background import async_plan
from ingle_cpu.background.queue import queue
from ingle_cpu.launch import executable

pytestmark = pytest.mark.usefixtures("ahead")
N = 384


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def handle(tensor):
    return tensor._handle.computed()


class TestSetting:
    @pytest.mark.parametrize("plans", [-1, 33, 1.0, True, "2"])
    def test_bad_numbers(self, plans):
        with pytest.raises(ArgumentError, match="give a number from 0 to 32"):
            run_ahead(plans)

    @pytest.mark.slow
    def test_off_means_at_once(self, slow):
        run_ahead(0)
        before = queue().given
        slow.run(slow.x)
        assert queue().given == before

    @pytest.mark.parametrize("text", ["many", "-1", "99"])
    def test_a_bad_variable_is_named(self, monkeypatch, text):
        """A process that meets one is among the tests of settings."""
        monkeypatch.setenv("INGLE_RUN_AHEAD", text)
        with pytest.raises(SettingError, match=f"INGLE_RUN_AHEAD is '{text}'"):
            sys.modules["ingle.fusion.support.run_ahead"]._from_environment()

    def test_short_plans_run_at_once(self, monkeypatch, warmed):
        monkeypatch.setattr(async_plan, "LEAST", 1e-3)
        f = warmed(lambda x: x * 2.0 + 1.0, it.ones(8))
        before = queue().given
        assert f(it.ones(8)).tolist() == [3.0] * 8
        assert queue().given == before

    def test_plans_that_ctrl_c_may_have_to_end_run_at_once(self, monkeypatch, slow):
        monkeypatch.setattr(executable, "LONG", 0.0)
        run_ahead(0)
        slow.run(slow.x)
        run_ahead(2)
        before = queue().given
        slow.run(slow.x)
        assert queue().given == before


READERS = {
    "numpy": lambda y: y.numpy(),
    "item": lambda y: np.asarray([y[0, 0].item()]),
    "list": lambda y: np.asarray(y.tolist()),
    "dlpack": np.from_dlpack,
    "another device": lambda y: y.to_device("numpy").numpy(),
    "one operation": lambda y: (y + y).numpy(),
    "a view": lambda y: y[3:7, ::2].numpy(),
    "a host step": lambda y: it.linalg.inv(y + it.eye(N)).numpy(),
    "a shape that depends on values": lambda y: it.nonzero(y > 0)[0].numpy(),
    "synchronize": lambda y: y.backend.synchronize() or y.numpy(),
}


class TestWaiting:
    def test_a_call_returns_before_its_plan_has_run(self, slow):
        want = slow().numpy().copy()
        begun = time.perf_counter()
        result = slow()
        called = time.perf_counter() - begun
        np.testing.assert_array_equal(result.numpy(), want)
        assert called < time.perf_counter() - begun

    @pytest.mark.slow
    def test_no_more_plans_wait_than_may(self, slow):
        run_ahead(1)
        results = []
        for _ in range(4):
            results.append(slow.run(slow.x))
            assert queue().given - queue()._tail.value <= 1
        for result in results[1:]:
            np.testing.assert_array_equal(result.numpy(), results[0].numpy())

    @pytest.mark.slow
    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("reader", READERS)
    def test_every_reader_waits(self, slow, reader):
        read = READERS[reader]
        run_ahead(0)
        want = np.array(read(slow.run(slow.x)))
        run_ahead(2)
        slow.run(slow.x)
        np.testing.assert_array_equal(read(slow()), want)

    def test_statistics_wait(self, slow):
        slow()
        it.memory.stats()
        assert not queue().busy

    @pytest.mark.slow
    def test_a_checkpoint_waits(self, slow, warmed, tmp_path):
        net = nn.Linear(N, 4)
        slow.warm()
        step = warmed(
            lambda x: setattr(net.weight, "value", net.weight.value * 0.5 + x[:4]), slow()
        )
        before = net.weight.value.numpy().copy()
        x = slow()
        step(x)
        assert queue().busy
        nn.save(tmp_path / "net.safetensors", net)
        saved = nn.load(tmp_path / "net.safetensors")["weight"]
        np.testing.assert_allclose(saved.numpy(), before * 0.5 + x.numpy()[:4], rtol=1e-6)

    def test_what_is_written_in_place_stays_as_it_was_for_plans_that_wait(self, slow, warmed):
        x = it.zeros((N, N))
        x[0, 0] = 1.0  # memory of its own from here on
        f = warmed(lambda x: x * 2.0, x)
        slow()
        y = f(x)
        x[0, 0] = 5.0
        assert y[0, 0].item() == 2.0
        assert x[0, 0].item() == 5.0

    def test_memory_of_others_is_read_at_once(self, slow, warmed):
        array = np.ones((N, N), np.float32)
        f = warmed(lambda x: x * 2.0, it.ones((N, N)))
        slow()
        y = f(it.asarray(array, copy=False))
        array[:] = 7.0
        assert y[0, 0].item() == 2.0

    @pytest.mark.slow
    def test_what_nobody_holds_stays_until_its_plan_has_run(self, slow):
        want = slow().numpy().copy()
        for k in range(6):
            slow.run(slow.x)  # nobody wants it
            filled = [it.asarray(np.full((N, N), float(k), np.float32)) for _ in range(3)]
            result = slow.run(slow.x)
            for x in filled:
                assert (x.numpy() == k).all()
            np.testing.assert_array_equal(result.numpy(), want)

    @pytest.mark.slow
    def test_a_limit_of_memory_waits_before_it_gives_up(self, slow):
        pool_now = it.memory.stats().in_use
        it.memory.release()
        it.memory.limit(pool_now + 3 * N * N * 4)
        try:
            want = slow().numpy().copy()
            for _ in range(6):
                result = slow.run(slow.x)
            np.testing.assert_array_equal(result.numpy(), want)
        finally:
            it.memory.limit(None)


def model(seed):
    generator = it.random.Generator(seed)
    return nn.Sequential(
        nn.Linear(40, 64, generator=generator), nn.BatchNorm1d(64), nn.GELU(),
        nn.Dropout(0.2, generator=generator), nn.Linear(64, 5, generator=generator),
    )  # fmt: skip


def trained(way, plans, *, seed=3, steps=14, peek=None):
    """Losses and state of a model after some steps, with batches of two lengths."""
    run_ahead(plans)
    with it.device("cpu"):
        net = model(seed)
        optimizer = optim.AdamW(net, lr=1e-2, max_grad_norm=1.0)

        def step(x, y):
            loss = it.cross_entropy(net(x), y)
            optimizer.step(loss.backward())
            return loss

        run, losses = way(step), []
        for k in range(steps):
            length = 32 if k % 5 else 24
            x = it.asarray(numbers(length, 40, seed=100 * seed + k))
            losses.append(run(x, it.asarray(np.arange(length) % 5)))
            if peek is not None and k % 3 == 2:
                peek(net)
        state = {name: v.numpy().copy() for name, v in net.state_dict().items()}
    return [loss.item() for loss in losses], state


def look(net):
    return net.state_dict()["0.weight"].numpy()


@functools.cache
def expected(way, peek):
    """What training comes to where nothing runs in the background."""
    return trained(WAYS[way], 0, peek=peek)


WAYS = {"plain": lambda f: f, "compiled": compile}


class TestTraining:
    @pytest.mark.slow
    @pytest.mark.sampled(6)
    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("plans", [1, 2, 8])
    @pytest.mark.parametrize("peeks", [False, True])
    def test_numbers_are_those_of_running_at_once(self, monkeypatch, way, plans, peeks):
        monkeypatch.setenv("INGLE_PLAN_SLICES", "0")  # so that there is a plan soon
        peek = look if peeks else None
        before = queue().given
        losses, state = trained(WAYS[way], plans, peek=peek)
        assert queue().given > before
        want_losses, want = expected(way, peek)
        assert losses == want_losses
        for name, value in want.items():
            np.testing.assert_array_equal(state[name], value)

    @pytest.mark.slow
    @pytest.mark.parametrize("way", WAYS)
    def test_threads_train_models_of_their_own(self, way):
        want = [trained(WAYS[way], 0, seed=k)[1] for k in range(3)]
        run_ahead(2)
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda k: trained(WAYS[way], 2, seed=k)[1], range(3)))
        for a, b in zip(found, want, strict=True):
            for name, value in b.items():
                np.testing.assert_array_equal(a[name], value)

    def test_state_is_written_over_while_it_waits(self, slow, warmed):
        w = it.Cell(it.zeros((N, N)))
        step = warmed(lambda x: setattr(w, "value", w.value + x), slow.x)
        place = handle(w._value).memory
        x = slow()
        for _ in range(3):
            step(x)
            assert handle(w._value).memory is place
        assert handle(w._value).pending is not None
        np.testing.assert_array_equal(w.value.numpy()[0], w.value.numpy()[0])

    def test_a_reader_in_another_thread_sees_whole_steps(self, slow, warmed):
        w = it.Cell(it.zeros((N, N)))
        step = warmed(lambda x: setattr(w, "value", w.value + x), it.ones((N, N)))
        one, wrong, done = it.ones((N, N)), [], threading.Event()

        def read():
            while not done.is_set():
                value = w.value.numpy()
                if (value != value[0, 0]).any():
                    wrong.append(value.copy())

        thread = threading.Thread(target=read)
        thread.start()
        for _ in range(200):
            step(one)
        done.set()
        thread.join()
        assert not wrong
        assert (w.value.numpy() == 204).all()


PROGRAMS = [("float32", range(40, 60)), ("bfloat16", range(310, 316)), ("int32", range(505, 511))]


def several_times(function):
    """Calls it in a row, so that calls wait for one another."""
    return lambda *args: [function(*args) for _ in range(4)][-1]


@pytest.mark.slow
@pytest.mark.sampled(2, slow=0)
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_random_programs(gradient, way):
    judged = count = 0
    for dtype, seeds in PROGRAMS[: 2 if gradient else 3]:
        for seed in seeds:
            program = random_program(seed, dtype=dtype, gradient=gradient, calls=(3, 30))
            found = []
            for plans in (0, 0, 0, 3):  # plain code fuses what it has seen, for numbers that vary
                run_ahead(plans)
                found.append(execute(program, "cpu", lambda f: several_times(WAYS[way](f))))
            for a, b in zip(*found[2:], strict=True):
                np.testing.assert_array_equal(a, b)
            judged += check(program, "cpu", WAYS[way])
            count += 1
    assert judged > count // 2
