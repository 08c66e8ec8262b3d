"""Gradients and batches of call, cond, scan and while_loop: run at once, and as programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ingle.tensor as it
from ingle.autodiff import (
    custom_gradient,
    grad,
    hessian,
    jacobian,
    jvp,
    linearize,
    no_grad,
    vjp,
    vmap,
)
from ingle.tensor.contract import Aval
from ingle.tensor.errors import GradientError
from ingle.tensor.programs import recorded, trace
from ingle.tensor.pytree import flatten

Way = Callable[[Callable[..., Any]], Callable[..., Any]]
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def draw(*shape: int, seed: int = 0, scale: float = 0.7) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape) * scale


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
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), **CLOSE)


def against_torch(ours: Any, theirs: Any, arrays: list[np.ndarray]) -> None:
    """First and second derivatives, the second both by nesting and by `create_graph`."""
    torch = pytest.importorskip("torch")
    xs = [it.asarray(a) for a in arrays]
    ts = [torch.tensor(a, requires_grad=True) for a in arrays]
    places = tuple(range(len(xs)))
    wanted = theirs(*ts)
    np.testing.assert_allclose(ours(*xs).item(), wanted.item(), **CLOSE)
    first = torch.autograd.grad(wanted, ts, create_graph=True)
    same(grad(ours, places)(*xs), tuple(g.detach() for g in first))
    second = torch.autograd.grad(sum((g * g).sum() for g in first), ts)

    def squares(*xs: it.Tensor) -> it.Tensor:
        return sum((g * g).sum() for g in grad(ours, places)(*xs))

    same(grad(squares, places)(*xs), second)
    marked = [x.require_grad() for x in xs]
    grads = ours(*marked).backward(create_graph=True)
    again = sum((grads[x] * grads[x]).sum() for x in marked).backward()
    same([again[x] for x in marked], second)


def rnn(w: Any, u: Any, h: Any, xs: Any) -> it.Tensor:
    def step(h: it.Tensor, x: it.Tensor) -> Any:
        h = it.tanh(h @ w + x @ u)
        return h, h

    last, hs = it.scan(step, h, xs)
    return (last * last).sum() + (hs * it.sin(hs)).sum()


@pytest.mark.slow
def test_recurrent_net(way: Way) -> None:
    torch = pytest.importorskip("torch")

    def theirs(w: Any, u: Any, h: Any, xs: Any) -> Any:
        hs = []
        for x in xs:
            h = torch.tanh(h @ w + x @ u)
            hs.append(h)
        return (h * h).sum() + sum((h * torch.sin(h)).sum() for h in hs)

    arrays = [draw(3, 3), draw(2, 3, seed=1), draw(4, 3, seed=2), draw(5, 4, 2, seed=3)]
    against_torch(way(rnn), theirs, arrays)


@pytest.mark.slow
def test_lstm_backwards_with_structures(way: Way) -> None:
    torch = pytest.importorskip("torch")

    def cell(sigmoid: Any, tanh: Any, w: Any, h: Any, c: Any, x: Any) -> Any:
        gates = x + h @ w
        i, f, g, o = (gates[..., 2 * k : 2 * k + 2] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(c), c

    def ours(w: Any, xs: Any) -> it.Tensor:
        def step(state: Any, x: Any) -> Any:
            h, c = cell(it.sigmoid, it.tanh, w, state["h"], state["c"], x["x"])
            return {"h": h, "c": c}, (c * x["x"][..., :2],)

        zero = it.zeros(2, dtype="float64")
        state, (ys,) = it.scan(step, {"h": zero, "c": zero}, {"x": xs}, reverse=True)
        return (state["h"] ** 2).sum() + (ys**3).sum()

    def theirs(w: Any, xs: Any) -> Any:
        h = c = torch.zeros(2, dtype=torch.float64)
        total: Any = 0.0
        for x in reversed(xs):
            h, c = cell(torch.sigmoid, torch.tanh, w, h, c, x)
            total = total + ((c * x[..., :2]) ** 3).sum()
        return (h**2).sum() + total

    against_torch(way(ours), theirs, [draw(2, 8), draw(4, 8, seed=1)])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_branches_with_different_residuals(way: Way, sign: float) -> None:
    torch = pytest.importorskip("torch")
    s, c = it.asarray(sign), it.asarray(draw(3, seed=4))

    def ours(x: Any, y: Any) -> it.Tensor:
        a, b = it.cond(
            s > 0,
            lambda x, y: (it.tanh(x @ x) * c, it.exp(y)),
            lambda x, y: (it.exp(x) * it.sin(x) / (x * x + 1), y * y * c.sum()),
            x, y,
        )  # fmt: skip
        return (a * a).sum() * b.sum()

    def theirs(x: Any, y: Any) -> Any:
        k = torch.tensor(c.numpy())
        if sign > 0:
            a, b = torch.tanh(x @ x) * k, torch.exp(y)
        else:
            a, b = torch.exp(x) * torch.sin(x) / (x * x + 1), y * y * k.sum()
        return (a * a).sum() * b.sum()

    against_torch(way(ours), theirs, [draw(3, 3), draw(2, seed=1)])


@pytest.mark.slow
def test_scan_of_a_branch_of_a_scan(way: Way) -> None:
    torch = pytest.importorskip("torch")

    def ours(w: Any, xs: Any) -> it.Tensor:
        def inner(c: Any, w: Any) -> Any:
            return it.scan(lambda c, v: (it.sin(c * v), c), c, w)[0]

        def step(c: Any, x: Any) -> Any:
            c = it.cond(x > 0, lambda: inner(c, w) + x, lambda: it.call(it.cos, c * x))
            return c, c * x

        c, ys = it.scan(step, xs[0], xs)
        return c * ys.sum()

    def theirs(w: Any, xs: Any) -> Any:
        c, total = xs[0], 0.0
        for x in xs:
            if x > 0:
                for v in w:
                    c = torch.sin(c * v)
                c = c + x
            else:
                c = torch.cos(c * x)
            total = total + c * x
        return c * total

    against_torch(way(ours), theirs, [draw(3, scale=1.5), draw(5, seed=2)])


@pytest.mark.slow
@pytest.mark.sampled(3)
def test_other_products(way: Way) -> None:
    arrays = [it.asarray(draw(*s, seed=i)) for i, s in enumerate([(3, 3), (2, 3), (3,), (4, 2)])]
    w, *rest = arrays
    f = way(rnn)
    plain, ours = (lambda w, g=g: g(w, *rest) for g in (rnn, f))
    same(hessian(ours)(w), hessian(plain)(w))
    same(jvp(ours, (w,), (w,)), jvp(plain, (w,), (w,)))
    same(linearize(ours, w)[1](w), linearize(plain, w)[1](w))
    same(vjp(ours, w)[1](it.asarray(2.0, dtype="float64")), [grad(plain)(w) * 2])
    many = way(lambda w: it.scan(lambda c, x: (c @ w, c * x), rest[1], rest[2][:, 0])[1])
    direct = lambda w: it.scan(lambda c, x: (c @ w, c * x), rest[1], rest[2][:, 0])[1]  # noqa: E731
    for mode in ("forward", "reverse"):
        same(jacobian(many, mode=mode)(w), jacobian(direct, mode=mode)(w))


def test_gradients_inside_are_written_down(way: Way) -> None:
    """Descent on a loss, itself differentiated by its learning rate."""
    target = it.asarray(draw(3, seed=5))

    def loss(x: it.Tensor) -> it.Tensor:
        return it.scan(lambda c, x: (c + it.cond(x > 0, it.square, it.exp, x), None),
                       it.asarray(0.0, dtype="float64"), x - target)[0]  # fmt: skip

    def trained(rate: it.Tensor) -> it.Tensor:
        def step(x: it.Tensor, _: None) -> Any:
            return x - rate * grad(loss)(x), None

        return loss(it.scan(step, it.zeros(3, dtype="float64"), length=3)[0])

    rate = it.asarray(0.1, dtype="float64")
    step = 1e-6
    slope = (trained(rate + step) - trained(rate - step)).item() / (2 * step)
    np.testing.assert_allclose(grad(way(trained))(rate).item(), slope, rtol=1e-6)


def batches() -> Any:
    return [it.asarray(draw(4, *s, seed=i)) for i, s in enumerate([(3, 3), (2, 3), (3,), (5, 2)])]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("axes", [(0, 0, 0, 0), (0, None, None, None), (None, None, None, 0),
                                  (None, None, 0, None)])  # fmt: skip
def test_batches_of_scans(way: Way, axes: Any) -> None:
    given = [b if a == 0 else b[0] for b, a in zip(batches(), axes, strict=True)]
    rows = [[g[i] if a == 0 else g for g, a in zip(given, axes, strict=True)] for i in range(4)]
    f, places = way(rnn), (0, 1, 2, 3)
    same(vmap(f, axes)(*given), np.stack([rnn(*r).numpy() for r in rows]))
    found = vmap(grad(f, places), axes)(*given)
    wanted = [grad(rnn, places)(*r) for r in rows]
    same(found, tuple(np.stack([w[k].numpy() for w in wanted]) for k in places))
    summed = grad(lambda *xs: vmap(f, axes)(*xs).sum(), places)(*given)
    for k in places:
        want = found[k] if axes[k] == 0 else found[k].sum(axis=0)
        np.testing.assert_allclose(summed[k].numpy(), want.numpy(), **CLOSE)
    same(way(vmap(grad(rnn, places), axes))(*given), found)


def choose(s: it.Tensor, x: it.Tensor) -> it.Tensor:
    return it.cond(s > 0, lambda x: it.exp(x).sum() * x, lambda x: x * x * s, x)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("signs", [[1.0, -1.0, 2.0], [1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], []])
@pytest.mark.parametrize("batched", ["both", "predicate", "operands"])
def test_batches_of_branches(way: Way, signs: list[float], batched: str) -> None:
    n = len(signs)
    s, x = it.asarray(np.array(signs, np.float64)), it.asarray(draw(n, 2))
    axes: Any = {"both": (0, 0), "predicate": (0, None), "operands": (None, 0)}[batched]
    given = [s, x]
    if axes[0] is None:
        given[0] = it.asarray(-1.5, dtype="float64")
    if axes[1] is None:
        given[1] = it.asarray(draw(2, seed=3))
    f = way(lambda s, x: choose(s, x).sum())
    rows = [[g if a is None else g[i] for g, a in zip(given, axes, strict=True)] for i in range(n)]
    wanted = np.array([choose(*r).sum().item() for r in rows])
    same(vmap(f, axes)(*given), wanted)
    slopes = [grad(lambda s, x: choose(s, x).sum(), (0, 1))(*r) for r in rows]
    found = vmap(grad(f, (0, 1)), axes)(*given)
    inside = way(vmap(grad(lambda s, x: choose(s, x).sum(), (0, 1)), axes))(*given)
    for k in range(2):
        want = np.array([g[k].numpy() for g in slopes]).reshape(found[k].shape)
        np.testing.assert_allclose(found[k].numpy(), want, **CLOSE)
        np.testing.assert_allclose(inside[k].numpy(), want, **CLOSE)


def test_batches_of_loops(way: Way) -> None:
    def power(x: it.Tensor, n: it.Tensor) -> it.Tensor:
        start = (it.asarray(0), it.asarray(1.0, dtype="float64"), x)
        return it.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * c[2], c[2]), start)[1]

    x, n = it.asarray(draw(5)), it.asarray([3, 0, 1, 7, 2])
    f = way(power)
    same(vmap(f)(x, n), x.numpy() ** n.numpy())
    same(vmap(f, (0, None))(x, n[0]), x.numpy() ** 3)
    same(vmap(f, (None, 0))(x[0], n), x.numpy()[0] ** n.numpy())
    same(vmap(grad(f))(x, n), n.numpy() * x.numpy() ** (n.numpy() - 1.0))
    same(way(vmap(power))(x, n), x.numpy() ** n.numpy())
    same(vmap(vmap(f, (0, None)), (None, 0))(x, n), x.numpy()[None] ** n.numpy()[:, None])


def test_loops_of_any_length_have_gradients() -> None:
    def root(x: it.Tensor) -> it.Tensor:
        """Newton's iteration for a square root."""
        return it.while_loop(
            lambda y: it.abs(y * y - x) > 1e-12, lambda y: 0.5 * (y + x / y), it.ones_like(x)
        )

    x = it.asarray(2.0, dtype="float64")
    squares = lambda f: lambda x: grad(f)(x) ** 2  # noqa: E731
    for f in (root, recorded(root)):
        same(grad(squares(f))(x), -0.25 / 2.0**2)
        np.testing.assert_allclose(grad(f)(x).item(), 0.5 / np.sqrt(2.0), rtol=1e-9)
        np.testing.assert_allclose(jvp(f, (x,), (x,))[1].item(), 1 / np.sqrt(2.0), rtol=1e-9)
    along = recorded(lambda x, t: jvp(root, (x,), (t,))[1])
    np.testing.assert_allclose(recorded(grad(root))(x).item(), 0.5 / np.sqrt(2.0), rtol=1e-9)
    np.testing.assert_allclose(along(x, x).item(), 1 / np.sqrt(2.0), rtol=1e-9)
    loops = [s.op.operation.name for s in trace(lambda x: jvp(root, (x,), (x,))[1],
                                                [Aval((), it.float64)]).program.steps]  # fmt: skip
    assert "while_loop_pulled" not in loops
    with pytest.raises(
        GradientError, match=r"while_loop: a second .* use scan with a fixed length"
    ):
        recorded(grad(squares(root)))(x)
    same(recorded(grad(lambda x: x * it.stop_gradient(root(it.stop_gradient(x)))))(x), np.sqrt(2.0))


