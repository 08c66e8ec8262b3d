"""Programs written out: a log is the same, whether operations came one by one or as a program."""

from __future__ import annotations

import gc
import random

import numpy as np
import pytest
from interruptions import interrupted_at

import ingle.tensor as it
from ingle.autodiff import cached_backward
from ingle.tensor.contract import Scalar
from ingle.tensor.control.calling import region
from ingle.tensor.operation import OPERATIONS
from ingle.tensor.programs import Aval, Program
from ingle.tensor.programs.program import Step
from ingle.tensor.tensor import Tensor
from ingle_numpy.backend import NumpyBackend


@pytest.fixture(autouse=True)
def backend(fused):
    fused(NumpyBackend)
    return it.zeros(1).backend


def stream_of(backend):
    """What this thread has recorded since a value was read."""
    return backend._threads.streams.last


def new_stream(backend):
    backend.synchronize()
    for _ in range(2):
        backend.noted(short=False)
    return [it.asarray(np.linspace(-1, 1, 6, dtype=np.float32) + k)._handle for k in range(3)]


def recorded(backend):
    stream = stream_of(backend)
    return [
        stream.written, stream.given, stream.numbers, stream._count, stream._places, stream._asked,
        [(h.number, h.shape, h.dtype) for h in stream.living()],
    ]  # fmt: skip


UNARY = [OPERATIONS[name].op() for name in ("exp", "negative", "tanh")]
BINARY = [OPERATIONS[name].op() for name in ("add", "multiply", "subtract")]
TAKE = OPERATIONS["take"].op(axis=0)


def random_program(rng):
    """Operations on six vectors, one of whole numbers and one number."""
    avals = [Aval((6,), it.float32)] * 6 + [Aval((6,), it.int64), Aval((), it.float32)]
    steps, floats = [], list(range(6))
    for n in range(rng.randrange(1, 20)):
        kind = rng.randrange(4)
        if kind == 0:
            step = Step(rng.choice(UNARY), (rng.choice(floats),), 1)
        elif kind == 1:
            step = Step(TAKE, (rng.choice(floats), 6), 1)
        else:
            second = rng.choice([*floats, 7, Scalar(float(n), it.float32)])
            step = Step(rng.choice(BINARY), (rng.choice(floats), second), 1)
        steps.append(step)
        floats.append(len(avals) + n)
    return Program.of(avals, steps, [rng.choice(floats) for _ in range(4)])


@pytest.mark.sampled(5, slow=1)
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_leave_the_log_of_their_operations(backend, seed):
    rng = random.Random(seed)
    program = random_program(rng)
    whole = it.asarray(np.arange(6)[::-1].copy())._handle
    logs = []
    for way in ("one by one", "written out", "once more"):
        first, second, third = new_stream(backend)
        given = [first, second, first, third]
        # Two that are recorded, of which one is an operand of the other.
        given.append(backend.execute(UNARY[0], [second])[0])
        given.append(backend.execute(BINARY[0], [given[-1], first])[0])
        inputs = [*given, whole, Scalar(0.25, it.float32)]
        if way == "one by one":
            values = list(inputs)
            for op, args, _ in program.steps:
                operands = [x if isinstance(x, Scalar) else values[x] for x in args]
                values += backend.execute(op, operands)
            outputs = [values[n] for n in program.outputs]
            del values, operands
        else:
            outputs = list(backend.expand(region(program, "some"), inputs))
        same = [[a is b for a in outputs] for b in (*outputs, *inputs)]
        logs.append([*recorded(backend), same, [Tensor(y).numpy().tolist() for y in outputs]])
        # Inputs are new in each run.
        logs[-1][1] = [given.index(g) if g in given else g.shape for g in logs[-1][1]]
        logs[-1][4] = sorted(logs[-1][4].values())
        logs[-1][5] = {n: name for n, (name, _) in logs[-1][5].items()}
        del given, inputs, outputs, first, second, third
        gc.collect()
    assert logs[0] == logs[1] == logs[2]


def stepped(x, w):
    """Gradients by two vectors, through an operation that reads whole numbers, and one twice."""
    x, w = it.asarray(x).require_grad(), it.asarray(w).require_grad()
    y = it.take(it.tanh(x * w), it.asarray([0, 2, 2]), axis=0)
    loss = it.sum(it.exp(y * 0.5) * y) + it.sum(x)
    grads = loss.backward()
    log = list(stream_of(it.zeros(1).backend).written)
    return log, grads[x].numpy(), grads[w].numpy()


