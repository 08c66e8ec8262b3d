"""Long running sums and products in pieces, for devices with more workers than there are rows.

A first kernel has the running results of each piece, a second one those of the pieces' last ones,
and a third one puts what is before a piece onto all of it: Blelloch, Prefix sums and their
applications (1990).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op
from ingle.tensor.ops.scans.recurrence import LINEAR_RECURRENCE

from ..kernel.lowering import scan_of
from .split_sums import wide

PIECE = 1 << 10
"""Elements of a piece."""
LONG_ROW, FEW_ROWS = 1 << 13, 1 << 6
"""Rows that are split: of so many elements at least, and fewer than so many of them."""
_SCANS: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    "sum": (it.cumulative_sum, it.add, -0.0), "prod": (it.cumulative_prod, it.multiply, 1.0),
}  # fmt: skip
"""What runs along a piece, what puts two results together, and what changes none."""


def split_scan(op: Op, x: Aval) -> Callable[[Tensor], Tensor] | None:
    """How running results are made of those of pieces; None where they are to stay as they are."""
    known = _SCANS.get(scan_of(op) or "")
    if known is None or op.operation is LINEAR_RECURRENCE or x.dtype.is_complex:
        return None
    axis = op.attributes["axis"]
    size = x.shape[axis]
    if size < LONG_ROW or not 0 < math.prod(x.shape) // size < FEW_ROWS:
        return None
    return lambda x: _scanned(x, axis, *known)


def _scanned(
    x: Tensor, axis: int, scan: Callable[..., Any], join: Callable[..., Any], none: float
) -> Tensor:
    dtype, size = x.dtype, x.shape[axis]
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    count = -(-size // PIECE)
    x = wide(x)
    widths = [(0, count * PIECE - size if a == axis else 0) for a in range(len(x.shape))]
    pieces = it.reshape(it.pad(x, widths), (*before, count, PIECE, *after))
    along = scan(pieces, axis=axis + 1, dtype=x.dtype)
    ahead = (slice(None),) * axis
    lasts = scan(along[(*ahead, slice(None), PIECE - 1)], axis=axis, dtype=x.dtype)
    first = it.full((*before, 1, *after), _number(none, x), dtype=x.dtype, device=x.device)
    offsets = it.concat([first, lasts[(*ahead, slice(count - 1))]], axis=axis)
    whole = join(along, it.expand_dims(offsets, axis=axis + 1))
    flat = it.reshape(whole, (*before, count * PIECE, *after))
    made: Tensor = flat[(*ahead, slice(size))].astype(dtype)
    return made


def _number(none: float, x: Tensor) -> float:
    return none if x.dtype.is_floating else int(none)
