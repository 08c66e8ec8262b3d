"""Logs that come once in each process, such as the first tokens of a text."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import PlanWarning
from ingle.fusion.device import DiskStore
from ingle.fusion.runtime import graph_plans, plan_cache, plan_records, planning_work, replay
from ingle.fusion.runtime.later_plans import FEWEST, MOST, LaterPlans
from ingle.testkit.bits import same_bits
from ingle_cpu.launch.plan_store import CpuPlanStore

NOTE_ONCE = plan_cache.PlanCache._note_once


class Processes:
    """Each of them has seen nothing yet, and finds what the others have left on disk.

    Attributes:
        replays: how many long logs ran without a plan.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.replays = 0
        self._monkeypatch = monkeypatch
        self._backend = it.zeros(1, device="cpu").backend
        plan_store = CpuPlanStore(DiskStore(folder))
        monkeypatch.setitem(self._backend.inner.__dict__, "plan_store", plan_store)
        # Other tests keep no plans, so that each makes its own.
        monkeypatch.setattr(graph_plans, "stored_plans", plan_records.stored_plans)
        monkeypatch.setattr(plan_cache.PlanCache, "_note_once", NOTE_ONCE)
        run_alone = replay.Replay.__call__

        def replayed(this, given, numbers):
            self.replays += len(this._graph.nodes) >= FEWEST
            return run_alone(this, given, numbers)

        monkeypatch.setattr(replay.Replay, "__call__", replayed)

    def run(self, others: int, part: float = 1.0) -> np.ndarray:
        """What comes once, and then as many runs of something else."""
        it.zeros(1, device="cpu").tolist()  # what is recorded from here on is a new stream,
        for _ in range(2):  # whatever has been read before, also again and again
            self._backend.noted(short=False)
        planner = plan_cache.PlanCache(self._backend.inner)
        planner.later = LaterPlans(part)
        self._monkeypatch.setattr(self._backend, "planner", planner)
        found = once()
        for k in range(others):
            often(k)
        if others and part == 1.0:
            self._until_made(planner.later)
        return found

    def _until_made(self, later: LaterPlans) -> None:
        """Kernels are compiled beside the runs, which takes as long as the machine is busy."""
        end = time.monotonic() + 60
        while later.waiting:
            assert time.monotonic() < end, "a plan for later processes is not made in a minute"
            often(0)
            time.sleep(0.001)


def once() -> np.ndarray:
    x = it.asarray(np.linspace(-1, 1, 96, dtype=np.float32).reshape(8, 12), device="cpu")
    weight = it.permute_dims(x, (1, 0))
    for k in range(FEWEST // 3 + 1):
        x = it.tanh(x @ weight @ x * 0.1 + float(k)) - it.softmax(x, axis=-1)
    return x.numpy()


def often(k: int) -> None:
    x = it.asarray(np.full((90, 70), k, np.float32), device="cpu")
    y = it.sum(it.exp(x * 0.001) + 1.0, axis=0)
    np.testing.assert_allclose(y.numpy(), 90 * (np.exp(0.001 * k) + 1), rtol=1e-5)


@pytest.mark.slow
def test_a_log_that_comes_once_in_each_process_has_a_plan_in_the_third(monkeypatch, tmp_path):
    processes = Processes(monkeypatch, tmp_path)
    found = []
    for replays in (1, 2, 2, 2):
        found.append(processes.run(60))
        assert processes.replays == replays
    assert all(same_bits(found[0], one) for one in found[1:])


def test_making_it_takes_a_part_of_the_time(monkeypatch, tmp_path):
    processes = Processes(monkeypatch, tmp_path)
    for replays in range(1, 5):
        processes.run(60, part=1e-6)  # one slice of it
        assert processes.replays == replays


def test_what_comes_again_meanwhile_is_not_planned_twice(monkeypatch, tmp_path):
    processes = Processes(monkeypatch, tmp_path)
    processes.run(60)
    made = []
    planned = planning_work.planned
    monkeypatch.setattr(
        planning_work, "planned", lambda *args, **more: (made.append(args[3]), planned(*args))[1]
    )
    processes.run(0)
    for _ in range(40):
        once()
    often(1), often(1), often(1)
    assert not it.zeros(1, device="cpu").backend.planner.later.waiting
    assert sum(len(graph.nodes) >= FEWEST for graph in made) <= 1


def test_sizes_that_have_a_plan_for_all_of_them_get_none_of_their_own(monkeypatch, tmp_path):
    processes = Processes(monkeypatch, tmp_path)
    processes.run(60)
    add = LaterPlans.add

    def added(later, go_on):
        monkeypatch.setattr(graph_plans.GraphPlans, "served", lambda plans: True)
        add(later, go_on)

    monkeypatch.setattr(LaterPlans, "add", added)
    processes.run(60)
    assert processes.replays == 2
    monkeypatch.undo()
    processes = Processes(monkeypatch, tmp_path)
    processes.run(60)
    assert processes.replays == 1


def test_short_logs_leave_no_mark(monkeypatch, tmp_path):
    processes = Processes(monkeypatch, tmp_path)
    monkeypatch.setattr(plan_cache, "FEWEST", 10**6)
    processes.run(60)
    assert not list(tmp_path.glob("once-*"))


def test_a_plan_that_cannot_be_made_is_said_and_forgotten():
    later = LaterPlans(1.0)

    def refused() -> bool:
        raise ValueError("no such kernel")

    later.add(refused)
    with pytest.warns(PlanWarning, match="for later processes.*ValueError: no such kernel"):
        later.go_on()
    assert not later.waiting


def test_only_some_wait():
    later = LaterPlans(1.0)
    for _ in range(MOST + 3):
        later.add(lambda: False)
    later.go_on()
    assert len(later.waiting) == MOST
