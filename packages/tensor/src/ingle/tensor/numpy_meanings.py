"""NumPy's functions that operations have the meaning of, called or put together otherwise.

Each has NumPy's name and arguments, and computes by public operations, with their gradients.
`numpy_table` has those whose arguments alone are called otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import ingle.tensor as it

from .errors import ArgumentError, ShapeError

if TYPE_CHECKING:
    from .tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
Axis = int | None


def _tensor(x: Any, like: Any) -> Any:
    """A list of numbers as a tensor beside another; anything else as it is."""
    return it.asarray(x, device=like.device) if isinstance(x, (list, tuple)) else x


MEANINGS: dict[str, Callable[..., Any]] = {}
"""The functions by NumPy's name, as "linalg.norm"."""


def _named(*names: str) -> Callable[[F], F]:
    def kept(function: F) -> F:
        MEANINGS.update(dict.fromkeys(names, function))
        return function

    return kept


def _flat(x: Any) -> Tensor:
    return it.reshape(x, (-1,))


def _along(x: Any, axis: Axis) -> tuple[Any, int]:
    """The tensor and an axis of it: the elements along one axis where none is given."""
    return (_flat(x), 0) if axis is None else (x, axis)


@_named("append")
def _append(arr: Any, values: Any, axis: Axis = None) -> Tensor:
    return it.concat([arr, values], axis=axis)


@_named("argwhere")
def _argwhere(a: Any) -> Tensor:
    return it.stack(it.nonzero(a), axis=-1)


@_named("flatnonzero")
def _flatnonzero(a: Any) -> Tensor:
    return it.nonzero(_flat(a))[0]


@_named("angle")
def _angle(z: Any, deg: bool = False) -> Tensor:
    angle = it.angle(z)
    return it.rad2deg(angle) if deg else angle


@_named("average")
def _average(a: Any, axis: Axis = None, weights: Any = None, *, keepdims: bool = False) -> Tensor:
    if weights is None:
        return it.mean(a, axis=axis, keepdims=keepdims)
    a, weights = _tensor(a, weights), _tensor(weights, a)
    if weights.shape != a.shape:
        if axis is None or weights.shape != (a.shape[axis],):
            raise ShapeError(
                f"np.average: weights of shape {weights.shape} are neither of the shape {a.shape} "
                "of a nor of its axis; write it.sum(a * w, axis=...) / it.sum(w, axis=...)"
            )
        after = a.ndim - axis % a.ndim - 1
        weights = it.broadcast_to(it.reshape(weights, (-1, *(1,) * after)), a.shape)
    return it.divide(
        it.sum(it.multiply(a, weights), axis=axis, keepdims=keepdims),
        it.sum(weights, axis=axis, keepdims=keepdims),
    )


@_named("broadcast_arrays")
def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """Arrays where one is among them: libraries bring what they are given to one shape by this."""
    if any(isinstance(x, np.ndarray) for x in args):
        return np.broadcast_arrays(*map(np.asarray, args))
    return it.broadcast_arrays(*args)


@_named("copy")
def _copy(a: Any, order: str = "K", subok: bool = False) -> Tensor:
    return it.asarray(a, copy=True)


@_named("compress")
def _compress(condition: Any, a: Any, axis: Axis = None) -> Tensor:
    a, axis = _along(a, axis)
    return it.take(a, it.nonzero(_tensor(condition, a))[0], axis=axis)


@_named("extract")
def _extract(condition: Any, arr: Any) -> Tensor:
    return _compress(_flat(_tensor(condition, arr)), arr)


@_named("cross")
def _cross(a: Any, b: Any, *, axis: int = -1) -> Tensor:
    return it.linalg.cross(a, b, axis=axis)


@_named("cumsum")
def _cumsum(a: Any, axis: Axis = None, dtype: Any = None) -> Tensor:
    a, axis = _along(a, axis)
    return it.cumulative_sum(a, axis=axis, dtype=dtype)


@_named("cumprod")
def _cumprod(a: Any, axis: Axis = None, dtype: Any = None) -> Tensor:
    a, axis = _along(a, axis)
    return it.cumulative_prod(a, axis=axis, dtype=dtype)


