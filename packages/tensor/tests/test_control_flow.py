"""call, cond, scan and while_loop: run at once, and written down first."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import vmap
from ingle.tensor.errors import (
    ArgumentError,
    BatchError,
    DTypeError,
    OperandError,
    ShapeError,
    TraceError,
)
from ingle.tensor.programs import Aval, Program, recorded, trace
from ingle.tensor.pytree import flatten

Way = Callable[[Callable[..., Any]], Callable[..., Any]]
State = namedtuple("State", "h c")


@pytest.fixture(params=["at once", "written down", "twice"])
def way(request: pytest.FixtureRequest) -> Way:
    """How a function runs: as it is, as a program, and as a program of programs."""
    if request.param == "twice":
        return lambda f: recorded(lambda *args: it.call(f, *args))
    return recorded if request.param == "written down" else lambda f: f


def same(got: Any, want: Any) -> None:
    ours, theirs = flatten(got), flatten(want)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_scan_is_a_loop(way: Way) -> None:
    xs = np.random.default_rng(0).normal(size=(5, 3))
    w = it.asarray(0.5, dtype="float64")

    def f(xs: it.Tensor) -> Any:
        def step(carry: State, x: it.Tensor) -> Any:
            h = carry.h * w + x
            return State(h, carry.c + 1), {"h": h, "pair": (x, carry.c)}

        return it.scan(step, State(it.zeros(3, dtype="float64"), 0), xs)

    h, hs = np.zeros(3), []
    for x in xs:
        h = h * 0.5 + x
        hs.append(h)
    carry, ys = way(f)(it.asarray(xs))
    assert type(carry) is State
    same(carry, State(h, 5))
    same(ys, {"h": np.stack(hs), "pair": (xs, np.arange(5))})


def test_scan_backwards_keeps_places(way: Way) -> None:
    xs = it.asarray([1.0, 2.0, 4.0])
    f = way(lambda xs: it.scan(lambda c, x: (c + x, c), 0.0, xs, reverse=True))
    same(f(xs), (np.float32(7), np.array([6.0, 4.0, 0.0], np.float32)))


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_of_nothing(way: Way, reverse: bool) -> None:
    def f(x: it.Tensor, xs: it.Tensor) -> Any:
        return it.scan(lambda c, x: (c, (x > c, None, [c])), x, xs, reverse=reverse)

    carry, (compared, nothing, (carried,)) = way(f)(it.asarray(2.0), it.zeros((0, 4)))
    assert carry.item() == 2.0
    assert nothing is None
    assert compared.shape == (0, 4)
    assert compared.dtype is it.bool
    assert carried.shape == (0,)
    assert carried.dtype is it.float32


def test_scan_without_slices(way: Way) -> None:
    f = way(lambda x: it.scan(lambda c, x: (c * 2, c), x, None, length=4))
    same(f(it.asarray(1)), (16, np.array([1, 2, 4, 8])))
    same(way(lambda x: it.scan(lambda c, x: (c, c), x, length=0)[1])(it.asarray(1)), np.zeros(0))


def test_numbers_take_the_dtype_of_the_carry(way: Way) -> None:
    f = way(lambda x: it.scan(lambda c, _: (3, c), x, None, length=2)[0])
    assert f(it.asarray(1, dtype="int8")).dtype is it.int8
    with pytest.raises(DTypeError, match=r"scan: the carry after it=0\.5 does not fit"):
        way(lambda x: it.scan(lambda c, _: (0.5, c), x, None, length=2))(it.asarray(1))


def test_dicts_agree_in_any_order(way: Way) -> None:
    def f(x: it.Tensor) -> Any:
        return it.scan(lambda c, _: ({"b": c["a"], "a": c["b"]}, None), {"a": x, "b": -x}, length=3)

    same(way(f)(it.asarray(1.0))[0], {"a": np.float32(-1), "b": np.float32(1)})
    g = way(
        lambda x: it.cond(x > 0, lambda: {"a": x, "b": x * 2}, lambda: {"b": x * 3, "a": x * 4})
    )
    for value, want in ((1.0, {"a": 1.0, "b": 2.0}), (-1.0, {"a": -4.0, "b": -3.0})):
        found = g(it.asarray(value))
        assert {k: v.item() for k, v in found.items()} == want


def test_cond_takes_one_branch(way: Way) -> None:
    y = it.asarray(10.0)
    f = way(lambda x: it.cond(x > 0, lambda x: (x * y, 1), lambda x: (x - y, 2), x))
    same(f(it.asarray(2.0)), (np.float32(20), 1))
    same(f(it.asarray(-2.0)), (np.float32(-12), 2))
    ran: list[str] = []
    it.cond(True, lambda: ran.append("then"), lambda: ran.append("otherwise"))
    assert ran == ["then"]


def test_cond_compares_branches_where_both_are_there() -> None:
    """In plain code only one is, as with `if`; what is traced or in a batch has both."""
    f = partial(it.cond, True, lambda x: x, lambda x: (x, x))
    assert f(it.asarray(1.0)).item() == 1.0
    g = lambda x: it.cond(x > 0, lambda x: x, lambda x: (x, x), x)  # noqa: E731
    with pytest.raises(OperandError, match="cond: the result"):
        trace(g, [Aval((), it.float32)])
    with pytest.raises(OperandError, match="cond: the result"):
        vmap(g)(it.asarray([1.0, -1.0]))


def test_cond_of_a_known_predicate_is_not_written_down() -> None:
    traced = trace(lambda x: it.cond(True, it.sin, it.cos, x), [Aval((), it.float32)])
    assert [s.op.operation.name for s in traced.program.steps] == ["sin"]


def test_while_loop(way: Way) -> None:
    limit = it.asarray(100)
    f = way(lambda x: it.while_loop(lambda c: c[0] < limit, lambda c: (c[0] * 3, c[1] + 1), (x, 0)))
    same(f(it.asarray(2)), (162, 4))
    same(f(it.asarray(200)), (200, 0))


def test_nested(way: Way) -> None:
    """Collatz: how many steps each number takes, a loop with a branch inside of a scan."""

    def steps(n: int) -> int:
        count = 0
        while n != 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    def f(numbers: it.Tensor) -> it.Tensor:
        def advance(carry: Any) -> Any:
            n, count = carry
            return it.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1), count + 1

        def one(total: it.Tensor, n: it.Tensor) -> Any:
            count = it.while_loop(lambda c: c[0] != 1, advance, (n, 0))[1]
            return total + count, count

        return it.scan(one, 0, numbers)[1]

    same(way(f)(it.arange(1, 10)), np.array([steps(n) for n in range(1, 10)]))


def test_cells_are_carried(way: Way) -> None:
    average, other = it.Cell(it.asarray(1.0)), it.Cell(it.asarray(0.0))

    def f(xs: it.Tensor) -> Any:
        def step(total: it.Tensor, x: it.Tensor) -> Any:
            average.value = average * 0.5 + x
            it.cond(x > 1.5, lambda: write(other, x), lambda: None)
            return total + average, average.value

        def write(cell: it.Cell[it.Tensor], x: it.Tensor) -> None:
            cell.value = cell + x

        result = it.scan(step, 0.0, xs)
        it.while_loop(lambda c: c < 3, lambda c: (write(other, c), c + 1)[1], it.asarray(0.0))
        values = average.value, other.value
        average.value, other.value = it.asarray(1.0), it.asarray(0.0)
        return result, values

    first, second = (f(it.asarray([1.0, 2.0, 3.0])) for _ in range(2))
    same(first, second)
    with it.transaction(commit=False):
        got = _run(way, f, it.asarray([1.0, 2.0, 3.0]))
    same(got, first)


def _run(way: Way, f: Callable[..., Any], *args: it.Tensor) -> Any:
    """A function that leaves cells as they were but for writes of the same values."""
    try:
        return way(f)(*args)
    except OperandError:  # `recorded` hands out no cells that were written
        traced = trace(f, [Aval(x.shape, x.dtype) for x in args])
        return traced.run(*args)


def recorded_with_cells(f: Callable[..., Any], *args: it.Tensor) -> Any:
    """A function as a program; numbers that it writes to cells are written."""
    traced = trace(f, [Aval(x.shape, x.dtype) for x in args])
    for cell, number in traced.numbers.items():
        cell.value = number
    return traced.run(*args)


def test_numbers_in_cells_change_from_step_to_step() -> None:
    """A counter and a rate that follows from it: host numbers, another one in each step."""
    count, rate = it.Cell(3), it.Cell(1.0)

    def loop(x: it.Tensor) -> Any:
        def inner(c: it.Tensor, _: None) -> Any:
            rate.value = rate.value * 0.5 + 1 / count.value
            return c + rate.value, None

        def step(c: it.Tensor, x: it.Tensor) -> Any:
            count.value += 2
            c = c * count.value + x
            return it.scan(inner, c, length=2)[0], c

        return it.scan(step, it.zeros((), dtype="float64"), x, reverse=True)

    x = it.asarray(np.arange(4.0))
    first, numbers = loop(x), (count.value, rate.value)
    count.value, rate.value = 3, 1.0
    second = recorded_with_cells(loop, x)
    np.testing.assert_allclose(first[0].item(), second[0].item(), rtol=1e-15)
    np.testing.assert_allclose(first[1].numpy(), second[1].numpy(), rtol=1e-15)
    assert (count.value, rate.value) == numbers


def test_decisions_by_changing_numbers_are_refused() -> None:
    count = it.Cell(3)

    def step(c: it.Tensor, _: Any) -> Any:
        count.value += 1
        return (c * 2 if count.value % 2 else c), None

    with pytest.raises(TraceError, match="scan: Python decides something by the number in a cell"):
        recorded(lambda x: it.scan(step, x, length=3)[0])(it.asarray(1.0))
    assert count.value == 3

    def branch(x: it.Tensor) -> it.Tensor:
        return it.cond(x > 0, lambda: step(x, None)[0], lambda: x)

    with pytest.raises(TraceError, match=r"cond: a Cell holds the number 4 or 3 after it"):
        recorded(branch)(it.asarray(1.0))
    with pytest.raises(TraceError, match=r"while_loop: a Cell that holds the number 3 is set to 4"):
        recorded(lambda x: it.while_loop(lambda c: c < 3, lambda c: step(c, 0)[0], x))(
            it.asarray(1.0)
        )
    both = trace(lambda x: it.call(step, x, None)[0], [Aval((), it.float32)])
    assert list(both.numbers.values()) == [4]


@pytest.mark.slow
def test_draws_in_loops_are_those_of_a_loop_in_python() -> None:
    """Dropout and noise take the next place of the stream in each step, forward and backward."""
    grad = pytest.importorskip("ingle.autodiff").grad

    def f(x: it.Tensor, xs: it.Tensor) -> it.Tensor:
        def step(h: it.Tensor, x: it.Tensor) -> Any:
            h = it.dropout(it.tanh(h + x), 0.4) + it.random.normal(3, dtype="float64") * 0.1
            return h, h + it.random.uniform(3, dtype="float64")

        last, ys = it.scan(step, x, xs)
        return (last * ys.sum(axis=0)).sum() + it.random.normal((), dtype="float64")

    x, xs = it.ones(3, dtype="float64"), it.asarray(np.random.default_rng(0).normal(size=(4, 3)))
    for run in (f, grad(f), grad(lambda x, xs: (grad(f)(x, xs) ** 2).sum())):
        it.random.seed(7)
        wanted, state = run(x, xs), it.random.default_generator().state
        it.random.seed(7)
        got = recorded_with_cells(run, x, xs)
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-12)
        assert it.random.default_generator().state == state


def test_errors_name_the_leaf_and_both_sides() -> None:
    x, xs = it.asarray([1.0, 2.0]), it.zeros((3, 2))
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (
            DTypeError,
            r"scan: the carry\['h'\]\[1\] is float32\[2\] before a step and float64\[2\] after it",
            lambda: it.scan(
                lambda c, x: ({"h": [c["h"][0], c["h"][1].astype("float64")]}, None),
                {"h": [x, x]}, xs,
            ),
        ),
        (
            ShapeError,
            r"while_loop: the carry is float32\[2\] before a step and float32\[4\] after it",
            lambda: it.while_loop(lambda c: True, lambda c: it.concat([c, c]), x),
        ),
        (
            OperandError,
            r"scan: the carry\[0\] is a tensor float32\[2\] before a step and a tuple of 2 after",
            lambda: it.scan(lambda c, _: (((c[0], c[0]),), None), (x,), length=1),
        ),
        (
            ShapeError,
            r"cond: the result\[1\] is float32\[2\] from then and float32\[\] from otherwise",
            lambda: recorded(lambda x: it.cond(x[0] > 0, lambda: (x, x), lambda: (x, x[0])))(x),
        ),
        (
            OperandError,
            r"cond: the result is a dict with the keys \['a'\] from then and a dict with the keys",
            lambda: recorded(lambda x: it.cond(x[0] > 0, lambda: {"a": x}, lambda: {"b": x}))(x),
        ),
        (OperandError, "scan: the function must return a pair",
         lambda: it.scan(lambda c, x: c, x, xs)),
        (OperandError, r"scan: init\[0\] must be a tensor or a number, got str",
         lambda: it.scan(lambda c, x: (c, x), ["a"], xs)),
        (OperandError, "scan: function must be a function", lambda: it.scan(x, x, xs)),
        (OperandError, "cond: otherwise must be a function", lambda: it.cond(True, max, 3)),
        (ShapeError, r"scan: xs\[0\] has 3 slices .* xs\[1\] 2",
         lambda: it.scan(lambda c, x: (c, x), x, (xs, x))),
        (ShapeError, r"scan: xs\['a'\] is 0-d", lambda: it.scan(max, x, {"a": x[0]})),
        (ShapeError, "scan: length=4, but xs has 3", lambda: it.scan(max, x, xs, length=4)),
        (ArgumentError, "scan: xs has no tensors, so length", lambda: it.scan(max, x)),
        (ArgumentError, "scan: length must not be negative", lambda: it.scan(max, x, length=-1)),
        (ShapeError, r"cond: predicate must be one bool, got shape \(2,\)",
         lambda: it.cond(x > 0, max, max)),
        (DTypeError, "cond: predicate must be bool, got float32", lambda: it.cond(x[0], max, max)),
        (DTypeError, "while_loop: the condition must be bool",
         lambda: it.while_loop(lambda c: c, lambda c: c, 1)),
        (OperandError, "cond: predicate must be a tensor", lambda: it.cond("yes", max, max)),
    ]  # fmt: skip
    for error, message, call in cases:
        with pytest.raises(error, match=message):
            call()


def test_values_are_refused_with_the_line() -> None:
    def branching(x: it.Tensor) -> it.Tensor:
        if x > 0:
            return x
        return -x

    x = it.asarray(1.0)
    place = r"test_control_flow\.py:\d+, in branching: 'if x > 0:'.* Use where or cond"
    with pytest.raises(TraceError, match=place):
        recorded(branching)(x)
    for read in (float, int, bool, np.asarray, it.Tensor.tolist):
        with pytest.raises(TraceError, match="only being traced"):
            recorded(lambda x, read=read: read(x))(x)
    with pytest.raises(TraceError, match=r"nonzero: at .*in <lambda>.* where with a mask"):
        recorded(lambda x: x[x > 0])(it.ones(3))


def test_leaked_tensors_are_refused() -> None:
    leaked = []
    recorded(lambda x: leaked.append(x) or x)(it.asarray(1.0))
    (x,) = leaked
    for use in (
        lambda: x + 1,
        lambda: it.ones(2) * x,
        lambda: x.numpy(),
        lambda: it.call(it.sin, x),
    ):
        with pytest.raises(TraceError, match="outside of the function"):
            use()


def test_a_tensor_of_a_trace_that_ended_is_no_input_of_another() -> None:
    kept: list[it.Tensor] = []

    def keep(x: it.Tensor) -> it.Tensor:
        kept.append(x * 2.0)
        return x

    trace(keep, [Aval((2,), it.float32)])
    with pytest.raises(TraceError, match=r"shape \(2,\) comes out of a transform that ended"):
        trace(lambda y: y + kept[0], [Aval((2,), it.float32)])


def test_programs_are_values() -> None:
    w = it.asarray([1.0, 2.0])

    def written(factor: float, w: it.Tensor) -> Program:
        def f(x: it.Tensor) -> it.Tensor:
            it.exp(x)  # nobody needs it
            return it.scan(lambda c, _: (c * w * factor, None), x, length=3)[0]

        return trace(f, [Aval((2,), it.float32)]).program

    one = written(2.0, w)
    assert one is written(2.0, it.ones(2))
    assert hash(one) == hash(written(2.0, w))
    assert one != written(3.0, w)
    assert one != written(2, w)
    assert [s.op.operation.name for s in one.steps] == ["scan"]
    assert one.arity == 2
    assert one.results == (Aval((2,), it.float32),)
    assert str(one).splitlines()[-1] == "return %2"
    assert one.run(w, w)[0].tolist() == [8.0, 128.0]
    assert one.reached([False, True]) == (True,)


def test_values_are_dropped_after_their_last_use() -> None:
    """A chain of steps holds two of its values at a time, not all of them."""
    program = trace(lambda x: it.sin(it.cos(it.sin(it.cos(x)))), [Aval((2,), it.float32)]).program
    assert [len(d) for d in program._dying] == [1, 1, 1, 1]


def test_what_is_closed_over_is_one_input() -> None:
    w = it.Cell(it.asarray([1.0, 2.0]), differentiable=True)
    traced = trace(lambda x: x * w + it.sin(x) / w, [Aval((2,), it.float32)])
    assert traced.program.arity == 2
    assert len(traced.closed) == 1


def test_call_is_one_step_with_a_name() -> None:
    def layer(x: it.Tensor) -> it.Tensor:
        return it.tanh(x) + 1

    program = trace(
        lambda x: it.call(layer, it.call(layer, x), name="last"), [Aval((2,), it.float32)]
    ).program
    assert [s.op.attributes["name"] for s in program.steps] == ["layer", "last"]
    first, second = (s.op.attributes["body"] for s in program.steps)
    assert first is second


def test_draws_in_branches_are_not_repeated() -> None:
    def f(x: it.Tensor) -> Any:
        y = it.cond(x > 0, lambda: it.random.normal(3), lambda: it.random.normal(1) * it.ones(3))
        return y, it.random.normal(3)

    it.random.seed(5)
    a, b = recorded_with_cells(f, it.asarray(1.0))
    assert not set(a.tolist()) & set(b.tolist())
    it.random.seed(5)
    eager = f(it.asarray(1.0))
    same((a, b), eager)


def test_a_loop_over_a_batch_writes_no_cells() -> None:
    vmap = pytest.importorskip("ingle.autodiff").vmap
    cell = it.Cell(it.asarray(0.0))

    def body(c: it.Tensor) -> it.Tensor:
        cell.value = it.asarray(1.0)
        return c + 1

    with pytest.raises(BatchError, match="while_loop: its body writes to a cell"):
        vmap(lambda x: it.while_loop(lambda c: c < 3, body, x))(it.asarray([0.0, 2.0]))


def test_unstack_has_one_gradient_step() -> None:
    pytest.importorskip("ingle.autodiff")
    x = it.asarray(np.arange(6.0).reshape(3, 2)).require_grad()
    a, _, c = it.unstack(x)
    grads = (a * c + c).sum().backward()
    np.testing.assert_array_equal(grads[x].numpy(), [[4.0, 5.0], [0.0, 0.0], [1.0, 2.0]])