def test_constants_stay_constants_in_programs(way: Way) -> None:
    def f(x: it.Tensor) -> it.Tensor:
        with no_grad():
            y = it.exp(x)
        return (y * x + x.detach() * x + it.stop_gradient(x) * x).sum()

    x = it.asarray(draw(3))
    same(grad(way(f))(x), np.exp(x.numpy()) + 2 * x.numpy())


def test_parameters_that_are_closed_over(way: Way) -> None:
    w = it.Cell(it.asarray(draw(3)), differentiable=True)
    xs = it.asarray(draw(4, 3, seed=1))

    def f(x: it.Tensor) -> it.Tensor:
        return it.scan(lambda c, x: (c * w + x, None), x, xs)[0].sum()

    x = it.asarray(draw(3, seed=2)).require_grad()
    grads, wanted = way(f)(x).backward(), f(x).backward()
    same([grads[w], grads[x]], [wanted[w], wanted[x]])
    same(grad(lambda w: way(f)(x), 0)(w)[w], wanted[w])


def test_training_in_a_loop(way: Way) -> None:
    """Cells that are differentiated, and written, in every step."""
    w = it.Cell(it.asarray(draw(3)), differentiable=True)
    xs = it.asarray(draw(5, 3, seed=1))

    def trained(xs: it.Tensor) -> Any:
        def step(_: Any, x: it.Tensor) -> Any:
            slope = grad(lambda w: ((w * x).sum() - 1.0) ** 2)(w)[w]
            w.value = w.value - 0.1 * slope
            return None, (slope * slope).sum()

        with it.transaction():
            _, norms = it.scan(step, None, xs)
            value = it.stop_gradient(w.raw)
            w.value = first
        return norms, value

    first = w.raw
    v, norms = first.numpy(), []
    for x in xs.numpy():
        slope = 2 * (v @ x - 1) * x
        v = v - 0.1 * slope
        norms.append(slope @ slope)
    traced = trace(trained, [Aval((5, 3), it.float64)])
    same(trained(xs), (np.array(norms), v))
    same(traced.run(xs), (np.array(norms), v))


