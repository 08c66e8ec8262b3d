"""Jacobians, Hessians and products with them, against torch.func and closed forms."""

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad, hessian, hvp, jacobian, jvp, vhp
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError, ShapeError

MODES = ["auto", "reverse", "forward"]

# torch.func's first use compiles scripts, which torch itself has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def tensor(value):
    return it.asarray(np.asarray(value, np.float64))


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def loss(x, w):
    return it.sum(it.log(1.0 + it.exp(it.tanh(x @ w) @ it.permute_dims(w, (1, 0)))))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_jacobian_against_torch(mode):
    torch = pytest.importorskip("torch")
    x, w = draw(2, 3), draw(3, 4, seed=1)
    got = jacobian(lambda x, w: it.sin(x @ w), (0, -1), mode=mode)(tensor(x), tensor(w))
    want = torch.func.jacrev(lambda x, w: torch.sin(x @ w), (0, 1))(
        torch.from_numpy(x), torch.from_numpy(w)
    )
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_structures_and_empty_sizes(mode):
    def function(p, n):
        return {"y": p["a"] * p["b"], "z": (n * it.sum(p["a"]),)}

    p = {"a": tensor([1.0, 2.0]), "b": tensor(3.0)}
    got = jacobian(function, mode=mode)(p, 2.0)
    assert got["y"]["a"].tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert got["y"]["b"].tolist() == [1.0, 2.0]
    assert got["z"][0]["a"].tolist() == [2.0, 2.0]
    assert (got["z"][0]["b"].shape, got["z"][0]["b"].item()) == ((), 0.0)
    assert jacobian(it.exp, mode=mode)(tensor(np.zeros((0, 2)))).shape == (0, 2, 0, 2)
    assert jacobian(it.sum, mode=mode)(tensor(np.zeros((0, 2)))).shape == (0, 2)
    wide = jacobian(lambda x: it.broadcast_to(x, (2, 3)), mode=mode)(tensor(1.0))
    assert wide.tolist() == [[1.0] * 3] * 2


@pytest.mark.slow
def test_hessian_against_torch():
    torch = pytest.importorskip("torch")
    x, w = draw(2, 3), draw(3, 2, seed=1)

    def twin(x, w):
        return torch.log(1.0 + torch.exp(torch.tanh(x @ w) @ w.T)).sum()

    got = hessian(loss, (0, 1))(tensor(x), tensor(w))
    want = torch.func.hessian(twin, (0, 1))(torch.from_numpy(x), torch.from_numpy(w))
    for mine, theirs in zip(sum(got, ()), sum(want, ()), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-12)


def test_products_with_a_hessian():
    x, w, v, u = draw(2, 3), draw(3, 2, seed=1), draw(2, 3, seed=2), draw(3, 2, seed=3)
    full = hessian(loss, (0, 1))(tensor(x), tensor(w))
    (a, b), (c, d) = [[block.numpy() for block in row] for row in full]
    want = (
        np.tensordot(a, v) + np.tensordot(b, u),
        np.tensordot(c, v) + np.tensordot(d, u),
    )
    for product in (hvp, vhp):
        got = product(loss, (tensor(x), tensor(w)), (tensor(v), tensor(u)))
        for mine, theirs in zip(got, want, strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-9)
        partial = product(loss, (tensor(x), tensor(w)), (tensor(v), None))
        np.testing.assert_allclose(partial[0].numpy(), np.tensordot(a, v), rtol=1e-9)


def test_they_nest():
    x, v = tensor([0.5, -1.0]), tensor([1.0, 2.0])
    cube = lambda x: it.sum(x**4)  # noqa: E731
    by_hand = 24 * x.numpy() * v.numpy() ** 2
    third = grad(lambda x: it.sum(hvp(cube, (x,), (v,))[0] * v))(x)
    np.testing.assert_allclose(third.numpy(), by_hand, rtol=1e-12)
    forward = jvp(lambda x: hessian(cube)(x) @ v, (x,), (v,))[1]
    np.testing.assert_allclose(forward.numpy(), by_hand, rtol=1e-12)
    tower = jacobian(jacobian(jacobian(lambda x: x**3)))(tensor(2.0))
    assert tower.item() == 6.0


def test_modules():
    nn = pytest.importorskip("ingle.nn")
    it.random.seed(0)
    model = nn.Linear(2, 1)
    x = it.asarray([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]])
    by = jacobian(lambda m: m(x))(model)
    np.testing.assert_allclose(by[model.weight].numpy()[:, 0, 0], x.numpy())
    square = lambda m: it.sum(m(x) ** 2)  # noqa: E731
    blocks = hessian(square)(model)
    gram = 2 * x.numpy().T @ x.numpy()
    np.testing.assert_allclose(blocks[model.weight][model.weight].numpy()[0, :, 0], gram, rtol=1e-5)
    direction = grad(square)(model)
    (product,) = hvp(square, (model,), (direction,))
    both = np.append(x.numpy(), np.ones((3, 1)), axis=1)
    flat = np.append(direction[model.weight].numpy().ravel(), direction[model.bias].numpy())
    want = 2 * both.T @ both @ flat
    np.testing.assert_allclose(product[model.weight].numpy()[0], want[:2], rtol=1e-5)
    np.testing.assert_allclose(product[model.bias].numpy(), want[2:], rtol=1e-5)


def test_errors():
    x = tensor([1.0, 2.0])
    with pytest.raises(ArgumentError, match=r"mode must be .*'up'"):
        jacobian(it.exp, mode="up")
    with pytest.raises(ArgumentError, match=r"jacobian: argnums=2, .* has 1 positional"):
        jacobian(it.exp, 2)(x)
    with pytest.raises(DTypeError, match="complex128"):
        jacobian(it.exp)(it.asarray([1j], dtype="complex128"))
    with pytest.raises(DTypeError, match="int64"):
        jacobian(lambda x: it.astype(x, "int64"))(x)
    with pytest.raises(ShapeError, match="0-d"):
        hessian(it.exp)(x)
    with pytest.raises(OperandError, match="hvp: tangents must be a tuple"):
        hvp(it.sum, (x,), x)
    with pytest.raises(OperandError, match="vhp: cotangents must be a tuple"):
        vhp(it.sum, (x,), x)
