"""Plans with an index, on a device that works later: who waits, and who hears of an error."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from far_device import Noted, Opened, opening

import ingle.nn as nn
import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.passes import decompose
from ingle.fusion.runtime import loops
from ingle.tensor.device import Device, backend_of
from ingle.tensor.errors import BackendError, LostDeviceError, OutOfRangeError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc"),
]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens the device `far`, which notes what it is asked for."""
    with opening(Noted) as make:
        yield make


def on_far(values: Any) -> it.Tensor:
    return it.asarray(np.asarray(values), device="far")


def indexed() -> tuple[Any, it.Tensor, it.Tensor, it.Tensor]:
    """A function that takes rows, an operand, and indices of which the second ones are wrong."""
    run = compile(lambda x, i: it.softmax(it.take(x, i, axis=0) @ x, axis=-1))
    x = on_far(np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32))
    good, bad = on_far([0, 4, 1, 2, 3]), on_far([0, 5, 1, 2, 3])
    run(x, good).numpy()
    run(x, good).numpy()
    return run, x, good, bad


def test_a_call_does_not_wait_for_its_indices(opened: Opened) -> None:
    backend = opened()
    run, x, good, _ = indexed()
    backend.log.clear()
    y = run(x, good)
    assert "launch" in backend.asked
    assert "waits" not in backend.asked
    y.numpy()


def test_an_error_comes_with_the_values_that_may_depend_on_it(opened: Opened) -> None:
    opened()
    run, x, good, bad = indexed()
    before = run(x, good)
    wrong = run(x, bad)
    for _ in range(2):
        with pytest.raises(OutOfRangeError, match="take"):
            wrong.numpy()
        with pytest.raises(OutOfRangeError, match="take"):
            (wrong + 1.0).numpy()
    with pytest.raises(OutOfRangeError, match="take"):
        run(wrong, good)
    np.testing.assert_array_equal(before.numpy(), run(x, good).numpy())
    backend_of(Device("far")).synchronize()


def test_an_error_names_both_lines(opened: Opened) -> None:
    opened()

    def chosen(x: it.Tensor, i: it.Tensor) -> it.Tensor:
        y = x * 2.0
        return it.sum(it.take(y, i, axis=0) * y)  # the line of the operation

    run = compile(chosen)
    x, bad = on_far(np.ones((5, 3), np.float32)), on_far([0, 1, 5, 2, 3])
    line = chosen.__code__.co_firstlineno + 2
    for _ in range(2):
        made = run(x, bad)  # the line of the call
        with pytest.raises(OutOfRangeError) as found:
            made.item()
        text = str(found.value)
        assert "take: the indices hold a value outside of -5 to 4, but axis 0 has size 5" in text
        assert "(shapes (5, 3), (5,))" in text
        assert re.search(rf"at \S*test_late_flags.py:{line}, in chosen", text)
        assert re.search(rf"called at \S*test_late_flags.py:{line + 6}, in test_an_error", text)


