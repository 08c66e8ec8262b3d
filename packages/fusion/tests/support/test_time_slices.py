"""Plans that are made in slices: runs before, between and after them give the same."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import weakref
from itertools import pairwise

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import PlanWarning, compile
from ingle.fusion.ir.graph import read_log
from ingle.fusion.record.log import current
from ingle.fusion.runtime import graph_plans, planning_work
from ingle.fusion.runtime.plan import ScheduledPlan
from ingle.fusion.runtime.plan_cache import PlanCache
from ingle.fusion.support import time_slices
from ingle.fusion.support.time_slices import TimeSlices, WaitNotice, give_way, tick
from ingle.tensor.control.calling import region
from ingle.tensor.dispatch import wrap
from ingle.tensor.operation import OPERATIONS
from ingle.tensor.programs import Aval, trace
from ingle.testkit.bits import same_bits

SLICE, LEAST_SLICE = planning_work.SLICE, planning_work.LEAST_SLICE
MANY = 32
"""Operations of a program, or of a step of training."""


@pytest.fixture(autouse=True)
def in_slices(monkeypatch):
    """Nothing is found on disk, and small slices do."""
    monkeypatch.setenv("INGLE_PLAN_SLICES", "1")
    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
    monkeypatch.setattr(planning_work, "SLICE", 1)
    monkeypatch.setattr(planning_work, "LEAST_SLICE", 200)
    with it.device("cpu"):
        yield


def counting(to, log=None):
    def work():
        for k in range(to):
            tick("counting")
            if log is not None:
                log.append(k)
        return to

    return work


class TestSlices:
    def test_go_on_when_they_have_the_turn(self):
        log = []
        slices = TimeSlices(counting(10, log))
        seen = []
        while (found := slices.advance(4)) is None:
            seen.append(len(log))
            assert threading.active_count() > 1
        assert (seen, found, slices.count) == ([3, 7], 10, 3)

    def test_may_be_finished_at_once(self):
        slices = TimeSlices(counting(10))
        assert slices.advance(2) is None
        assert slices.advance(float("inf")) == 10
        assert slices.advance(1) == 10

    def test_raise_what_the_work_raises(self):
        def work():
            tick("failing")
            raise ArithmeticError("no")

        slices = TimeSlices(work)
        assert slices.advance(1) is None
        with pytest.raises(ArithmeticError, match="no"):
            slices.advance(1)

    def test_end_when_nobody_wants_them(self):
        before = set(threading.enumerate())
        slices = TimeSlices(counting(10))
        slices.advance(2)
        (thread,) = set(threading.enumerate()) - before
        slices.cancel()
        thread.join(10)
        assert not thread.is_alive()

    @pytest.fixture
    def half_done(self, monkeypatch):
        monkeypatch.setattr(time_slices, "_half_done", time_slices._HalfDone())

    @pytest.mark.usefixtures("half_done")
    def test_few_are_half_done_at_a_time(self):
        before = set(threading.enumerate())
        works = [TimeSlices(counting(10)) for _ in range(time_slices.MOST)]
        for work in works:
            assert work.advance(2) is None
        new = TimeSlices(counting(10))
        assert new.advance(100) is None
        assert new.count == 0
        assert len(set(threading.enumerate()) - before) == len(works)
        attempts = [new.advance(100) for _ in range(time_slices.PASSED)]
        assert attempts[-1] == 10
        assert [work.lost for work in works] == [True] + [False] * (len(works) - 1)
        assert works[1].advance(100) == 10
        for work in works:
            work.cancel()

    @pytest.mark.usefixtures("half_done")
    def test_those_that_take_turns_are_all_done(self):
        works = [TimeSlices(counting(10)) for _ in range(3 * time_slices.MOST)]
        for _ in range(12):
            found = [work.advance(4) for work in works]
        assert found == [10] * len(works)

    def test_go_on_after_an_interrupt(self):
        """Ctrl-C comes to who waits; the slice ends by itself."""

        def work():
            for _ in range(3):
                time.sleep(0.2)
                tick("sleeping")
            return 3

        slices = TimeSlices(work)

        def stop(number, frame):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, stop)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                slices.advance(1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert slices.advance(float("inf")) == 3

    def test_what_leaves_the_interpreter_alone_goes_on_beside(self, monkeypatch):
        monkeypatch.setattr(time_slices, "CORES", 2)
        lock, compiled = threading.Lock(), threading.Event()

        def work():
            tick("before")
            with lock:
                give_way()
                assert compiled.wait(10)
            for _ in range(100):
                tick("after")
            return "made"

        interval = sys.getswitchinterval()
        slices = TimeSlices(work)
        for _ in range(3):
            assert slices.advance(10) is None  # without waiting for what goes on
        assert lock.locked()
        assert sys.getswitchinterval() < interval
        compiled.set()
        with lock:  # which it gives back before it has its turn
            pass
        assert slices.advance(float("inf")) in (None, "made")
        for _ in range(1000):
            if slices.advance(float("inf")) == "made":
                break
            time.sleep(0.01)
        assert slices.advance(1) == "made"
        assert sys.getswitchinterval() == interval

    def test_on_one_core_nothing_goes_on_beside(self, monkeypatch):
        monkeypatch.setattr(time_slices, "CORES", 1)
        seen = []

        def work():
            give_way()
            time.sleep(0.05)
            seen.append(1)
            tick("after")

        TimeSlices(work).advance(1)
        assert seen == [1]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    @pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
    def test_are_lost_in_a_child(self):
        slices = TimeSlices(counting(10))
        slices.advance(2)
        child = os.fork()
        if not child:
            os._exit(0 if slices.lost else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert not slices.lost
        assert slices.advance(float("inf")) == 10


def training(seed=0):
    """A network's steps, and what it has learned."""
    it.random.seed(seed)
    sizes = [8, 16, 16, 16, 4]
    layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    model = nn.Sequential(*[m for layer in layers for m in (layer, nn.Tanh())])
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    x = it.asarray(np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32))

    def step(x):
        h = model(x)
        for k in range(6):
            h = it.sin(h * 1.5) + h / (2.0 + k)
        loss = it.mean(h * h)
        optimizer.step(loss.backward())
        return loss.detach()

    return step, x, model


