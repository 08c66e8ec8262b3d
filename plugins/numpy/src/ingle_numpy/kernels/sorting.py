"""Sorting, always stable, and what rests on it; NaN counts as the largest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from .elementwise import is_half


def _sort(op: Op, x: np.ndarray) -> np.ndarray:
    axis = op.attributes["axis"]
    # Half types compare exactly in float32, and bfloat16's own comparison does not order NaN.
    out = np.sort(_comparable(x), axis=axis, kind="stable").astype(x.dtype, copy=False)
    return np.flip(out, axis) if op.attributes["descending"] else out


def _argsort(op: Op, x: np.ndarray) -> np.ndarray:
    axis = op.attributes["axis"]
    x = _comparable(x)
    if op.attributes["descending"]:
        # Sorted from behind and read from behind, equal elements keep their order.
        order = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(order, axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    return order.astype(op.attributes["dtype"].dtype, copy=False)


def _comparable(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if is_half(x) else x


def _searchsorted(op: Op, x1: np.ndarray, x2: np.ndarray) -> Any:
    return np.searchsorted(_comparable(x1), _comparable(x2), side=op.attributes["side"])


def _unique_all(op: Op, x: np.ndarray) -> tuple[np.ndarray, ...]:
    found = np.unique_all(_comparable(x))
    return (found.values.astype(x.dtype, copy=False), *found[1:])


KERNELS: dict[str, Callable[..., Any]] = {
    "argsort": _argsort,
    "searchsorted": _searchsorted,
    "sort": _sort,
    "unique_all": _unique_all,
}
