"""Long streams: cut where they repeat, planned once, run before anybody reads them."""

from __future__ import annotations

import itertools
import weakref

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import stream
from ingle.fusion.ir import graph as graph_module
from ingle.fusion.ir.graph import read_log
from ingle.fusion.record.cut_log import (
    Repetition,
    avals_of_live,
    avals_of_piece,
    in_pieces,
    loop_of,
    places_to_cut,
    trimmed,
)
from ingle_numpy.backend import NumpyBackend


class Planning(NumpyBackend):
    """Notes how many operations the graphs have that it is to prepare, and runs them."""

    def __init__(self, device):
        super().__init__(device)
        self.prepared = []

    def prepare(self, graph):
        from ingle.fusion.runtime.replay import Replay

        self.prepared.append(len(graph.nodes))
        return Replay(self, graph)


@pytest.fixture(autouse=True)
def below(fused):
    return fused(Planning)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("abcdefgh" * 10, Repetition(8, 0, 80)),
        ("xyz" + "abcdefgh" * 10 + "q", Repetition(8, 3, 83)),
        ("x" * 100, Repetition(1, 0, 100)),
        # Ten equal layers in each of the iterations.
        (("i" + "abcde" * 10 + "ooo") * 6, Repetition(54, 0, 324)),
        ("abcdefghijklmnopqrstuvwxyz", None),
        ("abcdefghijklm" * 2, None),
    ],
)
def test_a_loop_is_found(text, found):
    assert loop_of(text) == found


def walked(x, steps, each=lambda i, x: None):
    """A loop of 21 operations, whose parameter and number vary; and the same in NumPy."""
    w = it.asarray(np.linspace(0.5, 1, x.shape[0]).astype(np.float32))
    want, factor = x.numpy().astype(np.float64), w.numpy().astype(np.float64)
    for i in range(steps):
        for _ in range(5):
            x = it.sin(x * w) + float(i % 3)
            want = np.sin(want * factor) + i % 3
        x = x - it.mean(x)
        want = want - want.mean()
        each(i, x)
    return x, want


@pytest.mark.slow
@pytest.mark.parametrize("steps", [40, 150, 600])
def test_a_loop_that_nobody_reads_is_planned_once(below, steps):
    x = it.asarray(np.linspace(0, 1, 5000).astype(np.float32))
    for _ in range(3):
        got, want = walked(x, steps)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-3, atol=1e-3)
    # An iteration, or as many as are worth a plan; and what is left at the ends.
    assert max(below.prepared) < 400
    assert len(below.prepared) < 12


