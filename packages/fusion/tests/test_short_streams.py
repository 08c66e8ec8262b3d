"""A few operations on a few elements run one by one, without a plan, and come out the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.runtime.at_once import AHEAD, READ
from ingle.fusion.runtime.plan_cache import PlanCache
from ingle.fusion.runtime.replay import Replay
from ingle.fusion.stream import SMALL, TINY
from ingle.tensor.control.known_calls import call_known
from ingle.tensor.errors import LinearAlgebraError
from ingle_numpy.backend import NumpyBackend


class Watched(NumpyBackend):
    """Notes what it executes, and calls `before` with the name of each operation."""

    def __init__(self, device):
        super().__init__(device)
        self.seen = []
        self.before = lambda name: None

    def execute(self, op, inputs):
        self.seen.append(op.operation.name)
        self.before(op.operation.name)
        return super().execute(op, inputs)


@pytest.fixture(autouse=True)
def below(fused):
    return fused(Watched)


def test_one_operation_takes_its_operands_in_order(below):
    x, y = it.asarray(6.0), it.asarray(4.0)
    for _ in range(3):
        assert float(x - y) == 2.0
        assert float(y - x) == -2.0
        assert float(x - x) == 0.0
        assert float(x - 1) == 5.0
        assert float(1 - x) == -5.0
        assert float(it.where(x > y, x, 2.0)) == 6.0
        assert bool(x > y)
        assert not bool(y > 4.5)


def test_several_operations_and_values(below):
    x, y = it.asarray([1.0, 2.0]), it.asarray(3.0)
    total = x + y
    scaled = total * 2.0
    assert scaled.tolist() == [8.0, 10.0]
    assert below.seen == ["add", "multiply"]
    assert total.tolist() == [4.0, 5.0]
    assert len(below.seen) == 2


def test_what_a_body_creates_belongs_below(below):
    theta = it.asarray([[[2.0, 0.0, 0.0], [0.0, 1.0, 0.5]]])
    theta.numpy()
    below.seen.clear()
    grid = it.affine_grid(theta, (1, 1, 2, 2), align_corners=True)
    corners = [[[-2.0, -0.5], [2.0, -0.5]], [[-2.0, 1.5], [2.0, 1.5]]]
    assert grid.tolist() == [corners]
    assert below.seen[0] == "affine_grid"
    assert len(below.seen) > 1
    assert not theta.backend._threads.streams.last.written


def test_nothing_runs_that_nobody_wants(below):
    it.asarray(1.0) + it.asarray(2.0)
    it.asarray(1.0).backend.flush()
    assert below.seen == []


def test_what_nobody_holds_in_between_takes_no_replay(below, monkeypatch):
    """Reading the log as a graph takes longer than the operations of `exp(x) + 1`."""
    read = []

    def noted(backend, graph):
        read.append(graph)
        return Replay(backend, graph)

    monkeypatch.setattr("ingle.fusion.runtime.replay.Replay", noted)
    x = it.asarray([0.0, 1.0]) * 1.0
    assert x.tolist() == [0.0, 1.0]
    assert (it.square(x + 1.0) - x).tolist() == [1.0, 3.0]
    assert not read
    it.exp(y := x + 1.0)
    assert (y * 2.0).tolist() == [2.0, 4.0]
    assert len(read) == 1, "an operation must not run"


def test_what_nobody_uses_in_between_does_not_run(below):
    x = it.asarray([0.0, 1.0]) * 1.0
    below.seen.clear()
    y = x + 1.0
    it.exp(it.square(y))
    it.topk(x, 1)
    assert (y * 2.0).tolist() == [2.0, 4.0]
    assert below.seen[-2:] == ["add", "multiply"]


def test_an_error_is_the_value_of_what_depends_on_it(below):
    x = it.zeros((2, 2)) * 1.0
    x.numpy()
    bad = it.linalg.inv(x)
    for _ in range(2):
        with pytest.raises(it.errors.IngleError):
            bad.numpy()
    after, good = it.linalg.inv(x) + 1.0, x + 1.0
    assert good.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(it.errors.IngleError):
        after.numpy()
    it.linalg.inv(x)
    assert (x + 2.0).tolist() == [[2, 2], [2, 2]]


def test_ctrl_c_leaves_everything_written_down(below):
    x = it.asarray(2.0)
    y = x * 3.0

    def interrupt(name):
        raise KeyboardInterrupt

    for asked in (y, y + 1.0):
        below.before = interrupt
        with pytest.raises(KeyboardInterrupt):
            float(asked)
        below.before = lambda name: None
    assert float(asked) == 7.0
    assert float(y) == 6.0


def test_what_an_interrupted_operation_left_is_no_operand_of_the_next(below):
    x, y, other = it.asarray(5.0), it.asarray(2.0), it.asarray(9.0)
    for ask, want in ((lambda: x * x, 25.0), (lambda: x - y, 3.0)):
        waits = y + 1.0
        stream = waits._handle.pending_in
        stream.operand(other._handle.computed())
        assert float(ask()) == want
        assert float(waits) == 3.0


def test_what_is_recorded_while_it_runs_is_not_lost(below):
    x, found = it.asarray(2.0), []

    def record(name):
        if name == "multiply":
            found.append(x + 40.0)

    below.before = record
    assert float(x * 3.0) == 6.0
    assert float(found[0]) == 42.0


def test_another_thread_that_wants_the_same_value_waits_for_it(below):
    x = it.asarray(2.0)
    y, began, go = x * 3.0, Event(), Event()

    def wait(name):
        began.set()
        assert go.wait(10)

    below.before = wait
    with ThreadPoolExecutor(2) as pool:
        values = [pool.submit(float, y)]
        assert began.wait(10)
        values.append(pool.submit(float, y))
        go.set()
        assert [v.result(10) for v in values] == [6.0, 6.0]
    assert below.seen == ["multiply"]


def waits(tensor):
    return tensor._handle.pending_in is not None


def many(x):
    """More operations than a short stream has."""
    for _ in range(AHEAD + 1):
        x = x + 1.0
    return x


def test_what_is_always_read_at_once_is_not_written_down(below):
    x, y = it.asarray([6.0, 1.0]), it.asarray([4.0, 2.0])
    for n in range(2 * READ):
        total = many(x) if n == READ - 1 else x + y  # counting begins anew
        assert waits(total)
        total.numpy()
    total = x + y
    assert not waits(total)
    assert total.tolist() == [10.0, 3.0]
    found = [it.sum(x)]
    found += [x - y for _ in range(AHEAD - 1)]
    assert not any(map(waits, found)), "as many as a short stream has"
    dropped = x - y
    assert waits(dropped), "none of them was read"
    assert below.seen[-1] == "subtract"
    count = len(below.seen)
    del dropped
    later = x * y
    assert waits(later), "counting begins anew"
    assert later.tolist() == [24.0, 2.0]
    assert below.seen[count:] == ["multiply"]


def test_what_is_read_after_a_few_operations_is_not_written_down(below):
    """`clip` is two operations, a sum of small integers a cast and a sum, `x[0]` two views."""
    x = it.asarray([[6.0, 1.0], [2.0, 3.0]])
    for _ in range(READ):
        assert x[0].tolist() == [6.0, 1.0]
    for _ in range(2):
        row = x[0]
        clipped = it.clip(row, 2.0, 3.0)
        assert not waits(row)
        assert not waits(clipped)
        assert clipped.tolist() == [3.0, 2.0]
    seen, total = len(below.seen), many(x)
    assert waits(total)
    assert len(below.seen) == seen + AHEAD, "what waits begins where the limit was met"
    assert total.tolist() == [[n + AHEAD + 1 for n in row] for row in x.tolist()]
    assert waits(x + 1.0), "more operations than a few were read"


def test_what_makes_many_elements_of_few_is_written_down_with_what_follows(below):
    """All pairs of a few, say: by itself it would fill memory that the rest reads again."""
    x = it.asarray(np.linspace(0, 1, 200, dtype="f"))
    assert len(x) ** 2 > SMALL
    for n in range(READ + 4):
        pairs = x[:, None] - x
        assert waits(pairs), n
        found = it.mean(it.exp(-pairs * pairs * 3.0) + 0.5, axis=1).numpy()
        wanted = np.subtract.outer(*[np.linspace(0, 1, 200)] * 2)
        np.testing.assert_allclose(found, (np.exp(-(wanted**2) * 3) + 0.5).mean(axis=1), rtol=1e-5)


def test_the_same_few_operations_on_few_elements_are_not_written_down(below):
    """More than a short stream has, as where a small network is asked once and again; not on more
    elements, nor where each time has other sizes."""

    def asked(x):
        for k in range(2):
            x = it.tanh(x * 0.5 + float(k))
        return x

    small, large = it.asarray(np.ones(8, "f")), it.asarray(np.ones(TINY + 1, "f"))
    for x, recorded in (small, False), (large, True):
        many(x).numpy()  # counting begins anew
        for _ in range(READ + 1):
            wanted = asked(x)
            assert waits(wanted)
            wanted = wanted.numpy()
        found = asked(x)
        assert waits(found) == recorded
        np.testing.assert_array_equal(found.numpy(), wanted)
    many(small).numpy()
    for n in range(2 * READ):
        found = asked(it.asarray(np.ones(n + 1, "f")))
        assert waits(found)
        found.numpy()


def read_singly(x):
    for _ in range(READ):
        (x[:1] + 1.0).numpy()


def test_what_makes_few_elements_of_many_runs_at_once_too(below):
    """A row times a matrix, a sum, rows of a table; not what is as large as its operand, not a view
    that would hold it, and no half type, whose bits in a plan are others."""
    rng = np.random.default_rng(0)
    row, matrix = (it.asarray(rng.normal(size=s).astype("f")) for s in ((1, 200), (200, 100)))
    table, places = it.asarray(rng.normal(size=(500, 40)).astype("f")), it.asarray([3, 1])
    turned, half = it.asarray(rng.normal(size=(100, 200)).astype("f")).mT, matrix.astype("bfloat16")
    it.sum(half).numpy(), turned.numpy()
    cases = {
        "row": (lambda: row @ matrix, False), "row of a view": (lambda: row @ turned, False),
        "sum": (lambda: it.sum(matrix, axis=0), False),
        "rows": (lambda: it.take(table, places, axis=0), False),
        "all": (lambda: matrix * 2.0, True), "view": (lambda: matrix[1], True),
        "half": (lambda: row.astype("bfloat16") @ half, True),
    }  # fmt: skip
    for name, (find, recorded) in cases.items():
        many(row).numpy()  # counting begins anew
        wanted = find()
        assert waits(wanted), name
        wanted = wanted.numpy()
        read_singly(row)
        found = find()
        assert waits(found) == recorded, name
        np.testing.assert_array_equal(found.numpy(), wanted, err_msg=name)


def test_a_program_that_is_one_entry_is_not_short(below, monkeypatch):
    planned = []
    run = PlanCache.run

    def noted(self, log, *rest):
        planned.append(len(log))
        return run(self, log, *rest)

    monkeypatch.setattr(PlanCache, "run", noted)
    x = it.asarray([1.0, 2.0])
    assert call_known(lambda times, x: (x * times,), 3.0, [x], "scaled")[0].tolist() == [3.0, 6.0]
    assert (x * 3.0).tolist() == [3.0, 6.0]
    assert planned == [2], "an input and the program"


def test_views_that_run_at_once_hold_the_memory_that_is_written_in_place():
    x = it.zeros(SMALL)  # as many bytes as are worth an assignment in place
    x[0] = 1.0
    for _ in range(READ):
        x[:2].tolist()
    first = x[:2]
    assert not waits(first)
    x[0] = 2.0
    x += 1.0
    assert first.tolist() == [1.0, 0.0]
    assert x[:2].tolist() == [3.0, 1.0]


def test_kernels_of_all_kinds_run_at_once_like_arithmetic():
    x, places, square = it.asarray([6.0, 1.0]), it.asarray([1, 0]), it.eye(2) * 2.0
    square.numpy()
    for find, wanted in (
        (lambda: it.argsort(x), [1, 0]),
        (lambda: it.take(x, places, axis=0), [1.0, 6.0]),
        (lambda: it.linalg.inv(square), [[0.5, 0.0], [0.0, 0.5]]),
        (lambda: it.linalg.svd(square).S, [2.0, 2.0]),
        (lambda: it.softmax(it.stack([x, x]) * 0.0), [[0.5, 0.5], [0.5, 0.5]]),
        (lambda: x @ square, [12.0, 2.0]),
    ):
        for _ in range(READ):
            (x + x).numpy()
        found = find()
        assert not waits(found)
        assert found.tolist() == wanted
    for _ in range(READ):
        wrong = it.linalg.inv(it.zeros((2, 2)))
        with pytest.raises(LinearAlgebraError, match="inv: Singular"):
            wrong.numpy()


def test_who_waits_for_each_value_has_read_it():
    x = it.asarray([1.0, 2.0])
    for _ in range(2 * READ):
        total = x + x
        total.backend.synchronize()
    for _ in range(AHEAD):
        total = x + x
        assert not waits(total)
    dropped = x * x
    assert waits(dropped), "the ones before were not waited for"
    dropped.backend.synchronize()
    assert dropped.tolist() == [1.0, 4.0]


def test_what_is_flushed_after_each_operation_counts_as_read(below):
    x = it.asarray([6.0, 1.0])
    backend = x.backend
    for n in range(2 * READ):
        total = x + 1.0
        assert waits(total) == (n < READ)
        backend.flush()
        assert not waits(total)
    for _ in range(2 * AHEAD):
        x = x + 1.0
        assert not waits(x)
        backend.flush()
    assert x.tolist() == [6.0 + 2 * AHEAD, 1.0 + 2 * AHEAD]
    assert waits(many(x)), "more than a few at a time are a plan's"


def test_errors_of_what_is_read_at_once_come_when_it_is_read(below):
    x = it.asarray([1.0, 2.0])
    for _ in range(2 * READ):
        (x + x).numpy()

    def fail(name):
        raise RuntimeError("no power")

    below.before = fail
    wrong = x + x
    below.before = lambda name: None
    assert wrong.tolist() == [2.0, 4.0], "it is tried again when it is read"
    for _ in range(2 * READ):
        (x + x).numpy()
    below.before = fail
    wrong = x + x
    with pytest.raises(RuntimeError, match="no power"):
        wrong.numpy()


def test_large_operands_and_pending_ones_are_written_down():
    x = it.zeros(SMALL + 1)
    y = it.zeros(3)
    for _ in range(2 * READ):
        (y + 1.0).numpy()
    assert waits(x + 1.0)
    (y + 1.0).numpy()
    first = x + 1.0
    second = y + 1.0
    assert waits(first)
    assert waits(second), "it goes on where the first one is"
    assert second.tolist() == [1.0] * 3
