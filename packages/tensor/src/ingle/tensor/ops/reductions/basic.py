"""Reductions over axes: sum, prod, max, min, any, all and their kin."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Shape
from ...dispatch import TensorLike, as_floating, cast_handle, handle_of, refuse_storage, run1, wrap
from ...dtypes import DType, bool_, default_int, promote_types, uint64
from ...errors import DTypeError, ShapeError
from ...operation import Op, Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import NUMERIC, ORDERED, as_flag, conj, dtype_argument, normalize_axes
from ..elementwise.comparison import equal, isfinite
from ..elementwise.exponential import exp, log
from ..elementwise.where import where

if TYPE_CHECKING:
    from ...tensor import Tensor

Axis = int | tuple[int, ...] | None
_ANY = ("bool", *NUMERIC)


def reduced_shape(shape: Shape, axis: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape after reducing normalised axes."""
    if keepdims:
        return tuple(1 if i in axis else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axis)


def reduction_rule(
    name: str, kinds: tuple[str, ...], identity: bool, result: DType | None, x: Aval, *,
    axis: tuple[int, ...], keepdims: bool, **statics: Any,
) -> Aval:  # fmt: skip
    """The shape without its reduced axes; they may be empty only if there is an identity."""
    if x.dtype.kind not in kinds:
        raise DTypeError(f"{name}: x must be {' or '.join(kinds)}, got {x}; cast it first")
    if not identity and 0 in [x.shape[a] for a in axis]:
        raise ShapeError(
            f"{name}: {x} has no elements along axis {axis}, and {name} of nothing is undefined; "
            "reduce over another axis, or check x.size first"
        )
    return Aval(reduced_shape(x.shape, axis, keepdims), result or x.dtype)


def _samples(extremum: bool, condition: float, draw: Draw) -> Iterator[Sample]:
    make = draw.apart if extremum and draw.dtype.is_inexact else draw.array
    yield Sample((make((2, 17)),), condition=condition)
    yield Sample((make((3, 5, 8)),), {"axis": (0, 2)}, condition=4 * condition)
    yield Sample((make((5, 3)),), {"axis": -1, "keepdims": True}, condition=condition)
    yield Sample((make(()),))
    if not extremum:
        yield Sample((make((0, 3)),), {"axis": 0})


def reduction(
    name: str,
    public: Any,
    *,
    kinds: tuple[str, ...],
    identity: bool = True,
    result: DType | None = None,
    vjp: Any = None,
    body: Any = None,
    reference: Any = None,
    precision: Any = "keep",
    condition: float = 1.0,
    exactly_rounded: bool = False,
) -> Operation:
    """An operation that reduces over `axis`; without `vjp` its gradient is zero."""
    return Operation(
        name,
        tensors=("x",),
        statics=("axis", "keepdims"),
        rule=partial(reduction_rule, name, kinds, identity, result),
        traits=Traits(
            "reduction",
            family=None if body else "reduce",
            precision=precision,
            exactly_rounded=exactly_rounded,
        ),
        vjp={} if vjp is None else {"x": vjp},
        body=body,
        public=public,
        samples=partial(_samples, not identity, condition),
        reference=reference,
    )


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
    return _accumulated(SUM, x, axis, dtype, keepdims)


def _sum_vjp(g: Tensor, x_aval: Aval, axis: tuple[int, ...]) -> Tensor:
    return spread(g, x_aval, axis)


SUM = reduction("sum", sum, kinds=NUMERIC, vjp=_sum_vjp, reference=np.sum, precision="high")


def prod(
    x: TensorLike, /, *, axis: Axis = None, dtype: object = None, keepdims: bool = False
) -> Tensor:
    """The product over axes; 1 for no elements. Its gradient is exact at zeros as well.

    Args:
        x: a numeric or bool tensor; bools and small integers are multiplied in int64.
        axis: an axis, several, or None for all.
        dtype: the dtype to multiply in and to return.
        keepdims: keep reduced axes with size 1.

    >>> import ingle.tensor as it
    >>> it.prod(it.asarray([[1, 2], [3, 4]]), axis=1).tolist()
    [2, 12]
    """
    return _accumulated(_PROD, x, axis, dtype, keepdims)


def _prod_vjp(g: Tensor, x: Tensor, axis: tuple[int, ...], x_aval: Aval) -> Tensor:
    from ..movement.shapes import permute_dims, reshape

    # Axes that follow each other stay where they are: turned, they would be read across memory.
    first, ndim = axis[0] if axis else 0, len(x_aval.shape)
    if axis != tuple(range(first, first + len(axis))):
        first = ndim - len(axis)
    kept = tuple(i for i in range(ndim) if i not in axis)
    order = (*kept[:first], *axis, *kept[first:])
    moved = tuple(x_aval.shape[i] for i in order)
    lead, trail = moved[:first], moved[first + len(axis) :]
    size = math.prod(moved[first : first + len(axis)])
    if not size:
        return x  # as empty as its gradient
    flat = reshape(permute_dims(x, order), (*lead, size, *trail))
    others = products_of_others(conj(flat), reshape(g, (*lead, 1, *trail)), first)
    inverse = tuple(sorted(range(ndim), key=order.__getitem__))
    return permute_dims(reshape(others, moved), inverse)