def test_only_what_rules_ask_for_is_stacked() -> None:
    """The states of a net are stacked already; those before them need no stack of their own."""

    def step(w: it.Tensor, h: it.Tensor, x: it.Tensor) -> Any:
        h = it.tanh(h * w + x)
        return h, h

    def f(w: it.Tensor, h: it.Tensor, xs: it.Tensor) -> it.Tensor:
        return it.scan(lambda h, x: step(w, h, x), h, xs)[1].sum()

    avals = [Aval((3,), it.float64), Aval((3,), it.float64), Aval((4, 3), it.float64)]
    program = trace(grad(f, (0, 1, 2)), avals).program
    scans = [s for s in program.steps if s.op.operation.name == "scan"]
    assert [len(s.op.attributes["body"].outputs) for s in scans] == [2, 3]
    assert scans[0].op.attributes["body"].outputs[0] == scans[0].op.attributes["body"].outputs[1]
    assert [s.op.attributes["reverse"] for s in scans] == [False, True]


OPS: list[Callable[..., it.Tensor]] = [
    lambda a, b: a * b, lambda a, b: a + it.sin(b), lambda a, b: it.tanh(a) - b,
    lambda a, b: it.where(a > b, a, b * b), lambda a, b: a / (1 + b * b),
    lambda a, b: a.sum() * b, lambda a, b: it.flip(a) * it.exp(-b * b),
]  # fmt: skip


