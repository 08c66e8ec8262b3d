"""vjp, jvp and linearize: against torch.func and finite differences, nested in every order."""

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import checkpoint, custom_gradient, grad, jvp, linearize, vjp
from ingle.tensor.errors import DTypeError, GradientError, OperandError, ShapeError

# torch.func's first use compiles scripts, which torch itself has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def tensor(value):
    return it.asarray(np.asarray(value, np.float64))


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def mixed(x, w):
    """Elementwise, contraction, reduction and movement in one."""
    h = it.tanh(x @ w)
    return it.softmax(h, axis=-1) * it.sum(h * h, axis=0) + it.permute_dims(x, (1, 0))[0, 0]


def slope(function, x, v, step=1e-6):
    """The derivative along v by central differences."""
    ahead = function(tensor(x + step * v)).numpy()
    behind = function(tensor(x - step * v)).numpy()
    return (ahead - behind) / (2 * step)


def test_against_torch():
    torch = pytest.importorskip("torch")
    x, w, dx, dw = draw(4, 3), draw(3, 5, seed=1), draw(4, 3, seed=2), draw(3, 5, seed=3)
    g = draw(4, 5, seed=4)

    def twin(x, w):
        h = torch.tanh(x @ w)
        return torch.softmax(h, -1) * (h * h).sum(0) + x.T[0, 0]

    given = tuple(map(torch.from_numpy, (x, w)))
    want, tangent = torch.func.jvp(twin, given, tuple(map(torch.from_numpy, (dx, dw))))
    got = jvp(mixed, (tensor(x), tensor(w)), (tensor(dx), tensor(dw)))
    np.testing.assert_allclose(got[0].numpy(), want.numpy(), rtol=1e-12)
    np.testing.assert_allclose(got[1].numpy(), tangent.numpy(), rtol=1e-10, atol=1e-12)
    pulled = torch.func.vjp(twin, *given)[1](torch.from_numpy(g))
    for mine, theirs in zip(vjp(mixed, tensor(x), tensor(w))[1](tensor(g)), pulled, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-10, atol=1e-12)


CASES = {
    "convolution": lambda x: it.conv2d(it.reshape(x, (1, 2, 5, 4)), it.ones((3, 2, 2, 2))),
    "pooling": lambda x: it.max_pool2d(it.reshape(x, (1, 2, 5, 4)), 2),
    "norm": lambda x: it.layer_norm(it.reshape(x, (8, 5)), 5),
    "sort": lambda x: it.sort(x) * it.cumulative_sum(x),
    "gather": lambda x: it.take(x, it.asarray([3, 3, 0])),
    "select": lambda x: it.where(x > 0, it.exp(x), x * x),
    "extremum": lambda x: it.max(it.reshape(x, (8, 5)), axis=1),
    "product": lambda x: it.prod(x[:6]),
    "concat": lambda x: it.concat([x[::2], x[:3] * x[1:4]]),
    "inverse": lambda x: it.linalg.inv(it.reshape(x[:9], (3, 3)) + 4 * it.eye(3)),
}