def losses(runs=100):
    step, x, model = training()
    found = [step(x).numpy().tobytes() for _ in range(runs)]
    return found, [p.value.numpy().tobytes() for p in model.parameters()]


@pytest.mark.slow
def test_runs_before_and_after_a_plan_have_the_same_bits(monkeypatch):
    advanced = []
    advance = TimeSlices.advance
    monkeypatch.setattr(
        TimeSlices, "advance", lambda self, steps: advanced.append(steps) or advance(self, steps)
    )
    monkeypatch.setattr(time_slices, "CORES", 1)  # or how many runs go by is up to LLVM's time
    sliced = losses()
    assert 3 < len(advanced) < 100, "with a plan in the end"
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")
    advanced.clear()
    assert losses() == sliced
    assert not advanced


def of_many_parts(x):
    """A function of tensors like one, of many operations that are one of a log."""

    def many(x):
        for _ in range(MANY):
            x = it.tanh(x) + 1.0
        return x

    op = region(trace(many, [Aval(x.shape, x.dtype)]).program, "many")
    return lambda x: wrap(x.backend.execute(op, [x._handle])[0])


@pytest.mark.slow
def test_a_program_is_not_planned_by_itself_where_its_log_runs_without_a_plan(monkeypatch):
    planned = []
    compile_graph = planning_work.compile_graph

    def noted(device, fusion, graph, *args):
        if threading.current_thread().name != "ingle-plan":
            planned.append(planning_work.parts_of(graph))
        return compile_graph(device, fusion, graph, *args)

    monkeypatch.setattr(planning_work, "compile_graph", noted)
    x, y = it.ones((8, 8)), it.ones((9, 8))
    f, g = of_many_parts(x), of_many_parts(y)
    found = [f(x).tolist() for _ in range(30)]
    assert max(planned, default=0) < MANY
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")
    assert all(g(y).tolist()[:8] == one for one in found)
    assert max(planned) >= MANY