@st.composite
def programs(draw: st.DrawFn, depth: int = 2) -> Callable[[list[it.Tensor]], list[it.Tensor]]:
    """A random function of vectors, of operations, branches, loops and regions."""
    kinds = ["op", "op", "cond", "scan", "call", "while"] if depth else ["op"]
    steps = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(kinds))
        i, j, k = (draw(st.integers(0, 7)) for _ in range(3))
        steps.append(_step(draw, kind, i, j, k, depth))

    def run(values: list[it.Tensor]) -> list[it.Tensor]:
        values = list(values)
        for step in steps:
            values.append(step(values))
        return values

    return run


def _step(
    draw: st.DrawFn, kind: str, i: int, j: int, k: int, depth: int
) -> Callable[[list[it.Tensor]], it.Tensor]:
    def pick(values: list[it.Tensor], n: int) -> it.Tensor:
        return values[n % len(values)]

    if kind == "op":
        op = OPS[k % len(OPS)]
        return lambda v: op(pick(v, i), pick(v, j))
    inner = draw(programs(depth=depth - 1))
    if kind == "call":
        return lambda v: it.call(lambda *a: inner(list(a))[-1], pick(v, i), pick(v, j))
    if kind == "cond":
        other = draw(programs(depth=depth - 1))
        return lambda v: it.cond(
            pick(v, k).sum() > 0, lambda a: inner([a, pick(v, j)])[-1],
            lambda a: other([a])[-1], pick(v, i),
        )  # fmt: skip
    if kind == "while":
        return lambda v: it.while_loop(
            lambda c: (c[0] < k % 4) & (c[1].sum() < 1.5),
            lambda c: (c[0] + 1, it.tanh(inner([c[1], pick(v, j)])[-1])),
            (0, it.tanh(pick(v, i))),
        )[1]  # fmt: skip
    reverse = draw(st.booleans())

    def scanned(v: list[it.Tensor]) -> it.Tensor:
        def body(c: it.Tensor, x: it.Tensor) -> Any:
            after = it.tanh(inner([c, pick(v, j) * x])[-1])
            return after, after * x

        last, ys = it.scan(body, it.tanh(pick(v, i)), pick(v, k), reverse=reverse)
        return last + ys.sum(axis=0)

    return scanned


