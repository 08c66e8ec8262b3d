"""Stacks of matrices times one matrix: which of them are one product, and their bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.device.kernels import ContractionCall
from ingle.tensor import Tensor
from ingle.testkit.bits import same_bits
from ingle_cpu.launch import table_builder
from ingle_cpu.matmul.joined_rows import with_rows_joined


def numbers(*shape: int, seed: int = 0, dtype: str = "float32") -> Tensor:
    return it.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def calls_of(function: Any, *given: Tensor) -> tuple[Tensor, list[tuple[Any, ...]]]:
    """The result of a compiled function, and how its products were joined."""
    seen: list[tuple[Any, ...]] = []

    def noted(call: ContractionCall) -> ContractionCall:
        joined = with_rows_joined(call)
        seen.append((call.batch, joined.batch, joined.sizes))
        return joined

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_builder, "with_rows_joined", noted)
        found = compile(function)(*given)
    return found, seen


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    ("lead", "m"), [((7,), 5), ((30,), 1), ((3, 4), 5), ((2, 1, 3), 26)], ids=str
)
def test_a_stack_is_one_product(lead, m, dtype):
    x, w, bias = numbers(*lead, m, 33, dtype=dtype), numbers(33, 40, dtype=dtype), numbers(40)
    bias = bias.astype(dtype)

    def layer(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return it.relu(it.matmul(x, w) + b)

    found, seen = calls_of(layer, x, w, bias)
    rows = int(np.prod(lead)) * m
    assert [(joined, sizes) for _, joined, sizes in seen] == [((1,), (rows, 40, 33))]
    want = compile(layer)(it.reshape(x, (rows, 33)), w, bias)
    assert same_bits(found, it.reshape(want, found.shape))
    if dtype != "bfloat16":  # which plain code rounds between its operations
        assert same_bits(layer(x, w, bias), found)
    exact = np.matmul(*(v.astype("float64").numpy() for v in (x, w)))
    tolerance = {"float32": 1e-5, "float64": 1e-13, "bfloat16": 5e-2}[dtype]
    np.testing.assert_allclose(
        found.astype("float64").numpy(), np.maximum(exact + bias.astype("float64").numpy(), 0),
        rtol=tolerance, atol=10 * tolerance,
    )  # fmt: skip


def test_what_stays_apart():
    w = numbers(33, 40)
    cases: dict[str, tuple[Any, list[Tensor], tuple[int, ...]]] = {
        "rows with gaps": (
            lambda x, w: it.matmul(x[:, :5], w), [numbers(7, 9, 33), w], (7,)
        ),
        "a matrix each": (it.matmul, [numbers(7, 5, 33), numbers(7, 33, 40)], (7,)),
        "a residual that repeats": (
            lambda x, w, r: it.matmul(x, w) + r, [numbers(7, 5, 33), w, numbers(5, 40)], (7,)
        ),
    }  # fmt: skip
    for name, (function, given, batch) in cases.items():
        found, seen = calls_of(function, *given)
        assert [joined for _, joined, _ in seen] == [batch], name
        want = function(*(v.astype("float64") for v in given)).numpy()
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-4)


def test_sums_along_both_operands_keep_their_order():
    """Rows of a few by columns that lie along k are added up lane by lane, as they are anywhere."""
    x, w = numbers(30, 4, 64), numbers(70, 64)
    found, seen = calls_of(lambda x, w: it.matmul(x, it.matrix_transpose(w)), x, w)
    assert [joined for _, joined, _ in seen] == [(30,)]
    for n in range(0, 30, 7):
        assert same_bits(it.matmul(x[n], it.matrix_transpose(w)), found[n])


def test_an_epilogue_that_counts_keeps_its_places():
    x, w = numbers(6, 5, 33), numbers(33, 40)

    def counted(x: Tensor, w: Tensor) -> Tensor:
        product = it.matmul(x, w)
        places = it.arange(6 * 5 * 40, dtype="float32")
        return product * 2.0 + it.reshape(places, product.shape)

    want = it.matmul(x, w).numpy() * 2 + np.arange(1200, dtype=np.float32).reshape(6, 5, 40)
    np.testing.assert_allclose(compile(counted)(x, w).numpy(), want, rtol=1e-6)
