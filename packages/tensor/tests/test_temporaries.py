"""Assignments to items of tensors that nobody holds, and of cells."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import pytest

import ingle.tensor as it
from ingle.tensor import temporaries
from ingle.tensor.errors import ArgumentError

told_apart = pytest.mark.skipif(
    not temporaries.FEW, reason="this interpreter does not count references"
)


class Holder:
    """Tensors in the places where programs keep them."""

    shared = it.zeros(3)

    def __init__(self) -> None:
        self.x = it.zeros(3)
        self.cell = it.Cell(it.zeros(3))

    @property
    def fresh(self) -> it.Tensor:
        return it.zeros(3)


@told_apart
def test_a_write_that_would_be_lost_is_refused() -> None:
    y, holder = it.zeros((2, 3)), Holder()
    with pytest.raises(ArgumentError, match=r"y\[i, j\] = value"):
        y[0][1] = 5
    with pytest.raises(ArgumentError, match="lost"):
        y[0][1] += 5
    with pytest.raises(ArgumentError, match="lost"):
        y.T[0] = 5
    with pytest.raises(ArgumentError, match="lost"):
        (y * 2)[0] = 5
    with pytest.raises(ArgumentError, match=r"cell\[i\] = value"):
        holder.cell.value[0] = 5
    with pytest.raises(ArgumentError, match="lost"):
        holder.fresh[0] = 5
    assert y.tolist() == [[0.0] * 3] * 2


GLOBAL = it.zeros(3)


def passed(x: it.Tensor) -> None:
    x[0] = 1


def stepwise(x: it.Tensor) -> Iterator[None]:
    x[1] += 0
    yield


def test_what_is_held_anywhere_is_written() -> None:
    local, holder, rows, table = it.zeros(3), Holder(), [it.zeros(3)], {"a": it.zeros(3)}
    local[0] = 1
    holder.x[0] = 1
    Holder.shared[0] = 1
    rows[0][0] = 1
    table["a"][0] = 1
    GLOBAL[0] = 1
    GLOBAL[1:2] += 0
    for row in [it.zeros(3)]:
        row[0] = 1
        kept = row
    (named := it.zeros(3))[0] = 1
    operator.setitem(rows[0], 0, 1)
    given = it.zeros(3)
    passed(given)
    next(stepwise(given))
    by_name = it.zeros(3)
    by_name.__setitem__(0, 1)

    def closure() -> None:
        local[2] = 0

    def through(x: Any) -> Any:
        return x

    closure()
    through(by_name)[2] = 0
    exec("x[0] = 1", {"x": by_name})
    found = [local, holder.x, Holder.shared, rows[0], table["a"], GLOBAL, kept, named, by_name]
    found.append(given)
    assert [x.tolist() for x in found] == [[1.0, 0.0, 0.0]] * len(found)


def test_a_cell_is_written() -> None:
    cell = it.Cell(it.zeros((2, 3)), differentiable=True)
    before = cell.value
    cell[0, 1] = 5
    cell[1] = it.asarray([1.0, 2.0, 3.0])
    cell[1] += 1
    assert cell.tolist() == [[0.0, 5.0, 0.0], [2.0, 3.0, 4.0]]
    assert before.tolist() == [[0.0] * 3] * 2
    with it.transaction(commit=False):
        cell[0] = 9
    assert cell.tolist()[0] == [0.0, 5.0, 0.0]