@settings(max_examples=40, deadline=None, derandomize=True)
@given(programs(), st.integers(0, 99))
@pytest.mark.slow
def test_random_programs(program: Any, seed: int) -> None:
    """As a program a function has the values and gradients that it has run at once."""
    arrays = [it.asarray(draw(3, seed=seed + i)) for i in range(2)]

    def f(*args: it.Tensor) -> it.Tensor:
        return sum((v * v).sum() for v in program(list(args))[-2:])

    def norm(g: Any) -> Any:
        return lambda *a: sum((p * p).sum() for p in grad(g, (0, 1))(*a))

    same(recorded(f)(*arrays), f(*arrays))
    first = grad(f, (0, 1))(*arrays)
    same(grad(recorded(f), (0, 1))(*arrays), first)
    same(recorded(grad(f, (0, 1)))(*arrays), first)
    same(grad(norm(recorded(f)), (0, 1))(*arrays), grad(norm(f), (0, 1))(*arrays))
    stacked = [it.stack([a, -a, a * 0.5]) for a in arrays]
    each = [f(*(s[i] for s in stacked)).numpy() for i in range(3)]
    same(vmap(recorded(f))(*stacked), np.stack(each))
    same(recorded(vmap(f))(*stacked), np.stack(each))
    slopes = [grad(f)(*(s[i] for s in stacked)).numpy() for i in range(3)]
    same(vmap(grad(recorded(f)))(*stacked), np.stack(slopes))


