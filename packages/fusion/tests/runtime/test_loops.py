"""Loops that are planned once: `scan` in compiled functions, beside loops of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.passes import decompose
from ingle.fusion.runtime import loops
from ingle.fusion.runtime.loops import LoopPlan
from ingle.fusion.runtime.programs import ProgramPlans

Step = Callable[[Any, Any], tuple[Any, Any]]

RNG = np.random.default_rng(11)
WEIGHT = RNG.standard_normal((5, 5)) * 0.4


@pytest.fixture(autouse=True)
def most_steps(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many operations are unrolled; here fewer, so that loops of a few hundred steps stay."""
    before = decompose.MOST_STEPS
    monkeypatch.setattr(decompose, "MOST_STEPS", 512)
    return before


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[LoopPlan]:
    """The loops that were planned."""
    made: list[LoopPlan] = []
    plan = LoopPlan.__init__

    def noting(self: LoopPlan, *args: Any) -> None:
        plan(self, *args)
        made.append(self)

    monkeypatch.setattr(LoopPlan, "__init__", noting)
    return made


def by_numpy(step: Step, carry: Any, xs: Any, reverse: bool) -> tuple[Any, Any]:
    order = range(len(xs))[::-1] if reverse else range(len(xs))
    rows: list[Any] = [None] * len(xs)
    for i in order:
        carry, rows[i] = step(carry, xs[i])
    return carry, [np.stack(column) for column in zip(*rows, strict=True)]


def of(module: Any) -> dict[str, tuple[Step, int]]:
    """Steps by what is special about them, on tensors or on arrays, with the number of carries."""
    weight = module.asarray(WEIGHT)
    sort = module.sort

    def decayed(c: Any, x: Any) -> Any:
        (h,) = c
        h = module.tanh(h @ weight + x)
        return (h,), (h, h * x)

    def unchanged(c: Any, x: Any) -> Any:
        a, b = c
        return (a, b + a * x), (b,)

    def swapped(c: Any, x: Any) -> Any:
        a, b = c
        return (b, a + x), (a * 2.0,)

    def shifted(c: Any, x: Any) -> Any:
        a, b, d = c
        return (b, d, x + a * 0.5), (a, b)

    def sorted_(c: Any, x: Any) -> Any:
        (h,) = c
        h = sort(h * 0.5 + x)
        return (h,), (h,)

    def transposed(c: Any, x: Any) -> Any:
        (h,) = c
        h = module.permute_dims(h, (1, 0)) * 0.5 + x
        return (h,), (module.permute_dims(h, (1, 0)), x)

    def rolled(c: Any, x: Any) -> Any:
        (h,) = c
        wide = module.concat([h, x], axis=1)
        return (wide[:, 3:8],), (module.sum(wide),)

    return {
        "recurrent": (decayed, 1),
        "unchanged carry": (unchanged, 2),
        "swapped carries": (swapped, 2),
        "shift register": (shifted, 3),
        "host steps": (sorted_, 1),
        "transposed": (transposed, 1),
        "views": (rolled, 1),
    }


class Arrays:
    """NumPy by the names of the standard."""

    asarray = staticmethod(np.asarray)
    concat = staticmethod(np.concatenate)
    permute_dims = staticmethod(np.transpose)
    sort = staticmethod(np.sort)
    sum = staticmethod(np.sum)
    tanh = staticmethod(np.tanh)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [300, 307])
@pytest.mark.parametrize("name", list(of(Arrays)))
def test_a_long_scan_is_what_the_loop_is(
    name: str, length: int, reverse: bool, planned: list[LoopPlan]
) -> None:
    step, count = of(it)[name]
    xs = RNG.standard_normal((length, 5, 5))
    init = [RNG.standard_normal((5, 5)) for _ in range(count)]

    @compile
    def looped(init: Any, xs: Any) -> Any:
        return it.scan(step, tuple(init), xs, reverse=reverse)

    tensors = [it.asarray(x) for x in init]
    for _ in range(3):
        carry, ys = looped(tensors, it.asarray(xs))
    expected, rows = by_numpy(of(Arrays)[name][0], tuple(init), xs, reverse)
    for got, wanted in zip([*carry, *ys], [*expected, *rows], strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-11, atol=1e-11)
    for x, before in zip(tensors, init, strict=True):
        np.testing.assert_array_equal(x.numpy(), before)  # nothing is written over outside
    assert len(planned) == 1


