"""Tensors and cells of one value where Python and NumPy want a number."""

from __future__ import annotations

import math
import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, OperandError

NUMBERS = {
    "tensor": it.asarray,
    "of one element": lambda v: it.asarray([v]),
    "cell of a tensor": lambda v: it.Cell(it.asarray(v)),
    "cell of a number": it.Cell,
}


@pytest.fixture(params=NUMBERS)
def made(request: pytest.FixtureRequest) -> Any:
    return NUMBERS[request.param]


@pytest.mark.parametrize("spec", [".4f", "8.2e", "+.1%", "g", ">12.3f"])
def test_formats_are_those_of_the_number(made: Any, spec: str) -> None:
    value = 2.34375
    assert format(made(value), spec) == format(value, spec)
    assert format(made(7), "03d") == "007"
    assert f"{made(True):d}" == "1"
    assert "%.3f %d" % (made(value), made(7)) == "2.344 7"  # noqa: UP031


def test_conversions_are_those_of_the_number(made: Any) -> None:
    for value in (2.34375, -3.5, 7, True):
        x = made(value)
        for to in (int, float, complex, bool, round, math.floor, math.ceil, math.trunc):
            assert to(x) == to(value), (to, value)
            assert type(to(x)) is type(to(value)), (to, value)
        assert round(x, 1) == round(value, 1)


def test_indices() -> None:
    for x in (it.asarray(2), it.Cell(it.asarray(2)), it.Cell(2)):
        assert list(range(x)) == [0, 1]
        assert "abc"[x] == "c"
    for x in (it.asarray(2.0), it.Cell(it.asarray(2.0)), it.Cell(2.0)):
        with pytest.raises(TypeError):
            operator.index(x)


def test_text_of_a_single_value_is_short() -> None:
    # What progress bars show, and `print`.
    assert f"{it.asarray(2.345)} {it.asarray(2.345)!s}" == "2.345 2.345"
    assert str(it.Cell(5)) == f"{it.Cell(5)}" == "5"
    assert str(it.Cell(it.asarray(0.1))) == "0.1"
    assert str(it.asarray(0.1, dtype="bfloat16")) == str(ml_dtypes.bfloat16(0.1))
    assert str(it.asarray(True)) == "True"
    # `repr` tells all there is to know, and so do tensors of several values.
    assert repr(it.asarray(2.345)).startswith("tensor(2.345, shape=(), dtype=float32")
    assert repr(it.Cell(5)) == "Cell(5)"
    x = it.asarray([1.0, 2.0])
    assert str(x) == f"{x}" == repr(x)


def test_several_values_are_no_number() -> None:
    for x in (it.asarray([1.0, 2.0]), it.Cell(it.asarray([1.0, 2.0]))):
        for use in (int, float, round, bool, complex, lambda v: format(v, ".2f")):
            with pytest.raises(ArgumentError, match=r"\(2,\)"):
                use(x)
    assert len(it.Cell(it.asarray([1.0, 2.0]))) == 2


NUMPY_NUMBERS = [
    np.float32(2), np.float64(2), np.float16(2), np.int64(3), np.uint8(3), np.bool_(True),
    np.complex64(2 + 1j), ml_dtypes.bfloat16(2), np.longdouble(2),
]  # fmt: skip


@pytest.mark.parametrize("number", NUMPY_NUMBERS, ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.truediv,
                                operator.pow, operator.eq], ids=lambda f: f.__name__)  # fmt: skip
@pytest.mark.parametrize("values", [[1.5, 2.5], 3.0], ids=["vector", "0-d"])
def test_numpys_numbers_are_weak_on_both_sides(op: Any, number: Any, values: Any) -> None:
    python = {"b": bool, "i": int, "u": int, "c": complex}.get(np.dtype(number).kind, float)(number)
    for x in (it.asarray(values), it.Cell(it.asarray(values))):
        for given, plain in (((number, x), (python, x)), ((x, number), (x, python))):
            got, want = op(*given), op(*plain)
            assert type(got) is it.Tensor
            assert got.dtype is want.dtype
            assert got.tolist() == want.tolist()


def test_numpys_numbers_and_cells_of_numbers() -> None:
    steps = it.Cell(4)
    assert np.float32(2) * steps == steps * np.float32(2) == 8.0
    assert np.float64(9) - steps == 5.0
    assert bool(np.float32(2) < steps)
    np.testing.assert_array_equal(np.array([1.0, 2.0]) * steps, [4.0, 8.0])
    assert np.asarray(steps).item() == 4
    assert np.asarray([steps, it.Cell(2.5)]).tolist() == [4.0, 2.5]


def test_numpys_numbers_elsewhere() -> None:
    x = it.asarray([1.0, 2.0])
    two = np.float32(2)
    assert (two < x).tolist() == [False, False]
    assert it.where(x > 1, two, x).tolist() == [1.0, 2.0]
    assert it.clip(x, max=np.float32(1.5)).tolist() == [1.0, 1.5]
    assert it.masked_fill(x, x > 1, two).tolist() == [1.0, 2.0]
    assert it.maximum(two, x).tolist() == [2.0, 2.0]
    assert it.logical_and(x > 1, np.bool_(True)).tolist() == [False, True]
    assert (it.asarray([1, 2]) + np.int8(1)).dtype is it.asarray([1, 2]).dtype
    with pytest.raises(OperandError, match="asarray"):
        x * np.asarray([1.0, 2.0])
    with pytest.raises(OperandError, match="datetime64"):
        x * np.datetime64("2026-01-01")


def test_a_cell_of_a_number_computes_as_the_number() -> None:
    steps = it.Cell(7)
    for op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv,
               operator.mod, operator.pow, operator.lt, operator.ge, operator.eq, operator.ne,
               operator.and_, operator.lshift):  # fmt: skip
        assert op(steps, 3) == op(7, 3)
        assert op(3, steps) == op(3, 7)
        assert op(steps, it.Cell(2)) == op(7, 2)
        assert type(op(steps, 3)) is type(op(7, 3))
    x = it.asarray([1.0, 2.0])
    assert (x * steps).tolist() == (steps * x).tolist() == [7.0, 14.0]
    assert steps not in (None, "7", 8)
    assert bool(it.Cell(0)) is False
    assert (-steps, +steps, abs(it.Cell(-2)), ~steps) == (-7, 7, 2, ~7)
    with pytest.raises(TypeError):
        steps + "a"


def test_a_cell_of_a_tensor_has_its_facts() -> None:
    values = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    cell = it.Cell(it.asarray(values))
    assert (cell.ndim, cell.size, cell.nbytes, len(cell)) == (2, 6, 24, 2)
    np.testing.assert_array_equal(cell.numpy(), values)
    np.testing.assert_array_equal(np.asarray(cell), values)
    assert cell.tolist() == values.tolist()
    assert it.Cell(it.asarray([3.0])).item() == 3.0
    assert it.Cell(4).item() == it.Cell(4).tolist() == 4
    assert type(cell.detach()) is it.Tensor
    with pytest.raises(OperandError, match="no shape"):
        it.Cell(4).ndim  # noqa: B018