def threads():
    return [t for t in threading.enumerate() if t.name == "ingle-plan" and t.is_alive()]


def test_half_types_wait_for_their_plan(monkeypatch):
    monkeypatch.setattr(TimeSlices, "advance", lambda *_: pytest.fail("in slices"))
    x = it.ones((64, 4), dtype="bfloat16")
    for _ in range(3):
        y = x
        for _ in range(30):
            y = it.sin(y[1:]) * 1.5
        y.numpy()


@pytest.mark.parametrize("count", [2, 5, 20])
def test_no_run_waits_for_a_plan_of_few_operations(monkeypatch, count):
    """Their kernels take as long to compile as dozens of runs without them."""
    planned = []
    compile_graph = planning_work.compile_graph

    def noted(device, fusion, graph, *args):
        plan = compile_graph(device, fusion, graph, *args)
        if len(graph.nodes) > 1:
            planned.append(threading.current_thread().name)
        return plan

    monkeypatch.setattr(planning_work, "compile_graph", noted)
    x = it.ones((100, 71 + count))  # more elements than what runs as it comes
    monkeypatch.setattr(x.backend, "planner", PlanCache(x.backend.inner))
    found, after = set(), 0
    end = time.monotonic() + 60
    while after < 3:
        y = x
        for k in range(count):
            y = it.exp(-y) + x * (k + 0.5) if k % 2 else it.tanh(y)
        found.add(y.numpy().tobytes())
        after += bool(planned)
        assert time.monotonic() < end, "there is no plan in a minute"
    assert {*planned} == {"ingle-plan"}
    assert len(found) == 1


def test_work_that_begins_in_a_block_holds_nothing_of_it():
    """It may be half done for many steps, and the weights of one would live as long."""
    begun = []

    @compile
    def doubled(x):
        begun.append(TimeSlices(lambda: (current.get(),)))
        return x * 2.0

    doubled(it.ones(3))
    assert begun[0].advance(9) == (None,), "of what was recorded there"
    cell = it.Cell(it.ones(3))
    with it.transaction():
        cell.value = it.zeros(3)
        begun.append(TimeSlices(counting(1)))
    written = weakref.ref(cell.value)
    cell.value = it.ones(3)
    assert written() is None


def test_compiled_functions_wait_for_their_plan(monkeypatch):
    monkeypatch.setattr(TimeSlices, "advance", lambda *_: pytest.fail("in slices"))
    step, x, _ = training()
    step = compile(step)
    assert np.isfinite([float(step(x)) for _ in range(4)]).all()


def executable():
    """A graph of many operations that is planned in slices, and an input of it."""
    x = it.ones((4,), device="cpu")
    log = [("input", x.shape, x.dtype)]
    log += [(OPERATIONS["sin"].op(), k) for k in range(100)]
    made = graph_plans.GraphPlans(x.backend.inner, x.backend, read_log(log, (100,)))
    made.in_slices = True
    return made, x._handle.computed()


def test_a_plan_of_plain_code_keeps_no_schedule(monkeypatch):
    """It is as many objects as the rest, and who explains the code records it anew."""
    monkeypatch.setattr(time_slices, "CORES", 1)
    run, x = executable()
    (expected,) = run([x], ())
    while run.newest is None:
        run([x], ())
    assert isinstance(run.newest, ScheduledPlan)
    assert not run.newest.is_explained
    explained = run.plan(())
    assert explained.schedule.steps
    (found,) = run([x], ())
    assert same_bits(found.array, expected.array)


