"""Sorting along an axis. Sorts are stable; NaN counts as the largest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, run, run1
from ...dtypes import DType, default_int
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import ORDERED, as_int, normalize_axis
from ..indexing.gathering import along_vjp, take_along_axis
from ..movement.slicing import slice_axis

if TYPE_CHECKING:
    from ...tensor import Tensor


def _samples(values: bool, draw: Draw) -> Iterator[Sample]:
    for shape, kwargs in (
        ((17,), {}), ((3, 5, 2), {"axis": 1}), ((5, 8), {"axis": -1, "descending": True}),
        ((2, 0), {}), ((1,), {}),
    ):  # fmt: skip
        make = draw.apart if draw.dtype.is_inexact else draw.array
        yield Sample((make(shape),), kwargs, gradient=values, exact=True)
    ties = np.asarray([2, 1, 2, 0, 1], draw.dtype.dtype)
    yield Sample((ties,), gradient=False, exact=True)
    yield Sample((ties,), {"descending": True}, gradient=False, exact=True)
    if draw.dtype.is_floating:
        odd = np.asarray([2, np.nan, -np.inf, np.inf, 1], draw.dtype.dtype)
        yield Sample((odd,), gradient=False, exact=True)


@guarded
def sort(
    x: TensorLike, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The elements along an axis in order; NaN come last, or first if descending.

    Args:
        x: a real or bool tensor of at least one axis.
        axis: along which.
        descending: from the largest to the smallest.
        stable: accepted for the standard's sake; equal elements always keep their order.

    >>> import ingle.tensor as it
    >>> it.sort(it.asarray([3, 1, 2]), descending=True).tolist()
    [3, 2, 1]
    """
    handle = handle_of(x, "sort")
    place = normalize_axis(axis, len(handle.shape), "sort")
    return run1(_SORT.op(axis=place, descending=bool(descending)), handle)


def _sort_rule(x: Aval, *, axis: int, descending: bool) -> Aval:
    require_ordered("sort", x)
    return x


def _sort(x: Tensor, *, axis: int, descending: bool) -> Tensor:
    return take_along_axis(x, argsort(x, axis=axis, descending=descending), axis=axis)


def _sort_reference(x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    out = np.sort(as_sorted(x), axis=axis)
    return np.flip(out, axis) if descending else out


_SORT = Operation(
    "sort",
    tensors=("x",),
    statics=("axis", "descending"),
    rule=_sort_rule,
    traits=Traits("opaque", exactly_rounded=True),
    body=_sort,
    batch=("axis",),
    public=sort,
    samples=partial(_samples, True),
    reference=_sort_reference,
)


def _argsort_reference(
    x: Any, axis: int = -1, descending: bool = False, stable: bool = True
) -> Any:
    x = as_sorted(x)
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    order = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(order, axis)


@guarded
def argsort(
    x: TensorLike, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The indices along an axis that put the elements in order, equal ones as they come.

    Args:
        x: a real or bool tensor of at least one axis.
        axis: along which.
        descending: from the largest to the smallest.
        stable: accepted for the standard's sake; equal elements always keep their order.

    >>> import ingle.tensor as it
    >>> it.argsort(it.asarray([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    handle = handle_of(x, "argsort")
    place = normalize_axis(axis, len(handle.shape), "argsort")
    op = _ARGSORT.op(axis=place, descending=bool(descending), dtype=default_int())
    return run1(op, handle)


def _argsort_rule(x: Aval, *, axis: int, descending: bool, dtype: DType) -> Aval:
    require_ordered("argsort", x)
    return Aval(x.shape, dtype)


_ARGSORT = Operation(
    "argsort",
    tensors=("x",),
    statics=("axis", "descending", "dtype"),
    rule=_argsort_rule,
    traits=Traits("opaque", family="argsort", exactly_rounded=True),
    vjp={},
    batch=("axis",),
    public=argsort,
    samples=partial(_samples, False),
    reference=_argsort_reference,
)


@guarded
def topk(
    x: TensorLike, /, k: int, *, axis: int = -1, largest: bool = True
) -> tuple[Tensor, Tensor]:
    """The `k` largest elements along an axis in descending order, and their indices.

    Args:
        x: a real or bool tensor of at least one axis.
        k: how many, at most the size of the axis.
        axis: along which.
        largest: False for the smallest ones in ascending order.

    Raises:
        ShapeError: the axis has fewer than `k` elements.

    >>> import ingle.tensor as it
    >>> values, indices = it.topk(it.asarray([3.0, 1.0, 2.0]), 2)
    >>> values.tolist(), indices.tolist()
    ([3.0, 2.0], [0, 2])
    """
    handle = handle_of(x, "topk")
    place = normalize_axis(axis, len(handle.shape), "topk")
    op = _TOPK.op(k=as_int(k, "topk", "k"), axis=place, largest=bool(largest), dtype=default_int())
    values, indices = run(op, (handle,))
    return values, indices


def _topk_rule(x: Aval, *, k: int, axis: int, largest: bool, dtype: DType) -> tuple[Aval, Aval]:
    require_ordered("topk", x)
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError(
            f"topk: k={k}, but axis {axis} of shape {x.shape} has {x.shape[axis]} elements; "
            f"k must be between 0 and {x.shape[axis]}"
        )
    shape = tuple(k if i == axis else n for i, n in enumerate(x.shape))
    return Aval(shape, x.dtype), Aval(shape, dtype)


def _topk(x: Tensor, *, k: int, axis: int, largest: bool, dtype: DType) -> tuple[Tensor, Tensor]:
    order = argsort(x, axis=axis, descending=largest).astype(dtype)
    indices = slice_axis(order, axis, 0, k)
    return take_along_axis(x, indices, axis=axis), indices


def _topk_vjp(g: Sequence[Tensor], indices: Tensor, x_aval: Aval, axis: int) -> Tensor:
    return along_vjp(g[0], indices, x_aval, axis)


def _topk_samples(draw: Draw) -> Iterator[Sample]:
    make = draw.apart if draw.dtype.is_inexact else draw.array
    yield Sample((make((17,)), 3), exact=True)
    yield Sample((make((3, 5, 2)), 5), {"axis": 1}, exact=True)
    yield Sample((make((5, 8)), 1), {"largest": False}, exact=True)
    yield Sample((make((2, 3)), 0), exact=True)


def _topk_reference(x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    order = np.take(_argsort_reference(x, axis, largest), range(k), axis)
    return np.take_along_axis(x, order, axis), order


_TOPK = Operation(
    "topk",
    tensors=("x",),
    statics=("k", "axis", "largest", "dtype"),
    outputs=("values", "indices"),
    rule=_topk_rule,
    traits=Traits("opaque", exactly_rounded=True),
    vjp={"x": _topk_vjp},
    body=_topk,
    batch=("axis",),
    public=topk,
    samples=_topk_samples,
    reference=_topk_reference,
)


def require_ordered(name: str, x: Aval) -> None:
    """Refuses dtypes without an order."""
    if x.dtype.kind not in ORDERED:
        raise DTypeError(f"{name}: x must be ordered, got {x.dtype}; sort by real(x) or abs(x)")


def as_sorted(x: Any) -> Any:
    """An array that NumPy sorts as the references do."""
    # The comparison of bfloat16 that NumPy sorts by does not order NaN.
    return x.astype(np.float64) if x.dtype.kind == "V" else x
