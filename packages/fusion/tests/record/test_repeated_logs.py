"""Logs that come again are the same, whether they are written by what is known of them or not."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

import numpy as np
import pytest
from interruptions import interrupted_at

import ingle.tensor as it
from ingle.autodiff import no_grad
from ingle.fusion.record import points
from ingle.fusion.record.points import Points
from ingle.fusion.record.repeated_logs import RepeatedLog
from ingle.tensor import prepared
from ingle.tensor.contract import Scalar
from ingle.tensor.operation import OPERATIONS
from ingle_numpy.backend import NumpyBackend


@pytest.fixture(autouse=True)
def backend(fused):
    fused(NumpyBackend)
    return it.zeros(1).backend


def new_stream(backend) -> None:
    backend.synchronize()
    for _ in range(2):
        backend.noted(short=False)


def recorded(backend) -> list[Any]:
    """All that the stream of this thread knows, without whose values they are."""
    stream = backend._threads.streams.last
    return [
        list(stream.written), [(h.shape, h.dtype) for h in stream.given],
        list(map(repr, stream.numbers)), stream._count, sorted(stream._places.values()),
        {n: name for n, (name, _) in stream._asked.items()},
        [(h.number, h.shape, h.dtype) for h in stream.living()],
    ]  # fmt: skip


@pytest.fixture
def ways(monkeypatch) -> Iterator[list[str]]:
    """Which way each call was recorded, in order."""
    found: list[str] = []
    taken, learned = RepeatedLog._taken, RepeatedLog._learned
    monkeypatch.setattr(
        RepeatedLog, "_taken", lambda self, *args: found.append("known") or taken(self, *args)
    )
    monkeypatch.setattr(
        RepeatedLog, "_learned", lambda self, *args: found.append("learned") or learned(self, *args)
    )
    return found


def random_calls(rng: random.Random) -> list[Callable[[list[Any]], Any]]:
    """Calls that take some values of a list, and return one that is appended."""
    calls: list[Callable[[list[Any]], Any]] = []

    def one(n: int) -> Callable[[list[Any]], Any]:
        kind = rng.randrange(10)
        i, j, number = rng.randrange(n), rng.randrange(n), rng.random()
        axis = rng.randrange(2)
        return [
            lambda v: v[i] + v[j],
            lambda v: v[i] * number,
            lambda v: number - v[j],
            lambda v: it.softmax(v[i], axis=axis),
            lambda v: it.split(v[i], 2, axis=axis)[1].sum() * v[j],
            lambda v: it.concat([v[i], v[j], v[i]], axis=axis)[:3, :3],
            lambda v: it.take(v[i], v[0].new, axis=axis) if hasattr(v[0], "new") else v[i] - v[j],
            lambda v: it.where(v[i] > number, v[i], v[j]),
            lambda v: v[i].T @ v[j] + it.layer_norm(v[j], 3),
            lambda v: it.clip(v[i], -number, number).reshape(9)[::-1].reshape(3, 3),
        ][kind]

    for n in range(rng.randrange(2, 16)):
        calls.append(one(4 + n))
    return calls


def run(backend, calls, places, arrays) -> tuple[list[Any], list[Any]]:
    new_stream(backend)
    values = [it.asarray(a) for a in arrays]
    index = it.asarray(places)
    for n, call in enumerate(calls):
        if n % 3 == 1:
            values.append(it.take(call(values), index, axis=0))
        else:
            values.append(call(values))
        if n % 4 == 2:
            values[n] = values[n + 1]  # nobody holds what was there
    log = recorded(backend)
    return log, [v.tolist() for v in values]


@pytest.mark.sampled(6, slow=1)
@pytest.mark.parametrize("seed", range(60))
def test_random_calls_leave_the_log_that_they_left_before(backend, ways, seed):
    rng = random.Random(seed)
    calls, other = random_calls(rng), random_calls(rng)
    places = np.array([2, 0, 1])
    kept = backend._threads.streams.points
    for turn in range(6):
        arrays = [
            np.random.default_rng(seed + turn + k).standard_normal((3, 3)).astype(np.float32)
            for k in range(4)
        ]
        del ways[:]
        backend._threads.streams.points = kept
        found = run(backend, calls, places, arrays)
        if turn == 5:
            assert set(ways) == {"known"}
        backend._threads.streams.points = Points()
        assert found == run(backend, calls, places, arrays)
        backend._threads.streams.points = kept
        if turn % 2:
            run(backend, calls[:3] + other, places, arrays)


def test_other_shapes_dtypes_and_operands_are_other_logs(backend, ways):
    """A point knows a call by what it takes; each of these begins alike."""
    square, row = np.ones((2, 2), np.float32), np.full((1, 2), 2, np.float32)
    whole = np.full((2, 2), 3, np.int64)
    pairs = [(square, square), (square, row), (row, square), (whole, square), (square, whole)]
    for _ in range(4):
        for a, b in pairs:
            for same in (False, True):
                new_stream(backend)
                x = it.asarray(a)
                y = x if same else it.asarray(b)
                z = it.exp(x * 0.0) + x * y + y * 2.0
                got = (it.softmax(z, axis=0) + z).numpy()
                right = a if same else b
                want = 1.0 + a * right + right * 2.0
                e = np.exp(want - want.max(0))
                np.testing.assert_allclose(got, e / e.sum(0) + want, rtol=1e-6)
    assert "known" in ways


def test_numbers_are_those_of_the_call(backend, ways):
    x = it.asarray(np.arange(6, dtype=np.float32))
    for n in range(8):
        new_stream(backend)
        y = it.clip(x * float(n) - 1.5, -float(n), n + 0.25) * 1.0 + n
        want = np.clip(np.arange(6) * float(n) - 1.5, -float(n), n + 0.25) + n
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)
    assert ways[-5:] == ["known"] * 5


def test_what_fails_in_a_known_log_names_the_line_that_asked(backend, ways):
    x = it.asarray(np.arange(6, dtype=np.float32))
    good, wrong = it.asarray([1, 2]), it.asarray([1, 9])
    for places in (*[good] * 6, wrong):
        new_stream(backend)
        y = it.exp(it.exp(x * 0.0) - 1.0 + x) * 2.0
        z = it.take(y, places, axis=0)
        if places is good:
            assert z.shape == (2,)
            z.numpy()
    assert ways[-1] == "known"
    with pytest.raises(IndexError, match=r"(?s)take.*test_repeated_logs\.py"):
        z.numpy()
    np.testing.assert_allclose(y.numpy(), np.exp(np.arange(6)) * 2, rtol=1e-6)


def test_a_wrong_call_behind_known_ones_is_refused_and_leaves_nothing(backend):
    x, y = it.asarray(np.ones((2, 3), np.float32)), it.asarray(np.ones((2, 3), np.float32))
    for _ in range(8):
        new_stream(backend)
        z = it.exp(it.exp(x * 0.0) - 1.0 + x) + y
        with pytest.raises(Exception, match="matmul"):
            z @ y
        np.testing.assert_allclose((z * 2.0).numpy(), (np.e + 1) * 2 * np.ones((2, 3)), rtol=1e-6)


def test_a_log_is_learned_when_it_comes_again_and_others_are_not(backend, ways):
    x = it.asarray(np.ones(3, np.float32))

    def ask(n: int) -> None:
        new_stream(backend)
        y = x
        for k in range(9):
            y = y + x if n >> k & 1 else y * x
        y.numpy()

    size = backend._threads.streams.points.size
    for n in range(40):
        ask(n)
    assert backend._threads.streams.points.size == size
    assert not ways
    for _ in range(4):
        ask(7)
    assert ways.count("learned") >= 9
    assert ways[-9:] == ["known"] * 9
    for _ in range(4):  # by turns, where the one behind the log that comes again is known
        ask(7)
        ask(70)
        ask(7)
    assert ways[-27:] == ["known"] * 27


def test_calls_that_are_found_out_anew_lead_to_the_same_points(backend, monkeypatch):
    """A program that comes to many sizes again and again, as one that generates text, forgets the
    calls of the first ones meanwhile. Its logs are the same, and are not learned anew each time."""
    monkeypatch.setattr(prepared, "MOST", 24)
    x = it.asarray(np.linspace(0, 1, 64, dtype=np.float32))

    def generate() -> None:
        for n in range(2, 18):
            new_stream(backend)
            y = x[:n]
            for _ in range(5):
                y = it.softmax(y, axis=0) + it.reshape(it.mean(y, keepdims=True), (1,))
            it.stack([y, x[:n]]).numpy()

    for _ in range(12):
        generate()
    size = backend._threads.streams.points.size
    for _ in range(6):
        generate()
    assert backend._threads.streams.points.size <= size + 16


def test_points_are_bounded(backend, monkeypatch):
    monkeypatch.setattr(points, "MOST", 32)
    x = it.asarray(np.ones(3, np.float32))
    for n in range(40):
        for _ in range(3):
            new_stream(backend)
            y = x
            for k in range(9):
                y = y + x if n >> k & 1 else y * x
            assert y.tolist() == [1.0 + bin(n).count("1")] * 3
        assert backend._threads.streams.points.size <= 32


def test_gradients_in_a_loop_are_known_too(backend, ways):
    w = it.asarray(np.linspace(1, 2, 5, dtype=np.float32))
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    for n in range(8):
        new_stream(backend)
        del ways[:]
        p = (w + float(n)).require_grad()
        loss = it.sum(it.tanh(p * it.asarray(x)) * p)
        got = loss.backward()[p].numpy()
        q = np.linspace(1, 2, 5) + n
        t = np.tanh(q * x)
        np.testing.assert_allclose(got, (1 - t * t) * x * q + t, rtol=1e-5, atol=1e-6)
    assert ways
    assert set(ways) == {"known"}
    with no_grad():
        assert it.sum(w).item() == pytest.approx(7.5)


def test_threads_that_read_each_others_values(backend):
    x = it.asarray(np.ones(4, np.float32))
    wrong: list[Any] = []
    shared: list[Any] = [x]

    def work(seed: int) -> None:
        for n in range(60):
            y = x * 2.0
            for _ in range(4):
                y = it.softmax(y, axis=0) + x
            z = shared[-1] + y
            shared.append(y)
            if z.shape != (4,) or abs(float(y.sum()) - 5.0) > 1e-5:
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    for y in shared[1:]:
        np.testing.assert_allclose(y.numpy(), 1.25, rtol=1e-6)


WRITING = {
    "record", "record_call", "_gone_on", "_taken", "_key", "_note_reading", "_learned",
    "answered", "_places_of", "note_call", "answer",
}  # fmt: skip
"""Functions that write entries down."""


def test_public_calls_are_answered_by_where_they_come(backend, monkeypatch):
    """Numbers, constants, values that are new to the log or come twice, and several results."""
    answered: list[str] = []
    answer = RepeatedLog.answered

    def noted(self: Any, key: Any, given: Any) -> Any:
        made = answer(self, key, given)
        answered.append(key[0].__name__ if made is not None else "")
        return made

    monkeypatch.setattr(RepeatedLog, "answered", noted)
    w = it.Cell(it.asarray(np.full((2, 4), 0.5, np.float32)))
    for n in range(8):
        rng = np.random.default_rng(n)
        a, b = rng.standard_normal((2, 2, 4)).astype(np.float32)
        x, y = it.asarray(a), it.asarray(b)
        new_stream(backend)
        del answered[:]
        z = x * 2.0
        z = it.clip(z, -float(n), n + 0.5)
        z = it.where(z > 0.0, z, y) + it.concat([z, y, y, x]).sum()
        low, high = it.split(z, 2, axis=1)
        z = it.concat([high, w * 1.0, low, w], axis=1)
        got = it.reshape(it.linear(z, it.concat([z, z])), (8,))[::-1][2:5]
        c = np.clip(a * 2.0, -float(n), n + 0.5)
        d = np.where(c > 0, c, b) + (c + 2 * b + a).sum(dtype=np.float64)
        f = np.full((2, 4), 0.5)
        e = np.concatenate([d[:, 2:], f, d[:, :2], f], 1)
        want = (e @ np.concatenate([e, e]).T).reshape(8)[::-1][2:5]
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4)
    assert "" not in answered
    assert {"clip", "concat", "split", "reshape", "linear", "sum"} <= {*answered}
    # What is around a call has it worked out.
    new_stream(backend)
    z = x * 2.0
    del answered[:]
    with it.default_dtypes(floating="float64"):
        assert it.clip(z, -float(n), n + 0.5).shape == (2, 4)
    assert not answered


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True])
def test_public_calls_that_are_interrupted_leave_nothing_or_all(backend, known):
    places, other = it.asarray([1, 3]), it.asarray(np.full(2, 2.0, np.float32))
    x = it.asarray(np.linspace(-1, 1, 6, dtype=np.float32))
    want = np.clip(np.exp(np.linspace(-1, 1, 6))[[1, 3]], -5, 2)

    def calls(kept: Any) -> Any:
        taken = it.clip(it.take(kept, places, axis=0), -5.0, 2.0)
        return it.concat([taken, other, it.reshape(taken, (2,))])

    for count in range(900):
        for _ in range(5 if known else 0):
            new_stream(backend)
            kept = it.exp(x)
            calls(kept).numpy()
        if not known:
            backend._threads.streams.points = Points()
            backend._threads.streams.points.wanted()
        new_stream(backend)
        kept = it.exp(x)
        found = interrupted_at(count, WRITING, lambda: calls(kept))  # noqa: B023
        again = calls(kept)
        for y in (again,) if found is None else (again, found):
            np.testing.assert_allclose(y.numpy(), [*want, 2.0, 2.0, *want], rtol=1e-6)
        if found is not None:
            return
    pytest.fail("each of so many lines was interrupted")


@pytest.mark.parametrize("known", [False, True])
def test_what_is_interrupted_has_left_nothing_or_all(backend, ways, known):
    take, add = OPERATIONS["take"].op(axis=0), OPERATIONS["add"].op()
    x = it.asarray(np.linspace(-1, 1, 6, dtype=np.float32))
    places = it.asarray([1, 3])

    def two() -> Any:
        taken = backend.execute(take, [x._handle, places._handle])[0]
        return backend.execute(add, [taken, Scalar(2.0, it.float32)])[0]

    for count in range(300):
        for _ in range(4 if known else 0):
            new_stream(backend)
            kept = it.exp(x)
            made, others = two(), it.exp(it.exp(it.exp(x)))
            backend.download(made)
            del made, others
        if not known:
            backend._threads.streams.points = Points()
            backend._threads.streams.points.wanted()
        new_stream(backend)
        kept = it.exp(x)
        stream, before = backend._threads.streams.last, 2
        assert len(stream.written) == before
        del ways[:]
        found = interrupted_at(count, WRITING, two)
        assert found is None or ways == ["known" if known else "learned"] * 2
        # An operation is there whole, with its inputs, or not at all.
        assert len(stream.written) in (before, before + 2, before + 4)
        assert all(n < len(stream.written) for n in stream._asked)
        np.testing.assert_allclose(
            backend.download(two()), np.linspace(-1, 1, 6)[[1, 3]] + 2, rtol=1e-6
        )
        np.testing.assert_allclose(kept.numpy(), np.exp(np.linspace(-1, 1, 6)), rtol=1e-6)
        if found is not None:
            return
    pytest.fail("each of so many lines was interrupted")


def test_a_log_that_has_run_holds_nothing_of_a_call_that_was_not_known(backend):
    def turn(call: Callable[[Any], Any]) -> None:
        new_stream(backend)
        x = it.asarray(np.ones((2, 3))) + 1.0
        for _ in range(8):
            x = it.softmax(x * 2.0, axis=1)
        call(x).numpy()

    for _ in range(4):
        turn(lambda x: x + 1.0)
    backend._threads.streams.points.credit = 0
    weights = [it.asarray(np.ones((3, 3)))]
    held = ref(weights[0]._handle)
    turn(lambda x: it.linear(x, weights[0]))
    weights.clear()
    assert held() is None