@pytest.mark.slow
def test_values_that_somebody_holds_survive_every_cut():
    x, kept = it.asarray(np.linspace(0, 1, 50).astype(np.float32)), {}

    def keep(i, x):
        if i % 37 == 5:
            kept[i] = x, x * 2.0

    got, want = walked(x, 300, keep)
    for i, (value, double) in kept.items():
        expected = walked(x, i + 1)[1]
        np.testing.assert_allclose(value.numpy(), expected, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(double.numpy(), 2 * expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_pieces_give_what_the_whole_gives(below):
    """On logs of random wiring between iterations: every value that is wanted, from the pieces."""
    rng = np.random.default_rng(3)
    for _ in range(6):
        period = int(rng.integers(5, 60))
        far = [(int(rng.integers(1, 3 * period)), int(rng.integers(1, 40))) for _ in range(period)]
        x = it.asarray(rng.standard_normal(4).astype(np.float32))
        values = [x + 0.5, x - 0.5]
        for k in range(int(rng.integers(400, 1500))):
            a, b = far[k % period]
            left = values[-min(a, len(values))]
            values.append((left + values[-min(b, len(values))] * 0.25) * 0.5)
        wanted = [values[int(i)] for i in rng.integers(0, len(values), 6)] + values[-1:]
        log = wanted[-1]._handle.pending_in
        held = [v for v in wanted if v._handle.pending_in is log]
        numbers = [v._handle.number for v in held]
        entries = list(log.written)
        given, scalars = list(log.given), list(log.numbers)
        want = below.prepare(read_log(entries, numbers))(given, scalars)
        for value, expected in zip(held, want, strict=True):
            np.testing.assert_array_equal(value.numpy(), below.download(expected))


def test_a_step_of_training_stays_whole():
    """A loop of which somebody holds more than a quarter, up to some thousand operations."""
    x, made = it.asarray(np.linspace(0, 1, 50).astype(np.float32)), []
    for _ in range(200):
        for _ in range(3):
            x = it.sin(x) + 0.5
            made.append(x)
    log = x._handle.pending_in
    numbers = [y._handle.number for y in made]
    assert places_to_cut(read_log(log.written, numbers[:250]))
    assert not places_to_cut(read_log(log.written, numbers[:350]))


def test_shapes_that_grow_make_pieces_of_an_iteration(below):
    x, rows = it.ones((1, 8)), it.ones((1, 8))
    want = np.ones((1, 8))
    for _ in range(120):
        h = it.tanh(rows * 0.5)
        x = it.mean(h, axis=0, keepdims=True) + it.max(h) - it.min(rows)
        rows = it.concat([rows, x], axis=0)
        h = np.tanh(want * 0.5)
        want = np.concatenate([want, h.mean(0, keepdims=True) + h.max() - want.min()])
    np.testing.assert_allclose(rows.numpy(), want, rtol=1e-4)


def test_a_stream_does_not_keep_what_nobody_else_does(monkeypatch):
    monkeypatch.setattr(stream, "MOST_BYTES", 1 << 20)
    alive, total = [], it.zeros(1000)
    for i in range(400):
        batch = it.asarray(np.full((4, 1000), float(i), np.float32))
        alive.append(weakref.ref(batch._handle))
        total = total + it.sum(batch, axis=0) / 4.0
    assert total._handle.pending_in is not None
    assert len(total._handle.pending_in.given) < 150
    np.testing.assert_allclose(total.numpy(), np.full(1000, 400 * 399 / 2))


def test_recordings_of_gradients_stay_whole(below):
    w = it.Cell(it.asarray(np.full(3, 0.9, np.float32)), differentiable=True)
    x = it.ones(3)
    for _ in range(600):
        x = it.sin(x * w) + 1.0
    assert x._handle.inner.pending_in is not None
    assert len(x._handle.inner.pending_in.written) > 1200


def test_trimming_leaves_what_is_needed():
    x = it.ones(3)
    x.numpy()
    for k in range(5):
        it.sin(x * float(k))
    y = it.cos(x * 7.0)
    log = y._handle.pending_in
    part = trimmed(log.written, read_log(log.written, [y._handle.number]))
    assert part.scalars == (5,)
    assert [e[0] for e in part.entries[:2]] == ["input", "scalar"]
    graph = read_log(part.entries, part.outputs)
    assert trimmed(part.entries, graph) is None
    assert in_pieces(graph) is None
    assert places_to_cut(graph) == []


def grown(steps, width=4):
    """A sequence that grows by what is computed of it, with two results of one operation."""
    x = it.ones((1, width))
    x.numpy()
    for _ in range(steps):
        h = x
        for _ in range(32):
            h = it.sin(it.cos(h))
        x = it.concat([x, it.sum(it.split(h, 2, axis=1)[0]) + h[-1:]], axis=0)
        it.exp(x)  # nobody wants it
    return x


def test_parts_of_a_log_are_read_as_if_alone_without_another_look_at_rules(monkeypatch):
    x = grown(12)
    log = x._handle.pending_in
    whole = read_log(log.written, [x._handle.number])
    part = trimmed(log.written, whole)
    short = read_log(part.entries, part.outputs)
    pieces = in_pieces(short).pieces
    assert len(pieces) > 2
    want = [short, *[read_log(p.entries, p.outputs) for p in pieces]]

    def no_rules(op, avals):
        raise AssertionError(op)

    monkeypatch.setattr(graph_module, "infer", no_rules)
    assert read_log(part.entries, part.outputs, avals_of_live(whole)) == want[0]
    for p, expected in zip(pieces, want[1:], strict=True):
        assert read_log(p.entries, p.outputs, avals_of_piece(short, p)) == expected


def test_a_log_in_pieces_is_read_once(below, monkeypatch):
    """What the longer log's operations give is known to those that it is cut into."""
    asked = []
    infer = graph_module.infer
    monkeypatch.setattr(graph_module, "infer", lambda *args: asked.append(1) or infer(*args))
    x = grown(12, width=6)
    count = sum(type(e[0]) is not str for e in x._handle.pending_in.written)
    np.testing.assert_array_equal(x.numpy().shape, (13, 6))
    assert 0 < len(asked) <= count


@pytest.mark.parametrize(("grows", "length"), [(True, 66), (False, 198)])
def test_iterations_on_growing_shapes_are_pieces_of_their_own(grows, length):
    """One plan in which sizes are symbols serves them all; of several sizes each is another one."""
    x = it.ones((1, 4))
    x.numpy()
    for _ in range(12):
        h = x
        for _ in range(32):
            h = it.sin(it.cos(h))
        x = it.concat([x, h[-1:]], axis=0) if grows else it.tanh(x + h)
    log = x._handle.pending_in
    graph = read_log(log.written, [x._handle.number])
    cuts = places_to_cut(graph)
    assert {b - a for a, b in itertools.pairwise(cuts)} == {length}
