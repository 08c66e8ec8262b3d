"""Loops in one native call: who runs them, how they are stopped, how large they may be."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.passes import decompose
from ingle.fusion.runtime import loops
from ingle_cpu.launch import executable, repeat

RNG = np.random.default_rng(3)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each native call of a loop how many turns it makes; of each other one 0."""
    made: list[int] = []
    run_turns, call = repeat.run_turns, executable.CpuExecutable.__call__

    def repeated(runs: Any, scalars: Any) -> None:
        made.append(len(runs[0].addresses))
        run_turns(runs, scalars)

    def once(self: Any, *args: Any, **rest: Any) -> None:
        made.append(0)
        call(self, *args, **rest)

    monkeypatch.setattr(repeat, "run_turns", repeated)
    monkeypatch.setattr(executable.CpuExecutable, "__call__", once)
    return made


def decaying(xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = it.tanh(h * 0.5 + x)
        return h, h * x

    return it.scan(step, it.zeros(xs.shape[1:], dtype="float64"), xs)


def by_numpy(xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    h, rows = np.zeros(xs.shape[1:]), []
    for x in xs:
        h = np.tanh(h * 0.5 + x)
        rows.append(h * x)
    return h, np.stack(rows)


@pytest.mark.slow
@pytest.mark.parametrize("length", [600, 601, 997])
def test_all_turns_of_a_loop_are_one_native_call(length: int, called: list[int]) -> None:
    xs = RNG.standard_normal((length, 3))
    run = compile(decaying)
    for _ in range(2):
        run(it.asarray(xs))[0].tolist()
    called.clear()
    found = run(it.asarray(xs))
    for got, wanted in zip(found, by_numpy(xs), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12, atol=1e-12)
    of_loops = [n for n in called if n]
    assert len(of_loops) <= 2  # the turns, and the rest where no divisor is near
    assert max(of_loops) > 1


def test_what_has_very_many_turns_goes_in_parts(
    monkeypatch: pytest.MonkeyPatch, called: list[int]
) -> None:
    monkeypatch.setattr(loops, "MOST_TURNS", 4)
    monkeypatch.setattr(loops, "UNROLLED", 30)
    xs = RNG.standard_normal((990, 3))
    run = compile(decaying)
    for _ in range(3):
        found = run(it.asarray(xs))
        for got, wanted in zip(found, by_numpy(xs), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12, atol=1e-12)
    assert max(called) == 4


def test_carries_in_two_places_and_a_flag_for_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "MOST_TURNS", 6)

    def step(h: Any, i: Any) -> Any:
        # A product reads all of the carry, so that it cannot be written over.
        h = it.tanh(h @ h) * 0.5 + it.take(h, i, axis=0)
        return h, it.sum(h, axis=0)

    rows = RNG.integers(0, 4, (500, 4))
    begun = RNG.standard_normal((4, 4))
    run = compile(lambda h, i: it.scan(step, h, i))
    for _ in range(3):
        last, sums = run(it.asarray(begun), it.asarray(rows))
    h = begun
    for i, got in zip(rows, sums.numpy(), strict=True):
        h = np.tanh(h @ h) * 0.5 + h[i]
        np.testing.assert_allclose(got, h.sum(axis=0), rtol=1e-6, atol=1e-6)
        if np.abs(h).max() > 1e3:
            break
    rows[3, 1] = 9
    with pytest.raises(IndexError, match="size 4"):
        run(it.asarray(begun), it.asarray(rows))[0].tolist()
    assert np.isfinite(last.numpy()).all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("reverse", [False, True])
def test_panels_are_kept_of_a_weight_and_not_of_a_weight_of_each_step(
    reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "_steps_at_once", lambda loop: 2)
    monkeypatch.setattr(decompose, "MOST_STEPS", 8)
    shared, weights = RNG.standard_normal((128, 128)) * 0.03, RNG.standard_normal((12, 128, 128))
    weights *= 0.03
    begun = RNG.standard_normal((64, 128))

    def step(h: Any, w: Any, shared: Any, begun: Any, tanh: Any) -> Any:
        return tanh(tanh(h @ w) @ shared + begun)

    @compile
    def run(begun: Any, shared: Any, ws: Any) -> Any:
        body = lambda h, w: (step(h, w, shared, begun, it.tanh), None)  # noqa: E731
        return it.scan(body, begun, ws, reverse=reverse)[0]

    h = begun
    for w in weights[:: -1 if reverse else 1]:
        h = step(h, w, shared, begun, np.tanh)
    given = [it.asarray(x) for x in (begun, shared, weights)]
    kept: list[tuple[int, ...]] = []
    run_turns = repeat.run_turns

    def noted(runs: Any, scalars: Any) -> None:
        kept.extend(handle.shape for run in runs for handle in run.prepacks if handle is not None)
        run_turns(runs, scalars)

    monkeypatch.setattr(repeat, "run_turns", noted)
    for _ in range(6):  # panels are made for what came some times
        np.testing.assert_allclose(run(*given).numpy(), h, rtol=1e-9, atol=1e-11)
    assert {*kept} == {shared.shape}


def test_turns_read_a_new_weight_from_panels_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training step brings another weight each time, of which all turns read the panels."""
    monkeypatch.setattr(loops, "_steps_at_once", lambda loop: 2)
    monkeypatch.setattr(decompose, "MOST_STEPS", 8)
    begun, xs = RNG.standard_normal((64, 128)), RNG.standard_normal((10, 64, 128))

    @compile
    def run(begun: Any, weight: Any, xs: Any) -> Any:
        return it.scan(lambda h, x: (it.tanh(h @ weight + x) * 0.5 + x * 0.5, None), begun, xs)[0]

    read: list[int] = []
    prepared = repeat._prepared

    def noted(*given: Any) -> Any:
        found = prepared(*given)
        read.append(len(found.panels))
        return found

    monkeypatch.setattr(repeat, "_prepared", noted)
    for _ in range(3):
        weight = RNG.standard_normal((128, 128)) * 0.03
        h = begun
        for x in xs:
            h = np.tanh(h @ weight + x) * 0.5 + x * 0.5
        found = run(*[it.asarray(a) for a in (begun, weight, xs)])
        np.testing.assert_allclose(found.numpy(), h, rtol=1e-9, atol=1e-11)
    assert read == [2, 2, 2]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT of one's own")
def test_a_long_loop_is_stopped_by_control_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeat, "LONG", 0.0)
    monkeypatch.setattr(loops, "MOST_TURNS", 1 << 20)
    xs = it.ones((800_000, 8), dtype="float64")
    run = compile(decaying)
    before = [run(xs)[0].tolist() for _ in range(3)]
    begun = threading.Event()
    interruptibly = repeat.run_interruptibly

    def noted(loop: Any) -> None:
        begun.set()
        interruptibly(loop)

    def stop() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(repeat, "run_interruptibly", noted)
    # A process that a shell has started in the background ignores Ctrl-C.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    stopper = threading.Thread(target=stop)
    stopper.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(xs)[0].tolist()
    finally:
        begun.set()
        stopper.join()
        signal.signal(signal.SIGINT, handler)
    assert run(xs)[0].tolist() == before[0]
