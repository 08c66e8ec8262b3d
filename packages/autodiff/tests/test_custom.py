"""Own gradient rules."""

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import custom_gradient, grad
from ingle.tensor.errors import DTypeError, GradientError, OperandError, ShapeError


@custom_gradient
def straight_through(x):
    return it.round(x), lambda g: g


@custom_gradient
def product(x, y):
    return x * y, lambda g: (g * y, None)


def test_the_rule_is_what_counts():
    x = it.asarray([0.2, 1.7]).require_grad()
    y = straight_through(x)
    assert y.tolist() == [0.0, 2.0]
    assert it.sum(y * y).backward()[x].tolist() == [0.0, 4.0]


def test_none_is_a_zero_gradient_and_plain_tensors_are_constants():
    x, y = it.asarray(3.0).require_grad(), it.asarray(5.0).require_grad()
    grads = product(x, y).backward()
    assert grads[x].item() == 5.0
    assert y not in grads
    assert product(x, it.asarray(2.0)).backward()[x].item() == 2.0
    assert product(it.asarray(2.0), it.asarray(4.0)).item() == 8.0


def test_nested_grads_differentiate_the_rule():
    @custom_gradient
    def cube(x):
        return x * x * x, lambda g: g * x * x * 3.0

    assert grad(grad(cube))(it.asarray(2.0)).item() == 12.0
    assert grad(grad(lambda x: straight_through(x) * x))(it.asarray(2.5)).item() == 2.0


def test_several_results():
    @custom_gradient
    def both(x):
        return (x * 2.0, x * 3.0), lambda a, b: a * 2.0 + b * 3.0

    x = it.asarray(1.0).require_grad()
    assert both(x)[1].backward()[x].item() == 3.0


def test_create_graph_differentiates_the_rule():
    seen = []

    @custom_gradient
    def cube(x, y):
        seen.append(1)
        return x**3 * y, lambda g: (g * 3.0 * x**2 * y, g * x**3)

    x, y = it.asarray(2.0).require_grad(), it.asarray(5.0).require_grad()
    first = cube(x, y).backward(create_graph=True)
    assert (first[x].item(), first[y].item()) == (60.0, 8.0)
    second = first[x].backward(create_graph=True)
    assert (second[x].item(), second[y].item()) == (60.0, 12.0)
    assert second[x].backward()[x].item() == 30.0
    straight = straight_through(x) * x
    assert straight.backward(create_graph=True)[x].backward()[x].item() == 2.0
    assert len(seen) == 2


def test_rules_see_the_values_of_the_call():
    x, y = it.ones(3).require_grad(), it.full(3, 2.0)
    out = product(x, y)
    y += 5.0
    assert out.sum().backward()[x].tolist() == [2.0, 2.0, 2.0]


def test_errors():
    x = it.ones(2).require_grad()
    with pytest.raises(OperandError, match=r"\(result, gradient function\)"):
        custom_gradient(lambda x: x)(x)
    wrong = custom_gradient(lambda x: (x * 1.0, lambda g: it.sum(g)))
    with pytest.raises(ShapeError, match=r"\(\).*\(2,\)"):
        wrong(x).sum().backward()
    wide = custom_gradient(lambda x: (x * 1.0, lambda g: g.astype("float64")))
    with pytest.raises(DTypeError, match=r"float64 for an argument of dtype float32; cast"):
        wide(x).sum().backward()
    many = custom_gradient(lambda x: (x * 1.0, lambda g: (g, g)))
    with pytest.raises(GradientError, match="2 cotangents for 1"):
        many(x).sum().backward()
    assert np.allclose(x.numpy(), 1.0)