def test_each_backward_pass_leaves_the_same_log(backend, monkeypatch):
    monkeypatch.setattr(cached_backward, "_known", {})
    monkeypatch.setattr(cached_backward, "_seen", set())
    x, w = np.linspace(-1, 1, 5, dtype=np.float32), np.linspace(1, 2, 5, dtype=np.float32)
    steps = []
    for k in range(4):
        new_stream(backend)
        steps.append(stepped(x + k, w))
    assert any(cached_backward._known.values())
    assert steps[0][0] == steps[1][0] == steps[2][0] == steps[3][0]
    monkeypatch.setattr(cached_backward, "FEW", 1 << 30)
    for k, (log, *grads) in enumerate(steps):
        new_stream(backend)
        plain, *wanted = stepped(x + k, w)
        assert plain == log
        for got, want in zip(grads, wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def gone_back(rows, x):
    """The gradient where rows are taken one by one, as of what an agent has chosen."""
    x = it.asarray(x).require_grad()
    y = x * 2.0
    loss = sum([(y[row] * y[row + 1]).sum() for row in rows], start=it.asarray(0.0))
    return loss.backward()[x].numpy()


def test_what_is_equal_by_chance_makes_no_other_backward_pass(backend, monkeypatch):
    """Numbers of one value are one object where they are small: a pass would not be known again
    wherever others of them are equal."""
    monkeypatch.setattr(cached_backward, "_known", {})
    monkeypatch.setattr(cached_backward, "_seen", set())
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 3)).astype(np.float32)
    for _ in range(12):
        rows = rng.integers(0, 2, 5) if rng.random() < 0.5 else rng.integers(0, 99, 5)
        expected = np.zeros_like(x)
        for row in rows:
            expected[row] += 4 * x[row + 1]
            expected[row + 1] += 4 * x[row]
        np.testing.assert_allclose(gone_back([int(r) for r in rows], x), expected, rtol=1e-5)
    assert len(cached_backward._known) == 1


def test_what_fails_in_a_program_names_the_line_that_asked(backend):
    avals = [Aval((6,), it.float32), Aval((2,), it.int64)]
    program = Program.of(avals, [Step(UNARY[0], (0,), 1), Step(TAKE, (2, 1), 1)], [2, 3])
    x, places = new_stream(backend)[0], it.asarray([1, 9])._handle
    fine, wrong = map(Tensor, backend.expand(region(program, "some"), [x, places]))
    with pytest.raises(IndexError, match=r"(?s)take.*test_written_out\.py"):
        wrong.numpy()
    np.testing.assert_allclose(fine.numpy(), np.exp(Tensor(x).numpy()), rtol=1e-6)


WRITING = {"record_steps", "_written_out", "_note_steps"}
"""Functions that write entries down."""


def test_what_is_interrupted_has_left_nothing_or_all(backend):
    avals = [Aval((6,), it.float32), Aval((2,), it.int64), Aval((), it.float32)]
    steps = [
        Step(TAKE, (0, 1), 1), Step(BINARY[0], (3, 2), 1), Step(TAKE, (0, 1), 1),
    ]  # fmt: skip
    program = Program.of(avals, steps, [4, 5])
    for count in range(100):
        x, other, _ = new_stream(backend)
        places = it.asarray([1, 3])._handle
        kept = Tensor(backend.execute(UNARY[0], [other])[0])
        stream, before = stream_of(backend), len(stream_of(backend).written)
        given = [x, places, Scalar(2.0, it.float32)]
        found = interrupted_at(
            count,
            WRITING,
            lambda: backend.expand(region(program, "some"), given),  # noqa: B023
        )
        assert len(stream.written) in (before, before + 6)
        assert all(n < len(stream.written) for n in stream._asked)
        again = backend.expand(region(program, "some"), given)
        want = Tensor(x).numpy()[[1, 3]]
        np.testing.assert_array_equal(Tensor(again[0]).numpy(), want + 2)
        np.testing.assert_array_equal(Tensor(again[1]).numpy(), want)
        np.testing.assert_allclose(kept.numpy(), np.exp(Tensor(other).numpy()), rtol=1e-6)
        if found is not None:
            return
    pytest.fail("each of so many lines was interrupted")


def test_a_function_that_is_compiled_records_the_operation_itself(backend):
    from ingle.fusion import graph_of

    program = Program.of([Aval((6,), it.float32)], [Step(UNARY[0], (0,), 1)], [1])
    graph = graph_of(
        lambda x: Tensor(backend.expand(region(program, "some"), [x._handle])[0]),
        Tensor(new_stream(backend)[0]),
    )
    assert [node.op.operation.name for node in graph.nodes] == ["call_program"]
