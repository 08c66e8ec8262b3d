"""Reductions down columns of rows that indices name: bags of words, neighbours in a graph."""

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.tensor import Tensor
from ingle.tensor.errors import OutOfRangeError
from ingle.testkit.bits import same_bits


def bags(table: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    rows = it.take(table, indices, axis=0).reshape(*indices.shape, table.shape[1])
    return it.sum(rows * 2, axis=1), it.max(rows, axis=1)


def given(dtype: str, columns: int, count: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(columns)
    table = rng.integers(-9, 9, (23, columns)).astype(dtype)
    return table, rng.integers(-23, 23, (6, count))


def check(dtype: str, columns: int, count: int) -> None:
    table, indices = given(dtype, columns, count)
    operands = it.asarray(table, device="cpu"), it.asarray(indices, device="cpu")
    found = compile(bags)(*operands)
    rows = table[indices]
    wanted = (rows * 2).sum(axis=1), rows.max(axis=1)
    for got, plain, expected in zip(found, bags(*operands), wanted, strict=True):
        np.testing.assert_array_equal(got.numpy(), expected)
        assert same_bits(got, plain)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64"])
def test_bags_are_those_of_numpy(dtype: str) -> None:
    check(dtype, 70, 5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int64"])
@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 31, 64, 257])
def test_bags_of_any_width(dtype: str, columns: int) -> None:
    for count in (1, 33, 70):
        check(dtype, columns, count)


def test_rows_are_read_side_by_side() -> None:
    table, indices = given("float32", 64, 8)
    explained = explain(
        lambda t, i: it.embedding_bag(i, t),
        it.asarray(table, device="cpu"), it.asarray(abs(indices) % 23, device="cpu"),
        runs=0, source=True,
    )  # fmt: skip
    assert "gather" not in str(explained).split("define void @nest(")[-1]


def test_what_is_in_a_row_stays_there() -> None:
    table = np.ones((4, 9), np.float32)
    table[1, 3], table[2, 8], table[3, 0] = np.nan, np.inf, -np.inf
    names = np.asarray([[0, 1], [2, 2], [2, 3], [0, 0]])
    found = compile(lambda t, i: it.embedding_bag(i, t, mode="sum"))(
        it.asarray(table, device="cpu"), it.asarray(names, device="cpu")
    )
    np.testing.assert_array_equal(found.numpy(), table[names].sum(axis=1))


def test_indices_of_indices_and_a_table_that_lies_transposed() -> None:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((12, 20)).astype(np.float32)
    second, first = rng.integers(0, 20, 9), rng.integers(0, 9, (5, 4))

    def chained(t: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return it.sum(it.take(t.mT, it.take(i, j.reshape(-1)), axis=0).reshape(5, 4, 12), axis=1)

    operands = [it.asarray(x, device="cpu") for x in (table, second, first)]
    expected = table.T[second[first]].sum(axis=1)
    np.testing.assert_allclose(compile(chained)(*operands).numpy(), expected, rtol=1e-6, atol=1e-6)


def test_a_row_that_there_is_none_of() -> None:
    table = it.ones((5, 16), device="cpu")
    with pytest.raises(OutOfRangeError, match="outside of -5 to 4"):
        compile(bags)(table, it.asarray([[0, 5], [1, 2]], device="cpu"))[0].numpy()
