"""What is summed down columns in pieces is computed in the kernel of the sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.tensor.device import backend_of

pytest.importorskip("ingle_cpu")

SHAPE = (8, 128, 48)


@pytest.fixture
def splitting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device splits sums from now on."""
    monkeypatch.setattr(backend_of("cpu").inner, "splits_sums", True)


def drawn(*shape: int, dtype: str = "float32") -> it.Tensor:
    made = np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)
    return it.asarray(made, device="cpu").astype(dtype)


def gradients(g: Any, x: Any, scale: Any) -> Any:
    """What a layer norm's weight and bias get, where others need the rows as well."""
    wide = g.astype("float32")
    normal = it.exp(x)
    rows = it.sum(wide * normal, axis=-1)
    return it.sum(wide * normal * scale, axis=(0, 1)), it.sum(wide - rows[..., None], (0, 1)), rows


def arguments(dtype: str) -> tuple[it.Tensor, ...]:
    return drawn(*SHAPE, dtype=dtype), drawn(*SHAPE), drawn(SHAPE[-1])


def test_no_product_of_the_summed_goes_through_memory(splitting: None) -> None:
    steps = explain(gradients, *arguments("bfloat16"), runs=0).steps
    summed = [step for step in steps if len(step.sizes) == 3 and "sum" in step.operations]
    assert len(summed) == 2
    assert all({"multiply", "subtract"} & set(step.operations) for step in summed)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_bits(request: pytest.FixtureRequest, dtype: str) -> None:
    """Those of sums in one step. Where a half is summed it was rounded before."""
    given = arguments(dtype)
    one = [s.numpy() for s in gradients(*given)]
    request.getfixturevalue("splitting")
    for a, b in zip(one, compile(gradients)(*given), strict=True):
        np.testing.assert_array_equal(a, b.numpy())


def test_operands_of_other_shapes(splitting: None) -> None:
    """Numbers, rows, columns and what has only some of the rows, which stays as it is."""
    x, some = drawn(*SHAPE), drawn(SHAPE[1], SHAPE[2])
    column, one = drawn(*SHAPE[:2], 1), drawn(1, 1, 1, SHAPE[2])

    def sums(x: Any, some: Any, column: Any, one: Any) -> Any:
        mixed = [x * 2.0 * column, x * some, it.reshape(x * one, x.shape), it.maximum(x, column)]
        return [it.sum(m, axis=(0, 1)) for m in mixed]

    wide = [v.numpy().astype(np.float64) for v in (x, some, column, one)]
    x64, some64, column64, one64 = wide
    wanted = [x64 * 2 * column64, x64 * some64, (x64 * one64)[0], np.maximum(x64, column64)]
    for found, expected in zip(compile(sums)(x, some, column, one), wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), expected.sum((0, 1)), rtol=1e-4, atol=1e-4)


REDUCTIONS = {
    "sum of squares": lambda x, y: it.sum((x - y) ** 2),
    "largest size": lambda x, y: it.max(it.abs(x * y)),
    "any": lambda x, y: it.any(x > y + 9.0),
    "along rows": lambda x, y: it.max(it.exp(x - it.mean(y, axis=1, keepdims=True)), axis=1),
    "place": lambda x, y: it.argmax(x - y),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_of_a_matrix_in_pieces_operands_alone_are_read(splitting: None, name: str) -> None:
    """Whatever the axes of the matrix, nothing of its size is stored."""
    x, y = drawn(3, 1 << 14), drawn(3, 1 << 14)
    function = REDUCTIONS[name]
    found, expected = compile(function)(x, y).numpy(), function(x, y).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    steps = explain(function, x, y, runs=0).steps
    first = [s for s in steps if {"subtract", "multiply", "greater"} & set(s.operations)]
    assert first
    for step in first:
        assert {"sum", "max", "any", "argmax"} & set(step.operations)
