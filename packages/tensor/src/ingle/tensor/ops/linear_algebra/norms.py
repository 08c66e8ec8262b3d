"""Norms of vectors and matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, as_floating
from ...dtypes import real_dtype
from ...errors import ArgumentError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import INEXACT, widened
from ..elementwise.arithmetic import abs, sign
from ..elementwise.cast import astype
from ..elementwise.powers import sqrt, square
from ..elementwise.where import where
from ..reductions.basic import Axis, max, min, reduction_rule, run_reduction, spread
from ..reductions.basic import sum as reduce_sum
from ._matrices import matrices
from .singular_values import svdvals

if TYPE_CHECKING:
    from ...tensor import Tensor

Order = int | float
_INF = float("inf")


@guarded
def vector_norm(
    x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False, ord: Order = 2
) -> Tensor:
    """`sum(abs(x) ** ord) ** (1 / ord)` over axes; where it is 0, its gradient is 0.

    Args:
        x: a tensor; integers are cast to the default float dtype.
        axis: an axis, several, or None for all.
        keepdims: keep reduced axes with size 1.
        ord: inf for the largest absolute value, -inf for the smallest, 0 for the number of
            elements that are not 0.

    Raises:
        ArgumentError: `ord` is no number.

    >>> import ingle.tensor as it
    >>> it.linalg.vector_norm(it.asarray([3.0, -4.0])).item()
    5.0
    """
    if isinstance(ord, bool) or not isinstance(ord, (int, float)):
        raise ArgumentError(f"vector_norm: ord must be a number, got {ord!r}")
    handle = as_floating(x, "vector_norm")
    return run_reduction(_VECTOR_NORM, handle, axis, keepdims, ord=float(ord))


def _rule(x: Aval, *, axis: tuple[int, ...], keepdims: bool, ord: float) -> Aval:
    # The largest of no absolute values is 0, but there is no smallest.
    out = reduction_rule(
        "vector_norm", INEXACT, ord != -_INF, None, x, axis=axis, keepdims=keepdims
    )
    return Aval(out.shape, real_dtype(x.dtype))


def _vector_norm(x: Tensor, *, axis: tuple[int, ...], keepdims: bool, ord: float) -> Tensor:
    sizes = abs(widened(x))
    options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if ord == _INF:
        empty = 0 in [x.shape[a] for a in axis]
        out = reduce_sum(sizes, **options) if empty else max(sizes, **options)
    elif ord == -_INF:
        out = min(sizes, **options)
    elif ord == 0:
        out = reduce_sum(astype(sizes != 0, sizes.dtype), **options)
    elif ord == 1:
        out = reduce_sum(sizes, **options)
    elif ord == 2:
        out = sqrt(reduce_sum(square(sizes), **options))
    else:
        out = reduce_sum(sizes**ord, **options) ** (1 / ord)
    return astype(out, real_dtype(x.dtype))


def _vjp(
    g: Tensor, x: Tensor, out: Tensor, axis: tuple[int, ...], keepdims: bool, ord: float,
    x_aval: Aval,
) -> Tensor | None:  # fmt: skip
    if ord == 0:
        return None
    if ord == 1:
        return sign(x) * spread(g, x_aval, axis)
    real = Aval(x_aval.shape, g.dtype)
    if ord in (_INF, -_INF):
        hits = astype(abs(x) == spread(out, real, axis), g.dtype)
        count = reduce_sum(hits, axis=axis, keepdims=keepdims)
        return sign(x) * (hits * spread(g / count, real, axis))
    # Both where's keep what would be infinite out of the derivatives of this rule, too.
    safe = where(out == 0, 1, out)
    if ord == 2:
        return x * spread(where(out == 0, 0, g / safe), real, axis)
    share = spread(where(out == 0, 0, g * safe ** (1 - ord)), real, axis)
    sizes = abs(x)
    return sign(x) * where(sizes == 0, 0, where(sizes == 0, 1, sizes) ** (ord - 1) * share)


def _samples(draw: Draw) -> Iterator[Sample]:
    make = draw.apart if draw.dtype.is_floating else draw.array
    yield Sample((make((2, 17)),), condition=4)
    yield Sample((make((3, 5, 2)),), {"axis": (0, 2), "keepdims": True}, condition=4)
    for ord in (1, 3, 0.5, -2):
        yield Sample((make((5, 3)),), {"axis": 0, "ord": ord}, condition=32)
    for ord in (_INF, -_INF):
        # All positive, because x and -x tie.
        yield Sample((make((5, 3)) + make(()).dtype.type(3),), {"axis": 0, "ord": ord})
    yield Sample((make((5, 3)),), {"axis": 1, "ord": 0}, gradient=False)
    yield Sample((make(()),))
    yield Sample((make((0, 3)),), {"axis": 0})


def _reference(x: Any, axis: Any = None, keepdims: bool = False, ord: Order = 2) -> Any:
    if not x.ndim:
        return np.abs(x)
    return np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


_VECTOR_NORM = Operation(
    "vector_norm",
    tensors=("x",),
    statics=("axis", "keepdims", "ord"),
    rule=_rule,
    traits=Traits("reduction", precision="high"),
    vjp={"x": _vjp},
    body=_vector_norm,
    public=vector_norm,
    samples=_samples,
    reference=_reference,
)


@guarded
def matrix_norm(
    x: TensorLike, /, *, keepdims: bool = False, ord: Order | str | None = "fro"
) -> Tensor:
    """A norm of each matrix of a stack.

    Args:
        x: matrices of shape `(..., m, n)`.
        keepdims: keep the last two axes with size 1.
        ord: `"fro"`, the root of the sum of squares; `"nuc"`, the sum of singular values; 2 or -2,
            the largest or smallest of them; 1 or -1, the largest or smallest column's sum of
            absolute values; inf or -inf, the largest or smallest row's.

    Raises:
        ArgumentError: another `ord`.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[1.0, -2.0], [3.0, 4.0]])
    >>> it.linalg.matrix_norm(x, ord=1).item(), it.linalg.matrix_norm(x, ord=float("inf")).item()
    (6.0, 7.0)
    """
    matrices("matrix_norm", x)
    if not isinstance(ord, (int, float, str, type(None))):
        raise ArgumentError(f"matrix_norm: ord must be a number or a name, got {ord!r:.60}")
    if ord is None or ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord == "nuc" or ord in (2, -2):
        values = svdvals(x)
        reduce = reduce_sum if ord == "nuc" else max if ord == 2 else min
        return _kept(reduce(values, axis=-1), keepdims)
    if ord in (1, -1, _INF, -_INF):
        within, among = (-2, -1) if ord in (1, -1) else (-1, -2)
        sums = reduce_sum(abs(x), axis=within, keepdims=True)
        out = (max if ord in (1, _INF) else min)(sums, axis=among, keepdims=True)
        return out if keepdims else out[..., 0, 0]
    raise ArgumentError(
        f"matrix_norm: ord={ord!r} is none of 'fro', 'nuc', 1, -1, 2, -2, inf, -inf"
    )


def _kept(x: Tensor, keepdims: bool) -> Tensor:
    return x[..., None, None] if keepdims else x