@_named("diagflat")
def _diagflat(v: Any, k: int = 0) -> Tensor:
    return it.diag(_flat(v), offset=k)


@_named("diagonal")
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return it.diagonal(it.moveaxis(a, (axis1, axis2), (-2, -1)), offset=offset)


@_named("trace")
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    return it.sum(_diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


@_named("digitize")
def _digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    return it.searchsorted(_tensor(bins, x), x, side="left" if right else "right")


@_named("dot")
def _dot(a: Any, b: Any) -> Tensor:
    a, b = _tensor(a, b), _tensor(b, a)
    if not np.ndim(a) or not np.ndim(b):
        return it.multiply(a, b)
    return it.tensordot(a, b, axes=((-1,), (-2 if b.ndim > 1 else -1,)))


@_named("inner")
def _inner(a: Any, b: Any) -> Tensor:
    a, b = _tensor(a, b), _tensor(b, a)
    if not np.ndim(a) or not np.ndim(b):
        return it.multiply(a, b)
    return it.tensordot(a, b, axes=((-1,), (-1,)))


@_named("vdot")
def _vdot(a: Any, b: Any) -> Tensor:
    return it.vecdot(_flat(a), _flat(b))


@_named("outer")
def _outer(a: Any, b: Any) -> Tensor:
    return it.outer(_flat(a), _flat(b))


@_named("fliplr")
def _fliplr(m: Any) -> Tensor:
    return it.flip(m, axis=1)


@_named("flipud")
def _flipud(m: Any) -> Tensor:
    return it.flip(m, axis=0)


@_named("gradient")
def _gradient(f: Any, *spacing: Any, axis: Any = None, edge_order: int = 1) -> Any:
    given = {"spacing": spacing[0] if len(spacing) == 1 else spacing} if spacing else {}
    slopes = it.gradient(f, axis=axis, edge_order=edge_order, **given)
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


@_named("histogram")
def _histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Tensor, Tensor]:
    counts, edges = it.histogram(a, bins, range=range, weight=weights, density=bool(density))
    return counts if density or weights is not None else it.astype(counts, it.int64), edges


@_named("iscomplex")
def _iscomplex(x: Any) -> Tensor:
    return it.not_equal(it.imag(x), 0)


@_named("isreal")
def _isreal(x: Any) -> Tensor:
    return it.equal(it.imag(x), 0)


@_named("isneginf")
def _isneginf(x: Any) -> Tensor:
    return it.equal(x, -math.inf)


@_named("isposinf")
def _isposinf(x: Any) -> Tensor:
    return it.equal(x, math.inf)


_MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect", "wrap": "circular"}


