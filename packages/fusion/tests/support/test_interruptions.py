"""What interrupts recording, planning and running: its operations are right, and so are theirs."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile
from ingle.testkit.interrupting import LateError, interrupted

DEVICES = ("cpu", "numpy")
on_main = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="no timers that interrupt on this system"
)


class Visitor:
    """Computes something of its own, on values of its own and on the last one it was shown."""

    def __init__(self):
        self.own = it.asarray(np.arange(6, dtype=np.float32))
        self.shown, self.visits, self.kept, self.wrong = None, 0, [], []
        self._inside = False

    def __call__(self, *_):
        if self._inside:
            return
        self._inside = True
        try:
            self.visits += 1
            y = (self.own * float(self.visits)) + 1.0
            want = np.arange(6, dtype=np.float32) * self.visits + 1
            if not np.array_equal(y.numpy(), want):
                self.wrong.append((y.tolist(), want.tolist()))
            self.kept = [*self.kept[-3:], (self.own - float(self.visits), self.visits)]
            if self.shown is not None:
                value, expected = self.shown
                if not np.allclose(value.numpy(), expected, rtol=1e-4, atol=1e-4):
                    self.wrong.append((value.tolist(), expected.tolist()))
        finally:
            self._inside = False

    def check(self):
        assert self.visits
        assert self.wrong == []
        for value, visit in self.kept:
            np.testing.assert_array_equal(value.numpy(), np.arange(6, dtype=np.float32) - visit)


@contextmanager
def traced(visitor, part, every):
    """A visit at every so many lines of the files whose path contains `part`."""
    seen = 0

    def trace(frame, event, arg):
        nonlocal seen
        if part not in frame.f_code.co_filename:
            return None
        if event == "line":
            seen += 1
            if seen % every == 0:
                visitor()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def timed(visitor, seconds=0.0007):
    before = signal.signal(signal.SIGALRM, visitor)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def collected(visitor):
    """A visit by a finalizer whenever the collector runs, which is all the time."""

    class Dying:
        def __init__(self):
            self.me = self

        def __del__(self):
            if alive:
                Dying()
                visitor()

    alive, before = [True], gc.get_threshold()
    gc.set_threshold(20, 2, 2)
    Dying()
    try:
        yield
    finally:
        alive.clear()
        gc.set_threshold(*before)
        gc.collect()


def walk(visitor, rounds=6):
    """Some plain code that reads now and then; and the same in NumPy."""
    start = np.linspace(-1, 1, 60, dtype=np.float32).reshape(6, 10)
    x, other = it.asarray(start), it.asarray(np.ones(10, np.float32))
    want = start.astype(np.float64)
    visitor.shown = x, want
    for k in range(rounds):
        x = it.sin(x) * float(k + 1) + other
        want = np.sin(want) * (k + 1) + 1
        visitor.shown = x, want
        low, high = it.split(x, 3)
        x = it.concat([high, low]) - 0.25
        want = np.concatenate([want[3:], want[:3]]) - 0.25
        visitor.shown = x, want
        if k % 2:
            np.testing.assert_allclose(float(x.sum()), want.sum(), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(x.numpy(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize(
    "part",
    [
        "fusion/record/log", "fusion/record/repeated_logs", "fusion/stream",
        "fusion/runtime/plan_cache", "ingle_numpy/",
    ],
)  # fmt: skip
def test_an_operation_at_any_line(device, part, every):
    with it.device(device):
        visitor = Visitor()
        walk(visitor)
        with traced(visitor, part, every):
            walk(visitor)
        visitor.visits or visitor()  # no such line on this device
        visitor.check()


@on_main
@pytest.mark.parametrize("device", DEVICES)
def test_a_handler_of_signals_that_computes(device):
    with it.device(device):
        visitor = Visitor()
        with timed(visitor):
            for _ in range(12):
                walk(visitor)
        visitor.check()


@pytest.mark.parametrize("device", DEVICES)
def test_a_finalizer_that_computes(device):
    with it.device(device):
        visitor = Visitor()
        with collected(visitor):
            for _ in range(3):
                walk(visitor)
                gc.collect()  # the old generation, which waits until many others are old
        visitor.check()


def trained(way, visit=None, steps=6):
    generator = it.random.Generator(5)
    net = nn.Sequential(
        nn.Linear(6, 16, generator=generator), nn.GELU(), nn.Dropout(0.2, generator=generator),
        nn.Linear(16, 3, generator=generator),
    )  # fmt: skip
    optimizer = optim.AdamW(net, lr=1e-2)
    rng = np.random.default_rng(0)

    def step(x, y):
        loss = it.cross_entropy(net(x), y)
        optimizer.step(loss.backward())
        return loss

    step = way(step)
    for _ in range(steps):
        x = it.asarray(rng.standard_normal((16, 6)).astype(np.float32))
        loss = step(x, it.asarray(np.arange(16) % 3))
        if visit is not None:
            visit.loss = loss
    return {name: v.numpy().copy() for name, v in net.state_dict().items()}


class Printer:
    """A handler that prints the loss and looks at the state, as people write them."""

    def __init__(self):
        self.loss, self.seen, self._inside = None, [], False

    def __call__(self, *_):
        if self._inside or self.loss is None:
            return
        self._inside = True
        try:
            self.seen.append(float(self.loss * 2.0 + it.ones(())) - 2 * float(self.loss))
        finally:
            self._inside = False


@pytest.mark.slow
@on_main
@pytest.mark.parametrize("way", [lambda f: f, compile], ids=["plain", "compiled"])
def test_a_handler_that_prints_the_loss_of_a_training(way):
    with it.device("cpu"):
        want, printer = trained(way), Printer()
        with timed(printer, 0.002):
            got = trained(way, printer)
            for _ in range(20):
                if printer.seen:
                    break
                got = trained(way, printer)
    assert printer.seen
    np.testing.assert_allclose(printer.seen, 1.0, rtol=1e-5)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


class Leaving:
    """Computes when nobody holds it any more."""

    def __init__(self, visit):
        self._visit = visit

    def __del__(self):
        self._visit()


class Counting:
    """Makes tensors, counts in a cell, draws numbers, and looks at a model that is trained."""

    def __init__(self, model):
        self.visits, self.wrong, self._inside = 0, [], False
        self._model, self.count, self._draws = model, it.Cell(0), it.Cell(it.zeros(2))

    def __call__(self):
        if self._inside:
            return
        self._inside = True
        try:
            self.visits += 1
            self.count.value = self.count.value + 1
            self._draws.value = self._draws + it.ones(2)
            got = [*self._draws.tolist(), (it.asarray([[3.0, 4.0]]) @ it.ones((2, 1))).item()]
            if got != [self.visits, self.visits, 7.0]:
                self.wrong.append(got)
            for parameter in self._model.parameters():
                if not np.isfinite(parameter.numpy()).all():
                    self.wrong.append(parameter)
        except Exception as error:
            self.wrong.append(repr(error))
        finally:
            self._inside = False


def looping(way, part, every):
    """A training with a loop and a branch, visited at lines of files whose path has `part`."""
    net = nn.Linear(3, 3, generator=it.random.Generator(5))
    optimizer = optim.SGD(net, lr=0.05, momentum=0.9)
    visitor = Counting(net)

    def step(x):
        rows = it.scan(lambda c, row: (it.tanh(c + row), c * row), x[0], net(x))[1]
        chosen = it.cond(it.sum(x) > 0, lambda y: it.sum(y**2), lambda y: it.sum(y), rows)
        loss = chosen + it.mean(net(x) ** 2)
        optimizer.step(loss.backward())
        return loss

    step, losses = way(step), []
    with traced(lambda: Leaving(visitor), part, every):
        for k in range(5):
            losses.append(step(it.asarray(np.arange(12.0, dtype=np.float32).reshape(4, 3) - k)))
    return [loss.item() for loss in losses], visitor


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("way", [lambda f: f, compile], ids=["plain", "compiled"])
@pytest.mark.parametrize(
    "part",
    ["programs/tracing", "autodiff/cached_backward", "tensor/control/", "compiled/specialize"],
)
def test_a_finalizer_while_a_function_is_written_down(way, part):
    with it.device("cpu"):
        want, _ = looping(way, "no such file", 1)
        for every in (5, 7):
            got, visitor = looping(way, part, every)
            assert visitor.wrong == []
            assert visitor.count.value == visitor.visits
            assert got == want


@pytest.mark.slow
@on_main
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_a_handler_raises_is_nobodys_value():
    class LateError(Exception):
        pass

    def late(*_):
        raise LateError

    before = signal.signal(signal.SIGALRM, late)
    try:
        with it.device("cpu"):
            x = it.asarray(np.ones(40_000, np.float32))
            for delay in np.linspace(5e-5, 4e-3, 60):
                y = x
                for k in range(9):
                    y = it.sin(y) * float(k)
                for _ in range(20):
                    try:
                        try:
                            signal.setitimer(signal.ITIMER_REAL, delay)
                            y.numpy()
                        finally:
                            signal.setitimer(signal.ITIMER_REAL, 0)
                    except LateError:
                        continue
                    break
                want = np.ones(40_000)
                for k in range(9):
                    want = np.sin(want) * k
                np.testing.assert_allclose(y.numpy(), want, rtol=1e-4, atol=1e-5)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_log_that_cannot_run_is_dropped():
    with it.device("cpu"):
        x = it.asarray([1.0, 1.0, 1.0])
        for _ in range(2):  # whatever was read before, it is recorded
            x.backend.noted(short=False)
        y = x + 1.0
        stream = y._handle.pending_in
        stream.written.append((y._handle.pending_in.written[-1][0], 99, 98))
        for _ in range(2):
            with pytest.raises(IndexError):
                y.numpy()
        assert (x * 3.0).tolist() == [3, 3, 3]


def test_an_interruption_in_the_middle_leaves_the_log_whole():
    """Ctrl-C at every line of recording: what is asked for again comes out right."""
    # In a thread of its own: what is raised at the line of a `with` that is left, where Python
    # never looks for signals, leaves the lock of the thread's stream taken for all others.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(interrupt_at_each_line).result()


def interrupt_at_each_line():
    with it.device("cpu"):
        a, b = it.asarray(np.arange(4.0)), it.asarray(np.arange(4.0) + 1)
        a.numpy(), b.numpy()
        for line in range(1, 60):
            seen = 0

            def trace(frame, event, arg, line=line):
                nonlocal seen
                if "fusion/record/log" not in frame.f_code.co_filename:
                    return None
                if event == "line":
                    seen += 1
                    if seen == line:
                        raise KeyboardInterrupt
                return trace

            kept = a * 3.0
            before = sys.gettrace()
            sys.settrace(trace)
            try:
                (b - 1.0) / (a + 7.0)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
            made = (b - a) * 2.0 + kept
            np.testing.assert_array_equal(made.numpy(), 2.0 + 3 * np.arange(4.0))


def test_what_the_error_of_an_interruption_holds_is_no_value_of_the_log():
    """The traceback holds the handle of the operation that was cut off."""
    with it.device("cpu"):
        a = it.asarray(np.arange(4.0))
        on, place = True, 1
        while on:
            for _ in range(2):  # so that what comes is written down
                a.backend.noted(short=False)
            kept, held = a * 3.0, []

            def program(held=held):
                try:
                    held.append(a + 7.0)
                except LateError as error:
                    held.append(error)
                    raise

            on = interrupted(program, place, ("fusion/record/log",))
            np.testing.assert_array_equal(kept.numpy(), 3 * np.arange(4.0))
            place += 1
        assert place > 10


def test_threads_finalize_while_others_record():
    with it.device("cpu"):
        visitor = Visitor()
        errors = []

        def work():
            try:
                with it.device("cpu"):
                    for _ in range(4):
                        walk(Visitor())
            except BaseException as error:
                errors.append(error)

        with collected(visitor):
            threads = [threading.Thread(target=work) for _ in range(2)]
            for t in threads:
                t.start()
            for t in threads:
                t.join(60)
        assert errors == []
