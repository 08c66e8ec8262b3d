"""What a handler of signals raises reaches the program, wherever other errors are dealt with."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

import ingle.tensor as it
from ingle.fusion import PlanWarning, compile, pipeline
from ingle.fusion.ir.graph import read_log
from ingle.fusion.runtime import launch, planning_work
from ingle.fusion.runtime.later_plans import LaterPlans
from ingle.fusion.runtime.log_families import EXAMPLES, LEAST_FILLED, LogFamily
from ingle.fusion.runtime.replay import Attempt
from ingle.testkit.interrupting import LateError, late


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """A signal whose handler raises a `LateError`; no warning blames anybody else for it."""
    before = signal.signal(signal.SIGTERM, late)
    try:
        with warnings.catch_warnings(), it.device("cpu"):
            warnings.simplefilter("error")
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def hit(*_: object, **__: object) -> NoReturn:
    signal.raise_signal(signal.SIGTERM)
    raise AssertionError("the handler raises")


class Named:
    """An object of these attributes, in place of one that is long to make."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def test_while_a_plan_is_made_for_later_processes():
    later = LaterPlans(1.0)
    later.add(hit)
    with pytest.raises(LateError):
        later.go_on()
    assert list(later.waiting) == [hit]  # which goes on next time


def test_a_plan_that_cannot_be_made_is_forgotten_where_its_warning_is_an_error():
    later = LaterPlans(1.0)
    later.add(lambda: bool(1 // 0))
    with pytest.raises(PlanWarning, match="ZeroDivisionError"):
        later.go_on()
    assert not later.waiting


def test_while_a_plan_is_made_or_runs_for_a_compiled_function(monkeypatch):
    """Nothing is noted as a fault: the next call has its plan."""
    made = []
    own = planning_work.planned
    steps = iter(["made", "runs"])

    def planned(*args: Any) -> Any:
        if next(steps, "") == "made":
            hit()
        plan = own(*args)
        made.append(plan)
        inner, plan.run = plan.run, lambda *_: hit()
        plan.own_run = inner
        return plan

    monkeypatch.setattr(planning_work, "planned", planned)
    f = compile(lambda x: it.sum(it.exp(x) * 7.0, axis=0) + 1.0)
    x = it.zeros((2, 3))
    for _ in range(2):
        with pytest.raises(LateError):
            f(x)
    (plan,) = made
    plan.run = plan.own_run
    assert f(x).tolist() == [15.0] * 3
    assert len(made) == 1


@pytest.mark.parametrize("name", ["generalized", "kernel_sequence"])
def test_while_kernels_are_made_for_all_sizes(name, monkeypatch):
    monkeypatch.setattr(pipeline, "generalized", lambda *_: Named(graph=None))
    monkeypatch.setattr(pipeline, name, hit)
    with pytest.raises(LateError):
        pipeline._general(None, None, (), ())


def test_while_composites_are_written_out_for_all_sizes(monkeypatch):
    monkeypatch.setattr(pipeline, "generalized", lambda *_, **__: Named(graph=None))
    monkeypatch.setattr(pipeline, "_decomposed", hit)
    with pytest.raises(LateError):
        pipeline._decomposed_for_all(None, None, None, (), ())


def test_while_a_kernel_is_compiled():
    with pytest.raises(LateError):
        launch.compiled(Named(kernel=hit, device="cpu"), Named(operations="add"), "source")


def test_while_operations_are_tried_one_by_one():
    x = it.asarray([1.0, 2.0])
    for _ in range(2):  # so that what comes is written down
        x.backend.noted(short=False)
    y = x + 1.0
    graph = read_log(y._handle.pending_in.written, (y._handle.number,))
    with pytest.raises(LateError):
        Attempt(Named(execute=hit), graph)([None] * len(graph.inputs), [1.0] * len(graph.scalars))


@pytest.mark.parametrize("straight", [False, True])
def test_while_an_operation_runs_at_once(straight, monkeypatch):
    x = it.asarray([1.0, 2.0])
    for _ in range(20):
        assert (x + 1.0).tolist() == [2, 3]  # each is read alone, so that the next ones run at once
    fusion = x.backend
    calls = dict.fromkeys(fusion._at_once.calls.known, hit) if straight else {}
    monkeypatch.setattr(fusion._at_once.calls, "known", calls)
    monkeypatch.setattr(fusion.inner, "execute", fusion.inner.execute if straight else hit)
    with pytest.raises(LateError):
        x + 1.0
    monkeypatch.undo()
    assert (x + 1.0).tolist() == [2, 3]


@pytest.mark.parametrize("calls", [2, 6])
def test_while_numbers_of_a_compiled_function_are_computed(calls):
    """In the general path of a call, and in the one written for it."""
    hits = [False]

    @it.on_host
    def rate(step):
        if hits[0]:
            hits[0] = False  # who calls it again meets no error
            hit()
        return step * 0.5

    f = compile(lambda x, step: x * rate(step))
    x = it.asarray([2.0])
    for step in range(1, calls):
        assert f(x, step).tolist() == [step]
    hits[0] = True
    with pytest.raises(LateError):
        f(x, 50)
    assert f(x, 60).tolist() == [60]


class Slow:
    """Plans for all sizes that are interrupted once."""

    def __init__(self, error: type[BaseException]) -> None:
        self.calls, self._error = 0, error
        self.in_slices, self.fills, self.alike = False, False, ()

    def __call__(self, given, numbers):
        raise AssertionError("nothing runs here")

    def filled(self, numbers):
        return False

    def sized(self, numbers):
        return None

    def keep(self, numbers):
        raise AssertionError("nothing is kept here")

    def advanced(self, numbers, slices=1):
        self.calls += 1
        if self.calls == 1:
            if self._error is LateError:
                hit()
            raise self._error
        return True


@pytest.mark.parametrize("error", [KeyboardInterrupt, LateError])
def test_a_plan_for_all_sizes_goes_on_after_an_interruption(error):
    family, plans = LogFamily(), Slow(error)
    graph = SimpleNamespace(nodes=[None] * LEAST_FILLED)
    examples = [(graph, [float(k)]) for k in range(EXAMPLES + 1)]
    for example in examples[: EXAMPLES - 1]:
        family.planned(example, plans)
    with pytest.raises(error):
        family.planned(examples[-2], plans)
    assert not family.serves
    family.planned(examples[-1], plans)
    assert (plans.calls, family.serves) == (2, True)
