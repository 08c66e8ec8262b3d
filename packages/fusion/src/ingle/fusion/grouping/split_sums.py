"""Long sums in pieces, for devices with more workers than a sum has rows or columns.

A sum adds blocks of `BLOCK` elements to a total with its error (see `kernel.nest`). Blocks do not
depend on one another: a first kernel sums each of them, and a second one adds up their sums. Both
together add in the order of the sum alone, so that its bits stay.
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
"""The same of sums along rows."""


def split_sum(op: Op, x: Aval) -> Callable[[Tensor], Tensor] | None:
    """How a sum is made of the sums of its blocks; None where it is to stay as it is."""
    if reduction_of(op) != "sum" or x.dtype.name not in FLOATS or not x.shape:
        return None
    axes, count = op.attributes["axis"], len(x.shape)
    axes = tuple(range(count)) if axes is None else axes
    folded = math.prod([x.shape[a] for a in axes])
    kept = math.prod(x.shape) // folded if folded else 0
    if axes == tuple(range(len(axes))) and 1 < kept < FEW_COLUMNS and len(axes) < count:
        if folded >= MANY_ROWS and not folded % BLOCK:
            return lambda x: _down(op, x, folded, kept)
        return None
    block = BLOCK * accumulators(x.dtype.name)
    along = axes == tuple(range(count - len(axes), count))
    if along and 0 < kept < FEW_ROWS and folded >= LONG_ROW and not folded % block:
        return lambda x: _along(op, x, kept, folded)
    return None


def _down(op: Op, x: Tensor, rows: int, columns: int) -> Tensor:
    """A sum down each column."""
    blocks = it.sum(it.reshape(_wide(x), (rows // BLOCK, BLOCK, columns)), axis=1)
    return it.reshape(_totals(blocks, 0), _shape(op, x)).astype(x.dtype)


def _along(op: Op, x: Tensor, rows: int, length: int) -> Tensor:
    """A sum along each row, whose partial results are columns."""
    lanes = accumulators(x.dtype.name)
    pieces = it.reshape(_wide(x), (rows, length // (BLOCK * lanes), BLOCK, lanes))
    sums = it.sum(_totals(it.sum(pieces, axis=2), 1), axis=1)
    return it.reshape(sums, _shape(op, x)).astype(x.dtype)


def _wide(x: Tensor) -> Tensor:
    """Half types as float32, in which they are added up; they are rounded once, in the end."""
    return x.astype("float32") if x.dtype.name in HALVES else x


def _shape(op: Op, x: Tensor) -> tuple[int, ...]:
    return infer(op, [Aval(x.shape, x.dtype)])[0].shape


def _totals(x: Tensor, axis: int) -> Tensor:
    return run1(TOTALS.op(axis=axis), handle_of(x, "totals"))
