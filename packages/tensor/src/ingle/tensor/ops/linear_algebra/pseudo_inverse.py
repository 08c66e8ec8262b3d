"""Pseudo-inverses and ranks, from singular values above a threshold: pinv, matrix_rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Scalar, Shape
from ...dispatch import Operand, TensorLike, cast_handle, handle_of, run, wrap
from ...dtype_functions import finfo
from ...dtypes import DType, real_dtype
from ...errors import DTypeError, ShapeError
from ...operation import Operation
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import broadcast_shapes
from ..creation.filled import zeros
from ..elementwise.where import where
from ..movement.axes import expand_dims
from ..reductions.basic import count_nonzero, max
from ._matrices import DECOMPOSITION, adjoint, check_dtype, matrices, sample_matrix
from .singular_values import svd, svdvals

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def pinv(x: TensorLike, /, *, rtol: Operand | None = None) -> Tensor:
    """The Moore-Penrose pseudo-inverse of each matrix of a stack.

    Args:
        x: matrices of shape `(..., m, n)`; the result's have shape `(..., n, m)`.
        rtol: singular values up to `rtol` times the largest count as zero: a number, or one for
            each matrix. `max(m, n)` times the precision of the dtype if not given. The gradient is
            that at constant rank, as if they were zero; none flows to `rtol`.

    >>> import ingle.tensor as it
    >>> it.linalg.pinv(it.asarray([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    handle = matrices("pinv", x)
    return run(_PINV, (handle, _tolerance("pinv", rtol, handle.shape, handle.dtype)))[0]


def _rule(x: Aval, rtol: Aval) -> Aval:
    check_dtype("pinv", x)
    *lead, m, n = x.shape
    return Aval((*lead, n, m), x.dtype)


def _pinv(x: Tensor, rtol: Any) -> Tensor:
    *lead, m, n = x.shape
    if not min(m, n):
        return zeros((*lead, n, m), dtype=x.dtype, device=x.device)
    u, s, vh = svd(x, full_matrices=False)
    kept = _above(s, rtol)
    inverse = where(kept, 1 / where(kept, s, 1), 0)
    return (adjoint(vh) * expand_dims(inverse, axis=-2)) @ adjoint(u)


def _vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Golub and Pereyra, The differentiation of pseudo-inverses (1973), equation 4.12."""
    p, h = adjoint(out), adjoint(g)
    left = h @ out @ p
    right = p @ out @ h
    return (left - x @ (out @ left)) + (right - (right @ out) @ x) - p @ g @ p


def _samples(draw: Draw) -> Iterator[Sample]:
    for shape in map(draw.shape, ((3, 3), (5, 3), (2, 3, 5), (0, 3), (2, 0, 0))):
        yield Sample((sample_matrix(draw, shape),), condition=64, magnitude=2.5)
    # Of singular values from 1 to 2.5 some are cut off.
    for shape, limit in (((5, 3), 0.5), ((2, 3, 3), np.asarray([0.5, 0.0], "float32"))):
        x = sample_matrix(draw, shape)
        yield Sample((x,), {"rtol": limit}, gradient=False, condition=64, magnitude=2.5)


def _reference(x: Any, rtol: Any = None) -> Any:
    if rtol is None:
        return np.linalg.pinv(x)
    return np.linalg.pinv(x, rtol=rtol)


_PINV = Operation(
    "pinv",
    tensors=("x", "rtol"),
    rule=_rule,
    traits=DECOMPOSITION,
    vjp={"x": _vjp},
    body=_pinv,
    public=pinv,
    samples=_samples,
    reference=_reference,
).op()


@guarded
def matrix_rank(x: TensorLike, /, *, rtol: Operand | None = None) -> Tensor:
    """How many singular values of each matrix of a stack are not zero.

    Args:
        x: matrices of shape `(..., m, n)`.
        rtol: singular values up to `rtol` times the largest count as zero: a number, or one for
            each matrix; `max(m, n)` times the precision of the dtype if not given.

    >>> import ingle.tensor as it
    >>> it.linalg.matrix_rank(it.asarray([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    handle = matrices("matrix_rank", x)
    limit = _tolerance("matrix_rank", rtol, handle.shape, handle.dtype)
    return _rank(svdvals(wrap(handle)), limit)


def rank_of(values: Tensor, x: Tensor, rtol: Operand | None) -> Tensor:
    """The rank of matrices whose singular values are known already."""
    return _rank(values, _tolerance("matrix_rank", rtol, x.shape, x.dtype))


def _rank(values: Tensor, limit: Handle | Scalar) -> Tensor:
    above = _above(values.detach(), limit.value if isinstance(limit, Scalar) else wrap(limit))
    return count_nonzero(above, axis=-1)


def _tolerance(name: str, rtol: Operand | None, shape: Shape, dtype: DType) -> Handle | Scalar:
    real = real_dtype(dtype)
    if rtol is None:
        rtol = float(np.max(shape[-2:])) * finfo(real).eps if dtype.is_inexact else 0.0
    if isinstance(rtol, (int, float)):
        return Scalar(float(rtol), real)
    given = handle_of(rtol, name, "rtol")
    if given.dtype.is_complex:
        raise DTypeError(f"{name}: rtol must be real, got {given.dtype}")
    handle = cast_handle(given, real)
    if broadcast_shapes(name, handle.shape, shape[:-2], arguments=("rtol", "x")) != shape[:-2]:
        raise ShapeError(
            f"{name}: rtol of shape {handle.shape} must broadcast to the stack's {shape[:-2]}"
        )
    return handle


def _above(values: Tensor, rtol: Any) -> Tensor:
    """Which singular values count."""
    if not values.shape[-1]:
        return values != 0
    limit = rtol if isinstance(rtol, (int, float)) else expand_dims(rtol, axis=-1)
    return values > max(values, axis=-1, keepdims=True) * limit