_PROD = reduction(
    "prod", prod, kinds=NUMERIC, vjp=_prod_vjp, reference=np.prod, precision="high", condition=16
)


def _extremum_vjp(g: Tensor, x: Tensor, out: Tensor, axis: tuple[int, ...], x_aval: Aval) -> Tensor:
    hits = (x == spread(out, x_aval, axis)).astype(x.dtype)
    return hits * spread(g / sum(hits, axis=axis).reshape(g.shape), x_aval, axis)


def max(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element along axes; NaN if there is one. Its gradient is shared among ties.

    Args:
        x: real numbers or bools.
        axis: the axes that go, or all of them if None; negative ones count from the end.
        keepdims: whether these axes stay, with size 1.

    Raises:
        ShapeError: an axis that is reduced has no elements.

    >>> import ingle.tensor as it
    >>> it.max(it.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [5, 7]
    """
    return run_reduction(MAX, handle_of(x, "max"), axis, keepdims)


MAX = reduction(
    "max", max, kinds=ORDERED, identity=False, vjp=_extremum_vjp, reference=np.max,
    exactly_rounded=True,
)  # fmt: skip


def min(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element along axes; NaN if there is one. Its gradient is shared among ties.

    Args:
        x: real numbers or bools.
        axis: the axes that go, or all of them if None; negative ones count from the end.
        keepdims: whether these axes stay, with size 1.

    Raises:
        ShapeError: an axis that is reduced has no elements.

    >>> import ingle.tensor as it
    >>> it.min(it.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [1, 2]
    """
    return run_reduction(MIN, handle_of(x, "min"), axis, keepdims)


MIN = reduction(
    "min", min, kinds=ORDERED, identity=False, vjp=_extremum_vjp, reference=np.min,
    exactly_rounded=True,
)  # fmt: skip


def any(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether an element along axes is true; false for no elements. A number is true if not 0.

    Args:
        x: a tensor of any dtype.
        axis: the axes that go, or all of them if None; negative ones count from the end.
        keepdims: whether these axes stay, with size 1.

    >>> import ingle.tensor as it
    >>> it.any(it.asarray([[0, 0], [0, 2]]), axis=1).tolist()
    [False, True]
    """
    return run_reduction(_ANY_OF, handle_of(x, "any"), axis, keepdims)


def _any_of(x: Tensor, *, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    return sum(x.astype(bool_), axis=axis, keepdims=keepdims) != 0


_ANY_OF = reduction("any", any, kinds=_ANY, result=bool_, body=_any_of, reference=np.any)


def all(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along axes are true; true for no elements. A number is true if not 0.

    Args:
        x: a tensor of any dtype.
        axis: the axes that go, or all of them if None; negative ones count from the end.
        keepdims: whether these axes stay, with size 1.

    >>> import ingle.tensor as it
    >>> it.all(it.asarray([[1, 0], [3, 2]]), axis=1).tolist()
    [False, True]
    """
    return run_reduction(_ALL_OF, handle_of(x, "all"), axis, keepdims)


def _all_of(x: Tensor, *, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    return sum(equal(x, 0), axis=axis, keepdims=keepdims) == 0


_ALL_OF = reduction("all", all, kinds=_ANY, result=bool_, body=_all_of, reference=np.all)


@guarded
def count_nonzero(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements along axes are not 0, in the default integer dtype.

    Args:
        x: a tensor of any dtype.
        axis: the axes that go, or all of them if None; negative ones count from the end.
        keepdims: whether these axes stay, with size 1.

    >>> import ingle.tensor as it
    >>> it.count_nonzero(it.asarray([[0, 3], [1, 2]]), axis=1).tolist()
    [1, 2]
    """
    handle = handle_of(x, "count_nonzero")
    refuse_storage("count_nonzero", "x", handle.dtype)
    truth = cast_handle(handle, bool_)
    return sum(wrap(truth), axis=axis, keepdims=keepdims)


def logsumexp(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """`log(sum(exp(x)))` over axes without overflow; -inf for no elements.

    Args:
        x: a float or complex tensor; integers are cast to the default float dtype.
        axis: an axis, several, or None for all.
        keepdims: keep reduced axes with size 1.

    >>> import ingle.tensor as it
    >>> it.logsumexp(it.asarray([1000.0, float("-inf")])).tolist()
    1000.0
    """
    handle = as_floating(x, "logsumexp")
    if handle.dtype.is_complex:
        return _complex_logsumexp(
            wrap(handle), normalize_axes(axis, len(handle.shape), "logsumexp"), keepdims
        )
    return run_reduction(_LOGSUMEXP, handle, axis, keepdims)


def _logsumexp(x: Tensor, *, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    from ..movement.shapes import reshape

    if not x.size:
        return log(sum(x, axis=axis, keepdims=keepdims))
    top = max(x, axis=axis, keepdims=True)
    # An infinite maximum would give inf - inf.
    top = where(isfinite(top), top, 0)
    out = log(sum(exp(x - top), axis=axis, keepdims=True)) + top
    return out if keepdims else reshape(out, reduced_shape(x.shape, axis, False))


def _complex_logsumexp(x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """The largest real part goes in front: it says how large an exponential is."""
    from ..elementwise.complex import real
    from ..movement.shapes import reshape

    as_flag(keepdims, "logsumexp", "keepdims")
    if not x.size:
        return log(sum(x, axis=axis, keepdims=keepdims))
    top = max(real(x).detach(), axis=axis, keepdims=True)
    top = where(isfinite(top), top, 0)
    out = log(sum(exp(x - top), axis=axis, keepdims=True)) + top
    return out if keepdims else reshape(out, reduced_shape(x.shape, axis, False))


def _logsumexp_vjp(
    g: Tensor, x: Tensor, out: Tensor, axis: tuple[int, ...], x_aval: Aval
) -> Tensor:
    # Nothing but -inf has no largest element: none gets a share.
    out = where(out == float("-inf"), 0, out)
    return spread(g, x_aval, axis) * exp(x - spread(out, x_aval, axis))


def _logsumexp_reference(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    from scipy.special import logsumexp as oracle

    if x.size:
        return oracle(x, axis=axis, keepdims=keepdims)
    return np.log(np.sum(x, axis=axis, keepdims=keepdims))


_LOGSUMEXP = reduction(
    "logsumexp",
    logsumexp,
    kinds=("float",),
    vjp=_logsumexp_vjp,
    body=_logsumexp,
    reference=_logsumexp_reference,
    precision="high",
)


def run_reduction(
    operation: Operation, x: Handle, axis: Axis, keepdims: bool, **statics: Any
) -> Tensor:
    """Runs an operation that reduces over `axis`, which is checked first."""
    axes = normalize_axes(axis, len(x.shape), operation.name)
    as_flag(keepdims, operation.name, "keepdims")
    if statics:
        return run1(operation.op(axis=axes, keepdims=keepdims, **statics), x)
    return run1(_reduction_op(operation, axes, keepdims), x)


def accumulator(dtype: DType) -> DType:
    """What sums and products of a dtype are computed in: no integer narrower than the default."""
    if dtype.kind == "unsigned":
        return uint64
    return dtype if dtype.is_inexact else promote_types(dtype, default_int())


def spread(g: Tensor, x_aval: Aval, axis: tuple[int, ...]) -> Tensor:
    """A reduction's result or cotangent, broadcast back to the shape before it."""
    from ..movement.shapes import broadcast_to, reshape

    return broadcast_to(reshape(g, reduced_shape(x_aval.shape, axis, True)), x_aval.shape)


def products_of_others(x: Tensor, factor: Tensor, axis: int = -1) -> Tensor:
    """For each element along an axis the product of all others, without dividing by any.

    Elements are multiplied in pairs until one is left; on the way back each gets what came for
    its product times its partner.
    """
    from ..movement.joining import concat
    from ..movement.slicing import slice_axis

    pairs: list[tuple[Tensor, Tensor]] = []
    while (size := x.shape[axis]) > 1:
        half = size // 2
        left, right = slice_axis(x, axis, 0, half), slice_axis(x, axis, half, half)
        pairs.append((left, right))
        rest = [slice_axis(x, axis, size - 1, 1)] if size % 2 else []
        x = concat([left * right, *rest], axis=axis)
    for left, right in reversed(pairs):
        half = left.shape[axis]
        whole = slice_axis(factor, axis, 0, half)
        rest = [slice_axis(factor, axis, half, 1)] if factor.shape[axis] > half else []
        factor = concat([whole * right, whole * left, *rest], axis=axis)
    return factor


@lru_cache(4096)
def _reduction_op(operation: Operation, axis: tuple[int, ...], keepdims: bool) -> Op:
    # A shorter way than interning, for arguments that are ints and bools and nothing else.
    return operation.op(axis=axis, keepdims=keepdims)


def _accumulated(
    operation: Operation, x: TensorLike, axis: Axis, dtype: object, keepdims: bool
) -> Tensor:
    handle = handle_of(x, operation.name)
    refuse_storage(operation.name, "x", handle.dtype)
    to = accumulator(handle.dtype) if dtype is None else dtype_argument(dtype, operation.name)
    out = run_reduction(operation, cast_handle(handle, to), axis, keepdims)
    # In mixed precision it may have been computed in float32.
    return out if dtype is None or out.dtype is to else wrap(cast_handle(out._handle, to))