@custom_gradient
def skewed(x: it.Tensor, n: int, y: it.Tensor) -> Any:
    """Two results with a rule that is not their derivative."""
    s = it.sin(x) * n
    return (s * y, s), lambda g, h: (g * s * y + h, (g * x).sum())


@pytest.mark.parametrize("of_integers", ["nothing", "zeros", "floats"])
def test_a_rule_of_ones_own_may_leave_arguments_out(way: Way, of_integers: str) -> None:
    """None for a float argument, and anything for one of integers: neither has a gradient."""

    @custom_gradient
    def scaled(x: it.Tensor, y: it.Tensor, n: it.Tensor) -> Any:
        slots = {"nothing": None, "zeros": it.zeros_like(n), "floats": x * 3.0}[of_integers]
        return x * y * n.astype("float64"), lambda g: (g * y * 10.0, None, slots)

    x, y = (it.asarray(v, dtype="float64") for v in (3.0, 5.0))
    n = it.asarray(2)

    def f(x: it.Tensor, y: it.Tensor) -> it.Tensor:
        return scaled(x, y, n) * y

    run = way(f)
    assert run(x, y).item() == 3.0 * 5.0 * 2.0 * 5.0
    of_x, of_y = grad(run, (0, 1))(x, y)
    assert of_x.item() == 5.0 * 5.0 * 10.0
    assert of_y.item() == 3.0 * 5.0 * 2.0
    value, moved = jvp(run, (x, y), (it.ones_like(x), it.ones_like(y)))
    assert (value.item(), moved.item()) == (150.0, 250.0 + 30.0)


def test_rules_of_ones_own_stay_rules_in_programs(way: Way) -> None:
    y = it.asarray(2.0, dtype="float64")

    def f(x: it.Tensor) -> it.Tensor:
        a, b = skewed(x, 3, y)
        return (a * b).sum()

    def norm(g: Any) -> Any:
        return lambda x: (grad(g)(x) ** 2).sum()

    def looped(x: it.Tensor) -> it.Tensor:
        return it.scan(lambda c, _: (skewed(c, 1, y)[0], None), x, length=3)[0].sum()

    x, many = it.asarray(draw(2)), it.asarray(draw(3, 2, seed=1))
    g = way(f)
    same([g(x), grad(g)(x), grad(norm(g))(x)], [f(x), grad(f)(x), grad(norm(f))(x)])
    same(way(grad(f))(x), grad(f)(x))
    same(grad(way(looped))(x), grad(looped)(x))
    same(way(grad(looped))(x), grad(looped)(x))
    slopes = np.stack([grad(f)(row).numpy() for row in it.unstack(many)])
    same(vmap(grad(g))(many), slopes)
    same(grad(lambda m: vmap(g)(m).sum())(many), slopes)
    same(way(vmap(grad(f)))(many), slopes)
    marked = x.require_grad()
    first = g(marked).backward(create_graph=True)[marked]
    same((first * first).sum().backward()[marked], grad(norm(f))(x))