@pytest.mark.slow
def test_a_recurrent_net_of_fifty_steps_is_one_plan(
    monkeypatch: pytest.MonkeyPatch, most_steps: int
) -> None:
    """Forward and backward as many kernels as the loop that somebody unrolled by hand has."""
    monkeypatch.setattr(decompose, "MOST_STEPS", most_steps)
    xs = it.asarray(RNG.standard_normal((50, 8, 32)), dtype="float32")
    weights = [it.asarray(RNG.standard_normal((32, 32)) * 0.2, dtype="float32") for _ in range(2)]

    def gradients(by_scan: bool, xs: Any, *weights: Any) -> list[Any]:
        w, u = leaves = [x.require_grad() for x in weights]

        def step(h: Any, x: Any) -> Any:
            h = it.tanh(x @ w + h @ u)
            return h, h

        h = it.zeros((8, 32))
        if by_scan:
            h, _ = it.scan(step, h, xs)
        else:
            for t in range(50):
                h, _ = step(h, xs[t])
        found = it.sum(h * h).backward()
        return [found[x] for x in leaves]

    steps = [
        explain(lambda *given, way=way: gradients(way, *given), xs, *weights, runs=0).steps
        for way in (True, False)
    ]
    assert not any(step.kind == "host" for step in steps[0])
    assert len(steps[0]) <= len(steps[1]) + 60  # a copy for what each step stacks
    ways = [compile(lambda *given, way=way: gradients(way, *given)) for way in (True, False)]
    for one, other in zip(*[way(xs, *weights) for way in ways], strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("length", [200, 211])
def test_gradients_of_a_long_scan(length: int) -> None:
    xs = RNG.standard_normal((length, 3, 5)) * 0.3

    def loss(weight: Any, xs: Any, unrolled: bool) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = it.tanh(h @ weight + x)
            return h, h * h

        if not unrolled:
            last, ys = it.scan(step, it.zeros((3, 5), dtype="float64"), xs)
            return it.sum(ys) + it.sum(last)
        h, total = it.zeros((3, 5), dtype="float64"), 0.0
        for i in range(length):
            h, y = step(h, xs[i])
            total = total + it.sum(y)
        return total + it.sum(h)

    def gradients(weight: Any, xs: Any, unrolled: bool) -> list[Any]:
        leaves = [weight.require_grad(), xs.require_grad()]
        grads = loss(*leaves, unrolled).backward()
        return [grads[x] for x in leaves]

    compiled = compile(lambda w, x: gradients(w, x, False))
    for _ in range(3):
        found = compiled(it.asarray(WEIGHT), it.asarray(xs))
    with it.device("numpy"):
        plain = gradients(it.asarray(WEIGHT), it.asarray(xs), True)
    for got, wanted in zip(found, plain, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("at_once", [1, 2, 7])
def test_slices_that_a_plan_makes_in_another_shape(
    at_once: int, monkeypatch: pytest.MonkeyPatch, planned: list[LoopPlan]
) -> None:
    """A kernel of one step leaves out the axis of the steps; others are reshaped behind it."""

    def step(c: Any, x: Any) -> Any:
        c = it.tanh(c * 0.5 + x)
        return c, (c * x, it.reshape(c * c, (2, 2, 1)), it.sum(c), it.reshape(c - x, (4,)))

    monkeypatch.setattr(loops, "_steps_at_once", lambda loop: at_once)
    compiled = compile(lambda xs: it.scan(step, it.zeros((2, 2), dtype="float64"), xs))
    xs = RNG.standard_normal((299, 2, 2))
    for _ in range(3):
        last, ys = compiled(it.asarray(xs))
    assert len(planned) == 1
    c = np.zeros((2, 2))
    for x, *got in zip(xs, *(y.numpy() for y in ys), strict=True):
        c = np.tanh(c * 0.5 + x)
        wanted = (c * x, (c * c)[..., None], c.sum(), (c - x).reshape(4))
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(last.numpy(), c, rtol=1e-11)


def test_a_loop_without_a_kernel() -> None:
    """Nothing is computed: the carries are what they were."""
    compiled = compile(lambda a, b, xs: it.scan(lambda c, x: (c, None), (a, b), xs)[0])
    a, b = RNG.standard_normal((3, 2)), RNG.standard_normal(())
    for _ in range(3):
        found = compiled(it.asarray(a), it.asarray(b), it.ones((900, 2)))
        np.testing.assert_array_equal(found[0].numpy(), a)
        np.testing.assert_array_equal(found[1].numpy(), b)


@pytest.mark.slow
def test_an_index_out_of_range_in_a_late_step_is_an_error() -> None:
    @compile
    def looked_up(table: Any, indices: Any) -> Any:
        step = lambda c, i: (c + it.take(table, i, axis=0), c)  # noqa: E731
        return it.scan(step, it.zeros((2,)), indices)[0]

    table = it.ones((4, 2))
    indices = np.zeros((400, 1), np.int64)
    good = it.asarray(indices[:, 0] % 4)
    step = looked_up(table, good)
    assert step.tolist() == [400.0, 400.0]
    assert looked_up(table, good).tolist() == [400.0, 400.0]
    indices[397] = 7
    with pytest.raises(IndexError, match="size 4"):
        looked_up(table, it.asarray(indices[:, 0])).tolist()
    assert looked_up(table, good).tolist() == [400.0, 400.0]


@pytest.mark.slow
def test_loops_in_loops(planned: list[LoopPlan]) -> None:
    def inner(c: Any, x: Any) -> Any:
        return it.sin(c + x), c

    def outer(c: Any, row: Any) -> Any:
        c, ys = it.scan(inner, c, row)
        return c, it.sum(ys)

    xs = RNG.standard_normal((6, 300, 3))
    compiled = compile(lambda xs: it.scan(outer, it.zeros(3, dtype="float64"), xs))
    for _ in range(3):
        last, sums = compiled(it.asarray(xs))
    c, expected = np.zeros(3), []
    for row in xs:
        total = 0.0
        for x in row:
            total += c.sum()
            c = np.sin(c + x)
        expected.append(total)
    np.testing.assert_allclose(last.numpy(), c, rtol=1e-10)
    np.testing.assert_allclose(sums.numpy(), expected, rtol=1e-9)
    assert len(planned) == 2


def test_numbers_of_the_host_reach_each_step() -> None:
    @compile
    def scaled(xs: Any, rate: float) -> Any:
        return it.scan(lambda c, x: (c * rate + x, c), it.zeros((), dtype="float64"), xs)[0]

    xs = RNG.standard_normal(400)
    for rate in (0.5, 0.25, 0.75, 0.75):
        expected = 0.0
        for x in xs:
            expected = expected * rate + x
        assert scaled(it.asarray(xs), rate).item() == pytest.approx(expected, rel=1e-12)


def test_bodies_of_other_loops_and_branches_are_planned_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = ProgramPlans.run
    ran: list[int] = []

    def noting(self: ProgramPlans, program: Any, inputs: Any) -> Any:
        ran.append(len(program.steps))
        return plans(self, program, inputs)

    monkeypatch.setattr(ProgramPlans, "run", noting)

    def heron(carry: Any) -> Any:
        y, x, n = carry
        return (y + x / y) / 2.0, x, n + 1

    @compile
    def root(x: Any) -> Any:
        begun = it.ones_like(x), x, it.asarray(0)
        y, _, n = it.while_loop(lambda c: it.max(it.abs(c[0] * c[0] - c[1])) > 1e-9, heron, begun)
        return y, n

    @compile
    def bent(x: Any, flag: Any) -> Any:
        return it.cond(flag, lambda x: it.sin(x) * 2.0 + x, lambda x: x * x - 1.0, x)

    values = np.linspace(1.0, 50.0, 9)
    for _ in range(3):
        y, n = root(it.asarray(values))
        np.testing.assert_allclose(y.numpy(), np.sqrt(values), rtol=1e-12)
        assert 6 < n.item() < 15
    for flag, wanted in ((True, np.sin(values) * 2.0 + values), (False, values * values - 1.0)) * 2:
        np.testing.assert_allclose(bent(it.asarray(values), it.asarray(flag)).numpy(), wanted)
    assert ran.count(4) + ran.count(5) >= 3 * n.item()  # steps of the condition and the body


def test_a_carry_that_is_there_twice_is_not_written_over() -> None:
    def step(c: Any, x: Any) -> Any:
        a, b = c
        return (a * 0.5 + x, a * 0.5 + x), it.tanh(it.permute_dims(b, (1, 0)) @ b)

    def loop(init: Any, xs: Any) -> Any:
        return it.scan(step, (init, init), xs)[1]

    xs = RNG.standard_normal((300, 40, 40))
    init = RNG.standard_normal((40, 40))
    compiled = compile(loop)
    for _ in range(3):
        found = compiled(it.asarray(init), it.asarray(xs))
    h = init
    for x, got in zip(xs, found.numpy(), strict=True):
        np.testing.assert_allclose(got, np.tanh(h.T @ h), rtol=1e-9, atol=1e-9)
        h = h * 0.5 + x


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "number",
    [
        lambda i: i * i % 6,  # 0, 1, 4, 3: from 0 by 1 to 3, but for what is between
        lambda i: 2 * i + 1,
        lambda i: 7 - i,
        lambda i: i * 0 + 3,
        lambda i: i // 2,
    ],
)
def test_numbers_of_a_counter_are_those_of_each_step(
    number: Callable[[Any], Any], reverse: bool
) -> None:
    count = it.Cell(0)

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        y = x * number(count.value)
        count.value = count.value + 1
        return carry + y, y

    compiled = compile(lambda xs: it.scan(step, it.asarray(0), xs, reverse=reverse))
    xs = it.arange(1, 5)
    for start in (0, 0, 3, 0, 1, 3):
        count.value = start
        last, found = compiled(xs)
        places = [3 - i if reverse else i for i in range(4)]
        wanted = [x * number(start + i) for x, i in zip((1, 2, 3, 4), places, strict=True)]
        assert (found.tolist(), last.item()) == (wanted, sum(wanted))
        assert count.value == start + 4
