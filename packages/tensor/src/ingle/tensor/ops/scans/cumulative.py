"""Running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, cast_handle, handle_of, refuse_storage, run1
from ...errors import AxisError, DTypeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import NUMERIC, conj, dtype_argument, normalize_axis
from ..creation.filled import full
from ..elementwise.arithmetic import add, multiply
from ..movement.joining import concat
from ..movement.slicing import slice_axis
from ..reductions.basic import accumulator
from .recurrence import backwards, flip, moved_on

if TYPE_CHECKING:
    from ...tensor import Tensor


def _scan(combine: Callable[[Tensor, Tensor], Tensor], x: Tensor, *, axis: int) -> Tensor:
    # Hillis and Steele, Data parallel algorithms (CACM 29, 1986): after the step of distance d
    # each element holds the last 2d ones up to its own.
    size, distance = x.shape[axis], 1
    while distance < size:
        rest = size - distance
        moved = combine(slice_axis(x, axis, distance, rest), slice_axis(x, axis, 0, rest))
        x = concat([slice_axis(x, axis, 0, distance), moved], axis=axis)
        distance *= 2
    return x


def _rule(name: str, x: Aval, *, axis: int) -> Aval:
    if x.dtype.kind not in NUMERIC:
        raise DTypeError(f"{name}: x must be numbers, got {x.dtype}; leave dtype out for bools")
    return x


def _samples(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((17,)),), condition=16)
    yield Sample((draw.array((3, 5, 2)),), {"axis": 1}, condition=8)
    yield Sample((draw.array((2, 8)),), {"axis": -1, "include_initial": True}, condition=8)
    yield Sample((draw.array((0, 3)),), {"axis": 0})
    yield Sample((np.asarray([[2, 0, 3], [0, 0, 1]], draw.dtype.dtype),), {"axis": 1})


def _operation(name: str, public: Any, combine: Any, vjp: Any, reference: Any) -> Operation:
    return Operation(
        name,
        tensors=("x",),
        statics=("axis",),
        rule=partial(_rule, name),
        traits=Traits("opaque", precision="high", exactly_rounded=True),
        vjp=vjp,
        body=partial(_scan, combine),
        batch=("axis",),
        public=public,
        samples=_samples,
        reference=reference,
    )


@guarded
def cumulative_sum(
    x: TensorLike,
    /,
    *,
    axis: int | None = None,
    dtype: object = None,
    include_initial: bool = False,
) -> Tensor:
    """The sums of the first 1, 2, … elements along an axis.

    Args:
        x: a numeric or bool tensor; bools and small integers are summed in int64.
        axis: along which; may be left out for one axis only.
        dtype: the dtype to sum in and to return.
        include_initial: put the sum of no elements, 0, in front.

    >>> import ingle.tensor as it
    >>> it.cumulative_sum(it.asarray([1, 2, 3])).tolist()
    [1, 3, 6]
    """
    return _run(_CUMULATIVE_SUM, x, axis, dtype, 0 if include_initial else None)


def _sum_vjp(g: Tensor, axis: int) -> Tensor:
    return flip(cumulative_sum(flip(g, axis), axis=axis), axis)


_CUMULATIVE_SUM = _operation(
    "cumulative_sum", cumulative_sum, add, {"x": _sum_vjp}, np.cumulative_sum
)


@guarded
def cumulative_prod(
    x: TensorLike,
    /,
    *,
    axis: int | None = None,
    dtype: object = None,
    include_initial: bool = False,
) -> Tensor:
    """The products of the first 1, 2, … elements along an axis. Gradients are exact at zeros.

    Args:
        x: a numeric or bool tensor; bools and small integers are multiplied in int64.
        axis: along which; may be left out for one axis only.
        dtype: the dtype to multiply in and to return.
        include_initial: put the product of no elements, 1, in front.

    >>> import ingle.tensor as it
    >>> it.cumulative_prod(it.asarray([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return _run(_CUMULATIVE_PROD, x, axis, dtype, 1 if include_initial else None)


def _prod_vjp(g: Tensor, x: Tensor, out: Tensor, axis: int) -> Tensor:
    """What is before an element times what is made of it behind: no element is divided by."""
    if not x.shape[axis]:
        return g
    return moved_on(conj(out), axis, 1) * backwards(conj(x), g, axis)


_CUMULATIVE_PROD = _operation(
    "cumulative_prod", cumulative_prod, multiply, {"x": _prod_vjp}, np.cumulative_prod
)


def _run(
    operation: Operation, x: TensorLike, axis: int | None, dtype: object, initial: int | None
) -> Tensor:
    handle = handle_of(x, operation.name)
    ndim = len(handle.shape)
    if axis is None and ndim != 1:
        raise AxisError(
            f"{operation.name}: axis must be given for x of shape {handle.shape} with {ndim} axes; "
            "or flatten it with x.reshape(-1)"
        )
    place = normalize_axis(0 if axis is None else axis, ndim, operation.name)
    refuse_storage(operation.name, "x", handle.dtype)
    to = accumulator(handle.dtype) if dtype is None else dtype_argument(dtype, operation.name)
    out = run1(operation.op(axis=place), cast_handle(handle, to))
    if initial is None:
        return out
    shape = tuple(1 if i == place else n for i, n in enumerate(out.shape))
    first = full(shape, initial, dtype=to, device=out.device)
    return concat([first, out], axis=place)
