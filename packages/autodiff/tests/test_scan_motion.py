"""What a scan takes before and behind its loop: products of slices, and sums of gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.tensor.contract import Aval
from ingle.tensor.programs import Program, recorded, trace

Body = Callable[..., Any]


def draw(*shape: int, seed: int) -> it.Tensor:
    return it.asarray(np.random.default_rng(seed).normal(size=shape) * 0.5)


def plain(h: Any, x: Any, w: Any, u: Any, b: Any) -> Any:
    return it.tanh(h @ w + x @ u + b)


def turned(h: Any, x: Any, w: Any, u: Any, b: Any) -> Any:
    return it.tanh(h @ w.T + it.linear(x, u.T, b)) + it.linear(h, w)


def used_twice(h: Any, x: Any, w: Any, u: Any, b: Any) -> Any:
    return it.sin(it.tanh(h @ w + b) @ w + x @ u) + b * x.sum()


def shared(h: Any, x: Any, w: Any, u: Any, b: Any) -> Any:
    """The same values are factors, sliced and closed over."""
    return it.tanh(h @ w + x @ u) * h + (x @ u) @ w * it.sum(w)


def weight_of_weights(h: Any, x: Any, w: Any, u: Any, b: Any) -> Any:
    return it.tanh(h @ (w @ w) + x @ (u @ w) + x @ u)


BODIES = [plain, turned, used_twice, shared, weight_of_weights]


def loss(body: Body, reverse: bool = False) -> Callable[..., it.Tensor]:
    def run(h: Any, xs: Any, w: Any, u: Any, b: Any) -> it.Tensor:
        def step(h: Any, x: Any) -> Any:
            h = body(h, x, w, u, b)
            return h, h * h

        last, squares = it.scan(step, h, xs, reverse=reverse)
        return last.sum() + (squares * it.cos(squares)).sum()

    return run


def given(batch: int, length: int = 5) -> list[it.Tensor]:
    shapes = [(batch, 6), (length, batch, 4), (6, 6), (4, 6), (6,)]
    return [draw(*shape, seed=i) for i, shape in enumerate(shapes)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("batch", "reverse"), [(1, False), (3, True), (16, False)])
def test_gradients_are_those_of_the_loop(body: Body, batch: int, reverse: bool) -> None:
    function, values = loss(body, reverse), given(batch)
    written = recorded(function)
    np.testing.assert_allclose(written(*values).item(), function(*values).item(), rtol=1e-13)
    every = tuple(range(len(values)))
    wanted, got = grad(function, every)(*values), grad(written, every)(*values)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("body", BODIES)
def test_second_gradients_are_those_of_the_loop(body: Body) -> None:
    values = given(3, length=3)
    every = tuple(range(len(values)))

    def squares(function: Callable[..., Any]) -> Callable[..., it.Tensor]:
        return lambda *xs: sum((g * g).sum() for g in grad(function, every)(*xs))

    wanted = grad(squares(loss(body)), every)(*values)
    got = grad(squares(recorded(loss(body))), every)(*values)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-9, atol=1e-10)


def scans(program: Program) -> Iterator[tuple[Any, list[str]]]:
    """Attributes of the scans in a program, with the operations of their bodies."""
    for step in program.steps:
        if step.op.operation.name == "scan":
            body = step.op.attributes["body"]
            yield step.op.attributes, [s.op.operation.name for s in body.steps]


def program_of(function: Callable[..., Any], values: list[it.Tensor]) -> Program:
    return trace(function, [Aval(x.shape, x.dtype) for x in values]).program


def test_products_of_slices_are_taken_before_the_loop() -> None:
    ((attributes, steps),) = scans(program_of(loss(plain), given(3)))
    assert steps.count("matmul") == 1  # that of the carry
    assert attributes["sequences"] == 1


def test_a_product_that_would_take_much_memory_stays_in_the_loop() -> None:
    def last(h: Any, xs: Any, u: Any) -> it.Tensor:
        return it.scan(lambda h, x: (h + x @ u, None), h, xs)[0]

    few, many = draw(2, 4, seed=1), draw(2, 64, seed=2)
    for h, u, count in ((few, draw(4, 4, seed=3), 0), (many, draw(4, 64, seed=4), 1)):
        ((_, steps),) = scans(program_of(last, [h, draw(5, 2, 4, seed=5), u]))
        assert steps.count("matmul") == count


def test_sums_of_weights_are_taken_behind_the_loop() -> None:
    every = tuple(range(5))
    program = program_of(grad(loss(plain), every), given(3))
    _, (attributes, steps) = scans(program)
    assert attributes["carries"] == 1  # the cotangent of the carry alone
    assert steps.count("matmul") == 1


def test_a_small_weight_is_added_to_in_the_loop() -> None:
    """Stacks of what its gradient is made of would be larger."""

    def function(h: Any, xs: Any, w: Any) -> it.Tensor:
        def step(h: Any, x: Any) -> Any:
            return it.tanh(it.exp(h @ w) + x), None

        return it.sum(it.scan(step, h, xs)[0])

    values = [draw(64, 2, seed=1), draw(5, 1, 2, seed=2), draw(2, 2, seed=3)]
    _, (attributes, _) = scans(program_of(grad(function, 2), values))
    assert attributes["carries"] == 2
    got, wanted = grad(recorded(function), 2)(*values), grad(function, 2)(*values)
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-11)