@pytest.mark.parametrize("name", CASES)
def test_finite_differences(name):
    x, v = draw(40, seed=5), draw(40, seed=6)

    def function(x):
        return CASES[name](x) if name != "convolution" else CASES[name](it.astype(x, "float64"))

    value, tangent = jvp(function, (tensor(x),), (tensor(v),))
    assert (value.shape, value.dtype) == (tangent.shape, tangent.dtype)
    np.testing.assert_allclose(tangent.numpy(), slope(function, x, v), rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("name", CASES)
def test_both_products_agree(name):
    x, v = draw(40, seed=7), draw(40, seed=8)
    value, pull = vjp(CASES[name], tensor(x))
    g = draw(*value.shape, seed=9)
    tangent = jvp(CASES[name], (tensor(x),), (tensor(v),))[1]
    left = np.sum(pull(tensor(g))[0].numpy() * v)
    np.testing.assert_allclose(left, np.sum(g * tangent.numpy()), rtol=1e-9)


def test_linearize_runs_the_function_once():
    calls = []

    def function(x):
        calls.append(1)
        return it.sin(x)

    value, push = linearize(function, tensor([0.0, 1.0]))
    for v in ([1.0, 0.0], [2.0, -3.0]):
        np.testing.assert_allclose(push(tensor(v)).numpy(), np.cos([0, 1]) * v, rtol=1e-12)
    np.testing.assert_allclose(value.numpy(), np.sin([0, 1]))
    assert len(calls) == 1


def derivative(f):
    return lambda x: jvp(f, (x,), (tensor(1.0),))[1]


def backward_derivative(f):
    return lambda x: vjp(f, x)[1](tensor(1.0))[0]


def linear_derivative(f):
    return lambda x: linearize(f, x)[1](tensor(1.0))


KINDS = [grad, derivative, backward_derivative, linear_derivative]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("outer", KINDS)
@pytest.mark.parametrize("middle", KINDS)
@pytest.mark.parametrize("inner", KINDS)
def test_nesting_in_every_order(outer, middle, inner):
    f = checkpoint(lambda x: it.exp(x * x))
    x = 0.7
    third = (12 * x + 8 * x**3) * np.exp(x * x)
    np.testing.assert_allclose(outer(middle(inner(f)))(tensor(x)).item(), third, rtol=1e-12)


def test_perturbations_are_not_confused():
    for d in KINDS:
        inner = lambda x, d=d: x * d(lambda y: x + y)(tensor(1.0))  # noqa: E731
        assert [e(inner)(tensor(1.0)).item() for e in KINDS] == [1.0] * 4


def test_a_pull_is_differentiated_by_its_cotangent_at_any_level():
    pull = vjp(lambda x: x * x * x, tensor(2.0))[1]
    assert grad(lambda g: pull(g)[0])(tensor(1.0)).item() == 12.0
    assert derivative(lambda g: pull(g * g)[0])(tensor(3.0)).item() == 72.0
    replayed = vjp(checkpoint(lambda x: grad(lambda y: y * y * x)(x)), tensor(2.0))[1]
    assert grad(lambda g: replayed(g)[0])(tensor(1.0)).item() == 8.0
    kept = tensor(1.0).require_grad()
    assert pull(kept)[0].backward()[kept].item() == 12.0


def test_own_rules_are_transposed():
    @custom_gradient
    def thrice(x):
        return x * 1.0, lambda g: g * 3.0

    assert derivative(thrice)(tensor(2.0)).item() == 3.0


def test_structures():
    def function(p):
        return {"s": p["a"] * p["b"][0], "t": [p["a"] + 1.0, it.asarray(2)]}

    p = {"a": tensor([1.0, 2.0]), "b": (tensor([3.0, 4.0]),)}
    v = {"b": (None,), "a": tensor([1.0, -1.0])}
    value, tangent = jvp(function, (p,), (v,))
    assert tangent["s"].tolist() == [3.0, -4.0]
    assert tangent["t"][0].tolist() == [1.0, -1.0]
    assert (tangent["t"][1].item(), value["t"][1].item()) == (0, 2)
    pull = vjp(function, p)[1]
    (g,) = pull({"s": tensor([1.0, 1.0]), "t": [None, None]})
    assert (g["a"].tolist(), g["b"][0].tolist()) == ([3.0, 4.0], [1.0, 2.0])


def test_modules_and_cells():
    nn = pytest.importorskip("ingle.nn")
    it.random.seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = it.asarray(draw(5, 3).astype(np.float32))
    value, pull = vjp(lambda m: m(x), model)
    (g,) = pull(it.ones_like(value))
    assert len(g) == 4
    tangent = jvp(lambda m: m(x), (model,), (g,))[1]
    squared = sum(float(it.sum(t * t)) for t in g.tensors())
    np.testing.assert_allclose(float(it.sum(tangent)), squared, rtol=1e-5)
    count = it.Cell(0)
    cell = it.Cell(tensor([1.0, 2.0]), differentiable=True)

    def counted(c):
        count.value = count.value + 1
        return c * c

    one = vjp(counted, cell)[1](tensor([1.0, 1.0]))[0]
    assert (one[cell].tolist(), count.value) == ([2.0, 4.0], 1)


def test_complex_derivatives():
    torch = pytest.importorskip("torch")
    z, v = draw(3) + 1j * draw(3, seed=1), draw(3, seed=2) + 1j * draw(3, seed=3)
    value, tangent = jvp(
        lambda z: it.exp(z) * it.conj(z), (it.asarray(z),), (it.asarray(v),)
    )  # fmt: skip
    want = torch.func.jvp(
        lambda z: torch.exp(z) * z.conj(), (torch.from_numpy(z),), (torch.from_numpy(v),)
    )
    np.testing.assert_allclose(value.numpy(), want[0].numpy(), rtol=1e-12)
    np.testing.assert_allclose(tangent.numpy(), want[1].numpy(), rtol=1e-12)


def test_constants_give_zeros():
    x = tensor([1.0, 2.0])
    assert jvp(lambda x: tensor([5.0]), (x,), (x,))[1].tolist() == [0.0]
    assert vjp(lambda x: tensor([5.0]), x)[1](tensor([1.0]))[0].tolist() == [0.0, 0.0]
    empty = tensor(np.zeros((0, 3)))
    assert jvp(it.exp, (empty,), (empty,))[1].shape == (0, 3)


def test_errors():
    x = tensor([1.0, 2.0])
    with pytest.raises(OperandError, match=r"jvp: primals must be a tuple.*primals=\(x,\)"):
        jvp(it.exp, x, (x,))
    with pytest.raises(OperandError, match="each of the 1 primals, got 2"):
        jvp(it.exp, (x,), (x, x))
    with pytest.raises(ShapeError, match=r"jvp: a tangent .*\(2,\), got \(\)"):
        jvp(it.exp, (x,), (tensor(1.0),))
    with pytest.raises(DTypeError, match="float64, got float32"):
        vjp(it.exp, x)[1](it.ones(2))
    with pytest.raises(OperandError, match=r"vjp: a cotangent .*tuple of 2, got Tensor"):
        vjp(lambda x: (x, x), x)[1](x)
    with pytest.raises(OperandError, match=r"keys \['a'\], got the keys \['b'\]"):
        jvp(lambda p: p["a"], ({"a": x},), ({"b": x},))
    with pytest.raises(OperandError, match=r"of shape \(2,\) .*got float"):
        vjp(it.exp, x)[1](1.0)
    with pytest.raises(OperandError, match=r"must return tensors.*got float"):
        vjp(lambda x: 1.0, x)
    with pytest.raises(OperandError, match=r"jvp: differentiates by float tensors.*int64"):
        jvp(it.abs, (it.asarray(1),), (it.asarray(1),))
    with pytest.raises(GradientError, match="vjp: this cell is frozen"):
        vjp(lambda c: c * 1.0, it.Cell(x))
    cell = it.Cell(x, differentiable=True)
    with pytest.raises(OperandError, match="Gradients container"):
        jvp(lambda c: c * 1.0, (cell,), (x,))
