"""Sorting, always stable, and what rests on it; NaN counts as the largest.

NumPy's stable sort of positions is many times slower than its sort of numbers. So elements of up
to 32 bits are sorted as integers of 64: the element's order above, its position below. Of elements
of 64 bits as many go above as there is room for, which tells most of them apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ingle.tensor.operation import Op

from .blocks import row_blocks
from .elementwise import is_half

Array = np.ndarray[Any, Any]

_POSITION = 0xFFFFFFFF
_MANY, _MANY_LONG = 1 << 15, 1 << 12
"""Elements that are worth some twenty calls of NumPy, those of up to 32 bits and those of 64, which
are all sorted otherwise."""
_PART = 1 << 17
"""Elements that such calls take at a time."""
_SHORT = 1 << 12
"""Elements that are sorted by NumPy's own functions sooner than by several calls."""
_RARELY = 16
"""Of so many neighbours one may have equal keys, for each to be looked at by itself."""
_FEW = 50
"""How many elements of a row for each one wanted are worth looking for the last of these."""


def _sort(op: Op, x: Array) -> Array:
    axis = op.attributes["axis"]
    # Half types compare exactly in float32, and bfloat16's own comparison does not order NaN.
    keys = _comparable(x)
    # NumPy's stable sort of bytes counts them; its other one compares, twenty times as long.
    kind: Literal["stable"] | None = "stable" if keys.dtype.itemsize == 1 else None
    out = np.sort(keys, axis=axis, kind=kind).astype(x.dtype, copy=False)
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
    rows = last.reshape(math.prod(last.shape[:-1]), size)
    many = _MANY if last.dtype.itemsize <= 4 else _MANY_LONG
    if last.size < many or size < _FEW * k:
        order = _in_order(rows, k, descending)
    else:
        order = np.empty((len(rows), k), np.int64)
        step = max(1, _PART // size)
        for start in range(0, len(rows), step):
            here = slice(start, start + step)
            order[here] = _first_of_many(rows[here], k, descending)
    return np.moveaxis(order.reshape(*last.shape[:-1], k), -1, axis)


def _in_order(rows: Array, k: int, descending: bool) -> Array:
    """The same of rows, of which a good part is wanted."""
    if not rows.size:
        return np.empty((len(rows), k), np.int64)
    if rows.dtype.itemsize > 4:
        return _by_long_keys(rows, descending)[:, :k]
    order = np.empty((len(rows), k), np.int64)
    for here in row_blocks(*rows.shape):
        keys = _keys(rows[here], descending)
        if 0 < k < rows.shape[1]:
            keys = np.partition(keys, k - 1)[:, :k]
        keys.sort(axis=-1)
        np.bitwise_and(keys[:, :k], _POSITION, out=order[here])
    return order


def _first_of_many(rows: Array, k: int, descending: bool) -> Array:
    """The same of rows, of which most elements can be passed over: the `k`-th says which."""
    count, size = rows.shape
    if not k:
        return np.empty((count, 0), np.int64)
    place = size - k if descending else k - 1
    last = np.partition(rows, place, axis=-1)[:, place : place + 1]
    with np.errstate(invalid="ignore"):  # what is compared with NaN stays
        far = rows < last if descending else rows > last
    row, column = np.divmod(np.flatnonzero(~far), size)
    several = np.bincount(row, minlength=count)
    most = int(several.max())
    if most > size // 2:  # of many that are equal to the last
        return _in_order(rows, k, descending)
    # Rows that have fewer end in what comes last, behind all that is equal to it.
    rank = np.arange(len(row)) - (np.cumsum(several) - several)[row]
    near = np.repeat(last, most, axis=1)
    near[row, rank] = rows[row, column]
    columns = np.zeros((count, most), np.int64)
    columns[row, rank] = column
    return np.take_along_axis(columns, _in_order(near, k, descending), -1)


def _keys(x: Array, descending: bool) -> Array:
    """Integers in the order of the elements along the last axis, equal ones by position."""
    if x.dtype.kind == "f":
        # One zero, one NaN; then the bits of negative numbers but for the sign are turned over.
        bits = np.where(x != x, np.float32(np.nan), x + np.float32(0)).view(np.int32)
        whole = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)
    else:
        whole = x.astype(np.int64) - (1 << 31 if x.dtype.kind == "u" else 0)
    return (~whole if descending else whole) << 32 | np.arange(x.shape[-1])


