"""`no_grad` ends recording for what surrounds it, not for the transforms that are called inside."""

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import (
    checkpoint,
    checkpointing,
    custom_gradient,
    grad,
    hessian,
    is_recording,
    jacobian,
    jvp,
    linearize,
    no_grad,
    vjp,
    vmap,
)
from ingle.fusion import compile

X = it.asarray(np.random.default_rng(0).normal(size=4))
LOSS = lambda x: it.sum(it.sin(x) * x)  # noqa: E731


def near(found, wanted):
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-14)


TRANSFORMS = {
    "grad": grad(LOSS),
    "second grad": grad(lambda x: it.sum(grad(LOSS)(x) ** 2)),
    "vjp": lambda x: vjp(it.sin, x)[1](x)[0],
    "jvp": lambda x: jvp(it.sin, (x,), (x,))[1],
    "linearize": lambda x: linearize(it.sin, x)[1](x),
    "jacobian": jacobian(it.sin),
    "forward jacobian": jacobian(it.sin, mode="forward"),
    "hessian": hessian(LOSS),
    "vmap": vmap(grad(lambda x: it.sin(x) * x)),
    "checkpoint": grad(checkpoint(LOSS)),
    "custom": grad(lambda x: custom_gradient(lambda x: (LOSS(x), lambda g: g * it.cos(x)))(x)),
    "scan": grad(lambda x: it.sum(it.scan(lambda c, _: (it.sin(c) * x, 0), x, length=3)[0])),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_inside(name):
    transform = TRANSFORMS[name]
    wanted = transform(X)
    with no_grad():
        near(transform(X), wanted)
    near(no_grad()(compile(transform))(X), wanted)
    near(compile(no_grad()(transform))(X), wanted)
    near(checkpoint(transform)(X), wanted)
    with checkpointing("balanced"), no_grad(), checkpointing("balanced"):
        near(transform(X), wanted)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_comes_out_is_a_constant_around(name):
    transform = TRANSFORMS[name]

    def around(x):
        with no_grad():
            inner = transform(x)
        return it.sum(it.sin(x)) + it.sum(inner)

    def in_a_loop(x):
        return it.scan(lambda c, _: (c + around(x), 0), it.asarray(0.0, dtype="float64"), length=2)[
            0
        ]

    near(grad(around)(X), it.cos(X))
    near(compile(grad(around))(X), it.cos(X))
    near(grad(in_a_loop)(X), 2 * it.cos(X))
    near(compile(grad(in_a_loop))(X), 2 * it.cos(X))
    leaf = X.require_grad()
    near(around(leaf).backward()[leaf], it.cos(X))


def test_parameters_are_constants_of_a_transform_inside():
    weight = it.Cell(X, differentiable=True)
    with no_grad():
        gradient = grad(lambda x: it.sum(x * x * weight))(X)
        of_cell = grad(lambda cell: it.sum(cell * cell))(weight)
    assert gradient.backend.level == 0
    assert of_cell[weight].backend.level == 0
    near(gradient, 2 * X * X)
    near(of_cell[weight], 2 * X)


def test_no_grad_inside_of_a_transform_is_kept():
    def halves(x):
        with no_grad():
            first = grad(LOSS)(x)
            assert is_recording() is False
        return it.sum(first * x)

    near(grad(halves)(X), grad(LOSS)(X))
    with no_grad():
        near(grad(halves)(X), grad(LOSS)(X))


def test_gradients_through_a_checkpointed_gradient():
    penalty = lambda x: it.sum(grad(LOSS)(x) ** 2)  # noqa: E731
    leaf = X.require_grad()
    near(checkpoint(penalty)(leaf), penalty(X))
    near(checkpoint(penalty)(leaf).backward()[leaf], grad(penalty)(X))
    near(grad(checkpoint(penalty))(X), grad(penalty)(X))
