"""Plans that are made once for many sizes do what plans of these sizes alone would do."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from forgotten_plans import forget_plans

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import PlanWarning, compile, pipeline
from ingle.fusion.schedule.schedule import HostStep, arguments_of
from ingle.fusion.symbolic import families
from ingle.tensor.pytree import flatten
from ingle.testkit import program_generator
from ingle.testkit.error_bounds import check

EDGES = (1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300)


@pytest.fixture
def made(monkeypatch):
    """The sequences that a test gets: (graph, its sequence, that of its sizes alone)."""
    found, filled_sequence = [], pipeline.filled_sequence
    forget_plans(monkeypatch)

    def both(device, graph, pairs, layers=None):
        got = filled_sequence(device, graph, pairs, layers)
        found.append((graph, got, pipeline.kernel_sequence(device, graph, pairs)))
        return got

    monkeypatch.setattr(pipeline, "filled_sequence", both)
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")  # plans at once, on any machine
    return found


def assert_same_calls(made):
    """But for constants: those that vary are scalars, and equal ones need not be one value."""
    for graph, got, alone in symbolic(made):
        if len(got.sources) == len(graph.scalars):
            assert unnumbered(got.sequence) == unnumbered(alone), graph


def unnumbered(sequence):
    """The kernels of a sequence, their loops and what they touch, without the values' numbers."""
    return [
        [part(x) for part in (type, kernel_of, lambda c: getattr(c, "sizes", ()), touched)]
        for x in sequence.calls
    ]


def kernel_of(call):
    """Without the length of short rows, which is an argument where it varies."""
    nest = getattr(call, "nest", None)
    return getattr(call, "code", None) if nest is None else nest._replace(row_length=0)


def touched(call):
    operands = [] if isinstance(call, HostStep) else arguments_of(call)
    return [a[1:] for a in operands], getattr(call, "strides", ()), getattr(call, "fixed", ())


def symbolic(made):
    return [m for m in made if m[1].sources is not None]


def numbers(seed, *shape, dtype="float32"):
    drawn = np.random.default_rng(seed).normal(size=shape)
    return it.asarray(drawn.astype(dtype), device="cpu")


