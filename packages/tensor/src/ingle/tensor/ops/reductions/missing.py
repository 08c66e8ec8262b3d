"""NaN as missing numbers: replaced, left out of reductions, passed over by extrema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import Operand, TensorLike, call2, handle_of, refuse_storage, wrap
from ...dtype_functions import finfo
from ...dtypes import int64
from .._families import binary
from .._guarding import guarded
from .._rules import ORDERED, widened
from ..elementwise.cast import astype
from ..elementwise.comparison import isnan
from ..elementwise.complex import imag, real
from ..elementwise.detaching import stop_gradient
from ..elementwise.extrema import maximum
from ..elementwise.logical import logical_not
from ..elementwise.where import where
from ..indexing.gathering import take_along_axis
from ..movement.shapes import broadcast_to, reshape
from ..sorting.selection import along, between, quantiles, require_elements
from ..sorting.sort import sort
from .basic import Axis, count_nonzero, sum
from .searching import argmax
from .statistics import mean

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def nan_to_num(
    x: TensorLike, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN and infinities replaced by numbers. The gradient is 0 where something was replaced.

    Args:
        x: a tensor; integers and bools stay as they are, complex numbers are replaced by parts.
        nan: in the place of NaN.
        posinf, neginf: in the place of infinities: the largest and the most negative number of the
            dtype if not given.

    >>> import ingle.tensor as it
    >>> it.nan_to_num(it.asarray([float("nan"), float("inf"), 1.0]), posinf=9.0).tolist()
    [0.0, 9.0, 1.0]
    """
    handle = handle_of(x, "nan_to_num")
    refuse_storage("nan_to_num", "x", handle.dtype)
    tensor = wrap(handle)
    if not tensor.dtype.is_inexact:
        return tensor
    info = finfo(tensor.dtype)
    high, low = info.max if posinf is None else posinf, info.min if neginf is None else neginf
    if not tensor.dtype.is_complex:
        return _replaced(tensor, nan, high, low)
    return _replaced(real(tensor), nan, high, low) + _replaced(imag(tensor), nan, high, low) * 1j


@guarded
def nansum(
    x: TensorLike, /, *, axis: Axis = None, dtype: object = None, keepdims: bool = False
) -> Tensor:
    """The sum over axes of what is not NaN; 0 if nothing is left.

    Args:
        x, axis, dtype, keepdims: see `sum`.

    >>> import ingle.tensor as it
    >>> it.nansum(it.asarray([1.0, float("nan"), 2.0])).item()
    3.0
    """
    return sum(_known("nansum", x), axis=axis, dtype=dtype, keepdims=keepdims)


