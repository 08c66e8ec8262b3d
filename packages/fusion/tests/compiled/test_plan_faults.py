"""A pass or a step of a plan that raises: compiled functions and plain code run on, one operation
after the other."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from forgotten_plans import forget_plans

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import PlanWarning, compile, pipeline
from ingle.fusion.runtime import planning_work
from ingle.tensor.errors import OutOfRangeError


def break_planning(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None = None, times: int = 1 << 30
) -> list[object]:
    """The next plans of several operations fail; returns what was asked for."""
    asked: list[object] = []
    own = pipeline.kernel_sequence

    def fails(device: object, graph: object, pairs: object, layers: object = None) -> object:
        if len(graph.nodes) > 1 and len(asked) < times:  # type: ignore[attr-defined]
            asked.append(graph)
            raise error or KeyError("%7")
        return own(device, graph, pairs, layers)  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "kernel_sequence", fails)
    return asked


@pytest.fixture(autouse=True)
def _new_plans_on_cpu(monkeypatch):
    """A test counts its own: none that it asks for has been made for another one."""
    forget_plans(monkeypatch)
    with it.device("cpu"):
        yield


def once_warned(call: Callable[[], object]) -> list[object]:
    """The results of five calls, of which exactly one has warned."""
    found = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", PlanWarning)
        for _ in range(5):
            found.append(call())
    texts = [str(w.message) for w in said if w.category is PlanWarning]
    assert len(texts) == 1, texts
    assert "one by one" in texts[0]
    assert "please report it" in texts[0]
    assert "KeyError: '%7'" in texts[0]
    return found


def test_a_compiled_function_has_its_values_and_says_so_once(monkeypatch):
    x = it.asarray(np.linspace(-1, 1, 5000, dtype=np.float32))
    want = (it.exp(x) * 2.0 + it.sum(x)).numpy()
    asked = break_planning(monkeypatch)
    f = compile(lambda x: it.exp(x) * 2.0 + it.sum(x))
    for got in once_warned(lambda: f(x).numpy()):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert len(asked) == 1, "no later call tries again"


@pytest.mark.parametrize(
    "error", [MemoryError("host"), it.errors.OutOfMemoryError("no"), it.errors.LostDeviceError("x")]
)
def test_what_a_device_says_while_a_plan_is_made_is_no_fault_of_a_pass(monkeypatch, error):
    x = it.asarray(np.linspace(-1, 1, 5000, dtype=np.float32))
    asked = break_planning(monkeypatch, error, 1)
    f = compile(lambda x: it.exp(x) * 5.0 + it.sum(x))
    with pytest.raises(type(error)):
        f(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        got = f(x).numpy()
    np.testing.assert_allclose(got, np.exp(x.numpy()) * 5 + x.numpy().sum(), rtol=1e-5)
    assert len(asked) == 1


class Training:
    """A small model, and a step that trains it.

    Its weights are there once it is made: what draws them is no part of what a test counts.
    """

    def __init__(self, *, compiled: bool) -> None:
        it.random.seed(3)
        self._model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1))
        self.weights()
        self._optimizer = optim.Adam(self._model.parameters(), lr=0.01)
        self._x = it.asarray(np.linspace(-1, 1, 48, dtype=np.float32).reshape(8, 6))
        self._run = compile(self._step) if compiled else self._step

    def _step(self, x: it.Tensor) -> it.Tensor:
        loss = it.mean(self._model(x) ** 2.0)
        self._optimizer.step(loss.backward())
        return loss

    def loss(self) -> float:
        """Of the next step."""
        return self._run(self._x).item()

    def weights(self) -> list[np.ndarray]:
        return [p.numpy() for p in self._model.parameters()]


Trained = tuple[list[float], list[np.ndarray]]
"""The losses of five steps, and the weights behind them."""


def plainly_trained() -> Trained:
    training = Training(compiled=False)
    return [training.loss() for _ in range(5)], training.weights()


def assert_like(want: Trained, losses: list[float], weights: list[np.ndarray]) -> None:
    np.testing.assert_allclose(losses, want[0], rtol=1e-5)
    for a, b in zip(weights, want[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_compiled_step_of_training_goes_on(monkeypatch):
    want, training = plainly_trained(), Training(compiled=True)
    break_planning(monkeypatch)
    with pytest.warns(PlanWarning, match="KeyError"):
        losses = [training.loss() for _ in range(5)]
    assert_like(want, losses, training.weights())


def test_the_body_of_a_loop_goes_on(monkeypatch):
    def body(x: it.Tensor) -> it.Tensor:
        return it.sin(x) ** 2.0 * 0.5 + it.cos(x) ** 2.0

    x = it.asarray(np.linspace(0, 1, 7, dtype=np.float32))

    def loop(x: it.Tensor) -> it.Tensor:
        return it.while_loop(lambda x: it.sum(x) < 100.0, lambda x: body(x) + x, x)

    want = loop(x).numpy()
    break_planning(monkeypatch)
    with pytest.warns(PlanWarning, match="KeyError"):
        got = compile(lambda x: loop(x * 1.0) + 0.0)(x).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5)


def plain_step(factor: float) -> Callable[[], np.ndarray]:
    """Plain code of eight layers, whose plans nobody has made yet."""
    x = it.asarray(np.linspace(0, 1, 40_000, dtype=np.float32))

    def step() -> np.ndarray:
        y = x
        for _ in range(8):
            y = it.tanh(y * factor + 1.0)
        return y.numpy()

    return step


def test_plain_code_tries_no_second_time(monkeypatch):
    step = plain_step(0.4375)
    want = step()
    asked = break_planning(monkeypatch)
    for got in once_warned(step):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    assert len(asked) == 1


def test_an_operation_that_fails_by_itself_is_what_is_told(monkeypatch):
    f = compile(lambda x: it.linalg.inv(x * 0.0) + 1.0)
    break_planning(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        with pytest.raises(it.errors.IngleError, match="inv"):
            f(it.ones((3, 3))).numpy()


def test_an_operation_alone_raises_what_is_wrong_with_its_plan(monkeypatch):
    """Its plan is how it runs: without one it would ask for the same plan for ever."""

    def fails(*_args: object) -> object:
        raise KeyError("%7")

    # Of a form that no other test has: there may be a plan for all its sizes.
    x = it.asarray(np.linspace(0, 1, 37).reshape(1, 37, 1, 1, 1, 1))
    monkeypatch.setattr(pipeline, "kernel_sequence", fails)
    for _ in range(2):
        with pytest.raises(KeyError, match="%7"):
            compile(lambda x: it.sum(x, axis=(1, 4)))(x).numpy()


def break_running(
    monkeypatch: pytest.MonkeyPatch, error: Exception, runs: int, *, behind: bool = False
) -> list[int]:
    """New plans of several operations fail in their run of a number, or behind its end; returns
    how often they ran."""
    count = [0]
    own = planning_work.planned

    def planned(kept: object, device: object, fusion: object, graph: object, *rest: object):
        plan = own(kept, device, fusion, graph, *rest)  # type: ignore[arg-type]
        inner = plan.run

        def run(*args: object) -> object:
            count[0] += 1
            made = inner(*args) if behind or count[0] != runs else None
            if count[0] == runs:
                raise error
            return made

        if len(graph.nodes) > 1:  # type: ignore[attr-defined]
            plan.run = run
        return plan

    monkeypatch.setattr(planning_work, "planned", planned)
    return count


@pytest.mark.parametrize("runs", [1, 3])
def test_a_step_that_raises_while_it_runs_is_said_once(monkeypatch, runs):
    x = it.asarray(np.linspace(-1, 1, 5000, dtype=np.float32))
    want = (it.exp(x) * 3.0 + it.sum(x)).numpy()
    count = break_running(monkeypatch, KeyError("%7"), runs)
    f = compile(lambda x: it.exp(x) * 3.0 + it.sum(x))
    for got in once_warned(lambda: f(x).numpy()):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert count == [runs], "the plan is not used again"


@pytest.mark.parametrize("runs", [1, 3, 5])
@pytest.mark.parametrize("error", [KeyError("%7"), IndexError("9"), AttributeError("address")])
def test_training_goes_on_where_a_step_raises(monkeypatch, error, runs):
    want, training = plainly_trained(), Training(compiled=True)
    break_running(monkeypatch, error, runs)
    with pytest.warns(PlanWarning, match=f"while it ran .{type(error).__name__}"):
        losses = [training.loss() for _ in range(5)]
    assert_like(want, losses, training.weights())


@pytest.mark.parametrize(
    "error",
    [
        it.errors.OutOfMemoryError("no memory is left"),
        it.errors.LostDeviceError("the device is gone"),
        it.errors.OutOfRangeError("take: an index"),
        it.errors.BackendError("the driver said no"),
        MemoryError(),
        RuntimeWarning("an error by the program's filter"),
    ],
)
def test_what_a_device_says_comes_out_as_it_is_and_nothing_is_lost(monkeypatch, error):
    want, training = plainly_trained(), Training(compiled=True)
    count = break_running(monkeypatch, error, 3)
    losses: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        while len(losses) < 5:
            try:
                losses.append(training.loss())
            except type(error) as caught:
                assert caught is error  # noqa: PT017
                assert len(losses) == 2
    assert count == [6], "the plan serves again"
    assert_like(want, losses, training.weights())


def test_what_is_raised_behind_a_run_that_wrote_over_its_inputs_comes_out(monkeypatch):
    """There is nothing to run again on: cells keep what the run has made."""
    w = it.Cell(it.zeros(4096))

    def step(x: it.Tensor) -> None:
        w.value = it.tanh(w.value) * 0.5 + x

    want, x = it.zeros(4096), it.ones(4096)
    break_running(monkeypatch, KeyError("%7"), 4, behind=True)
    f = compile(step)
    raised = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        for _ in range(6):
            try:
                f(x)
            except KeyError:
                raised += 1
            want = it.tanh(want) * 0.5 + x
    assert raised == 1
    np.testing.assert_allclose(w.value.numpy(), want.numpy(), rtol=1e-5)


def test_plain_code_goes_on_where_a_step_raises(monkeypatch):
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")  # there is a plan from the second run on
    step = plain_step(0.4140625)
    want = step()
    count = break_running(monkeypatch, KeyError("%7"), 2)
    for got in once_warned(step):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    assert count == [2]


def test_an_operation_that_raises_by_itself_is_no_fault_of_its_plan(monkeypatch):
    """Its error is what comes out, and the plan serves again."""
    broken = [False]
    own = np.linalg.inv

    def inv(x: np.ndarray) -> np.ndarray:
        if broken[0]:
            raise KeyError("by itself")
        return own(x)

    monkeypatch.setattr(np.linalg, "inv", inv)
    with it.device("numpy"):
        f = compile(lambda x: it.linalg.inv(it.exp(x)) + 1.0)
        x = it.asarray(np.eye(9))
        want = f(x).numpy()
        broken[0] = True
        with warnings.catch_warnings():
            warnings.simplefilter("error", PlanWarning)
            with pytest.raises(KeyError, match="by itself"):
                f(x).numpy()
            broken[0] = False
            np.testing.assert_array_equal(f(x).numpy(), want)


def test_an_error_of_a_run_that_is_caught_holds_nothing_that_the_run_was_given():
    """The next step writes over its state as before, with no need to look for cycles."""
    state, rows = it.Cell(it.ones((64, 64))), it.ones((8, 64))

    @compile
    def step(i):
        state.value = state * 0.5 + it.sum(it.take(rows, i, axis=0))
        return it.sum(state.value)

    def address():
        return state._value._handle.computed().address

    good, bad = it.asarray([1, 2]), it.asarray([1, 8])
    for _ in range(4):
        step(good)
    place = address()
    gc.disable()
    try:
        for index in (bad, good, bad, good):
            with contextlib.suppress(OutOfRangeError):
                step(index)
            assert address() == place
    finally:
        gc.enable()
