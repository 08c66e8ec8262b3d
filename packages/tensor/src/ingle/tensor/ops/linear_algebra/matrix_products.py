"""What products make of matrices and vectors: powers, traces, cross products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch import TensorLike, handle_of, promote_tensors, wrap
from ...errors import DTypeError, ShapeError
from .._guarding import guarded
from .._rules import NUMERIC, as_int, broadcast_shapes, normalize_axis
from ..movement.joining import stack, unstack
from ..movement.shapes import broadcast_to
from ..movement.triangular import diagonal, eye
from ..reductions.basic import sum as reduce_sum
from ._matrices import square_matrices
from .linear_systems import inv
from .products import matmul

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def matrix_power(x: TensorLike, n: int, /) -> Tensor:
    """Each square matrix of a stack to an integer power, by repeated squaring.

    Args:
        x: square matrices.
        n: the power; 0 gives the identity, a negative one is that of the inverse.

    >>> import ingle.tensor as it
    >>> it.linalg.matrix_power(it.asarray([[1.0, 1.0], [0.0, 1.0]]), 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    handle = square_matrices("matrix_power", x)
    power = as_int(n, "matrix_power", "n")
    base = wrap(handle) if power >= 0 else inv(wrap(handle))
    if not power:
        one = eye(handle.shape[-1], dtype=handle.dtype, device=handle.backend.device)
        return broadcast_to(one, handle.shape)
    out = None
    left = abs(power)
    while left:
        if left & 1:
            out = base if out is None else matmul(out, base)
        left >>= 1
        if left:
            base = matmul(base, base)
    assert out is not None
    return out


@guarded
def trace(x: TensorLike, /, *, offset: int = 0, dtype: object = None) -> Tensor:
    """The sum of a diagonal of each matrix of a stack.

    Args:
        x: a tensor of at least 2 axes; the last two are the matrices.
        offset: which diagonal: 0 is the main one, 1 the one above.
        dtype: the dtype to sum in and to return; as for `sum` if not given.

    Raises:
        ShapeError: `x` has fewer than two axes.

    >>> import ingle.tensor as it
    >>> it.linalg.trace(it.asarray([[1, 2], [3, 4]])).item()
    5
    """
    shape = handle_of(x, "trace").shape
    if len(shape) < 2:
        raise ShapeError(f"trace: x must be a matrix or a stack of them, got shape {shape}")
    return reduce_sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


@guarded
def cross(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The cross products of vectors of three elements along an axis; other axes broadcast.

    Args:
        x1, x2: tensors; promoted to one numeric dtype.
        axis: of the vectors, in the result; a negative one counts from the end of each.

    Raises:
        ShapeError: a vector has not three elements.

    >>> import ingle.tensor as it
    >>> it.linalg.cross(it.asarray([1, 0, 0]), it.asarray([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    a, b = promote_tensors("cross", ("x1", x1), ("x2", x2))
    if a.dtype.kind not in NUMERIC:
        raise DTypeError(f"cross: x1 must be numbers, got {a.dtype}; cast first with x.astype(...)")
    ndim = max(a.ndim, b.ndim)
    back = normalize_axis(axis, ndim, "cross") - ndim
    if any(x.ndim < -back or x.shape[back] != 3 for x in (a, b)):
        raise ShapeError(
            f"cross: vectors along axis {axis} of {a.shape} and {b.shape} must have 3 elements"
        )
    broadcast_shapes("cross", a.shape, b.shape, arguments=("x1", "x2"))
    (a0, a1, a2), (b0, b1, b2) = (unstack(x, axis=back) for x in (a, b))
    return stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=back)
