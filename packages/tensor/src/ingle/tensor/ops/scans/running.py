"""Running extrema and running logarithms of sums of exponentials along an axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, as_floating, handle_of, refuse_storage, run1, wrap
from ...dtypes import DType, default_int
from ...errors import DTypeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import ORDERED, normalize_axis, widened
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.comparison import isnan
from ..elementwise.exponential import logaddexp
from ..elementwise.where import where
from ..indexing.gathering import take_along_axis
from ..movement.joining import concat
from ..movement.shapes import broadcast_to, reshape
from ..movement.slicing import slice_axis

if TYPE_CHECKING:
    from ...tensor import Tensor


def _indices(largest: bool, x: Tensor, *, axis: int, dtype: DType) -> Tensor:
    """Hillis and Steele's scan of pairs of a value and its index."""
    size, distance = x.shape[axis], 1
    line = reshape(arange(size, dtype=dtype, device=x.device), (-1, *(1,) * (x.ndim - axis - 1)))
    indices = broadcast_to(line, x.shape)
    while distance < size:
        rest = size - distance
        early, late = slice_axis(x, axis, 0, rest), slice_axis(x, axis, distance, rest)
        later = late >= early if largest else late <= early
        if x.dtype.is_floating:
            later = (later & ~isnan(early)) | isnan(late)
        first, moved = slice_axis(indices, axis, 0, rest), slice_axis(indices, axis, distance, rest)
        indices = _after(indices, where(later, moved, first), axis)
        x = _after(x, where(later, late, early), axis)
        distance *= 2
    return indices


def _after(x: Tensor, moved: Tensor, axis: int) -> Tensor:
    """`x` with everything behind its first elements replaced."""
    return concat([slice_axis(x, axis, 0, x.shape[axis] - moved.shape[axis]), moved], axis=axis)


def _index_rule(x: Aval, *, axis: int, dtype: DType) -> Aval:
    return Aval(x.shape, dtype)


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_complex:
        return
    make = draw.apart if draw.dtype.is_inexact else draw.array
    for shape, axis in (((17,), 0), ((3, 5, 2), 1), ((2, 8), -1), ((0, 3), 0), ((3, 0), 1)):
        yield Sample((make(shape),), {"axis": axis})
    if draw.dtype.is_floating:
        odd = np.asarray([1, -np.inf, np.inf, np.nan, 2, np.nan, 3], draw.dtype.dtype)
        yield Sample((odd,), gradient=False)


def _reference(largest: bool, x: Any, axis: int = -1) -> Any:
    function: Any = np.maximum if largest else np.minimum
    if not x.size:
        return x, np.zeros(x.shape, np.int64)
    values = function.accumulate(x, axis=axis)
    here = np.moveaxis(np.broadcast_to(np.arange(x.shape[axis]), np.moveaxis(x, axis, -1).shape),
                       -1, axis)  # fmt: skip
    hit = (x == values) | (np.isnan(x) if x.dtype.kind == "f" else False)
    return values, np.maximum.accumulate(np.where(hit, here, 0), axis=axis)


def _indices_operation(name: str, public: Callable[..., Any], largest: bool) -> Operation:
    return Operation(
        name,
        tensors=("x",),
        statics=("axis", "dtype"),
        rule=_index_rule,
        traits=Traits("opaque"),
        vjp={},
        body=partial(_indices, largest),
        batch=("axis",),
        public=public,
        samples=_samples,
        reference=partial(_reference, largest),
    )


@guarded
def cummax(x: TensorLike, /, *, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The largest of the first 1, 2, … elements along an axis, and its index.

    Args:
        x: a real or bool tensor. From the first NaN on the result is NaN.
        axis: along which.

    Returns:
        The values, and the index of each: the last one of several that are equal.

    >>> import ingle.tensor as it
    >>> values, indices = it.cummax(it.asarray([2, 1, 3, 3]))
    >>> values.tolist(), indices.tolist()
    ([2, 2, 3, 3], [0, 0, 2, 3])
    """
    return _extrema("cummax", x, axis, True)


CUMMAX_INDICES = _indices_operation("cummax_indices", cummax, True)


@guarded
def cummin(x: TensorLike, /, *, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The smallest of the first 1, 2, … elements along an axis, and its index.

    Args:
        x: a real or bool tensor. From the first NaN on the result is NaN.
        axis: along which.

    Returns:
        The values, and the index of each: the last one of several that are equal.

    >>> import ingle.tensor as it
    >>> values, indices = it.cummin(it.asarray([2, 1, 3, 1]))
    >>> values.tolist(), indices.tolist()
    ([2, 1, 1, 1], [0, 1, 1, 3])
    """
    return _extrema("cummin", x, axis, False)


CUMMIN_INDICES = _indices_operation("cummin_indices", cummin, False)


@guarded
def logcumsumexp(x: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The logarithm of the sum of the exponentials of the first 1, 2, … elements along an axis.

    Args:
        x: a float tensor; integers are cast to the default float dtype.
        axis: along which.

    >>> import ingle.tensor as it
    >>> it.logcumsumexp(it.asarray([1000.0, 1000.0, float("-inf")])).tolist()
    [1000.0, 1000.6931762695312, 1000.6931762695312]
    """
    handle = as_floating(x, "logcumsumexp")
    place = normalize_axis(axis, len(handle.shape), "logcumsumexp")
    return run1(LOGCUMSUMEXP.op(axis=place), handle)


def _logcumsumexp(x: Tensor, *, axis: int) -> Tensor:
    out, distance = widened(x), 1
    while distance < x.shape[axis]:
        rest = x.shape[axis] - distance
        early, late = slice_axis(out, axis, 0, rest), slice_axis(out, axis, distance, rest)
        out = _after(out, logaddexp(late, early), axis)
        distance *= 2
    return astype(out, x.dtype)


def _log_rule(x: Aval, *, axis: int) -> Aval:
    if not x.dtype.is_floating:
        raise DTypeError(f"logcumsumexp: x must be floats, got {x.dtype}; cast with x.astype(...)")
    return x


def _log_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for shape, axis in (((17,), 0), ((3, 5, 2), 1), ((0, 3), 0)):
            yield Sample((draw.array(shape, low=-8, high=8),), {"axis": axis}, condition=8)


def _log_reference(x: Any, axis: int = -1) -> Any:
    return np.logaddexp.accumulate(x, axis=axis) if x.size else x


LOGCUMSUMEXP = Operation(
    "logcumsumexp",
    tensors=("x",),
    statics=("axis",),
    rule=_log_rule,
    traits=Traits("opaque", precision="high"),
    # Gradients go through the body's sums of two, which are stable.
    body=_logcumsumexp,
    batch=("axis",),
    public=logcumsumexp,
    samples=_log_samples,
    reference=_log_reference,
)


def _extrema(name: str, x: TensorLike, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    handle = handle_of(x, name)
    place = normalize_axis(axis, len(handle.shape), name)
    refuse_storage(name, "x", handle.dtype)
    if handle.dtype.kind not in ORDERED:
        raise DTypeError(f"{name}: x must be ordered, got {handle.dtype}; use real(x) or abs(x)")
    op = (CUMMAX_INDICES if largest else CUMMIN_INDICES).op(axis=place, dtype=default_int())
    indices = run1(op, handle)
    return take_along_axis(wrap(handle), indices, axis=place), indices
