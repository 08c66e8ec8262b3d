"""What is chosen by order or by a mask: kthvalue, median, quantile, mode, masked_select."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Shape
from ...dispatch import TensorLike, as_floating, handle_of, refuse_storage, run, wrap
from ...dtypes import DType, default_int, float32, float64, int64
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._checks_at_run import is_unread, required
from .._guarding import guarded
from .._rules import ORDERED, as_int, broadcast_shapes, normalize_axis, widened
from ..creation.conversion import asarray
from ..elementwise.cast import astype
from ..elementwise.comparison import isfinite, isnan
from ..elementwise.rounding import ceil, floor, round
from ..elementwise.where import where
from ..indexing.gathering import along_vjp, take, take_along_axis
from ..indexing.subscript import getitem
from ..movement.axes import moveaxis
from ..movement.joining import concat
from ..movement.shapes import broadcast_to, reshape
from ..movement.slicing import slice_axis
from ..reductions.basic import all as all_of
from ..reductions.basic import any, reduced_shape
from ..reductions.searching import argmax
from ..scans.cumulative import cumulative_sum
from ..scans.running import cummax
from .sort import argsort, as_sorted, require_ordered, sort

if TYPE_CHECKING:
    from ...tensor import Tensor

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@guarded
def kthvalue(
    x: TensorLike, /, k: int, *, axis: int = -1, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """The `k`-th smallest element along an axis and its index; NaN counts as the largest.

    Args:
        x: a real or bool tensor.
        k: from 1, the smallest, to the size of the axis.
        axis: along which.
        keepdims: keep the axis with size 1.

    Raises:
        ArgumentError: the axis has no such element.

    >>> import ingle.tensor as it
    >>> value, index = it.kthvalue(it.asarray([5.0, 1.0, 3.0]), 2)
    >>> value.item(), index.item()
    (3.0, 2)
    """
    handle = handle_of(x, "kthvalue")
    shape = handle.shape
    place = normalize_axis(axis, len(shape), "kthvalue")
    number = as_int(k, "kthvalue", "k")
    if not 1 <= number <= shape[place]:
        raise ArgumentError(
            f"kthvalue: k={number} must be between 1 and {shape[place]}, the size of axis {place} "
            f"of shape {shape}"
        )
    op = _KTHVALUE.op(k=number, axis=place, keepdims=bool(keepdims), dtype=default_int())
    value, index = run(op, (handle,))
    return value, index


def _kthvalue_rule(
    x: Aval, *, k: int, axis: int, keepdims: bool, dtype: DType
) -> tuple[Aval, Aval]:
    require_ordered("kthvalue", x)
    shape = reduced_shape(x.shape, (axis,), keepdims)
    return Aval(shape, x.dtype), Aval(shape, dtype)


def _kthvalue(
    x: Tensor, *, k: int, axis: int, keepdims: bool, dtype: DType
) -> tuple[Tensor, Tensor]:
    index = slice_axis(argsort(x, axis=axis).astype(dtype), axis, k - 1, 1)
    value = take_along_axis(x, index, axis=axis)
    return _dropped(value, axis, keepdims), _dropped(index, axis, keepdims)


def _kthvalue_vjp(
    g: Sequence[Tensor], index: Tensor, x_aval: Aval, axis: int, keepdims: bool
) -> Tensor:
    shape = reduced_shape(x_aval.shape, (axis,), True)
    value, place = (t if keepdims else reshape(t, shape) for t in (g[0], index))
    return along_vjp(value, place, x_aval, axis)


def _kthvalue_samples(draw: Draw) -> Iterator[Sample]:
    make = draw.apart if draw.dtype.is_inexact else draw.array
    yield Sample((make((17,)), 9), exact=True)
    yield Sample((make((3, 5, 2)), 5), {"axis": 1, "keepdims": True}, exact=True)
    yield Sample((make((5, 8)), 1), {"axis": 0}, exact=True)
    ties = np.asarray([2, 1, 2, 0, 1, 2], draw.dtype.dtype)
    for k in (1, 3, 5):
        yield Sample((ties, k), gradient=False, exact=True)
    if draw.dtype.is_floating:
        odd = np.asarray([2, np.nan, -np.inf, 0.0, -0.0, np.nan, np.inf], draw.dtype.dtype)
        for k in (2, 3, 6, 7):
            yield Sample((odd, k), gradient=False, exact=True)


def _kthvalue_reference(x: Any, k: int, axis: int = -1, keepdims: bool = False) -> Any:
    order = np.argsort(as_sorted(x), axis=axis, kind="stable")
    index = np.take(order, [k - 1], axis)
    value = np.take_along_axis(x, index, axis)
    return (value, index) if keepdims else (np.squeeze(value, axis), np.squeeze(index, axis))


_KTHVALUE = Operation(
    "kthvalue",
    tensors=("x",),
    statics=("k", "axis", "keepdims", "dtype"),
    outputs=("value", "index"),
    rule=_kthvalue_rule,
    traits=Traits("opaque", exactly_rounded=True),
    vjp={"x": _kthvalue_vjp},
    body=_kthvalue,
    batch=("axis",),
    public=kthvalue,
    samples=_kthvalue_samples,
    reference=_kthvalue_reference,
)


@guarded
def median(x: TensorLike, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The median along an axis: the lower of the two middle elements if their number is even.

    This is PyTorch's median. The mean of the two middle ones, which NumPy means, is
    `quantile(x, 0.5)`; the index of the median is that of `kthvalue(x, (n + 1) // 2)`.

    Args:
        x: a real tensor; the median is NaN if there is one.
        axis: an axis, or None for all elements.
        keepdims: keep reduced axes with size 1.

    Raises:
        ShapeError: there are no elements.

    >>> import ingle.tensor as it
    >>> it.median(it.asarray([[4, 1, 3, 2], [5, 6, 7, 8]]), axis=1).tolist()
    [2, 6]
    """
    flat, place, shape = along("median", x, axis, keepdims)
    size = require_elements("median", flat, place)
    value, _ = kthvalue(flat, (size + 1) // 2, axis=place, keepdims=True)
    if flat.dtype.is_floating:
        value = where(any(isnan(flat), axis=place, keepdims=True), float("nan"), value)
    return reshape(value, shape)


@guarded
def quantile(
    x: TensorLike,
    /,
    q: float | Sequence[float] | TensorLike,
    *,
    axis: int | None = None,
    keepdims: bool = False,
    interpolation: str = "linear",
) -> Tensor:
    """The values below which the shares `q` of the elements along an axis lie.

    Args:
        x: a float tensor; integers are cast to the default float dtype. NaN if there is a NaN.
        q: a share in [0, 1], or several along one axis, which comes first in the result.
        axis: an axis, or None for all elements.
        keepdims: keep reduced axes with size 1.
        interpolation: between the two elements around the place `q * (n - 1)`: `"linear"`,
            `"lower"`, `"higher"`, `"midpoint"` or `"nearest"` (to the even one in the middle).

    Raises:
        ArgumentError: a share is outside of [0, 1].
        ShapeError: there are no elements.

    >>> import ingle.tensor as it
    >>> it.quantile(it.asarray([1.0, 2.0, 3.0, 4.0]), [0.5, 1.0]).tolist()
    [2.5, 4.0]
    """

    def found(ordered: Tensor, shares: Tensor) -> Tensor:
        last = ordered.shape[0] - 1

        def pick(places: Tensor) -> Tensor:
            return take(ordered, astype(reshape(places, (shares.size,)), int64), axis=0)

        values = between(shares * float(last), interpolation, pick)
        return where(isnan(slice_axis(ordered, 0, last, 1)), float("nan"), values)

    return quantiles("quantile", x, q, axis, keepdims, interpolation, found)


@guarded
def mode(x: TensorLike, /, *, axis: int = -1, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent value along an axis, the smallest of several, and its last index.

    Args:
        x: a real or bool tensor; NaN equal nothing, not each other either.
        axis: along which.
        keepdims: keep the axis with size 1.

    Raises:
        ShapeError: the axis has no elements.

    >>> import ingle.tensor as it
    >>> value, index = it.mode(it.asarray([3, 1, 3, 2, 1]))
    >>> value.item(), index.item()
    (1, 4)
    """
    shape = handle_of(x, "mode").shape
    place = normalize_axis(axis, len(shape), "mode")
    size = require_elements("mode", wrap(handle_of(x, "mode")), place)
    order = argsort(x, axis=place)
    ordered = take_along_axis(x, order, axis=place)
    same = slice_axis(ordered, place, 1, size - 1) == slice_axis(ordered, place, 0, size - 1)
    first = broadcast_to(asarray(True, device=same.device), reduced_shape(shape, (place,), True))
    begins = astype(concat([first, ~same], axis=place), int64)
    # The length of a run up to an element: its number less that of the run's first element.
    number = cumulative_sum(astype(broadcast_to(first, shape), int64), axis=place)
    start, _ = cummax(number * begins, axis=place)
    last = argmax(number - start, axis=place, keepdims=True)
    index = take_along_axis(order, last, axis=place)
    value = take_along_axis(x, index, axis=place)
    return _dropped(value, place, keepdims), _dropped(index, place, keepdims)


@guarded
def masked_select(x: TensorLike, mask: TensorLike, /) -> Tensor:
    """The elements where a mask is true, in row-major order; the two broadcast.

    Args:
        x: a tensor.
        mask: a bool tensor.

    Raises:
        DTypeError: `mask` is not bool.

    >>> import ingle.tensor as it
    >>> it.masked_select(it.asarray([[1, 2], [3, 4]]), it.asarray([True, False])).tolist()
    [1, 3]
    """
    a, m = handle_of(x, "masked_select"), handle_of(mask, "masked_select", "mask")
    if m.dtype.kind != "bool":
        raise DTypeError(f"masked_select: mask must be bool, got {m.dtype}; compare first")
    shape = broadcast_shapes("masked_select", a.shape, m.shape, arguments=("x", "mask"))
    chosen = reshape(broadcast_to(wrap(m), shape), (math.prod(shape),))
    return getitem(reshape(broadcast_to(wrap(a), shape), (math.prod(shape),)), chosen)


def _dropped(x: Tensor, axis: int, keepdims: bool) -> Tensor:
    return x if keepdims else reshape(x, reduced_shape(x.shape, (axis,), False))


def require_elements(name: str, x: Tensor, axis: int) -> int:
    """The size of an axis, which is not 0."""
    if not x.shape[axis]:
        raise ShapeError(f"{name}: axis {axis} of shape {x.shape} has no elements")
    return x.shape[axis]


def quantiles(
    name: str,
    x: TensorLike,
    q: float | Sequence[float] | TensorLike,
    axis: int | None,
    keepdims: bool,
    interpolation: str,
    found: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Quantiles of elements along an axis, with the arguments of `quantile` checked.

    Args:
        found: gives the quantiles, one share a row, of elements in ascending order along axis 0;
            the shares have as many axes.
    """
    if interpolation not in _INTERPOLATIONS:
        known = ", ".join(map(repr, _INTERPOLATIONS))
        raise ArgumentError(f"{name}: interpolation must be one of {known}, got {interpolation!r}")
    floats = wrap(as_floating(x, name))
    shares = _shares_of(name, q, floats)
    flat, place, shape = along(name, floats, axis, keepdims)
    require_elements(name, flat, place)
    ordered = moveaxis(sort(widened(flat), axis=place), place, 0)
    values = found(ordered, reshape(shares, (shares.size, *(1,) * (ordered.ndim - 1))))
    return astype(reshape(values, (*shares.shape, *shape)), floats.dtype)


def between(at: Tensor, interpolation: str, pick: Callable[[Tensor], Tensor]) -> Tensor:
    """Values at places between whole ones; `pick` has those at whole ones."""
    low, high = floor(at), ceil(at)
    if interpolation in ("lower", "higher", "nearest"):
        return pick({"lower": low, "higher": high, "nearest": round(at)}[interpolation])
    below, above = pick(low), pick(high)
    share = at - low if interpolation == "linear" else where(high > low, 0.5, 0.0)
    share = astype(share, below.dtype)
    # Two equal infinities must not be subtracted from each other, nor one from what lies above it.
    apart = (share > 0) & where(isfinite(above), isfinite(below), above != below)
    return where(apart, below + where(apart, above - below, 0) * share, below)


def along(name: str, x: TensorLike, axis: int | None, keepdims: bool) -> tuple[Tensor, int, Shape]:
    """The tensor, the axis to go along (all in one if None), and the shape without it."""
    handle = handle_of(x, name)
    refuse_storage(name, "x", handle.dtype)
    if handle.dtype.kind not in ORDERED:
        raise DTypeError(f"{name}: x must be ordered, got {handle.dtype}; use real(x) or abs(x)")
    shape = handle.shape
    if axis is None:
        out = (1,) * len(shape) if keepdims else ()
        return reshape(wrap(handle), (math.prod(shape),)), 0, out
    place = normalize_axis(axis, len(shape), name)
    return wrap(handle), place, reduced_shape(shape, (place,), keepdims)


def _shares_of(name: str, q: float | Sequence[float] | TensorLike, like: Tensor) -> Tensor:
    """The shares in the dtype that places are computed in; checked to lie in [0, 1]."""
    wide = float64 if like.dtype is float64 else float32
    if hasattr(q, "_handle") or hasattr(type(q), "__ingle_tensor__"):
        shares = astype(wrap(handle_of(q, name, "q")), wide)
    else:
        try:
            shares = asarray(q, dtype=wide, device=like.device)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{name}: q must be one or several numbers, got {q!r}") from error
    if shares.ndim > 1:
        raise ShapeError(f"{name}: q must be a number or have one axis, got shape {shares.shape}")
    several = q if isinstance(q, (list, tuple)) else [q]
    numbers = [n for n in several if isinstance(n, (int, float))]
    if len(numbers) == len(several):  # which are known where values of tensors are not
        if [n for n in numbers if not 0 <= n <= 1]:
            raise ArgumentError(f"{name}: q must be in [0, 1], got {q}")
        return shares
    inside = all_of((shares >= 0) & (shares <= 1))
    if is_unread(inside._handle):
        return required(shares, inside, f"{name}: q must be in [0, 1]")
    if not bool(inside):
        raise ArgumentError(f"{name}: q must be in [0, 1], got {shares.tolist()}")
    return shares