@pytest.mark.slow
def test_some_runs_go_by_without_a_plan_however_little_planning_takes(monkeypatch):
    """How many follows from the graph and its new kernels, where none is compiled beside them."""
    monkeypatch.setattr(time_slices, "CORES", 1)

    def runs():
        run, x = executable()
        found = []
        advance = TimeSlices.advance
        with monkeypatch.context() as patch:
            patch.setattr(
                TimeSlices,
                "advance",
                lambda self, steps: found.append(steps) or advance(self, steps),
            )
            for _ in range(100):
                run([x], ())
        return found

    for _ in range(2):
        assert 2 < len(runs()) < 100


def test_operations_of_many_parts_count_as_these(monkeypatch):
    """A program is one operation of a log, which is not planned at once."""
    monkeypatch.setattr(time_slices, "CORES", 1)
    planned = []
    compile_graph = planning_work.compile_graph

    def noted(device, fusion, graph, *args):
        parts = planning_work.parts_of(graph)
        planned.append((len(graph.nodes), parts, threading.current_thread().name))
        return compile_graph(device, fusion, graph, *args)

    monkeypatch.setattr(planning_work, "compile_graph", noted)
    x = it.ones((7, 8))  # other tests leave plans of other sizes
    f = of_many_parts(x)
    for _ in range(60):
        f(x).tolist()
    few = [p for p in planned if p[0] < MANY <= p[1]]
    assert few
    assert {name for _, _, name in few} == {"ingle-plan"}


@pytest.mark.slow
def test_a_step_of_training_has_its_plan_after_few_runs(monkeypatch):
    """What a plan saves is lost in each run before; a slice is hardly shorter than such a run.

    Kernels that nobody has made yet, here or on disk, take slices, too, and are not counted.
    """
    monkeypatch.setattr(planning_work, "SLICE", SLICE)
    monkeypatch.setattr(planning_work, "LEAST_SLICE", LEAST_SLICE)
    monkeypatch.setattr(time_slices, "CORES", 1)
    planned = []
    compile_graph = planning_work.compile_graph

    def noted(device, fusion, graph, *args):
        plan = compile_graph(device, fusion, graph, *args)
        planned.append((len(losses), planning_work.parts_of(graph)))
        return plan

    monkeypatch.setattr(planning_work, "compile_graph", noted)
    model = nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(8, 8), nn.Tanh())])
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    def trained(steps):
        """After how many steps of as many plans of whole steps were made."""
        losses.clear()
        planned.clear()
        while len(losses) < steps:
            loss = it.mean(model(it.ones((8, 8))))
            optimizer.step(loss.backward())
            losses.append(loss.item())
        return [count for count, parts in planned if parts >= MANY]

    losses = []
    backend = it.ones(1).backend
    with monkeypatch.context() as patch:
        patch.setenv("INGLE_PLAN_SLICES", "0")
        assert trained(4)
    monkeypatch.setattr(backend, "planner", PlanCache(backend.inner))
    (after,) = trained(40)
    assert after <= 12


@pytest.mark.slow
def test_a_log_in_pieces_has_a_slice_for_each_and_few_plans_under_way(monkeypatch):
    """A loop on growing shapes, none of whose iterations is another: nine pieces and more."""
    monkeypatch.setattr(time_slices, "CORES", 1)
    advanced = []
    advance = TimeSlices.advance

    def noted(self, steps):
        advanced.append((self, steps))
        return advance(self, steps)

    def grown():
        x = it.ones((1, 4))
        for _ in range(12):
            h = x
            for _ in range(32):
                h = it.sin(it.cos(h))
            x = it.concat([x, h[-1:]], axis=0)
        return x.numpy().tobytes()

    monkeypatch.setattr(TimeSlices, "advance", noted)
    found = [grown() for _ in range(2)]
    # Half of them are for all sizes, and begin in the first run.
    assert len({id(slices) for slices, _ in advanced}) <= 6
    assert sum(steps for _, steps in advanced) >= 9 * planning_work.LEAST_SLICE
    while len(found) < 40 and (len(found) == 2 or advanced):
        advanced.clear()
        found.append(grown())
    assert not advanced, "with plans in the end"
    assert len({*found}) == 1


