"""Reductions over axes: sum, prod, max, min, any, all, mean, var, std."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..contract import Aval, Shape
from ..dispatch import TensorLike, cast_handle, handle_of, run1
from ..dtypes import DType, as_dtype, default_int, uint64
from ..errors import DTypeError, ShapeError
from ..operation import Operation, Traits
from ..sample import Draw, Sample
from ._rules import NUMERIC, ORDERED, normalize_axes

if TYPE_CHECKING:
    from ..tensor import Tensor

Axis = int | tuple[int, ...] | None


def sum(
    x: TensorLike, /, *, axis: Axis = None, dtype: object = None, keepdims: bool = False
) -> Tensor:
    """The sum over axes; 0 for no elements. Bools and small integers are summed in int64.

    Args:
        x: a numeric or bool tensor.
        axis: an axis, several, or None for all.
        dtype: the dtype to sum in and to return.
        keepdims: keep reduced axes with size 1.

    >>> import ingle.tensor as it
    >>> it.sum(it.asarray([[1, 2], [3, 4]]), axis=0).tolist()
    [4, 6]
    """
    handle = handle_of(x, "sum")
    to = as_dtype(dtype) if dtype is not None else _accumulator(handle.dtype)
    axes = normalize_axes(axis, len(handle.shape), "sum")
    return run1(SUM.op(axis=axes, keepdims=bool(keepdims)), cast_handle(handle, to))


def max(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element along axes; NaN if there is one. Its gradient is shared among ties.

    Raises:
        ShapeError: an axis that is reduced has no elements.

    >>> import ingle.tensor as it
    >>> it.max(it.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [5, 7]
    """
    return _extremum(MAX, x, axis, keepdims)


def min(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element along axes; NaN if there is one. Its gradient is shared among ties.

    Raises:
        ShapeError: an axis that is reduced has no elements.

    >>> import ingle.tensor as it
    >>> it.min(it.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [1, 2]
    """
    return _extremum(MIN, x, axis, keepdims)


def _extremum(operation: Operation, x: TensorLike, axis: Axis, keepdims: bool) -> Tensor:
    handle = handle_of(x, operation.name)
    axes = normalize_axes(axis, len(handle.shape), operation.name)
    return run1(operation.op(axis=axes, keepdims=bool(keepdims)), handle)


def _accumulator(dtype: DType) -> DType:
    if dtype.kind == "unsigned":
        return uint64
    return dtype if dtype.is_inexact else default_int()


def reduced_shape(shape: Shape, axis: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape after reducing normalised axes."""
    if keepdims:
        return tuple(1 if i in axis else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axis)


def _reduce_rule(
    name: str, kinds: tuple[str, ...], identity: bool, x: Aval, *, axis: tuple[int, ...],
    keepdims: bool,
) -> Aval:  # fmt: skip
    if x.dtype.kind not in kinds:
        raise DTypeError(f"{name}: needs {' or '.join(kinds)}, got {x}; cast it first")
    if not identity and any(x.shape[a] == 0 for a in axis):
        raise ShapeError(f"{name}: {x} has no elements along axis {axis}, and {name} no identity")
    return Aval(reduced_shape(x.shape, axis, keepdims), x.dtype)


def spread(g: Tensor, x_aval: Aval, axis: tuple[int, ...]) -> Tensor:
    """A reduction's result or cotangent, broadcast back to the shape before it."""
    from .manipulation import broadcast_to, reshape

    return broadcast_to(reshape(g, reduced_shape(x_aval.shape, axis, True)), x_aval.shape)


def _sum_vjp(g: Tensor, x_aval: Aval, axis: tuple[int, ...]) -> Tensor:
    return spread(g, x_aval, axis)


def _extremum_vjp(
    g: Tensor, x: Tensor, out: Tensor, axis: tuple[int, ...], x_aval: Aval
) -> Tensor:
    hits = (x == spread(out, x_aval, axis)).astype(x.dtype)
    return hits * spread(g / sum(hits, axis=axis).reshape(g.shape), x_aval, axis)


def _samples(extremum: bool, draw: Draw) -> Iterator[Sample]:
    make = draw.apart if extremum and draw.dtype.is_inexact else draw.array
    yield Sample((make((2, 17)),))
    yield Sample((make((3, 5, 8)),), {"axis": (0, 2)}, condition=4)
    yield Sample((make((5, 3)),), {"axis": -1, "keepdims": True})
    yield Sample((make(()),))
    if not extremum:
        yield Sample((make((0, 3)),), {"axis": 0})


def reduction(
    name: str,
    public: Any,
    *,
    kinds: tuple[str, ...],
    identity: bool,
    vjp: Any = None,
    reference: Any = None,
    precision: Any = "keep",
) -> Operation:
    """An operation that reduces over `axis`."""
    return Operation(
        name,
        tensors=("x",),
        statics=("axis", "keepdims"),
        rule=partial(_reduce_rule, name, kinds, identity),
        traits=Traits("reduction", family="reduce", precision=precision),
        vjp=None if vjp is None else {"x": vjp},
        public=public,
        samples=partial(_samples, not identity),
        reference=reference,
    )


SUM = reduction(
    "sum", sum, kinds=NUMERIC, identity=True, vjp=_sum_vjp, reference=np.sum, precision="high"
)
MAX = reduction(
    "max", max, kinds=ORDERED, identity=False, vjp=_extremum_vjp, reference=np.max
)  # fmt: skip
MIN = reduction(
    "min", min, kinds=ORDERED, identity=False, vjp=_extremum_vjp, reference=np.min
)  # fmt: skip
