"""Where elements belong in a sorted tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Scalar
from ...dispatch import Operand, TensorLike, handle_of, promote, run2, wrap
from ...dtypes import int64
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import ORDERED
from ..creation.filled import full, zeros
from ..elementwise.comparison import isnan
from ..elementwise.where import where
from ..indexing.gathering import take, take_along_axis

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def searchsorted(
    x1: TensorLike,
    x2: Operand,
    /,
    *,
    side: str = "left",
    sorter: TensorLike | None = None,
) -> Tensor:
    """The indices at which elements would have to be inserted to keep a tensor sorted.

    Args:
        x1: a real tensor in ascending order along its last axis, NaN last. If it has further axes,
            `x2` has the same, and each row of it looks in its own row of `x1`.
        x2: the elements, or a number; promoted to one dtype with `x1`.
        side: `"left"` for the first such index, before equal elements; `"right"` for the last.
        sorter: the indices that sort `x1`, if it is not sorted.

    Returns:
        int64 indices from 0 to the size of the last axis of `x1`, of the shape of `x2`.

    Raises:
        ArgumentError: another `side`.
        ShapeError: `x1` has no axes, or `sorter` another shape.

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
    if not shape:
        raise ShapeError("searchsorted: x1 must have at least one axis, got a 0-d tensor")
    if sorter is not None:
        if handle_of(sorter, "searchsorted", "sorter").shape != shape:
            raise ShapeError(f"searchsorted: sorter must have the shape {shape} of x1")
        x1 = take_along_axis(x1, sorter, axis=-1)
    a, b = promote("searchsorted", ("x1", x1), ("x2", x2))
    if isinstance(b, Scalar):
        b = full((), b.value, dtype=b.dtype, device=wrap(a).device)._handle  # type: ignore[arg-type]
    return run2(_SEARCHSORTED.op(side=side), a, b)


def _rule(x1: Aval, x2: Aval, *, side: str) -> Aval:
    if x1.dtype.kind not in ORDERED:
        raise DTypeError(f"searchsorted: x1 and x2 must be ordered, got {x1.dtype}; use abs(x)")
    if x1.ndim > 1 and x1.shape[:-1] != x2.shape[:-1]:
        raise ShapeError(
            f"searchsorted: x2 must have a row for each of x1 {x1.shape}, so all axes but the last "
            f"agree, got {x2.shape}"
        )
    return Aval(x2.shape, int64)


def _body(x1: Tensor, x2: Tensor, *, side: str) -> Tensor:
    """Halves the interval of each element, all at once.

    All intervals are as long, so that only where they begin is a tensor: the element in front of an
    interval's second half says whether it begins there. The first two overlap, so that all others
    are one element shorter than a power of two: the same numbers for all lengths of an octave.
    """
    size = x1.shape[-1]
    begin = zeros(x2.shape, dtype=int64, device=x2.device)
    if not size:
        return begin
    half = 1
    while 2 * half <= size:
        half *= 2
    step = size - half + 1
    while half:
        place = begin + (half - 1) if half > 1 else begin
        found = take(x1, place) if x1.ndim == 1 else take_along_axis(x1, place, axis=-1)
        begin = where(_before(found, x2, side), begin + step, begin)
        step = half = half // 2
    return begin


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
    n, m = draw.size(8), draw.size(5)
    rows = np.sort(draw.array((2, n)).astype("float32")).astype(draw.dtype.dtype)
    yield Sample((rows, draw.array((2, m))), {"side": "right"}, gradient=False, exact=True)
    unsorted = draw.array((8,))
    order = np.argsort(unsorted.astype("float32"))
    yield Sample((unsorted, draw.array((3,))), {"sorter": order}, gradient=False, exact=True)


def _reference(x1: Any, x2: Any, side: str = "left", sorter: Any = None) -> Any:
    if x1.dtype.kind == "V":
        x1, x2 = x1.astype(np.float32), x2.astype(np.float32)
    if x1.ndim > 1:
        rows = zip(x1.reshape(-1, x1.shape[-1]), x2.reshape(len(x1), -1), strict=True)
        return np.reshape([np.searchsorted(a, b, side=side) for a, b in rows], x2.shape)  # type: ignore[call-overload]
    return np.asarray(np.searchsorted(x1, x2, side=side, sorter=sorter))  # type: ignore[call-overload]


_SEARCHSORTED = Operation(
    "searchsorted",
    tensors=("x1", "x2"),
    statics=("side",),
    rule=_rule,
    traits=Traits("opaque", indexes_inside=True),
    vjp={},
    body=_body,
    public=searchsorted,
    samples=_samples,
    reference=_reference,
)
