"""Which matrix products become generated kernels, asked through tensors."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.tensor import Tensor


def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def on_cpu(array: np.ndarray, dtype: Any = it.float32) -> Tensor:
    return it.asarray(array, device="cpu").astype(dtype)


def kinds(function: Callable[..., Tensor], *args: Tensor) -> list[str]:
    return [step.kind for step in explain(function, *args, runs=0).steps]


class TestBatches:
    """Operands whose batch axes lie in an order of their own."""

    def test_heads_beside_each_other(self) -> None:
        q, k = normal((2, 5, 3, 8), 0), normal((2, 7, 3, 8), 1)

        def scores(q: Tensor, k: Tensor) -> Tensor:
            return it.matmul(it.permute_dims(q, (0, 2, 1, 3)), it.permute_dims(k, (0, 2, 3, 1))) * 2

        assert kinds(scores, on_cpu(q), on_cpu(k)) == ["product"]
        found = compile(scores)(on_cpu(q), on_cpu(k)).numpy()
        expected = 2 * np.einsum("bshd,bthd->bhst", q.astype(np.float64), k)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)

    def test_operands_that_repeat_along_other_axes(self) -> None:
        a, b, bias = normal((4, 1, 2, 6, 5), 0), normal((1, 3, 2, 5, 7), 1), normal((3, 1, 1, 7), 2)

        def product(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
            return it.matmul(a, b) + bias

        args = on_cpu(a), on_cpu(b), on_cpu(bias)
        assert kinds(product, *args) == ["product"]
        expected = a.astype(np.float64) @ b + bias
        np.testing.assert_allclose(compile(product)(*args).numpy(), expected, rtol=1e-5, atol=1e-5)

    def test_more_axes_than_a_template_has(self) -> None:
        a = normal((2, 3, 2, 3, 4, 5), 0)

        def product(a: Tensor) -> Tensor:
            turned = it.permute_dims(a, (3, 2, 1, 0, 4, 5))
            return it.matmul(turned, it.permute_dims(a, (3, 2, 1, 0, 5, 4)))

        turned = a.transpose(3, 2, 1, 0, 4, 5).astype(np.float64)
        found = compile(product)(on_cpu(a)).numpy()
        np.testing.assert_allclose(found, turned @ turned.swapaxes(-1, -2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("dtype", "unit"), [(it.float16, 2.0**-11), (it.bfloat16, 2.0**-8)])
def test_half_types_are_summed_in_float32(dtype: Any, unit: float) -> None:
    x, w = on_cpu(normal((9, 600), 0), dtype), on_cpu(normal((33, 600), 1), dtype)

    def layer(x: Tensor, w: Tensor) -> Tensor:
        return it.relu(it.matmul(x, w.T))

    assert kinds(layer, x, w) == ["product"]
    wide, other = x.numpy().astype(np.float64), w.numpy().astype(np.float64)
    expected = np.maximum(wide @ other.T, 0)
    found = compile(layer)(x, w).numpy().astype(np.float64)
    bound = 1.01 * unit * expected + 600 * 2.0**-24 * (np.abs(wide) @ np.abs(other.T))
    assert (np.abs(found - expected) <= bound).all()


@pytest.mark.parametrize("count", [43, 300])
def test_a_product_in_front_of_many_operands(count: int) -> None:
    """As where a weight's gradients of many steps of a cell add up in front of its update."""
    a, b, terms = normal((6, 5), 0), normal((5, 3), 1), normal((count, 6, 3), 2)

    def total(a: Tensor, b: Tensor, *terms: Tensor) -> Tensor:
        found = it.matmul(a, b)
        for term in terms:
            found = found + term
        return found

    args = on_cpu(a), on_cpu(b), *map(on_cpu, terms)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compile(total)(*args).numpy()
    expected = a.astype(np.float64) @ b + terms.sum(axis=0, dtype=np.float64)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