@guarded
def nanmean(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean over axes of what is not NaN; NaN if nothing is left.

    Args:
        x, axis, keepdims: see `mean`.

    >>> import ingle.tensor as it
    >>> it.nanmean(it.asarray([1.0, float("nan"), 2.0])).item()
    1.5
    """
    handle = handle_of(x, "nanmean")
    if not handle.dtype.is_inexact:
        return mean(x, axis=axis, keepdims=keepdims)
    total = sum(widened(_known("nanmean", x)), axis=axis, keepdims=keepdims)
    count = count_nonzero(logical_not(isnan(x)), axis=axis, keepdims=keepdims)
    return astype(total / astype(count, real(total).dtype), handle.dtype)


@guarded
def nanmedian(x: TensorLike, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The median along an axis of what is not NaN: the lower of two middle ones; else NaN.

    Args:
        x, axis, keepdims: see `median`.

    Raises:
        ShapeError: there are no elements.

    >>> import ingle.tensor as it
    >>> it.nanmedian(it.asarray([3.0, float("nan"), 1.0])).item()
    1.0
    """
    flat, place, shape = along("nanmedian", x, axis, keepdims)
    require_elements("nanmedian", flat, place)
    middle = maximum(_counts(flat, place) - 1, 0) // 2
    # A gradient has one way back, by a place: the one through the sort passes over all elements.
    value = take_along_axis(sort(stop_gradient(flat), axis=place), middle, axis=place)
    found = take_along_axis(flat, argmax(flat == value, axis=place, keepdims=True), axis=place)
    if flat.dtype.is_floating:
        # Where all are missing: sorting may have kept the sign of any NaN.
        found = where(isnan(found), float("nan"), found)
    return reshape(found, shape)


@guarded
def nanquantile(
    x: TensorLike,
    /,
    q: float | Sequence[float] | TensorLike,
    *,
    axis: int | None = None,
    keepdims: bool = False,
    interpolation: str = "linear",
) -> Tensor:
    """The values below which the shares `q` of what is not NaN lie; NaN if nothing is left.

    Args:
        x, q, axis, keepdims, interpolation: see `quantile`.

    Raises:
        ArgumentError: a share is outside of [0, 1].
        ShapeError: there are no elements.

    >>> import ingle.tensor as it
    >>> it.nanquantile(it.asarray([1.0, float("nan"), 2.0, 3.0]), 0.5).item()
    2.0
    """

    def found(ordered: Tensor, shares: Tensor) -> Tensor:
        last = astype(maximum(_counts(ordered, 0) - 1, 0), shares.dtype)

        def pick(places: Tensor) -> Tensor:
            return take_along_axis(ordered, astype(places, int64), axis=0)

        return between(shares * last, interpolation, pick)

    return quantiles("nanquantile", x, q, axis, keepdims, interpolation, found)


def _extremum(
    name: str, public: Callable[..., Any], wins: Callable[[Any, Any], Any], reference: Any
) -> Any:
    def body(x1: Any, x2: Any) -> Tensor:
        return where(wins(x1, x2) | (x2 != x2), x1, x2)

    def of_first(g: Tensor, x1: Any, x2: Any) -> Tensor:
        return where(x1 == x2, g * 0.5, where(wins(x1, x2) | (x2 != x2), g, 0))

    def of_second(g: Tensor, x1: Any, x2: Any) -> Tensor:
        # Of two NaN the first one is the result.
        return where(x1 == x2, g * 0.5, where(wins(x1, x2) | (x2 != x2), 0, g))

    return binary(
        name,
        public,
        vjp={"x1": of_first, "x2": of_second},
        kinds=ORDERED,
        body=body,
        reference=reference,
    ).op()


def fmax(x1: Operand, x2: Operand, /) -> Tensor:
    """The larger element of each pair, or the one that is not NaN. Equal ones share the gradient.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one real dtype.

    >>> import ingle.tensor as it
    >>> it.fmax(it.asarray([1.0, float("nan")]), 0.5).tolist()
    [1.0, 0.5]
    """
    return call2(_FMAX, x1, x2)


_FMAX = _extremum("fmax", fmax, lambda a, b: a > b, np.fmax)


def fmin(x1: Operand, x2: Operand, /) -> Tensor:
    """The smaller element of each pair, or the one that is not NaN. Equal ones share the gradient.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one real dtype.

    >>> import ingle.tensor as it
    >>> it.fmin(it.asarray([1.0, float("nan")]), 0.5).tolist()
    [0.5, 0.5]
    """
    return call2(_FMIN, x1, x2)


_FMIN = _extremum("fmin", fmin, lambda a, b: a < b, np.fmin)


def _replaced(x: Tensor, nan: float, high: float, low: float) -> Tensor:
    known = where(isnan(x), float(nan), x)
    return where(x == float("inf"), float(high), where(x == float("-inf"), float(low), known))


def _known(name: str, x: TensorLike) -> Tensor:
    tensor = wrap(handle_of(x, name))
    return where(isnan(tensor), 0, tensor) if tensor.dtype.is_inexact else tensor


def _counts(x: Tensor, axis: int) -> Tensor:
    """How many elements along an axis are not NaN."""
    if not x.dtype.is_floating:
        whole = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        return broadcast_to(_size(x, axis), whole)
    return count_nonzero(x == x, axis=axis, keepdims=True)


def _size(x: Tensor, axis: int) -> Tensor:
    from ..creation.filled import full

    return full((), x.shape[axis], dtype=int64, device=x.device)