FUNCTIONS = {
    "elementwise": lambda x, y: it.exp(x) * y + it.sqrt(it.abs(x)),
    "softmax": lambda x, y: it.softmax(x + y, axis=-1),
    "softmax of columns": lambda x, y: it.softmax(x * y, axis=0),
    "standardised": lambda x, y: (x - it.mean(x, axis=0)) / it.std(y, axis=1, keepdims=True),
    "transposed": lambda x, y: it.permute_dims(x, (1, 0)) @ y,
    "product": lambda x, y: it.relu(x @ it.permute_dims(y, (1, 0))) * 0.5,
    "flat": lambda x, y: it.cumulative_sum(it.reshape(x, (-1,))) + it.reshape(y, (-1,)),
    "halves": lambda x, y: it.concat([x[: x.shape[0] // 2], y[x.shape[0] // 2 :]], axis=0),
    "shifted": lambda x, y: x[1:] - y[:-1],
    "stepped": lambda x, y: it.concat([x[::2], y[1::2] * 2], axis=0),
    "padded": lambda x, y: it.pad(x * y, ((1, 2), (0, 1))),
    "rolled": lambda x, y: it.roll(x + y, 1, axis=0),
    "placed": lambda x, y: x.at[1:-1].set(y[1:-1] * 2),
    "triangle": lambda x, y: it.tril(x @ it.permute_dims(y, (1, 0))),
    "places": lambda x, y: it.arange(x.shape[0], dtype="float32", device=x.device) @ (x + y),
    "taken": lambda x, y: it.take(x, it.argmax(y, axis=0), axis=0),
    "stacked": lambda x, y: it.sum(it.stack([x, y, x * y]), axis=(0, 2)),
    "largest": lambda x, y: (it.max(x, axis=0), it.argmin(y, axis=1), it.any(x > y)),
    "scaled": lambda x, y: x * (1.0 / x.shape[0]) + y * x.shape[0] ** 0.5 - x.shape[0],
    "sorted": lambda x, y: it.argsort(it.astype(x * 2, "float64"), axis=0) + y,
    "running": lambda x, y: it.cumulative_sum(x, axis=0) * it.cumulative_prod(y, axis=1),
    "scattered": lambda x, y: it.scatter_reduce(
        x, it.argmax(y, axis=1) % x.shape[0], y, "amax", include_self=False
    ),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("columns", [1, 7, pytest.param(40, marks=pytest.mark.nightly)])
def test_every_length_gives_what_eager_gives(made, name, columns):
    function = FUNCTIONS[name]
    quick = compile(function)
    for n in (*EDGES, *range(4, 15)):
        if name in ("shifted", "stepped", "placed") and n < 4:
            continue
        x, y = numbers(n, n, columns), numbers(n + 1000, n, columns)
        want = function(x.to_device("numpy"), y.to_device("numpy"))
        quick(x, y)
        for a, b in zip(flatten(quick(x, y)), flatten(want), strict=True):
            a, b = np.asarray(a), np.asarray(b)
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * np.abs(b).max(initial=1))
    served = symbolic(made)
    assert len(served) > len(made) // 3
    assert_same_calls(made)


class Block(nn.Module):
    def __init__(self) -> None:
        self.norm = nn.LayerNorm(16)
        self.within = nn.Linear(16, 48)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x):
        b, t, d = x.shape
        parts = it.chunk(self.within(self.norm(x)), 3, axis=-1)
        q, k, v = [it.permute_dims(it.reshape(p, (b, t, 2, d // 2)), (0, 2, 1, 3)) for p in parts]
        found = it.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + it.reshape(it.permute_dims(found, (0, 2, 1, 3)), (b, t, d))
        return x + self.down(it.gelu(self.up(it.dropout(x, 0.0))))


def trained(compiled, shapes):
    """What a block has learned from batches of these shapes."""
    it.random.seed(5)
    with it.device("cpu"):
        block = Block()
        head = nn.Linear(16, 7)
        adam = optim.Adam([*block.parameters(), *head.parameters()], lr=1e-2)

        def step(x, y):
            scores = head(block(x))
            loss = it.cross_entropy(it.reshape(scores, (-1, 7)), it.reshape(y, (-1,)))
            adam.step(loss.backward())
            return loss

        step = compile(step) if compiled else step
        losses = []
        for seed, (b, t) in enumerate(shapes):
            y = np.random.default_rng(seed).integers(0, 7, (b, t))
            losses.append(float(step(numbers(seed, b, t, 16), it.asarray(y))))
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [True, False])
def test_training_on_batches_of_many_shapes(made, monkeypatch, compiled):
    batches, lengths = (4, 4, 3, 4, 2, 5, 8, 4, 1, 6), (5, 8, 8, 9, 11, 6, 8, 17, 3, 7)
    shapes = [s for s in zip(batches, lengths, strict=True) for _ in range(2)]
    got = trained(compiled, shapes)
    assert symbolic(made)
    assert_same_calls(made)
    monkeypatch.setenv("INGLE_FUSION", "0")
    np.testing.assert_allclose(got, trained(False, shapes), rtol=2e-4)


@pytest.mark.slow
def test_fifty_lengths_need_few_plans(monkeypatch):
    count = []
    monkeypatch.setattr(families, "_of", type(families._of)())
    made = pipeline.symbolic_sequence
    monkeypatch.setattr(pipeline, "symbolic_sequence", lambda *args: count.append(1) or made(*args))
    step = compile(lambda x, w: value_and_grad(lambda w: it.mean(it.relu(x @ w) ** 2))(w))
    for n in range(70, 120):
        step(numbers(n, n, 24), numbers(1, 24, 8))
    assert len(count) == 1


SIZES = (
    (1, 2, 3, 5, 8, 17, 33),
    (1, 2, 3, 6, 8, 19, 36),
    (1, 2, 3, 7, 8, 21, 40),
    (1, 2, 4, 9, 8, 18, 47),
    (1, 2, 5, 11, 8, 30, 64),
    (1, 3, 5, 11, 16, 31, 130),
)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 48, 8))
def test_random_programs_of_other_sizes(made, monkeypatch, start):
    """The programs are the same but for their sizes wherever these do not decide otherwise."""
    for seed in range(start, start + 8):
        for sizes in SIZES:
            monkeypatch.setattr(program_generator, "SIZES", sizes)
            dtype = ("float32", "int32", "bfloat16", "float64")[seed % 4]
            program = program_generator.random_program(
                seed, dtype=dtype, gradient=dtype == "float32", pieces=True, calls=(3, 25)
            )
            check(program, "cpu", compile)
    assert symbolic(made)


def test_a_pass_that_needs_numbers_is_told_of(monkeypatch):
    monkeypatch.setattr(families, "_of", type(families._of)())

    def failing(*args):
        raise TypeError("what a pass says")

    monkeypatch.setattr(pipeline, "symbolic_sequence", failing)
    double = compile(lambda x: it.exp(x) * 2)
    for n in (20, 21):
        double(numbers(n, n))
    x = numbers(22, 22)
    with pytest.warns(PlanWarning, match="TypeError: what a pass says; please report it") as told:
        doubled = double(x)
    assert told[0].filename == __file__
    np.testing.assert_allclose(np.asarray(doubled), np.exp(np.asarray(x)) * 2, rtol=1e-5)


def test_what_serves_nobody_is_not_made_for_ever(monkeypatch):
    """Products whose every size is part of a kernel."""
    attempts = []

    class Own:
        def __init__(self, graph, examples):
            attempts.append(examples)
            self.graph = graph

    class Never:
        def __init__(self, general, sequence):
            self._sequence = pipeline.FilledSequence(sequence, None)

        def at(self, numbers, constants):
            return self._sequence if numbers == attempts[-1][-1] else None

    monkeypatch.setattr(families, "_of", type(families._of)())
    monkeypatch.setattr(pipeline, "generalized", Own)
    monkeypatch.setattr(pipeline, "symbolic_sequence", Never)
    double = compile(lambda x: it.exp(x) * 2)
    for n in range(20, 40):
        x = numbers(n, n)
        np.testing.assert_allclose(np.asarray(double(x)), np.exp(np.asarray(x)) * 2, rtol=1e-5)
    assert len(attempts) == 3 + 20 // families.AGAIN


@pytest.mark.slow
def test_short_rows_of_many_lengths_share_a_plan(made):
    """A kernel of rows that are known to be short holds their length, but not where it varies."""
    share = compile(lambda x: it.softmax(x @ x.mT, axis=-1))
    for n in range(3, 46):
        x = numbers(n, n, n)
        share(x)
        # One by one they run in kernels of this length.
        np.testing.assert_array_equal(np.asarray(share(x)), np.asarray(share.function(x)))
    (known,) = families._of.values()
    assert sum(family._served for family in known._families.values()) >= 30
    lengths = {c.nest.row_length for _, got, _ in made for c in got.sequence.calls
               if hasattr(c, "nest")}  # fmt: skip
    assert len(lengths) <= 3  # of the first two plans, and of all others
    assert_same_calls(made)


def test_exactness_is_asked_for_each_plan(monkeypatch):
    chain = compile(lambda x: ((x * 1.01 + 0.3) * 0.7 - x) / 1.3)
    for n in range(30, 36):
        chain(numbers(n, n, dtype="float32").astype("bfloat16"))
    monkeypatch.setenv("INGLE_FUSION_EXACT", "1")
    for n in range(36, 40):
        x = numbers(n, n).astype("bfloat16")
        chain(x)
        want = chain.function(x.to_device("numpy"))
        np.testing.assert_array_equal(
            np.asarray(chain(x).astype("float32")), np.asarray(want.astype("float32"))
        )


def test_threads_share_what_is_made():
    step = compile(lambda x: it.softmax(x @ it.permute_dims(x, (1, 0)), axis=-1))
    wrong = []

    def work(first):
        for n in range(first, first + 40, 4):
            x = numbers(n, n, 12)
            a = np.asarray(x) @ np.asarray(x).T
            e = np.exp(a - a.max(-1, keepdims=True))
            if not np.allclose(np.asarray(step(x)), e / e.sum(-1, keepdims=True), atol=1e-5):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(k + 20,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.fixture(autouse=True)
def no_plan_fails(request):
    """A symbolic plan that cannot be made is a mistake in a pass."""
    with warnings.catch_warnings():
        if "told_of" not in request.node.name:
            warnings.simplefilter("error", PlanWarning)
        yield