def scanned(c: it.Tensor, i: it.Tensor, rows: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
    def step(c: Any, x: Any) -> Any:
        index, row = x
        c = c * 0.5 + it.take(row, index, axis=0)
        return c, c

    return it.scan(step, c, (i, rows))


@pytest.mark.parametrize("length", [40, 43])
def test_flags_of_a_loop_within_a_plan(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """They go late like others: a call waits for none of its turns, and errors name the loop."""
    monkeypatch.setattr(decompose, "MOST_STEPS", 64)
    monkeypatch.setattr(loops, "UNROLLED", 32)
    backend = opened()
    run = compile(lambda c, i, rows: [x * 2.0 for x in scanned(c, i, rows)])
    rng = np.random.default_rng(0)
    rows, index = rng.normal(size=(length, 4, 3)).astype(np.float32), rng.integers(0, 4, length)
    c, want = np.zeros(3, np.float32), np.empty((length, 3), np.float32)
    for n in range(length):
        want[n] = c = c * np.float32(0.5) + rows[n, index[n]]
    given = on_far(np.zeros(3, np.float32)), on_far(index), on_far(rows)
    for _ in range(3):
        last, made = run(*given)
        np.testing.assert_allclose(made.numpy(), want * 2, rtol=1e-6)
        np.testing.assert_allclose(last.numpy(), c * 2, rtol=1e-6)
    for place in (0, 17, length - 1):
        wrong = index.copy()
        wrong[place] = 4
        bad = on_far(wrong)
        backend.log.clear()
        last, made = run(given[0], bad, given[2])
        assert "launch" in backend.asked
        assert "waits" not in backend.asked
        for value in (made, last, made):
            with pytest.raises(OutOfRangeError, match=r"take.*test_late_flags.py:\d+, in scanned"):
                value.numpy()
        np.testing.assert_allclose(run(*given)[1].numpy(), want * 2, rtol=1e-6)


def test_a_step_with_a_loop_waits_for_the_flags_of_its_turns(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompose, "MOST_STEPS", 64)
    opened()
    cell = it.Cell(on_far(np.zeros(3, np.float32)))

    @compile
    def step(i: it.Tensor, rows: it.Tensor) -> None:
        cell.value = scanned(cell.value, i, rows)[0]

    rows, index = on_far(np.ones((40, 4, 3), np.float32)), np.zeros(40, np.int64)
    good = on_far(index)
    index[20] = -5
    bad = on_far(index)
    for _ in range(3):
        step(good, rows)
        before = cell.value.numpy()
        with pytest.raises(OutOfRangeError, match="take"):
            step(bad, rows)
        np.testing.assert_array_equal(cell.value.numpy(), before)


def test_an_operation_between_kernels_waits_for_nothing(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A composite that is too long to be kernels of the plan runs operation by operation."""
    monkeypatch.setattr(decompose, "MOST_NODES", 1)
    backend = opened()

    def losses(x: it.Tensor, i: it.Tensor) -> it.Tensor:
        found = nn.functional.cross_entropy(x * 2.0, i, reduction="none")
        return it.exp(found) + 1.0

    run = compile(losses)
    x = on_far(np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32))
    good, bad = on_far([0, 4, 1, 2, 3, 1]), on_far([0, 4, 9, 2, 3, 1])
    assert "host" in [step.kind for step in explain(run, x, good, runs=0).steps]
    want = run(x, good).numpy()
    line = losses.__code__.co_firstlineno + 1
    for _ in range(3):
        backend.log.clear()
        right, wrong = run(x, good), run(x, bad)
        assert backend.asked.count("launch") > 4
        assert "waits" not in backend.asked
        with pytest.raises(OutOfRangeError, match=rf"take_along_axis.*flags.py:{line}, in losses"):
            wrong.numpy()
        np.testing.assert_array_equal(right.numpy(), want)


def test_a_step_waits_for_an_operation_between_its_kernels(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompose, "MOST_NODES", 1)
    opened()
    cell = it.Cell(on_far(np.zeros(6, np.float32)))

    @compile
    def step(x: it.Tensor, i: it.Tensor) -> None:
        cell.value = cell.value + nn.functional.cross_entropy(x * 2.0, i, reduction="none")

    x = on_far(np.ones((6, 5), np.float32))
    good, bad = on_far([0, 4, 1, 2, 3, 1]), on_far([0, 4, 9, 2, 3, 1])
    for _ in range(3):
        step(x, good)
        before = cell.value.numpy()
        with pytest.raises(OutOfRangeError, match="take_along_axis"):
            step(x, bad)
        np.testing.assert_array_equal(cell.value.numpy(), before)


def test_plain_code_names_the_line_of_the_operation(opened: Opened) -> None:
    opened()
    x, good, bad = on_far(np.ones((5, 3), np.float32)), on_far([1]), on_far([5])

    def taken(*indices: it.Tensor) -> it.Tensor:
        first = it.take(x, indices[0], axis=0)
        return it.exp(first) + it.take(x, indices[1], axis=0) * it.sum(it.softmax(x, axis=0))

    line = taken.__code__.co_firstlineno + 1
    for place in (0, 1):
        for _ in range(4):  # operation by operation, then by a plan
            y = taken(*([good, bad] if place else [bad, good]))
            with pytest.raises(OutOfRangeError, match=rf"flags.py:{line + place}, in taken$"):
                y.numpy()
    y = taken(good, bad)
    backend_of(Device("far")).start()  # nobody waits
    where = rf"at \S*flags.py:{line}, in taken or \S*:{line + 1}, in taken \(found later"
    with pytest.raises(OutOfRangeError, match=where):
        y.numpy()


@pytest.mark.parametrize("runs", [1, 6])
def test_operations_without_a_plan_wait_for_no_check(opened: Opened, runs: int) -> None:
    """Neither few operations, nor many that have come once; errors name the operation's line, and
    what was made before it has its value."""
    backend = opened()
    x, good, bad = on_far(np.ones((5, 3), np.float32)), on_far([1]), on_far([5])
    other, start = on_far(np.ones(3, np.float32)), backend_of(Device("far")).start

    def taken(i: it.Tensor, many: bool) -> tuple[it.Tensor, it.Tensor]:
        first = it.relu(x) * 2.0
        y = it.take(first, i, axis=0)
        for _ in range(8 * many):
            y = it.tanh(y) + it.max(y)
        return first, y

    line = taken.__code__.co_firstlineno + 2
    for many in (False, True):
        for _ in range(runs):
            right = taken(good, many)
            start()
            backend.log.clear()
            first, wrong = taken(bad, many)
            start()
            behind = other + 1.0
            start()
            assert "launch" in backend.asked
            assert "waits" not in backend.asked
            for _ in range(2):
                with pytest.raises(OutOfRangeError, match=rf"take: .*_flags.py:{line}, in taken"):
                    wrong.numpy()
            if not many:  # else it is made by the plan that fails, once there is one
                np.testing.assert_array_equal(first.numpy(), np.full((5, 3), 2.0, np.float32))
            assert np.isfinite(right[1].numpy()).all()
            with pytest.raises(OutOfRangeError, match="take"):  # it may depend on what failed
                behind.numpy()
            np.testing.assert_array_equal((other + 1.0).numpy(), [2.0] * 3)


def test_a_step_without_a_plan_waits_once_and_changes_nothing(opened: Opened) -> None:
    backend = opened()
    cell = it.Cell(on_far(np.ones((5, 3), np.float32)))

    def step(i: it.Tensor, j: it.Tensor) -> None:
        row = it.take(cell.value, i, axis=0)
        for _ in range(8):
            row = it.tanh(row) + it.max(row)
        cell.value = cell.value * 0.5 + it.sum(it.take(row, j, axis=0))
        backend_of(Device("far")).flush((cell,))

    good, bad = on_far([0, 1]), on_far([0, 5])
    for wrong in ((bad, good), (good, bad)):
        before = cell.value.numpy()
        with pytest.raises(OutOfRangeError, match="take"):
            step(*wrong)
        np.testing.assert_array_equal(cell.value.numpy(), before)
    backend.log.clear()
    step(good, good)
    asked = [what for what in backend.asked if what in ("launch", "waits")]
    assert asked.index("waits") > 12
    assert asked[asked.index("waits") :].count("launch") == 0


def test_what_an_index_does_wrong_twice_is_told_once(opened: Opened) -> None:
    """The gradient adds to the rows that were taken: both checks of a step fail."""
    backend = opened()
    cell = it.Cell(on_far(np.ones((5, 3), np.float32)))

    def step(i: it.Tensor) -> None:
        rows = it.take(cell.value, i, axis=0) * 2.0
        cell.value = it.scatter_add(cell.value, i, rows, axis=0)
        backend_of(Device("far")).flush((cell,))

    for _ in range(3):
        with pytest.raises(OutOfRangeError):
            step(on_far([0, 5]))
        backend_of(Device("far")).synchronize()
    assert "launch" in backend.asked
    np.testing.assert_array_equal(cell.value.numpy(), np.ones((5, 3)))


def test_an_error_that_nobody_reads_is_told_at_synchronize(opened: Opened) -> None:
    opened()
    run, x, good, bad = indexed()
    run(x, bad)
    with pytest.raises(OutOfRangeError, match="take"):
        backend_of(Device("far")).synchronize()
    backend_of(Device("far")).synchronize()
    run(x, good).numpy()


def test_a_step_waits_with_work_in_the_queue(opened: Opened) -> None:
    """Cells get new values when the indices are known to be right, not when all has run."""
    backend = opened()
    cell = it.Cell(on_far(np.ones((5, 5), np.float32)))

    @compile
    def step(x: it.Tensor, index: it.Tensor) -> None:
        chosen = it.softmax(it.take(x, index, axis=0) @ x, axis=-1)
        for _ in range(4):
            chosen = it.softmax(chosen @ x, axis=-1)
        cell.value = cell.value + it.sum(chosen)

    x = on_far(np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32))
    good, bad = on_far([0, 4]), on_far([0, 5])
    for _ in range(3):
        step(x, good)
    before = cell.value.numpy()
    backend.log.clear()
    step(x, good)
    asked = [what for what in backend.asked if what in ("launch", "read", "waits")]
    assert asked.count("waits") == 1
    assert asked[-1] == "waits"
    assert asked.index("read") < len(asked) - 3  # with launches between the two
    changed = cell.value.numpy() - before
    for _ in range(2):
        with pytest.raises(OutOfRangeError, match="take"):
            step(x, bad)
    np.testing.assert_array_equal(cell.value.numpy(), before + changed)
    step(x, good)
    np.testing.assert_allclose(cell.value.numpy(), before + 2 * changed, rtol=1e-6)


def test_plain_code_knows_what_has_nothing_to_do_with_an_error(opened: Opened) -> None:
    opened()
    x, bad = on_far(np.arange(5.0, dtype=np.float32)), on_far([7])
    for _ in range(10):  # operation by operation, and by a plan
        wrong, other = it.sum(it.take(x, bad)) + x, x * 2.0
        with pytest.raises(OutOfRangeError, match="take"):
            wrong.numpy()
        np.testing.assert_array_equal(other.numpy(), np.arange(5.0) * 2)


def test_many_calls_that_nobody_reads(opened: Opened) -> None:
    backend = opened()
    run, x, good, bad = indexed()
    backend.log.clear()
    for _ in range(70):
        run(x, good)
    assert 0 < backend.asked.count("waits") < 10
    wrong = run(x, bad)
    with pytest.raises(OutOfRangeError, match="take"):
        deque((run(x, good) for _ in range(70)), maxlen=0)
    with pytest.raises(OutOfRangeError, match="take"):
        wrong.numpy()
    for _ in range(70):
        run(x, good)
    run(x, good).numpy()


def test_a_device_that_is_lost_with_checks_under_way(opened: Opened) -> None:
    backend = opened(delay=0.05)
    run, x, good, _ = indexed()
    y = run(x, good)
    backend.hardware.kill()
    for _ in range(2):
        with pytest.raises(LostDeviceError, match="the process is gone"):
            y.numpy()
    with pytest.raises(LostDeviceError, match="the process is gone"):
        backend_of(Device("far")).synchronize()
    assert (it.ones(3, device="cpu") + 1.0).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_child_forked_with_checks_under_way_is_told(opened: Opened) -> None:
    opened(delay=0.02)
    run, x, good, bad = indexed()
    wanted, y, wrong = run(x, good).numpy(), run(x, good), run(x, bad)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of threads
        child = os.fork()
    if not child:
        try:
            y.numpy()
        except BackendError as error:
            os._exit(7 if "spawn" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    np.testing.assert_array_equal(y.numpy(), wanted)
    with pytest.raises(OutOfRangeError, match="take"):
        wrong.numpy()


def test_an_interrupt_while_a_check_is_waited_for(opened: Opened) -> None:
    opened(delay=0.1)
    run, x, good, bad = indexed()
    wrong = run(x, bad)

    def interrupting() -> None:
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupting)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        wrong.numpy()
    thread.join()
    with pytest.raises(OutOfRangeError, match="take"):
        wrong.numpy()
    run(x, good).numpy()
