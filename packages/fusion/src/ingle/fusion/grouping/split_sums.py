"""Long sums in pieces, for devices with more workers than a sum has rows or columns.

A sum adds blocks of `BLOCK` elements to a total with its error (see `kernel.nest`). Blocks do not
depend on one another: a first kernel sums each of them, and a second one adds up their sums. Both
together add in the order of the sum alone, so that its bits stay.

That order has one addition to the total wait for the one before. Where so many of them follow each
other that they take as long as memory does, a sum is one of sums: of rows of at least `LONGEST_ROW`
elements by pieces (`split_reductions`), of many rows by parts of their blocks
(`totals_in_parts`). So it has other last bits there than one nest gives, and the same ones alone
and in any plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval
from ingle.tensor.dispatch import handle_of, run1
from ingle.tensor.operation import Op, infer

from ..kernel.code import FLOATS, HALVES
from ..kernel.lowering import reduction_of
from ..kernel.nest import BLOCK, accumulators
from .two_stage_reduction import TOTALS

MANY_ROWS, FEW_COLUMNS = 8 * BLOCK, 1 << 16
"""Sums down columns of at least so many rows, fewer of them than fill a device."""
LONG_ROW, FEW_ROWS = 1 << 14, 1 << 10
"""The same of sums along rows that are whole blocks."""
LONGER_ROW, FEWER_ROWS, FEWEST_ROWS = 1 << 18, 1 << 6, 1 << 2
"""Other rows are split where fewer of them are so long, and fewer still that are shorter."""
LONGEST_ROW = 1 << 21
"""Of few rows that are so long pieces are summed by themselves."""


def split_sum(op: Op, x: Aval) -> Callable[[Tensor], Tensor] | None:
    """How a sum is made of the sums of its blocks; None where it is to stay as it is."""
    if reduction_of(op) != "sum" or x.dtype.name not in FLOATS or not x.shape:
        return None
    (rows, columns), axis = folded_matrix(op, x)
    if axis == 0 and 1 < columns < FEW_COLUMNS:
        return (lambda x: _down(op, x, rows, columns)) if rows >= MANY_ROWS else None
    are_whole = columns >= LONG_ROW and not columns % (BLOCK * accumulators(x.dtype.name))
    if axis == 1 and are_longest(rows, columns):
        return None
    if axis == 1 and rows > 0 and ((are_whole and rows < FEW_ROWS) or are_few(rows, columns)):
        return lambda x: _along(op, x, rows, columns)
    return None


def folded_matrix(op: Op, x: Aval) -> tuple[tuple[int, int], int | None]:
    """The sizes of the matrix that a reduction takes an operand as, and the axis along which it
    reduces that; no axis where its axes do not lie side by side at an end of the operand's."""
    count, axes = len(x.shape), op.attributes["axis"]
    if axes is None:
        axes = tuple(range(count))
    elif isinstance(axes, int):
        axes = (axes,)
    folded = math.prod([x.shape[a] for a in axes])
    kept = math.prod([n for a, n in enumerate(x.shape) if a not in axes])
    if axes == tuple(range(count - len(axes), count)):
        return (kept, folded), 1
    return (folded, kept), 0 if axes == tuple(range(len(axes))) else None


def are_few(rows: int, length: int, alone: bool = False) -> bool:
    """Whether rows are so few and so long that a kernel for all of them leaves a device idle.

    Of the length of logits it may do more than reduce them, as for a softmax, and reads them once.

    Args:
        alone: whether the result is none that the same rows are gone over again with.
    """
    most = FEWER_ROWS if alone or length >= LONGER_ROW else FEWEST_ROWS
    return length >= LONG_ROW and 0 < rows < most


def are_longest(rows: int, length: int) -> bool:
    """Whether rows are few, and so long that their sums are those of sums of their pieces."""
    return length >= LONGEST_ROW and are_few(rows, length)


def _down(op: Op, x: Tensor, rows: int, columns: int) -> Tensor:
    """A sum down each column."""
    first, rest = whole_blocks(wide(x), (rows, columns), 0, BLOCK)
    sums = it.sum(it.reshape(first, (rows // BLOCK, BLOCK, columns)), axis=1)
    if rest is not None:
        sums = it.concat([sums, it.sum(rest, axis=0, keepdims=True)], axis=0)
    return it.reshape(_totals(sums, 0), _shape(op, x)).astype(x.dtype)


def _along(op: Op, x: Tensor, rows: int, length: int) -> Tensor:
    """A sum along each row, whose partial results are columns."""
    lanes = accumulators(x.dtype.name)
    block = BLOCK * lanes
    first, rest = whole_blocks(wide(x), (rows, length), 1, block)
    sums = it.sum(it.reshape(first, (rows, length // block, BLOCK, lanes)), axis=2)
    if rest is not None:
        # What is added to the lanes that have no element is no number's change, nor zero's sign.
        filled = it.pad(rest, ((0, 0), (0, -length % block)), value=-0.0)
        last = it.sum(it.reshape(filled, (rows, 1, BLOCK, lanes)), axis=2)
        sums = it.concat([sums, last], axis=1)
    return it.reshape(it.sum(_totals(sums, 1), axis=1), _shape(op, x)).astype(x.dtype)


def whole_blocks(
    x: Tensor, matrix: tuple[int, int], axis: int, size: int
) -> tuple[Tensor, Tensor | None]:
    """The whole blocks along an axis of a matrix, and what is left behind them; all of it as it is
    where nothing is."""
    end = matrix[axis] // size * size
    if end == matrix[axis]:
        return x, None
    x = it.reshape(x, matrix)
    ahead = (slice(None),) * axis
    return x[(*ahead, slice(end))], x[(*ahead, slice(end, None))]


def wide(x: Tensor) -> Tensor:
    """Half types as float32, in which they are added up; they are rounded once, in the end."""
    return x.astype("float32") if x.dtype.name in HALVES else x


def _shape(op: Op, x: Tensor) -> tuple[int, ...]:
    return infer(op, [Aval(x.shape, x.dtype)])[0].shape


def _totals(x: Tensor, axis: int) -> Tensor:
    return run1(TOTALS.op(axis=axis), handle_of(x, "totals"))
