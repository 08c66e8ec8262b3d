"""Running ahead: errors come late and take back what they must; Ctrl-C, forks and the end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import run_ahead
from ingle.tensor.errors import OutOfRangeError
from ingle_cpu.background.queue import Queue, queue
from ingle_cpu.memory import queues

pytestmark = pytest.mark.usefixtures("ahead")
WAYS = ("plain", "compiled")


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def python(code, **variables):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, **variables},
    )  # fmt: skip


@pytest.fixture
def looked_up(warmed):
    """A step that looks rows up, and the cells it writes."""
    table, total, count = it.Cell(it.asarray(numbers(8, 4))), it.Cell(it.zeros(4)), it.Cell(0)

    def step(i):
        rows = it.take(table.value, i, axis=0)
        table.value = table.value * 0.5 + 1.0
        total.value = total.value + it.sum(rows, axis=0)
        count.value = count.value + 1
        return it.sum(rows)

    return warmed(step, it.asarray([0, 1])), (table, total, count)


def held(cells):
    return [c.value if isinstance(c.value, int) else c.value.numpy().copy() for c in cells]


def apart(work, *args):
    """Runs something in another thread, where the device is the same."""
    with it.device("cpu"):
        return work(*args)


class TestErrors:
    def test_a_value_that_failed_says_so_each_time(self, warmed):
        f = warmed(lambda x, i: it.take(x, i, axis=0) * 2.0, it.ones((8, 4)), it.asarray([1]))
        y = f(it.ones((8, 4)), it.asarray([9]))
        for _ in range(2):
            with pytest.raises(OutOfRangeError, match=r"called at .*test_failures\.py:\d+") as told:
                y.numpy()
            assert re.search(r", at \S*test_failures\.py:\d+, in <lambda> \(", str(told.value))
        queue().report(everyone=True)  # it was heard

    def test_nothing_has_changed_after_a_failed_step(self, slow, looked_up):
        step, cells = looked_up
        before = held(cells)
        slow()
        lost = step(it.asarray([1, 8]))
        with pytest.raises(OutOfRangeError, match="ran ahead"):
            cells[0].value.numpy()
        assert all(np.array_equal(a, b) for a, b in zip(held(cells), before, strict=True))
        with pytest.raises(OutOfRangeError):
            lost.item()
        want = numbers(8, 4)
        for _ in range(4):
            want = want * np.float32(0.5) + np.float32(1.0)
        assert step(it.asarray([1, 2])).item() == pytest.approx(want[1:3].sum(), rel=1e-6)

    @pytest.mark.slow
    def test_what_follows_a_failed_step_fails_and_is_taken_back(self, slow, looked_up):
        run_ahead(16)
        step, cells = looked_up
        before = held(cells)
        for _ in range(8):
            slow()
        results = [step(it.asarray(i)) for i in ([1, 8], [1, 2], [3, 4])]
        for result in results:
            with pytest.raises(OutOfRangeError, match="ran ahead"):
                result.item()
        assert all(np.array_equal(a, b) for a, b in zip(held(cells), before, strict=True))

    @pytest.mark.slow
    def test_what_has_nothing_to_do_with_it_goes_on(self, slow, looked_up):
        run_ahead(8)
        step, _ = looked_up
        want = slow().numpy().copy()
        lost = step(it.asarray([1, 8]))
        with ThreadPoolExecutor(1) as pool:
            good = pool.submit(apart, slow.run, slow.x).result()
        with pytest.raises(OutOfRangeError):
            lost.item()
        np.testing.assert_array_equal(good.numpy(), want)

    @pytest.mark.slow
    @pytest.mark.parametrize("where", ["synchronize", "the next call", "another value"])
    def test_it_is_raised_once_where_somebody_waits(self, slow, where, looked_up):
        step, _ = looked_up
        other = slow()
        step(it.asarray([1, 8]))
        queue().wait_for_all()
        waits = {
            "synchronize": other.backend.synchronize,
            "the next call": lambda: step(it.asarray([1, 2])),
            "another value": other.numpy,
        }[where]
        with pytest.raises(OutOfRangeError, match="outside"):
            waits()
        waits()

    def test_other_threads_do_not_hear_of_it(self, slow, looked_up):
        step, _ = looked_up
        with ThreadPoolExecutor(1) as pool:
            pool.submit(apart, step, it.asarray([1, 8])).result()
            queue().wait_for_all()
            slow().numpy()
            with pytest.raises(OutOfRangeError):
                pool.submit(apart, lambda: slow().numpy()).result()

    @pytest.mark.slow
    def test_plain_code(self, slow, monkeypatch):
        monkeypatch.setenv("INGLE_PLAN_SLICES", "0")  # there is a plan from the second run on

        def step(i):
            x = it.asarray(numbers(64, 64))
            for _ in range(8):
                x = it.take(x, i, axis=0) * 0.5 + x
            return x

        good, bad = it.asarray(np.arange(64)), it.asarray(np.arange(64) + 1)
        for _ in range(3):
            want = step(good)
            want.backend.flush()
        slow()
        lost = step(bad)
        lost.backend.flush()
        with pytest.raises(OutOfRangeError, match=r"called at .*test_failures\.py"):
            lost.numpy()
        np.testing.assert_array_equal(step(good).numpy(), want.numpy())


@pytest.mark.slow
class TestProcess:
    @pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to one thread")
    def test_ctrl_c_ends_the_waiting_and_nothing_else(self, slow):
        run_ahead(16)
        want = slow().numpy().copy()
        main = threading.get_ident()
        results = [slow.run(slow.x) for _ in range(12)]
        timer = threading.Timer(0.01, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        try:
            results[-1].numpy()
            time.sleep(1.0)  # it came to its end before
        except KeyboardInterrupt:
            pass
        for result in results:
            np.testing.assert_array_equal(result.numpy(), want)

    SCRIPT = """
