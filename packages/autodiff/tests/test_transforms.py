"""grad and value_and_grad: structure, nesting, cells, writes."""

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad, value_and_grad
from ingle.tensor.errors import ArgumentError, GradientError, OperandError, ShapeError


def scalar(value):
    return it.asarray(np.asarray(value, np.float64))


def test_nesting_gives_higher_orders():
    f = lambda x: it.exp(x * x)  # noqa: E731
    x, e = 0.7, np.exp(0.49)
    got = [f, grad(f), grad(grad(f)), grad(grad(grad(f)))]
    want = [e, 2 * x * e, (2 + 4 * x * x) * e, (12 * x + 8 * x**3) * e]
    np.testing.assert_allclose([g(scalar(x)).item() for g in got], want, rtol=1e-12)


def test_perturbations_are_not_confused():
    # d/dx (x * d/dy (x + y)) is 1, not 2.
    inner = lambda x: x * grad(lambda y: x + y)(scalar(1.0))  # noqa: E731
    assert grad(inner)(scalar(1.0)).item() == 1.0


def test_structures_come_back_as_they_went_in():
    def loss(params, x):
        return it.sum(params["w"] * x + params["b"][0])

    params = {"w": scalar([1.0, 2.0]), "b": [scalar(0.5)]}
    value, (by_params, by_x) = value_and_grad(loss, argnums=(0, 1))(params, scalar([3.0, 4.0]))
    assert value.item() == 12.0
    assert by_params["w"].tolist() == [3.0, 4.0]
    assert by_params["b"][0].item() == 2.0
    assert by_x.tolist() == [1.0, 2.0]


def test_arguments_that_do_not_matter_get_zeros():
    assert grad(lambda x: scalar(1.0))(scalar([1.0, 2.0])).tolist() == [0.0, 0.0]


def test_aux_comes_along():
    (value, aux), g = value_and_grad(lambda x: (it.sum(x * x), "note"), has_aux=True)(scalar([2.0]))
    assert (value.item(), aux, g.tolist()) == (4.0, "note", [4.0])


def test_cells_as_arguments_and_in_gradient_penalties():
    w = it.Cell(scalar([1.0, 2.0]), differentiable=True)
    grads = grad(lambda c: it.sum(c * c * c))(w)
    np.testing.assert_allclose(grads[w].numpy(), [3.0, 12.0])

    def norm(x):
        g = grad(lambda x: it.sum(w * x * x))(x)
        return it.sum(g * g)

    x = scalar([0.5, -1.0])
    penalty = norm(x).backward()
    np.testing.assert_allclose(penalty[w].numpy(), 8 * np.array([1.0, 2.0]) * np.array([0.25, 1.0]))


def test_writes_land_at_the_end_or_not_at_all():
    count = it.Cell(0)
    statistics = it.Cell(scalar([0.0]))

    def f(x, fail):
        count.value = count.value + 1
        statistics.value = x * 2.0
        if fail:
            raise RuntimeError("in the middle")
        return it.sum(x)

    with pytest.raises(RuntimeError, match="middle"):
        grad(f)(scalar([1.0]), True)
    assert (count.value, statistics.value.tolist()) == (0, [0.0])
    grad(f)(scalar([1.0]), False)
    assert (count.value, statistics.value.tolist()) == (1, [2.0])
    assert statistics.value.backend.level == 0


def test_errors():
    x = scalar([1.0, 2.0])
    with pytest.raises(ShapeError, match="0-d"):
        grad(lambda x: x)(x)
    with pytest.raises(ArgumentError, match="argnums=3"):
        grad(lambda x: x, argnums=3)(x)
    with pytest.raises(OperandError, match="int64"):
        grad(lambda x: it.sum(x))(it.asarray([1]))
    with pytest.raises(OperandError, match="must return a tensor"):
        grad(lambda x: 1.0)(x)
    with pytest.raises(GradientError, match="frozen"):
        grad(lambda c: it.sum(c * 1.0))(it.Cell(x))


class Layer:
    """Something with cells, as a module is."""

    def __init__(self):
        self.weight, self.bias = (
            it.Cell(it.asarray(v), differentiable=True) for v in ([[1.0, 2.0, 3.0]], [0.5])
        )

    def __ingle_cells__(self):
        return [self.weight, self.bias]

    def __call__(self, x):
        return it.sum((self.weight * x + self.bias) ** 2)


def test_cells_and_modules_in_lists_and_dicts():
    net, other, x = Layer(), Layer(), it.asarray([[1.0, 2.0, 3.0]])

    def loss(argument, y=None):
        assert argument is given[-1]
        return net(x) + other(x) * (1.0 if y is None else y)

    given = [net]
    whole = grad(loss)(net)
    wanted = {cell: whole[cell].tolist() for cell in net.__ingle_cells__()}
    cells = [net.weight, net.bias]
    for given[-1] in (
        cells,
        tuple(cells),
        {"a": cells[0], "b": cells[1]},
        [net],
        {"m": [net, *cells]},
    ):
        found = grad(loss)(given[-1])
        assert {cell: found[cell].tolist() for cell in found} == wanted
    given[-1] = [net, other.weight]
    once = grad(loss)(given[-1])
    assert list(once) == [*cells, other.weight]
    by_cells, by_y = grad(loss, (0, 1))(given[-1], it.asarray(2.0))
    assert by_cells[other.weight].tolist() == (2.0 * once[other.weight]).tolist()
    assert by_y.item() == other(x).item()
    with pytest.raises(OperandError, match=r"both tensors and cells.*argnums=\(0, 1\)"):
        grad(loss)([net.weight, x])
    with pytest.raises(OperandError, match=r"got list_iterator, .*list\(\.\.\.\)"):
        grad(loss)(iter(cells))
