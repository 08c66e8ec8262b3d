"""Where elements belong in a sorted tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..contract import Aval
from ..dispatch import TensorLike, handle_of, promote, run2
from ..dtypes import int64
from ..errors import ArgumentError, DTypeError, ShapeError
from ..operation import Operation, Traits
from ..sample import Draw, Sample
from ._guarding import guarded
from ._rules import ORDERED
from .comparison import isnan
from .creation import full, zeros
from .extrema import minimum
from .gathering import take
from .where import where

if TYPE_CHECKING:
    from ..tensor import Tensor


@guarded
def searchsorted(
    x1: TensorLike,
    x2: TensorLike,
    /,
    *,
    side: str = "left",
    sorter: TensorLike | None = None,
) -> Tensor:
    """The indices at which elements would have to be inserted to keep a tensor sorted.

    Args:
        x1: a real tensor of one axis in ascending order, NaN last.
        x2: the elements; promoted to one dtype with `x1`.
        side: `"left"` for the first such index, before equal elements; `"right"` for the last.
        sorter: the indices that sort `x1`, if it is not sorted.

    Returns:
        int64 indices from 0 to the size of `x1`, of the shape of `x2`.

    >>> import ingle.tensor as it
    >>> x = it.asarray([1, 3, 3, 5])
    >>> it.searchsorted(x, it.asarray([3, 9])).tolist()
    [1, 4]
    >>> it.searchsorted(x, it.asarray([3, 9]), side="right").tolist()
    [3, 4]
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side={side!r} must be 'left' or 'right'")
    shape = handle_of(x1, "searchsorted", "x1").shape
    if len(shape) != 1:
        raise ShapeError(f"searchsorted: x1 must have one axis, got shape {shape}")
    if sorter is not None:
        if handle_of(sorter, "searchsorted", "sorter").shape != shape:
            raise ShapeError(f"searchsorted: sorter must have the shape {shape} of x1")
        x1 = take(x1, sorter)
    a, b = promote("searchsorted", ("x1", x1), ("x2", x2))
    return run2(_SEARCHSORTED.op(side=side), a, b)


def _rule(x1: Aval, x2: Aval, *, side: str) -> Aval:
    if x1.dtype.kind not in ORDERED:
        raise DTypeError(f"searchsorted: x1 and x2 must be ordered, got {x1.dtype}; use abs(x)")
    return Aval(x2.shape, int64)


def _body(x1: Tensor, x2: Tensor, *, side: str) -> Tensor:
    """Halves the interval of each element, all at once."""
    size = x1.shape[0]
    low = zeros(x2.shape, dtype=int64, device=x2.device)
    high = full(x2.shape, size, dtype=int64, device=x2.device)
    last = full((), max(size - 1, 0), dtype=int64, device=x2.device)
    for _ in range(size.bit_length()):
        middle = (low + high) // 2
        beyond = _before(take(x1, minimum(middle, last)), x2, side) & (low < high)
        low, high = where(beyond, middle + 1, low), where(beyond, high, middle)
    return low


def _before(x1: Tensor, x2: Tensor, side: str) -> Tensor:
    """Whether the place for `x2` is after an element of `x1`; NaN counts as the largest."""
    plain = x1 < x2 if side == "left" else x1 <= x2
    if not x1.dtype.is_floating:
        return plain
    return plain | (isnan(x2) if side == "right" else isnan(x2) & ~isnan(x1))


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_complex:
        return
    for n, shape in ((17, (5,)), (8, (2, 3)), (1, ()), (0, (3,)), (33, (0,))):
        x1 = np.sort(draw.array((n,)).astype("float32")).astype(draw.dtype.dtype)
        x2 = draw.array(shape)
        for side in ("left", "right"):
            yield Sample((x1, x2), {"side": side}, gradient=False, exact=True)
    if draw.dtype.is_floating:
        odd = np.asarray([-np.inf, 0.0, 1.0, 1.0, np.inf, np.nan, np.nan], draw.dtype.dtype)
        for side in ("left", "right"):
            yield Sample((odd, odd), {"side": side}, gradient=False, exact=True)
    unsorted = draw.array((8,))
    order = np.argsort(unsorted.astype("float32"))
    yield Sample((unsorted, draw.array((3,))), {"sorter": order}, gradient=False, exact=True)


def _reference(x1: Any, x2: Any, side: str = "left", sorter: Any = None) -> Any:
    if x1.dtype.kind == "V":
        x1, x2 = x1.astype(np.float32), x2.astype(np.float32)
    return np.asarray(np.searchsorted(x1, x2, side=side, sorter=sorter))  # type: ignore[call-overload]


_SEARCHSORTED = Operation(
    "searchsorted",
    tensors=("x1", "x2"),
    statics=("side",),
    rule=_rule,
    traits=Traits("opaque"),
    vjp={},
    body=_body,
    public=searchsorted,
    samples=_samples,
    reference=_reference,
)