@_named("median")
def _median(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Between the two middle elements; `it.median` is the lower of them, as in PyTorch."""
    return it.quantile(a, 0.5, axis=axis, keepdims=keepdims)


@_named("nanmedian")
def _nanmedian(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    return it.nanquantile(a, 0.5, axis=axis, keepdims=keepdims)


@_named("pad")
def _pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Tensor:
    if mode not in _MODES:
        raise ArgumentError(
            f"np.pad: mode is one of {', '.join(_MODES)} with tensors, got {mode!r}"
        )
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(i, pad_width.get(i - array.ndim, 0)) for i in range(array.ndim)]
        pad_width = [(w, w) if isinstance(w, int) else w for w in pad_width]
    return it.pad(array, pad_width, mode=_MODES[mode], value=constant_values)  # type: ignore[arg-type]


@_named("percentile")
def _percentile(
    a: Any, q: Any, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    return it.quantile(a, _hundredths(q), axis=axis, interpolation=method, keepdims=keepdims)


@_named("nanpercentile")
def _nanpercentile(
    a: Any, q: Any, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    return it.nanquantile(a, _hundredths(q), axis=axis, interpolation=method, keepdims=keepdims)


def _hundredths(q: Any) -> Any:
    return [v / 100 for v in q] if isinstance(q, Sequence) else q / 100


@_named("polyval")
def _polyval(p: Any, x: Any) -> Tensor:
    value = it.zeros_like(x)
    for coefficient in p:
        value = it.add(it.multiply(value, x), coefficient)
    return value


@_named("ptp")
def _ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    most = it.max(a, axis=axis, keepdims=keepdims)
    return it.subtract(most, it.min(a, axis=axis, keepdims=keepdims))


@_named("ravel")
def _ravel(a: Any, order: str = "C") -> Tensor:
    if order not in ("C", "K", "A"):
        raise ArgumentError(f"np.ravel: tensors are in the order 'C', got {order!r}")
    return _flat(a)


@_named("select")
def _select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ArgumentError(
            f"np.select: {len(condlist)} conditions beside {len(choicelist)} choices; "
            "give one choice for each condition"
        )
    chosen = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        chosen = it.where(condition, choice, chosen)
    return chosen


@_named("sort")
def _sort(a: Any, axis: Axis = -1, kind: Any = None, *, stable: Any = None) -> Tensor:
    a, axis = _along(a, axis)
    return it.sort(a, axis=axis)


@_named("argsort")
def _argsort(a: Any, axis: Axis = -1, kind: Any = None, *, stable: Any = None) -> Tensor:
    a, axis = _along(a, axis)
    return it.argsort(a, axis=axis)


@_named("split")
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    size = ary.shape[axis]
    if isinstance(indices_or_sections, int) and size % indices_or_sections:
        raise ShapeError(
            f"np.split: {indices_or_sections} equal pieces do not divide axis {axis} of size "
            f"{size}; np.array_split makes pieces of nearly equal sizes"
        )
    return list(it.tensor_split(ary, indices_or_sections, axis=axis))


@_named("array_split")
def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return list(it.tensor_split(ary, indices_or_sections, axis=axis))


@_named("hsplit")
def _hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return _split(ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


@_named("vsplit")
def _vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return _split(ary, indices_or_sections, 0)


@_named("dsplit")
def _dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return _split(ary, indices_or_sections, 2)


@_named("take")
def _take(a: Any, indices: Any, axis: Axis = None) -> Tensor:
    a, axis = _along(a, axis)
    return it.take(a, indices, axis=axis)


@_named("take_along_axis")
def _take_along_axis(arr: Any, indices: Any, axis: Axis = -1) -> Tensor:
    arr, axis = _along(arr, axis)
    return it.take_along_axis(arr, indices, axis=axis)


@_named("transpose", "permute_dims")
def _transpose(a: Any, axes: Any = None) -> Tensor:
    return it.permute_dims(a, tuple(reversed(range(a.ndim))) if axes is None else axes)


@_named("where")
def _where(condition: Any, *values: Any) -> Any:
    return it.where(condition, *values) if values else it.nonzero(condition)


@_named("linalg.norm")
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    if axis is None and ord is None:
        return it.linalg.vector_norm(x, keepdims=keepdims)
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    if len(axes) == 1:
        return it.linalg.vector_norm(
            x, axis=axes[0], ord=2 if ord is None else ord, keepdims=keepdims
        )
    if len(axes) != 2:
        raise ArgumentError(
            f"np.linalg.norm: ord= needs a vector or a matrix, got shape {x.shape} and axes {axes}"
        )
    norm = it.linalg.matrix_norm(
        it.moveaxis(x, axes, (-2, -1)), ord="fro" if ord is None else ord, keepdims=keepdims
    )
    return it.moveaxis(norm, (-2, -1), axes) if keepdims else norm


@_named("linalg.qr")
def _qr(a: Any, mode: str = "reduced") -> Any:
    factors = it.linalg.qr(a, mode=mode)
    return factors[1] if mode == "r" else factors


@_named("linalg.svd")
def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    return it.linalg.svd(a, full_matrices=full_matrices) if compute_uv else it.linalg.svdvals(a)


def _over_two_axes(transform: str) -> Callable[..., Tensor]:
    def planar(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Tensor:
        over_axes = getattr(it.fft, f"{transform}n")
        return over_axes(a, s=s, axes=axes, norm=norm or "backward")  # type: ignore[no-any-return]

    return planar


for _transform in ("fft", "ifft", "rfft", "irfft"):
    _named(f"fft.{_transform}2")(_over_two_axes(_transform))
