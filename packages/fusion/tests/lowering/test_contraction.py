"""Groups of a matrix product: an epilogue that its loops cannot walk is a kernel of its own."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.lowering.contraction import ContractionBuilder
from ingle.fusion.schedule.scheduler import Scheduler
from ingle.nn import functional


@pytest.fixture
def answers(monkeypatch):
    """For each product that was built how many operations are in its kernel; 0 where it is none."""
    found, build = [], ContractionBuilder.build

    def spy(self):
        call = build(self)
        found.append(0 if call is None else len(call.nodes))
        return call

    monkeypatch.setattr(ContractionBuilder, "build", spy)
    # A product is built once more by itself where compiling it begins before groups are known.
    monkeypatch.setattr(Scheduler, "_begin_products", lambda self: None)
    return found


def counted(*shape):
    """Each element is its place, which a kernel computes from its loops where it can."""
    return it.reshape(it.arange(int(np.prod(shape)), dtype=it.float32), shape)


def numbers(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


FUNCTIONS = {
    # two axes of products, or groups, beside an operand that is a function of the place
    "batches": (it.matmul, (2, 3, 4, 5), (2, 3, 5, 6)),
    "groups": (lambda x, w: functional.conv2d(x, w, groups=2), (2, 4, 10, 10), (8, 2, 3, 3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_group_whose_loops_do_not_fit_is_taken_apart(answers, name):
    product, *shapes = FUNCTIONS[name]
    with it.device("cpu"):
        x, y = (it.asarray(numbers(*shape)) for shape in shapes)
        plain = np.asarray(product(x, y))
        answers.clear()
        got = compile(lambda x, y: product(x, y) + counted(*plain.shape))(x, y)
        want = plain + np.arange(plain.size, dtype=np.float32).reshape(plain.shape)
        np.testing.assert_array_equal(np.asarray(got), want)
    assert answers[0] == 0
    assert answers[1] > 0


def test_one_axis_of_products_is_walked_with_the_place(answers):
    with it.device("cpu"):
        x, y = it.asarray(numbers(3, 4, 5)), it.asarray(numbers(3, 5, 6))
        plain = np.asarray(it.matmul(x, y))
        answers.clear()
        got = compile(lambda x, y: it.matmul(x, y) + counted(3, 4, 6))(x, y)
        want = plain + np.arange(72, dtype=np.float32).reshape(3, 4, 6)
        np.testing.assert_array_equal(np.asarray(got), want)
    assert answers == [2]


@pytest.mark.parametrize("repeated", [False, True])
def test_an_axis_of_products_is_walked_as_several(answers, repeated):
    with it.device("cpu"):
        x, y = it.asarray(numbers(6, 4, 5)), it.asarray(numbers(1 if repeated else 6, 5, 7))
        c = it.asarray(numbers(2, 3, 4, 7))
        plain = np.asarray(it.matmul(x, y)).reshape(2, 3, 4, 7)
        answers.clear()
        got = compile(lambda x, y, c: it.reshape(it.matmul(x, y), (2, 3, 4, 7)) + c)(x, y, c)
        np.testing.assert_array_equal(np.asarray(got), plain + np.asarray(c))
    assert answers == [2]


@pytest.mark.parametrize("shape", [(5, 6), (2, 3, 5, 6)])
def test_what_is_one_number_may_lie_in_memory_and_in_an_epilogue(answers, shape):
    """As the cotangent of a sum does that a backward pass multiplies by and has a factor of."""
    x, y = (numbers(*shape) for _ in range(2))

    def step(x, y):
        ones = it.full(shape, 0.5, dtype=it.float32)
        result = (x @ y.mT) @ y
        return result * ones, ones, ones @ y.mT

    with it.device("numpy"):
        want = [r.numpy() for r in step(it.asarray(x), it.asarray(y))]
    with it.device("cpu"):
        found = compile(step)(it.asarray(x), it.asarray(y))
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, atol=1e-5)
    assert 3 in answers, "the number's tensor and the product of both are with the matrix product"
