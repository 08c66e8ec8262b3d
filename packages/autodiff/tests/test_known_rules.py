"""What gradient rules come to is known from the third of equal steps on: the log is the same."""

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.autodiff import custom_gradient, engine, grad, known_rules, require_grad
from ingle.fusion import compile, graph_of
from ingle.tensor import Tensor
from ingle.tensor.dispatch import handle_of, run1
from ingle.tensor.operation import OPERATIONS, Operation, Traits
from ingle.tensor.plugins import discover
from ingle.tensor.pytree import flatten, unflatten
from ingle.testkit.cases import cases, differentiable

DEVICE = "cpu" if "cpu" in discover().backends else "numpy"
pytestmark = pytest.mark.usefixtures("on_a_device")

TIMES = 4
"""Equal steps of each kind: two by rules, then two that are known."""
DIFFERENTIABLE = [o for o in OPERATIONS.values() if o.samples and o.public and differentiable(o)]


@pytest.fixture
def on_a_device():
    with it.device(DEVICE):
        yield


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr(known_rules, "_known", {})
    monkeypatch.setattr(known_rules, "_seen", {})


def by_rules(function, *args):
    """The log of a function where every step goes by its rules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "knows_rules", lambda base: False)
        return str(graph_of(function, *args))


def known():
    return {key[0][0].operation.name for key, found in known_rules._known.items() if found}


def gradients_of(case):
    """A function that calls an operation a few times, each with a backward pass of its own, and
    tensors to call it with; None without a gradient."""
    arguments = case.sample.args, dict(case.sample.kwargs)
    leaves = flatten(arguments)
    places = [i for i, x in enumerate(leaves) if isinstance(x, np.ndarray)]
    wanted = {place for n, place in enumerate(places) if case.wants_gradient(n)}

    def function(*tensors):
        found = []
        for _ in range(TIMES):
            given, tracked = list(leaves), []
            for place, x in zip(places, tensors, strict=True):
                if place in wanted:
                    x = require_grad(x)
                    tracked.append(x)
                given[place] = x
            args, options = unflatten(arguments, given)
            made = case.operation.public(*args, **options)
            for y in flatten(tuple(made) if isinstance(made, tuple) else made):
                if isinstance(y, Tensor) and y.dtype.is_inexact and y.backend.level:
                    back = y.backward(it.full(y.shape, 0.5, dtype=y.dtype))
                    found += [back[x] for x in tracked if x in back]
        return tuple(found)

    return (function, [it.asarray(leaves[i]) for i in places]) if wanted else None


@pytest.mark.sampled(64, slow=8)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("operation", DIFFERENTIABLE, ids=lambda o: o.name)
def test_every_operation_leaves_the_log_of_its_rules(operation, dtype):
    for case in cases(operation, dtype):
        made = gradients_of(case)
        if made is None:
            continue
        function, tensors = made
        try:
            want = by_rules(function, *tensors)
        except it.errors.IngleError:  # what cannot be compiled, or has no gradient in this dtype
            continue
        assert str(graph_of(function, *tensors)) == want, case.name
        assert str(graph_of(function, *tensors)) == want, case.name


class Block(nn.Module):
    def __init__(self):
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def __call__(self, x):
        return x + self.down(it.gelu(self.up(self.norm(x)))) * 0.5


def test_a_step_of_equal_layers_leaves_the_log_of_its_rules():
    model = nn.Sequential(*[Block() for _ in range(5)])
    optimizer = optim.AdamW(model)

    def step(x):
        loss = it.mean(model(x) ** 2)
        optimizer.step(loss.backward())
        return loss

    x = it.random.normal((4, 8))
    step(x)
    want = by_rules(step, x)
    assert str(graph_of(step, x)) == want
    assert {"linear", "gelu", "multiply", "layer_norm_training"} <= known()


def test_numbers_that_differ_are_told_apart():
    numbers = [2.0, 2.0, 2.0, 2, True, -0.0, 0.0, float("nan"), float("nan"), 3.0, 3.0, 3.0, 2.0]

    def slopes(x):
        x = require_grad(x)
        return tuple([(x * n).backward(it.ones(3))[x] for n in numbers])

    x = it.asarray([1.0, -2.0, 3.0])
    want = by_rules(slopes, x)
    assert str(graph_of(slopes, x)) == want
    got = compile(slopes)(x)
    assert "multiply" in known()
    np.testing.assert_array_equal(
        [g.tolist() for g in got], np.repeat(np.asarray(numbers, np.float32)[:, None], 3, axis=1)
    )


def test_numbers_and_tensors_of_one_element_are_told_apart():
    bound = it.asarray(1.0)

    def slopes(x):
        made = []
        for ends in [(0.0, bound)] * TIMES + [(bound, 0.0)] * TIMES:
            x = require_grad(x)
            made.append(it.clip(x, *ends).backward(it.ones(3))[x])
        return tuple(made)

    x = it.asarray([-1.0, 0.5, 3.0])
    want = by_rules(slopes, x)
    assert str(graph_of(slopes, x)) == want
    assert "clip" in known()
    got = [g.tolist() for g in compile(slopes)(x)]
    assert got == [[0.0, 1.0, 0.0]] * TIMES + [[0.0] * 3] * TIMES


def test_numbers_of_each_call_are_followed():
    def slopes(x, n):
        x = require_grad(x)
        return tuple([(x * (n + k)).backward(it.ones(3))[x] for k in range(TIMES)])

    x, compiled = it.ones(3), compile(slopes)
    for n in (1.0, 2.0, 5.0):
        got = [g.tolist() for g in compiled(x, n)]
        assert got == [[n + k] * 3 for k in range(TIMES)]


def test_second_derivatives_go_by_the_rules():
    def cubes(x):
        slope = grad(lambda x: it.sum(it.exp(x) * x))
        return [grad(lambda x: it.sum(slope(x) * slope(x)))(x) for _ in range(TIMES)]

    x = it.asarray([0.5, -1.0])
    want = by_rules(cubes, x)
    assert str(graph_of(cubes, x)) == want
    ours = np.asarray(compile(cubes)(x)[-1])
    n = np.asarray([0.5, -1.0])
    np.testing.assert_allclose(ours, 2 * np.exp(n) ** 2 * (n + 1) * (n + 2), rtol=1e-5)


def test_a_rule_of_ones_own_is_called_each_time():
    called = []

    @custom_gradient
    def doubled(x):
        def rule(g):
            called.append(1)
            return g * 2.0

        return x * 1.0, rule

    def slopes(x):
        x = require_grad(x)
        return tuple([doubled(x).backward(it.ones(3))[x] for _ in range(TIMES)])

    want = by_rules(slopes, it.ones(3))
    before = len(called)
    assert str(graph_of(slopes, it.ones(3))) == want
    assert len(called) == 2 * before


def test_rules_of_operations_from_outside_are_asked_each_time():
    slope = [2.0]
    scaled = Operation(
        "scaled_from_outside", tensors=("x",), rule=lambda x: x, traits=Traits("elementwise"),
        body=lambda x: x * slope[0], vjp={"x": lambda g: g * slope[0]},
    )  # fmt: skip
    del OPERATIONS[scaled.name]

    def slopes(x):
        x = require_grad(x)
        made = []
        for n in range(2 * TIMES):
            slope[0] = 2.0 + n
            y = run1(scaled.op(), handle_of(x, scaled.name))
            made.append(y.backward(it.ones(3))[x])
        return tuple(made)

    want = by_rules(slopes, it.ones(3))
    assert str(graph_of(slopes, it.ones(3))) == want
    assert not known()


def test_plain_code_and_other_devices_ask_the_rules():
    with it.device("numpy"):
        x = require_grad(it.ones(3))
        for _ in range(TIMES):
            it.exp(x).backward(it.ones(3))
    x = require_grad(it.ones(3))
    for _ in range(TIMES):
        it.exp(x).backward(it.ones(3))
    assert not known_rules._seen
