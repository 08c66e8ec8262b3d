"""Reductions over axes, which are an attribute in older opsets and an input in newer ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from ..registry import operator
from ..values import Array, Host, cast, ints, namespace, numpy_dtype

Axes = tuple[int, ...] | None


def _sum(x: Array, axes: Axes, keep: bool) -> Array:
    xp = namespace(x)
    return cast(xp.sum(x, axis=axes, keepdims=keep), numpy_dtype(x))


def _prod(x: Array, axes: Axes, keep: bool) -> Array:
    return cast(namespace(x).prod(x, axis=axes, keepdims=keep), numpy_dtype(x))


def _mean(x: Array, axes: Axes, keep: bool) -> Array:
    dtype = numpy_dtype(x)
    wide = x if dtype.kind not in "iu" else cast(x, np.dtype(np.float64))
    return cast(namespace(x).mean(wide, axis=axes, keepdims=keep), dtype)


def _extreme(name: str, empty: dict[str, float]) -> Callable[[Array, Axes, bool], Array]:
    def reduce(x: Array, axes: Axes, keep: bool) -> Array:
        xp, dtype = namespace(x), numpy_dtype(x)
        over = range(x.ndim) if axes is None else axes
        if not all(x.shape[a] for a in over):
            shape = [1 if a in _positive(over, x.ndim) else n for a, n in enumerate(x.shape)]
            if not keep:
                shape = [n for a, n in enumerate(x.shape) if a not in _positive(over, x.ndim)]
            value = np.full(shape, _bound(dtype, empty["sign"]))
            return value if xp is np else it.asarray(value, device=x.device)
        if dtype.kind == "b":
            small = getattr(xp, name)(cast(x, np.dtype(np.uint8)), axis=axes, keepdims=keep)
            return cast(small, dtype)
        return getattr(xp, name)(x, axis=axes, keepdims=keep)

    return reduce


def _positive(axes: Sequence[int], ndim: int) -> set[int]:
    return {a % ndim for a in axes}


def _bound(dtype: np.dtype, sign: float) -> Array:
    """What the extreme of nothing is: the infinity, or the last number of an integer dtype."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return dtype.type(info.max if sign > 0 else info.min)
    return dtype.type(sign > 0) if dtype.kind == "b" else dtype.type(sign * np.inf)


def _l1(x: Array, axes: Axes, keep: bool) -> Array:
    return _sum(namespace(x).abs(x), axes, keep)


def _square_sum(x: Array, axes: Axes, keep: bool) -> Array:
    return _sum(x * x, axes, keep)


def _l2(x: Array, axes: Axes, keep: bool) -> Array:
    dtype = numpy_dtype(x)
    wide = cast(x, np.dtype(np.float64)) if dtype.kind in "iu" else x
    return cast(namespace(x).sqrt(_square_sum(wide, axes, keep)), dtype)


def _log_sum(x: Array, axes: Axes, keep: bool) -> Array:
    dtype = numpy_dtype(x)
    wide = cast(x, np.dtype(np.float64)) if dtype.kind in "iu" else x
    return cast(namespace(x).log(_sum(wide, axes, keep)), dtype)


def _log_sum_exp(x: Array, axes: Axes, keep: bool) -> Array:
    dtype = numpy_dtype(x)
    x = x if isinstance(x, Tensor) else it.asarray(x)
    wide = x.astype(it.float64) if dtype.kind in "iu" else x
    return cast(it.logsumexp(wide, axis=axes, keepdims=keep), dtype)


REDUCTIONS: dict[str, Callable[[Array, Axes, bool], Array]] = {
    "ReduceSum": _sum,
    "ReduceProd": _prod,
    "ReduceMean": _mean,
    "ReduceMax": _extreme("max", {"sign": -1.0}),
    "ReduceMin": _extreme("min", {"sign": 1.0}),
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceSumSquare": _square_sum,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
}


def _enter(kind: str, reduce: Callable[[Array, Axes, bool], Array]) -> None:
    def apply(
        x: Array, axes: Host | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Array:
        over = tuple(ints(axes)) if axes is not None else ()
        if not over and noop_with_empty_axes:
            return reduce(x, (), True) if kind in _WITHOUT_AXES else x
        return reduce(x, over or None, bool(keepdims))

    def with_attribute(x: Array, *, axes: list[int] | None = None, keepdims: int = 1) -> Array:
        return reduce(x, tuple(axes) if axes else None, bool(keepdims))

    operator(kind, 13 if kind == "ReduceSum" else 18)(apply)
    operator(kind, 1)(with_attribute)


_WITHOUT_AXES = {"ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}
"""Those that change a number even where nothing is reduced."""

for _kind, _reduce in REDUCTIONS.items():
    _enter(_kind, _reduce)


def _argument(name: str) -> Callable[..., Tensor]:
    def apply(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
        find = getattr(it, name)
        if not select_last_index:
            return find(x, axis=axis, keepdims=bool(keepdims))
        found = find(it.flip(x, axis=axis), axis=axis, keepdims=bool(keepdims))
        return x.shape[axis] - 1 - found

    return apply


operator("ArgMax")(_argument("argmax"))
operator("ArgMin")(_argument("argmin"))