def test_regions_that_run_again(way: Way) -> None:
    def block(x: it.Tensor, w: it.Tensor) -> it.Tensor:
        return it.exp(it.sin(x @ w)) @ w

    def f(recompute: bool) -> Any:
        return lambda x, w: (it.call(block, x, w, recompute=recompute) ** 2).sum()

    arrays = [it.asarray(draw(2, 3)), it.asarray(draw(3, 3, seed=1))]
    same(grad(way(f(True)), (0, 1))(*arrays), grad(f(False), (0, 1))(*arrays))
    norm = lambda g: lambda x, w: (grad(g)(x, w) ** 2).sum()  # noqa: E731
    same(grad(norm(way(f(True))), (0, 1))(*arrays), grad(norm(f(False)), (0, 1))(*arrays))
    avals = [Aval(x.shape, x.dtype) for x in arrays]
    steps = [trace(grad(f(again)), avals).program.steps for again in (False, True)]
    calls = [[s for s in part if s.op.operation.name == "call_program"] for part in steps]
    assert len(calls[0]) == 2
    assert calls[1][0].results == 1


def test_masks_in_batches_of_loops(way: Way) -> None:
    """Dropout in each step of a scan in a batch: one mask a step for all elements."""

    def f(x: it.Tensor) -> it.Tensor:
        return it.scan(lambda c, x: (it.dropout(c + x, 0.5), c), x[0], x)[0].sum()

    def drawn(g: Any, x: it.Tensor) -> it.Tensor:
        it.random.seed(3)
        return g(x)

    x = it.asarray(draw(2, 4, 3))
    rows = [drawn(grad(f), row).numpy() for row in it.unstack(x)]
    same(drawn(vmap(grad(f)), x), np.stack(rows))
    it.random.seed(3)
    traced = trace(vmap(grad(f)), [Aval(x.shape, x.dtype)])
    same(traced.run(x), np.stack(rows))


@pytest.mark.slow
def test_loops_with_structures_and_constants(way: Way) -> None:
    """A carry of several dtypes, a parameter, and a batch, as a program with a gradient inside."""
    w = it.asarray(draw(3, seed=1))

    def f(x: it.Tensor, w: it.Tensor) -> it.Tensor:
        def body(c: Any) -> Any:
            return {"n": c["n"] + 1, "h": it.tanh(c["h"] * w + x), "sum": c["sum"] + c["h"] * x}

        init = {"n": 0, "h": x, "sum": it.zeros_like(x)}
        return it.while_loop(lambda c: (c["n"] < 4) & (c["h"].sum() < 2.5), body, init)["sum"].sum()

    x = it.asarray(draw(4, 3))
    plain = vmap(grad(f, (0, 1)), (0, None))
    slopes = [grad(f, (0, 1))(row, w) for row in it.unstack(x)]
    wanted = tuple(np.stack([s[k].numpy() for s in slopes]) for k in range(2))
    same(plain(x, w), wanted)
    same(vmap(grad(way(f), (0, 1)), (0, None))(x, w), wanted)
    same(way(plain)(x, w), wanted)
    same(way(grad(lambda x, w: vmap(f, (0, None))(x, w).sum(), 1))(x, w), wanted[1].sum(axis=0))
    pushed = [jvp(f, (row, w), (row, w))[1].numpy() for row in it.unstack(x)]
    same(way(vmap(lambda x: jvp(f, (x, w), (x, w))[1]))(x), np.stack(pushed))