import os, sys
import numpy as np
import ingle.tensor as it
from ingle.fusion import compile
from ingle_cpu.background import async_plan
async_plan.LEAST = 0.0
with it.device("cpu"):
    x = it.asarray(np.full((256, 256), 1 / 256, np.float32))
    @compile
    def f(x):
        y = x
        for _ in range(20):
            y = y @ x
        return y
    for _ in range(4):
        f(x)
"""

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
    def test_a_forked_child(self):
        code = """
    before = [f(x) for _ in range(2)]
    child = os.fork()
    again = [f(x).numpy() for _ in range(3)]
    good = all((v.numpy() == v.numpy()[0, 0]).all() for v in before)
    good = good and all(abs(v - 1 / 256).max() < 1e-6 for v in again)
    if child == 0:
        os._exit(0 if good else 1)
    print(good, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
        done = python(self.SCRIPT + code, INGLE_RUN_AHEAD="2")
        assert done.stdout.split() == ["True", "0"], done.stderr

    def test_the_end_of_a_process_waits(self):
        code = """
    kept = [f(x) for _ in range(8)]
    print("last line")
"""
        done = python(self.SCRIPT + code, INGLE_RUN_AHEAD="8")
        assert (done.returncode, done.stdout, done.stderr) == (0, "last line\n", "")

    def test_an_error_that_nobody_heard_of_is_shown_at_the_end(self):
        code = """
    take = compile(lambda x, i: it.take(x, i, axis=0) * 2.0)
    for i in (0, 1, 2, 3, 999):
        take(x, it.asarray([i]))
"""
        done = python(self.SCRIPT + code, INGLE_RUN_AHEAD="8")
        assert "OutOfRangeError" in done.stderr
        assert "ran ahead" in done.stderr

    @pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT of one's own")
    @pytest.mark.slow
    @pytest.mark.parametrize("way", WAYS)
    def test_ctrl_c_anywhere_leaves_whole_steps(self, way):
        code = """
    import random, signal, threading, time
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cells = [it.Cell(it.zeros((64, 64))) for _ in range(4)]
    count = it.Cell(0)
    def step():
        with it.transaction():
            for c in cells:
                c.value = c.value + 1.0 + (x @ x)[:64, :64] * 0.0
            count.value = count.value + 1
    step = {way}(step)
    for _ in range(5): step()
    caught, end = 0, time.perf_counter() + 2
    while time.perf_counter() < end:
        timer = threading.Timer(random.uniform(0, 0.02), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            while timer.is_alive(): step()
            timer.join()
            time.sleep(0.001)
        except KeyboardInterrupt:
            caught += 1
        n = count.value
        for c in cells:
            seen = c.value.numpy()
            assert (seen == n).all(), (n, seen.min(), seen.max())
    print("whole" if caught > 10 else caught)
"""
        way = "compile" if way == "compiled" else "(lambda f: f)"
        done = python(self.SCRIPT + code.replace("{way}", way), INGLE_RUN_AHEAD="3")
        assert done.stdout == "whole\n", done.stdout + done.stderr

    def test_a_thread_that_sleeps_in_python(self, slow):
        want = slow().numpy().copy()
        usual, queues[:] = queues[:], [Queue(park_in_kernel=False)]
        try:
            for _ in range(3):
                results = [slow.run(slow.x) for _ in range(3)]
                for result in results:
                    np.testing.assert_array_equal(result.numpy(), want)
                time.sleep(0.01)
            assert queues[0].given == 9
            queues[0].close()
        finally:
            queues[:] = usual
