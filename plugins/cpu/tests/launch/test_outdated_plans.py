"""Plans on disk that would be made otherwise now run as they are, and are made anew beside."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.device import DiskStore
from ingle.fusion.runtime import graph_plans, plan_cache, plan_records
from ingle.fusion.runtime.later_plans import LaterPlans
from ingle.testkit.bits import same_bits
from ingle_cpu.launch import plan_store
from ingle_cpu.launch.executable import CpuExecutable
from ingle_cpu.matmul.winners import Winners


class Processes:
    """Each of them finds what the others have left on disk.

    Attributes:
        backend: the door to the device.
        built: how many executables were built since the last process began.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.built = 0
        monkeypatch.setenv("INGLE_PLAN_SLICES", "0")  # what is not there is made in one go
        self.backend = it.zeros(1, device="cpu").backend
        self._monkeypatch = monkeypatch
        store = plan_store.CpuPlanStore(DiskStore(folder))
        monkeypatch.setitem(self.backend.inner.__dict__, "plan_store", store)
        monkeypatch.setattr(graph_plans, "stored_plans", plan_records.stored_plans)
        of = CpuExecutable.of

        def counted(*args):
            self.built += len(args[0]) > 4
            return of(*args)

        monkeypatch.setattr(CpuExecutable, "of", staticmethod(counted))

    def begin(self, pause: int = 0) -> LaterPlans:
        it.zeros(1, device="cpu").tolist()
        for _ in range(2):
            self.backend.noted(short=False)
        planner = plan_cache.PlanCache(self.backend.inner)
        planner.later = LaterPlans(1.0, pause)
        self._monkeypatch.setattr(self.backend, "planner", planner)
        self.built = 0
        return planner.later

    def run_until_made(self, later: LaterPlans) -> None:
        end = time.monotonic() + 60
        while later.waiting:
            assert time.monotonic() < end, "a plan is not made anew in a minute"
            step()


def step() -> np.ndarray:
    x = it.asarray(np.linspace(-1, 1, 60 * 70, dtype=np.float32).reshape(60, 70), device="cpu")
    weight = it.permute_dims(x, (1, 0))
    for k in range(4):
        x = it.softmax(it.tanh(x @ weight @ x * 0.1 + float(k)), axis=-1)
    return x.numpy()


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Processes:
    made = Processes(monkeypatch, tmp_path)
    made.begin()
    for _ in range(3):
        step()
    assert made.built == 1
    return made


def test_one_that_is_up_to_date_is_read_and_left_alone(processes, monkeypatch):
    monkeypatch.setattr(Winners, "agrees", lambda *_: True)
    later = processes.begin()
    step()
    assert not later.waiting
    assert processes.built == 0


def test_one_that_is_outdated_runs_as_it_is_and_is_made_anew_for_good(processes, monkeypatch):
    monkeypatch.setattr(Winners, "agrees", lambda *_: False)
    later = processes.begin(pause=4)
    found = [step() for _ in range(4)]
    assert len(later.waiting) == 1
    assert processes.built == 0, "the first runs have waited for it"
    written = []
    keep = plan_records.StoredPlans._keep
    monkeypatch.setattr(
        plan_records.StoredPlans,
        "_keep",
        lambda self, name, data: (written.append(name), keep(self, name, data)),
    )
    processes.run_until_made(later)
    assert processes.built == 1
    assert len(written) == 1
    found += [step(), step()]
    assert all(same_bits(found[0], one) for one in found[1:])
    monkeypatch.setattr(Winners, "agrees", lambda *_: True)
    later = processes.begin()
    assert same_bits(step(), found[0])
    assert not later.waiting
    assert processes.built == 0


def test_what_is_made_anew_runs_in_its_place(processes, monkeypatch):
    monkeypatch.setattr(Winners, "agrees", lambda *_: False)
    later = processes.begin()
    step()
    (form,) = [f for f in processes.backend.planner._forms.values() if f.executable is not None]
    before = form.executable.newest
    processes.run_until_made(later)
    assert form.executable.newest is not before
    assert len(form.executable._plans) == 1
    assert not form.executable.is_outdated


def test_a_compiled_function_has_the_plan_of_now_at_once(processes, monkeypatch):
    """What was asked for is waited for."""
    x = it.asarray(np.ones((60, 70), np.float32), device="cpu")

    def function(x):
        y = x
        for _ in range(4):
            y = it.tanh(y @ it.permute_dims(x, (1, 0)) @ x)
        return y

    expected = compile(function)(x).numpy()
    monkeypatch.setattr(Winners, "agrees", lambda *_: False)
    processes.begin()
    assert same_bits(compile(function)(x).numpy(), expected)
    assert processes.built == 1


def test_one_that_is_waited_for_does_not_end_what_is_made_beside(processes, monkeypatch):
    """A plan for numbers that take another way is of the same graph."""
    monkeypatch.setattr(Winners, "agrees", lambda *_: False)
    later = processes.begin(pause=4)
    step()
    (form,) = [f for f in processes.backend.planner._forms.values() if f.executable is not None]
    (waiting,) = later.waiting
    assert form.executable._kept.get(waiting.args[0]) is not None
    assert processes.built == 1
    assert form.executable.is_outdated
    before = form.executable.newest
    processes.run_until_made(later)
    assert processes.built == 2
    assert form.executable.newest is not before
