"""Long reductions in pieces, for devices with more workers than a reduction has rows or columns.

Maxima, minima, sums of integers and what is true of any or all elements do not depend on the order
in which elements are taken, up to the sign of zero: a first kernel reduces each piece, and a second
one what these give. So it is with products, whose last bits depend on it, and with the place of an
extreme: that of the first piece that has it. Sums of floats have an order, see `split_sums`, but
for those of the longest rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op, infer

from ..kernel.code import FLOATS
from ..kernel.lowering import reduction_of
from .split_sums import are_few, are_longest, folded_matrix, whole_blocks, wide

PIECE = 1 << 11
"""Elements of a row's piece, at most."""
PIECE_ROWS = 1 << 6
"""Rows of a piece that is reduced down its columns, at most."""
MANY_PLACES, PLACES = 1 << 9, 1 << 7
"""Places of pieces' extremes, of more than which so many at most are reduced to one."""
MANY_ROWS, FEW_COLUMNS = 1 << 8, 1 << 14
"""Reductions down columns of at least so many rows, fewer of them than fill a device."""
_PLACES = {"argmax": it.max, "argmin": it.min}
_SINGLE: dict[str, Callable[..., Any]] = {
    "max": it.max, "min": it.min, "any": it.any, "all": it.all, "sum": it.sum, "prod": it.prod,
}  # fmt: skip


def split_reduction(op: Op, x: Aval) -> Callable[[Tensor], Tensor] | None:
    """How a reduction is made of those of its pieces; None where it is to stay as it is."""
    name = reduction_of(op)
    known = name in _SINGLE or name in _PLACES
    if name is None or not known or not x.shape:
        return None
    sizes, axis = folded_matrix(op, x)
    rows, columns = sizes
    if name == "sum" and x.dtype.name in FLOATS and not (axis == 1 and are_longest(*sizes)):
        return None
    if axis == 1 and are_few(rows, columns, alone=name in _PLACES):
        return lambda x: _whole(op, name, x, sizes, 1, PIECE)
    if axis == 0 and 1 < columns < FEW_COLUMNS and rows >= MANY_ROWS:
        return lambda x: _whole(op, name, x, sizes, 0, PIECE_ROWS)
    return None


def _whole(op: Op, name: str, x: Tensor, sizes: tuple[int, int], axis: int, most: int) -> Tensor:
    """The reduction of a matrix along an axis, by pieces of up to a size."""
    (result,) = infer(op, [Aval(x.shape, x.dtype)])
    size = _piece(sizes[axis], most)
    # Half types are added and multiplied in float32; what jumps is theirs as they are in memory.
    matrix = it.reshape(wide(x) if name in ("sum", "prod") else x, sizes)
    made = _placed(name, matrix, axis, size) if name in _PLACES else _reduced(
        _SINGLE[name], matrix, axis, size
    )  # fmt: skip
    return it.reshape(made, result.shape).astype(result.dtype)


def _reduced(function: Callable[..., Any], x: Tensor, axis: int, size: int) -> Tensor:
    pieces, rest = _pieces(x, axis, size)
    found = function(pieces, axis=axis + 1)
    if rest is not None:
        found = it.concat([found, function(rest, axis=axis, keepdims=True)], axis=axis)
    made: Tensor = function(found, axis=axis)
    return made


def _placed(name: str, x: Tensor, axis: int, size: int) -> Tensor:
    """The place of the first extreme: the least one of those that pieces with this extreme have.

    No index is looked up, so that nobody has to check any.
    """
    function, place = _PLACES[name], getattr(it, name)
    pieces, rest = _pieces(x, axis, size)
    count = pieces.shape[axis]
    starts = it.arange(0, count * size, size, device=x.device)
    starts = it.expand_dims(starts, axis=1 - axis)
    values, places = function(pieces, axis=axis + 1), place(pieces, axis=axis + 1) + starts
    if rest is not None:
        values = it.concat([values, function(rest, axis=axis, keepdims=True)], axis=axis)
        last = place(rest, axis=axis, keepdims=True) + count * size
        places = it.concat([places, last], axis=axis)
    end = x.shape[axis]
    while values.shape[axis] > MANY_PLACES:
        size = _piece(values.shape[axis], PLACES)
        (values, last), (of_places, last_place) = (
            _pieces(found, axis, size) for found in (values, places)
        )
        places = _first_place(function, values, of_places, axis + 1, end)
        values = function(values, axis=axis + 1)
        if last is not None and last_place is not None:
            place = _first_place(function, last, last_place, axis, end)
            places = it.concat([places, it.expand_dims(place, axis=axis)], axis=axis)
            values = it.concat([values, function(last, axis=axis, keepdims=True)], axis=axis)
    return _first_place(function, values, places, axis, end)


def _first_place(
    function: Callable[..., Any], values: Tensor, places: Tensor, axis: int, end: int
) -> Tensor:
    """The least of the places whose values are extreme along an axis; all are before an end."""
    extreme = values == function(values, axis=axis, keepdims=True)
    if values.dtype.is_floating:
        extreme = extreme | it.isnan(values)  # which is more extreme than any number
    found: Tensor = it.min(it.where(extreme, places, end), axis=axis)
    return found


def _piece(length: int, most: int) -> int:
    """How long pieces are: such that nothing is left behind them, which takes kernels of its own,
    where that leaves them more than half as long as they may be."""
    return next((n for n in range(most, most // 2, -1) if not length % n), most)


def _pieces(x: Tensor, axis: int, size: int) -> tuple[Tensor, Tensor | None]:
    """Pieces of an axis as two axes, and what is left behind them."""
    shape = (*x.shape[:axis], x.shape[axis] // size, size, *x.shape[axis + 1 :])
    first, rest = whole_blocks(x, (x.shape[0], x.shape[1]), axis, size)
    return it.reshape(first, shape), rest