def _by_long_keys(x: Array, descending: bool) -> Array:
    """Positions in order of elements of 64 bits, by integers with the first bits of an element
    above and its position below; what these do not tell apart is sorted by itself."""
    numbers = ~_whole(x) if descending else _whole(x)
    bits = max(1, (x.shape[-1] - 1).bit_length())
    below = np.uint64((1 << bits) - 1)
    # Numbers that lie close together have room for all of their bits.
    least = numbers.min()
    whole = int(numbers.max() - least).bit_length() + bits <= 64
    if whole:
        keys = numbers - least
        keys <<= np.uint64(bits)
    else:
        keys = numbers & ~below
    keys |= np.arange(x.shape[-1], dtype=np.uint64)
    keys.sort(axis=-1)
    if whole or not (same := _equal_neighbours(keys, bits)).any():
        keys &= below
        order: Array = keys.view(np.int64)
        return order
    order = (keys & below).view(np.int64)
    _tell_apart(numbers, same, order)
    return order


def _equal_neighbours(keys: Array, bits: int) -> Array:
    """Whether the key of an element is that of the next one, but for the position."""
    same = np.empty((len(keys), keys.shape[1] - 1), bool)
    step = max(1, _PART // keys.shape[1])
    for row in range(0, len(keys), step):
        for start in range(0, same.shape[1], _PART):
            part = keys[row : row + step, start : start + _PART + 1]
            differ = np.bitwise_xor(part[:, 1:], part[:, :-1])
            here = same[row : row + step, start : start + _PART]
            np.less(differ, np.uint64(1 << bits), out=here)
    return same


def _tell_apart(numbers: Array, same: Array, order: Array) -> None:
    """Sorts what has equal keys and differs; what is equal is in order already."""
    if np.count_nonzero(same) > same.size // _RARELY:
        ordered = np.take_along_axis(numbers, order, -1)
        row, before = np.nonzero(same & (ordered[:, 1:] < ordered[:, :-1]))
    else:  # to read all numbers in their new order would take longer than sorting did
        row, before = np.nonzero(same)
        wrong = numbers[row, order[row, before + 1]] < numbers[row, order[row, before]]
        row, before = row[wrong], before[wrong]
    rows = np.unique(row)
    if numbers.shape[1] < _SHORT:
        order[rows] = np.argsort(numbers[rows], axis=-1, kind="stable")
        return
    for here in rows:
        run = np.concatenate([[0], np.cumsum(~same[here])])
        touched = np.zeros(run[-1] + 1, bool)
        touched[run[1:][before[row == here]]] = True
        places = np.flatnonzero(touched[run])
        found = order[here, places]
        order[here, places] = found[_stable_argsort(numbers[here, found])]


def _stable_argsort(x: Array) -> Any:
    """Where no two elements are equal any sort is stable, and the unstable one is faster."""
    quick = np.argsort(x)
    ordered = x[quick]
    return quick if (ordered[1:] > ordered[:-1]).all() else np.argsort(x, kind="stable")


def _whole(x: Array) -> Array:
    """Elements of 64 bits as unsigned integers in their order; of the same bits only equal ones."""
    if x.dtype.kind == "u":
        return x
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
    values = _comparable(x).reshape(-1)
    if x.size >= _SHORT and x.dtype.kind in "biu" and x.dtype.itemsize == 1:
        some, first, inverse, counts = _unique_bytes(values)
        return some, first, inverse.reshape(x.shape), counts
    if x.dtype.kind == "c" or x.size < _SHORT:
        found, *rest = np.unique_all(values)
        return found.astype(x.dtype, copy=False), rest[0], rest[1].reshape(x.shape), rest[2]
    count = len(values)
    order = _first(values, 0, count, False)
    ordered = values[order]
    begins = np.ones(count, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    inverse = np.empty(count, np.int64)
    inverse[order] = np.cumsum(begins) - 1
    some = ordered[starts].astype(x.dtype, copy=False)
    return some, order[starts], inverse.reshape(x.shape), np.diff(starts, append=count)


def _unique_bytes(values: Array) -> tuple[Array, ...]:
    """The same of single bytes, which are counted."""
    turned = np.uint8(0x80 if values.dtype.kind == "i" else 0)  # negative ones come first
    keys = np.bitwise_xor(values.view(np.uint8), turned)
    counts = np.bincount(keys, minlength=256)
    there = np.flatnonzero(counts)
    text = keys.tobytes()
    first = np.array([text.find(key) for key in there.tolist()], np.int64)
    inverse = (np.cumsum(counts > 0) - 1)[keys]
    some = np.bitwise_xor(there.astype(np.uint8), turned).view(values.dtype)
    return some, first, inverse, counts[there]


KERNELS: dict[str, Callable[..., Any]] = {
    "argsort": _argsort,
    "kthvalue": _kthvalue,
    "searchsorted": _searchsorted,
    "sort": _sort,
    "topk": _topk,
    "unique_all": _unique_all,
}