def test_a_plan_that_fails_says_why_and_is_not_tried_again(monkeypatch):
    tried = []

    def failing(*args):
        tried.append(args)
        tick("failing")
        raise RuntimeError("no plan today")

    run, x = executable()
    x.backend.execute(OPERATIONS["sin"].op(), [x])  # by itself it has a plan then
    with monkeypatch.context() as patch:
        patch.setattr(planning_work, "compile_graph", failing)
        with pytest.warns(PlanWarning, match="RuntimeError: no plan today"):
            found = [run([x], ())[0]]
        found += [run([x], ())[0] for _ in range(3)]
    assert len(tried) == 1
    other, x = executable()
    found += [other([x], ())[0] for _ in range(20)]
    assert len({h.backend.download(h).tobytes() for h in found}) == 1


def test_an_interrupted_plan_goes_on_in_its_thread(monkeypatch):
    before, interrupts, advance = set(threading.enumerate()), [], TimeSlices.advance

    def interrupted(slices, steps):
        found = advance(slices, steps)
        if found is None and len(interrupts) < 4:
            interrupts.append(slices)
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(TimeSlices, "advance", interrupted)
    x, want = it.asarray(np.ones(7, np.float32)), np.ones(7)
    for k in range(50):
        want = np.tanh(want * 1.0625) + k
    for _ in range(8):
        y = x
        for k in range(50):
            y = it.tanh(y * 1.0625) + float(k)
        for _ in range(6):
            try:
                np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)
            except KeyboardInterrupt:
                continue
            break
    assert len(interrupts) == 4
    assert len(set(interrupts)) == 1
    assert len(set(threading.enumerate()) - before) <= 1


def test_a_dropped_plan_ends_its_thread(monkeypatch):
    monkeypatch.setattr(time_slices, "MOST", 1000)  # whatever earlier tests left half done
    before = len(threads())
    run, x = executable()
    run([x], ())
    assert len(threads()) == before + 1
    del run
    for _ in range(100):
        gc.collect()
        if len(threads()) == before:
            break
        time.sleep(0.05)
    assert len(threads()) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_makes_its_own_plan():
    run, x = executable()
    want = x.backend.download(run([x], ())[0]).tobytes()
    child = os.fork()
    if not child:
        try:
            found = [x.backend.download(run([x], ())[0]).tobytes() for _ in range(20)]
            os._exit(0 if {*found} == {want} else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_who_waits_for_long_is_told_for_what(monkeypatch, capsys):
    monkeypatch.setattr(time_slices, "PATIENCE", 0.0)
    with WaitNotice(1234).watched():
        for _ in range(300):
            tick("grouping")
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "1234 operations" in told
    assert "(grouping)" in told
    with WaitNotice(1).watched():
        tick("grouping")
    assert not capsys.readouterr().err


def test_logs_that_come_twice_leave_few_threads(monkeypatch):
    monkeypatch.setattr(time_slices, "_half_done", time_slices._HalfDone())
    monkeypatch.setattr(time_slices, "MOST", 3)
    functions = [it.sin, it.cos, it.tanh, it.exp]
    x = it.asarray(np.linspace(-1.0, 1.0, 64, dtype=np.float32).reshape(8, 8))

    def walk(number):
        y = x
        for step in range(60):
            y = it.softmax(functions[(number >> step % 5) + step & 3](y), axis=step & 1)
        return it.sum(y * x).item()

    before = set(threading.enumerate())
    results = [[walk(number) for _ in range(2)] for number in range(12)]
    waiting = [t for t in set(threading.enumerate()) - before if t.name == "ingle-plan"]
    assert 0 < len(waiting) <= 3
    assert all(first == second for first, second in results)
