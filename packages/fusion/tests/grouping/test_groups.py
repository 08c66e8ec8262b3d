"""Which operations share a kernel, where more than one could have them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain

pytest.importorskip("ingle_cpu")


@pytest.mark.parametrize("rows", [1, 2])
def test_a_norm_is_one_kernel(rows: int) -> None:
    """A vector has the loops of a single row too; what is done with both belongs to the row."""
    w = it.ones(48, dtype="bfloat16", device="cpu")
    x = it.ones((rows, 1, 48), dtype="bfloat16", device="cpu")
    (step,) = explain(lambda x, w: it.rms_norm(x, (48,), w), x, w, runs=0).steps
    assert {"sum", "rsqrt", "multiply"} <= set(step.operations) | set(step.again)


def kernels(function: Callable[..., object], *args: it.Tensor) -> list[tuple[str, ...]]:
    return [tuple(step.operations) for step in explain(function, *args, runs=0).steps]


def test_a_map_that_waits_for_a_kernel_at_its_places_is_a_part_of_it() -> None:
    """As what a checkpoint computes again waits for the gradient that asks for it."""

    def waiting(x: it.Tensor, y: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
        asked = it.sin(y) * 2.0
        return asked, it.exp(it.depend(x, asked)) + 1.0

    x = it.ones((64, 48), device="cpu")
    assert kernels(waiting, x, x) == [("sin", "multiply", "exp", "add")]


def test_sums_over_rows_are_a_part_of_what_folds_the_rows() -> None:
    def centred(x: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
        found = x - it.mean(x, axis=1, keepdims=True)
        return found, it.sum(found, axis=0)

    first, second = kernels(centred, it.ones((1024, 48), device="cpu"))
    assert first == ("sum", "divide", "subtract", "block_sums")
    assert second == ("totals",)


ELSEWHERE = {
    "a map": lambda a, b: it.exp(a) * 2.0 + it.permute_dims(it.exp(b) * 3.0, (1, 0)),
    "a row's sum": lambda a, b: it.sum(it.exp(a) + it.permute_dims(it.exp(b), (1, 0)), axis=1),
    "a product": lambda a, b: a @ b + it.permute_dims(it.exp(a), (1, 0)),
    "a product and a gather": lambda a, b: a @ b + it.take(it.exp(b), it.argsort(a[0]), axis=0),
    "a product turned": lambda a, b: (a @ b) * it.permute_dims(it.exp(b @ a), (1, 0)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ELSEWHERE)
def test_loops_that_read_elsewhere_are_not_one(name: str, dtype: str) -> None:
    """Squares have the same loops turned: only where their elements are read tells."""
    function: Callable[..., it.Tensor] = ELSEWHERE[name]
    a, b = np.random.default_rng(0).uniform(0.2, 1.0, (2, 8, 8)).astype(dtype)
    want = function(*[it.asarray(x, device="numpy") for x in (a, b)]).numpy()
    got = compile(function)(*[it.asarray(x, device="cpu") for x in (a, b)]).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_reductions_of_the_same_memory_read_it_once() -> None:
    """Whichever comes first, down columns and along rows, if one does not wait for the other."""
    x = it.ones((64, 48), device="cpu")
    both = kernels(lambda x: (it.max(x, axis=1), it.sum(x, axis=1), it.argmin(x, axis=1)), x)
    assert both == [("max", "sum", "argmin")]
    assert kernels(lambda x: (it.min(x, axis=0), it.sum(x, axis=0)), x) == [("min", "sum")]
    assert len(kernels(lambda x: (it.min(x, axis=0), it.sum(x, axis=1)), x)) == 2
    alike = kernels(lambda x: (it.softmax(x, axis=1), it.any(x > 1.0, axis=1)), x)
    assert len(alike) == 2 or "any" in alike[0]

    def waits(x: it.Tensor) -> it.Tensor:
        largest = it.max(it.reshape(it.max(x, axis=1), (8, 8)), axis=1)
        return it.sum(it.depend(x, largest), axis=1)

    assert len(kernels(waits, x)) > 1


def test_reductions_of_the_same_memory_do_not_wait_for_one_another() -> None:
    """The second sum may not go where its rows are read: the first one waits for that kernel."""

    def crossed(x: it.Tensor, y: it.Tensor) -> tuple[it.Tensor, ...]:
        a, b = it.max(x, axis=1), it.max(y, axis=1)
        return a, b, it.sum(it.depend(x, b), axis=1), it.sum(it.depend(y, a), axis=1)

    x = it.ones((64, 48), device="cpu")
    assert kernels(crossed, x, x + 1.0) == [("max",), ("max", "sum"), ("sum",)]


def test_what_a_product_cannot_write_is_made_where_it_is_put_together() -> None:
    """Of a gradient that a pool takes, each of four elements of a window has it or zero."""

    def gradient(x: it.Tensor, w: it.Tensor) -> it.Tensor:
        x = x.require_grad()
        return it.sum(it.conv2d(it.max_pool2d(x, 2), w, padding=1)).backward()[x]

    x, w = it.ones((2, 4, 16, 16), device="cpu"), it.ones((8, 4, 3, 3), device="cpu")
    found = kernels(gradient, x, w)
    assert [k for k in found if "window_product" in k] == [("window_product",)]
    assert not any("concat" in kernel for kernel in found)


def test_what_a_product_writes_as_parts_of_one_result_stays_with_it() -> None:
    def both(x: it.Tensor, w: it.Tensor) -> it.Tensor:
        y = x @ w
        return it.concat([it.relu(y), it.relu(-y)], axis=1)

    x = it.ones((64, 48), device="cpu")
    assert kernels(both, x, it.ones((48, 32), device="cpu")) == [
        ("matmul", "maximum", "negative", "maximum")
    ]
