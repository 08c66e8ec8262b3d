"""The decomposition of matrices into triangles by elimination with pivots, and what it solves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, run, run1, wrap
from ...dtypes import int32, int64
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import MOST, as_size, broadcast_shapes
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.comparison import equal
from ..indexing.gathering import take_along_axis
from ..movement.axes import expand_dims
from ..movement.joining import concat
from ..movement.shapes import broadcast_to, reshape
from ..movement.slicing import slice_axis
from ..movement.triangular import eye, tril, triu
from ..sorting.sort import argsort
from ._matrices import DECOMPOSITION, adjoint, check_dtype, matrices, sample_matrix, square_matrices
from .triangular_systems import solve_triangular

if TYPE_CHECKING:
    from ...tensor import Tensor


class LUFactors(NamedTuple):
    """What `lu_solve` takes: both triangles in one matrix, and the rows that were swapped."""

    LU: Tensor
    pivots: Tensor


class PLU(NamedTuple):
    """`x == P @ L @ U`: a permutation, ones on the diagonal of `L`, zeros below that of `U`."""

    P: Tensor
    L: Tensor
    U: Tensor


def elimination_reference(x: Any, pivot: bool = True) -> Any:
    """Plain elimination, a row at a time."""
    m, n = x.shape[-2:]
    wide = np.array(x, np.result_type(x, np.float64))
    flat = wide.reshape(int(np.prod(x.shape[:-2])), m, n)
    pivots = np.zeros((len(flat), min(m, n)), np.int32)
    for a, swaps in zip(flat, pivots, strict=True):
        for i in range(min(m, n)):
            column = np.abs(a[i:, i].real) + np.abs(a[i:, i].imag)
            swaps[i] = i + np.argmax(column) if pivot else i
            a[[i, swaps[i]]] = a[[swaps[i], i]]
            if a[i, i] != 0:
                a[i + 1 :, i] /= a[i, i]
            a[i + 1 :, i + 1 :] -= np.outer(a[i + 1 :, i], a[i, i + 1 :])
    return flat.reshape(x.shape), pivots.reshape(*x.shape[:-2], min(m, n))


@guarded
def lu_factor(x: TensorLike, /, *, pivot: bool = True) -> LUFactors:
    """The triangles of `lu` in one matrix, and the pivots, as LAPACK has them.

    The upper triangle with the diagonal is `U`; below it is `L` without its ones. A singular matrix
    has a zero on the diagonal of `U`. Gradients need the leading square of full rank.

    Args:
        x: matrices `(..., m, n)`.
        pivot: whether rows are swapped. Without, a zero on the diagonal on the way makes inf or
            NaN, and a small one large errors.

    Returns:
        The matrices, and pivots `(..., min(m, n))` in int32: in step i, row i was swapped with row
        `pivots[i]`. Both count from 0, as in SciPy; LAPACK's and PyTorch's are larger by 1.

    >>> import ingle.tensor as it
    >>> packed, pivots = it.linalg.lu_factor(it.asarray([[1.0, 3.0], [2.0, 4.0]]))
    >>> packed.tolist(), pivots.tolist()
    ([[2.0, 4.0], [0.5, 1.0]], [1, 1])
    """
    return LUFactors(*run(_LU_FACTOR.op(pivot=pivot), (matrices("lu_factor", x),)))


def _rule(x: Aval, *, pivot: bool) -> tuple[Aval, Aval]:
    check_dtype("lu_factor", x)
    return x, Aval((*x.shape[:-2], min(x.shape[-2:])), int32)


def _vjp(g: tuple[Any, Any], lu: Tensor, pivots: Tensor) -> Tensor | None:
    """Differentiates `x[order] == L @ U`, whose order is constant where no pivots are equal.

    With d the part of `inv(L) @ dx[order] @ inv(U)` in the square, dL = L @ (d below the diagonal)
    and dU = (d on and above it) @ U; what a tall or wide matrix has beyond the square follows from
    these by multiplication. This is the adjoint of that.
    """
    if g[0] is None:
        return None
    m, n = lu.shape[-2:]
    k = min(m, n)
    square, g_square = (slice_axis(slice_axis(x, -1, 0, k), -2, 0, k) for x in (lu, g[0]))
    upper, g_upper = triu(square), triu(g_square)
    lower = tril(square, k=-1) + eye(k, dtype=lu.dtype, device=lu.device)
    below, above = adjoint(lower) @ tril(g_square, k=-1), g_upper @ adjoint(upper)
    rest: Tensor | None = None
    if m > n:
        tail, g_tail = (slice_axis(x, -2, k, m - k) for x in (lu, g[0]))
        above = above - adjoint(tail) @ g_tail
        rest = adjoint(solve_triangular(upper, adjoint(g_tail), upper=True))
    elif n > m:
        tail, g_tail = (slice_axis(x, -1, k, n - k) for x in (lu, g[0]))
        below = below - g_tail @ adjoint(tail)
        rest = solve_triangular(adjoint(lower), g_tail, upper=True, unitriangular=True)
    inner = tril(below, k=-1) + triu(above)
    out = solve_triangular(adjoint(lower), inner, upper=True, unitriangular=True)
    out = adjoint(solve_triangular(upper, adjoint(out), upper=True))
    if rest is not None:
        out = concat([out, rest], axis=-2 if m > n else -1)
    return _rows(out, argsort(lu_permutation(pivots, m), axis=-1))


def _samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((3, 3), (5, 3), (3, 5), (2, 3, 3), (2, 1, 3, 2), (1, 1), (0, 3), (3, 0)):
        yield Sample((sample_matrix(draw, shape),), condition=32, magnitude=2.5)
    x = draw.array((3, 3), low=-0.3, high=0.3)
    if draw.dtype.is_inexact:
        x = np.asarray(x + np.eye(3), draw.dtype.dtype)
        yield Sample((x,), {"pivot": False}, condition=32, magnitude=2.5)


_LU_FACTOR = Operation(
    "lu_factor",
    tensors=("x",),
    statics=("pivot",),
    outputs=("lu", "pivots"),
    rule=_rule,
    traits=DECOMPOSITION,
    vjp={"x": _vjp},
    batch=(),
    public=lu_factor,
    samples=_samples,
    reference=elimination_reference,
)


@guarded
def lu(x: TensorLike, /, *, pivot: bool = True) -> PLU:
    """Each matrix as `P @ L @ U`, with partial pivoting.

    Args:
        x: matrices `(..., m, n)`. `L` is `(..., m, k)` and `U` `(..., k, n)`, k the lesser of both.
        pivot: whether rows are swapped; see `lu_factor`. Without, `P` is the identity.

    >>> import ingle.tensor as it
    >>> p, l, u = it.linalg.lu(it.asarray([[1.0, 3.0], [2.0, 4.0]]))
    >>> p.tolist(), l.tolist(), u.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.5, 1.0]], [[2.0, 4.0], [0.0, 1.0]])
    """
    packed, pivots = run(_LU_FACTOR.op(pivot=pivot), (matrices("lu", x),))
    m = packed.shape[-2]
    order = expand_dims(lu_permutation(pivots, m), axis=-2)
    chosen = equal(order, reshape(arange(m, device=packed.device), (m, 1)))
    return PLU(astype(chosen, packed.dtype), *_triangles(packed))


def lu_permutation(pivots: TensorLike, rows: int, /) -> Tensor:
    """The order of rows that a sequence of swaps leads to: `x[permutation] == L @ U`.

    Args:
        pivots: integers `(..., k)` of `lu_factor`.
        rows: how many rows the matrix has.

    Returns:
        Row numbers `(..., rows)` in int64.

    >>> import ingle.tensor as it
    >>> it.linalg.lu_permutation(it.asarray([2, 2, 2]), 3).tolist()
    [2, 0, 1]
    """
    handle = handle_of(pivots, "lu_permutation", "pivots")
    return run1(_LU_PERMUTATION.op(rows=as_size(rows, "lu_permutation", "rows", most=MOST)), handle)


def _permutation_rule(pivots: Aval, *, rows: int) -> Aval:
    if not pivots.dtype.is_integer:
        raise DTypeError(
            f"lu_permutation: pivots must be integers, got {pivots.dtype}; lu_factor returns them"
        )
    if not pivots.shape or pivots.shape[-1] > rows:
        raise ShapeError(
            f"lu_permutation: pivots must have shape (..., k) with k at most rows={rows}, got "
            f"{pivots.shape}"
        )
    return Aval((*pivots.shape[:-1], rows), int64)


def _permutation_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_integer:
        for lead, k, rows in (((), 3, 3), ((2,), 2, 5), ((2, 3), 5, 5), ((), 0, 2), ((0,), 2, 2)):
            swaps = np.arange(k) + draw.rng.integers(0, rows - k + 1, (*lead, k))
            yield Sample((np.asarray(swaps, draw.dtype.dtype), rows), gradient=False, exact=True)


def _permutation_reference(pivots: Any, rows: int) -> Any:
    out = np.zeros((*pivots.shape[:-1], rows), np.int64)
    for place in np.ndindex(pivots.shape[:-1]):
        order = list(range(rows))
        for i, j in enumerate(pivots[place]):
            order[i], order[int(j)] = order[int(j)], order[i]
        out[place] = order
    return out


_LU_PERMUTATION = Operation(
    "lu_permutation",
    tensors=("pivots",),
    statics=("rows",),
    rule=_permutation_rule,
    traits=Traits("opaque"),
    vjp={},
    batch=(),
    public=lu_permutation,
    samples=_permutation_samples,
    reference=_permutation_reference,
)


@guarded
def lu_solve(
    packed: TensorLike, pivots: TensorLike, x2: TensorLike, /, *, adjoint: bool = False
) -> Tensor:
    """The solution of `x1 @ x = x2` from what `lu_factor(x1)` returned, for several `x2` in turn.

    Args:
        packed: square matrices `(..., m, m)` of `lu_factor`.
        pivots: its pivots `(..., m)`.
        x2: one vector `(m,)`, or matrices `(..., m, k)`; leading axes broadcast.
        adjoint: whether to solve `conj(x1).mT @ x = x2` instead.

    Raises:
        ShapeError: sizes that do not fit one another.

    >>> import ingle.tensor as it
    >>> packed, pivots = it.linalg.lu_factor(it.asarray([[1.0, 3.0], [2.0, 4.0]]))
    >>> it.linalg.lu_solve(packed, pivots, it.asarray([4.0, 6.0])).tolist()
    [1.0, 1.0]
    """
    cure = "; the factors come first, as in SciPy: lu_solve(packed, pivots, b)"
    factors = wrap(square_matrices("lu_solve", packed, "packed", cure))
    m = factors.shape[-1]
    given = handle_of(pivots, "lu_solve", "pivots")
    right = handle_of(x2, "lu_solve", "x2")
    if given.shape[-1:] != (m,) or not right.shape or right.shape[-2:][0] != m:
        raise ShapeError(
            f"lu_solve: packed of shape {factors.shape} needs pivots (..., {m}) and x2 ({m},) or "
            f"(..., {m}, k), got {given.shape} and {right.shape}"
        )
    columns = x2 if len(right.shape) > 1 else reshape(x2, (m, 1))
    order = lu_permutation(pivots, m)
    out = _transposed(factors, order, columns) if adjoint else _forward(factors, order, columns)
    return out if len(right.shape) > 1 else reshape(out, out.shape[:-1])


def _forward(packed: Tensor, order: Tensor, columns: TensorLike) -> Tensor:
    below = solve_triangular(packed, _rows(columns, order), upper=False, unitriangular=True)
    return solve_triangular(packed, below, upper=True)


def _transposed(packed: Tensor, order: Tensor, columns: TensorLike) -> Tensor:
    flipped = adjoint(packed)
    above = solve_triangular(flipped, columns, upper=False)
    out = solve_triangular(flipped, above, upper=True, unitriangular=True)
    return _rows(out, argsort(order, axis=-1))


def _rows(x: Any, order: Tensor) -> Tensor:
    """Rows of each matrix in another order; leading axes broadcast."""
    lead = broadcast_shapes("lu_solve", x.shape[:-2], order.shape[:-1])
    whole = (*lead, *x.shape[-2:])
    indices = broadcast_to(expand_dims(order, axis=-1), whole)
    return take_along_axis(broadcast_to(x, whole), indices, axis=-2)


def _triangles(packed: Tensor) -> tuple[Tensor, Tensor]:
    m, n = packed.shape[-2:]
    k = min(m, n)
    one = eye(m, k, dtype=packed.dtype, device=packed.device)
    return tril(slice_axis(packed, -1, 0, k), k=-1) + one, triu(slice_axis(packed, -2, 0, k))
