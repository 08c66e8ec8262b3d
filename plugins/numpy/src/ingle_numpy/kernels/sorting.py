"""Sorting, always stable, and what rests on it; NaN counts as the largest.

NumPy's stable sort of positions is many times slower than its sort of numbers. So elements of up
to 32 bits are sorted as integers of 64: the element's order above, its position below. Of elements
of 64 bits as many go above as there is room for, which mostly tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from .blocks import row_blocks
from .elementwise import is_half

Array = np.ndarray[Any, Any]

_POSITION = 0xFFFFFFFF
_LONG = 1 << 13
"""Elements of a row that are worth some calls of NumPy."""


def _sort(op: Op, x: Array) -> Array:
    axis = op.attributes["axis"]
    # Half types compare exactly in float32, and bfloat16's own comparison does not order NaN.
    out = np.sort(_comparable(x), axis=axis).astype(x.dtype, copy=False)
    return np.flip(out, axis) if op.attributes["descending"] else out


def _argsort(op: Op, x: Array) -> Array:
    axis, dtype = op.attributes["axis"], op.attributes["dtype"].dtype
    order = _first(x, axis, x.shape[axis], op.attributes["descending"])
    return order.astype(dtype, copy=False)


def _topk(op: Op, x: Array) -> tuple[Array, Array]:
    axis, dtype = op.attributes["axis"], op.attributes["dtype"].dtype
    order = _first(x, axis, op.attributes["k"], op.attributes["largest"])
    return np.take_along_axis(x, order, axis), order.astype(dtype, copy=False)


def _kthvalue(op: Op, x: Array) -> tuple[Array, Array]:
    axis, k = op.attributes["axis"], op.attributes["k"]
    last = np.moveaxis(_comparable(x), axis, -1)
    rows = last.reshape(-1, last.shape[-1])
    index = np.empty((len(rows), 1), np.int64)
    for here in row_blocks(*rows.shape):
        index[here, 0] = _kth_places(rows[here], k)
    index = np.moveaxis(index.reshape(*last.shape[:-1], 1), -1, axis)
    value = np.take_along_axis(x, index, axis)
    index = index.astype(op.attributes["dtype"].dtype, copy=False)
    if op.attributes["keepdims"]:
        return value, index
    return np.squeeze(value, axis), np.squeeze(index, axis)


def _kth_places(rows: Array, k: int) -> Array:
    """Where the `k`-th smallest element of each row is, of equal ones by position."""
    value = np.partition(rows, k - 1, axis=-1)[:, k - 1 : k]
    same, missing = rows == value, value != value
    with np.errstate(invalid="ignore"):
        less = np.count_nonzero(rows < value, axis=-1)
    if missing.any():  # NaN counts as the largest
        same |= missing & (rows != rows)
        less += missing[:, 0] * np.count_nonzero(rows == rows, axis=-1)
    if (np.count_nonzero(same, axis=-1) > 1).any():
        same = np.cumsum(same, axis=-1) == (k - less)[:, None]
    found: Array = np.argmax(same, axis=-1)
    return found


def _first(x: Array, axis: int, k: int, descending: bool) -> Array:
    """The positions of the first `k` elements along an axis in their order."""
    last = np.moveaxis(_comparable(x), axis, -1)
    size = last.shape[-1]
    if last.dtype.itemsize > 4 or not last.size:
        order = _stable_argsort(last, descending)[..., :k]
        return np.moveaxis(order, -1, axis)
    rows = last.reshape(-1, size)
    order = np.empty((len(rows), k), np.int64)
    if size >= _LONG and 0 < 8 * k <= size:
        for number, row in enumerate(rows):
            order[number] = _first_of_many(row, k, descending)
        return np.moveaxis(order.reshape(*last.shape[:-1], k), -1, axis)
    for here in row_blocks(*rows.shape):
        keys = _keys(rows[here], descending)
        if 0 < k < size:
            keys = np.partition(keys, k - 1)[:, :k]
        keys.sort(axis=-1)
        np.bitwise_and(keys[:, :k], _POSITION, out=order[here])
    return np.moveaxis(order.reshape(*last.shape[:-1], k), -1, axis)


def _first_of_many(row: Array, k: int, descending: bool) -> Array:
    """The same of one row, of which most elements can be passed over: the `k`-th says which."""
    place = len(row) - k if descending else k - 1
    last = np.partition(row, place)[place]
    with np.errstate(invalid="ignore"):  # what is compared with NaN stays
        near = np.flatnonzero(~(row < last) if descending else ~(row > last))
    keys = _keys(row[near], descending)
    keys.sort()
    found: Array = near[keys[:k] & _POSITION]
    return found


def _keys(x: Array, descending: bool) -> Array:
    """Integers in the order of the elements along the last axis, equal ones by position."""
    if x.dtype.kind == "f":
        # One zero, one NaN; then the bits of negative numbers but for the sign are turned over.
        bits = np.where(x != x, np.float32(np.nan), x + np.float32(0)).view(np.int32)
        whole = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)
    else:
        whole = x.astype(np.int64) - (1 << 31 if x.dtype.kind == "u" else 0)
    return (~whole if descending else whole) << 32 | np.arange(x.shape[-1])


def _stable_argsort(x: Array, descending: bool) -> Any:
    """Where no two elements are equal any sort is stable, and the unstable one is faster."""
    short = _by_short_keys(x, descending)
    if short is not None:
        return short
    quick = np.argsort(x, axis=-1)
    ordered = np.take_along_axis(x, quick, -1)
    if (ordered[..., 1:] > ordered[..., :-1]).all():
        return np.flip(quick, -1) if descending else quick
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    # Sorted from behind and read from behind, equal elements keep their order.
    order = np.argsort(np.flip(x, -1), axis=-1, kind="stable")
    return x.shape[-1] - 1 - np.flip(order, -1)


def _by_short_keys(x: Array, descending: bool) -> Any:
    """Places by integers with the first bits of an element above and its place below.

    None where these bits are the same of two elements.
    """
    bits = max(1, (x.shape[-1] - 1).bit_length())
    if x.dtype.itemsize != 8 or x.shape[-1] < 2 or not x.size:
        return None
    keys = _whole(x)
    if descending:
        np.invert(keys, out=keys)
    if x.dtype.kind != "f":
        keys -= keys.min()
    # Numbers that lie close together have room for all of their bits.
    whole = int(keys.max()).bit_length() + bits <= 64
    below = np.uint64((1 << bits) - 1)
    if whole:
        keys <<= np.uint64(bits)
    else:
        keys &= ~below
    keys |= np.arange(x.shape[-1], dtype=np.uint64)
    keys.sort(axis=-1)
    order = (keys & below).view(np.int64)
    keys >>= np.uint64(bits)
    return order if whole or (keys[..., 1:] != keys[..., :-1]).all() else None


def _whole(x: Array) -> Array:
    """Elements of 64 bits as unsigned integers in their order; of the same bits only equal ones."""
    if x.dtype.kind == "u":
        return x.copy()
    sign = np.uint64(1 << 63)
    if x.dtype.kind == "i":
        return x.view(np.uint64) ^ sign
    whole = np.where(x != x, np.nan, x + 0.0).view(np.int64)
    return (whole ^ ((whole >> 63) & np.int64((1 << 63) - 1))).view(np.uint64) ^ sign


def _comparable(x: Array) -> Array:
    return x.astype(np.float32) if is_half(x) else x


def _searchsorted(op: Op, x1: Array, x2: Array) -> Any:
    side, a, b = op.attributes["side"], _comparable(x1), _comparable(x2)
    if a.ndim == 1:
        return np.searchsorted(a, b, side=side)
    out = np.empty(b.shape, np.int64)
    for row in np.ndindex(a.shape[:-1]):
        out[row] = np.searchsorted(a[row], b[row], side=side)
    return out


def _unique_all(op: Op, x: Array) -> tuple[Array, ...]:
    found = np.unique_all(_comparable(x))
    return (found.values.astype(x.dtype, copy=False), *found[1:])


KERNELS: dict[str, Callable[..., Any]] = {
    "argsort": _argsort,
    "kthvalue": _kthvalue,
    "searchsorted": _searchsorted,
    "sort": _sort,
    "topk": _topk,
    "unique_all": _unique_all,
}
