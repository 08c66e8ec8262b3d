"""Systems with more or fewer equations than unknowns, condition numbers, chains of products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...dispatch import Operand, TensorLike, promote_tensors, wrap
from ...errors import OperandError, ShapeError
from .._guarding import guarded
from ..elementwise.complex import real
from ..elementwise.powers import square
from ..elementwise.where import where
from ..movement.shapes import reshape
from ..reductions.basic import max, min, sum
from ._matrices import matrices, square_matrices
from .linear_systems import inv
from .norms import matrix_norm
from .products import matmul
from .pseudo_inverse import pinv, rank_of
from .singular_values import svdvals

if TYPE_CHECKING:
    from ...tensor import Tensor

_INF = float("inf")


class LeastSquares(NamedTuple):
    """The solution, what it leaves over of each right-hand side, and what is known of `x1`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@guarded
def lstsq(x1: TensorLike, x2: TensorLike, /, *, rtol: Operand | None = None) -> LeastSquares:
    """The `x` for which `x1 @ x - x2` has the least norm, and of several such the shortest.

    Gradients flow through the solution and the residuals, and are those at constant rank.

    Args:
        x1: matrices of shape `(..., m, n)`, of any rank.
        x2: one vector `(m,)`, or matrices `(..., m, k)` whose columns are right-hand sides; leading
            axes broadcast.
        rtol: singular values up to `rtol` times the largest count as zero: a number, or one for
            each matrix; `max(m, n)` times the precision of the dtype if not given.

    Returns:
        The solution `(..., n, k)` (`(..., n)` for a vector), the sum of squares that is left of
        each right-hand side `(..., k)` (`(...)`), the rank `(...)` and the singular values
        `(..., min(m, n))` of `x1`.

    Raises:
        ShapeError: `x2` has other rows than `x1`.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> found = it.linalg.lstsq(x, it.asarray([3.0, 4.0, 5.0]))
    >>> found.solution.tolist(), found.residuals.item(), found.rank.item()
    ([3.0, 2.0], 25.0, 2)
    """
    matrices("lstsq", x1, "x1")
    a, b = promote_tensors("lstsq", ("x1", x1), ("x2", x2))
    a, b = (wrap(matrices("lstsq", a, "x1")), b * 1.0 if not b.dtype.is_inexact else b)
    right = reshape(b, (*b.shape, 1)) if b.ndim == 1 else b
    if b.ndim == 0 or right.shape[-2] != a.shape[-2]:
        raise ShapeError(
            f"lstsq: x2 must have {a.shape[-2]} rows, as x1 {a.shape} has, got shape {b.shape}"
        )
    solution = pinv(a, rtol=rtol) @ right
    left = matmul(a, solution) - right
    # A norm has no slope where it is zero; a square has.
    squares = square(left) if not left.dtype.is_complex else real(left * left.conj())
    residuals = sum(squares, axis=-2)
    if b.ndim == 1:
        solution, residuals = solution[..., 0], residuals[..., 0]
    values = svdvals(a)
    return LeastSquares(solution, residuals, rank_of(values, a, rtol), values)


@guarded
def cond(x: TensorLike, /, *, ord: float | str | None = None) -> Tensor:
    """How much a matrix may enlarge relative errors: the product of its norm and its inverse's.

    Args:
        x: matrices of shape `(..., m, n)`, square unless `ord` is 2 or -2.
        ord: a norm of `matrix_norm`; 2 if not given: the ratio of the largest singular value to the
            smallest, which is infinite for singular matrices.

    Raises:
        LinearAlgebraError: a matrix is singular, and `ord` is not 2 or -2.

    >>> import ingle.tensor as it
    >>> it.linalg.cond(it.asarray([[4.0, 0.0], [0.0, 2.0]])).item()
    2.0
    """
    if ord is None or ord in (2, -2):
        values = svdvals(wrap(matrices("cond", x)))
        if not values.shape[-1]:
            raise ShapeError(
                f"cond: x must not be empty, got shape {wrap(matrices('cond', x)).shape}"
            )
        large, small = max(values, axis=-1), min(values, axis=-1)
        if ord == -2:
            return small / where(large == 0, 1, large)
        singular = small == 0
        return where(singular, _INF, large / where(singular, 1, small))
    a = wrap(square_matrices("cond", x))
    return matrix_norm(a, ord=ord) * matrix_norm(inv(a), ord=ord)


@guarded
def multi_dot(xs: Sequence[TensorLike], /) -> Tensor:
    """The product of several matrices, in the order of multiplications that takes the fewest.

    Args:
        xs: at least one matrix; the first and the last may be vectors, a row and a column.

    Raises:
        OperandError: `xs` is no list of tensors.
        ShapeError: sizes that do not fit one another.

    >>> import ingle.tensor as it
    >>> row, column = it.ones((1, 100)), it.ones((100, 1))
    >>> it.linalg.multi_dot([column, row, column]).shape
    (100, 1)
    """
    if not isinstance(xs, (list, tuple)) or not xs:
        raise OperandError(f"multi_dot: xs must be a list of tensors, got {type(xs).__name__}")
    tensors = promote_tensors("multi_dot", *((f"xs[{i}]", x) for i, x in enumerate(xs)))
    last = len(tensors) - 1
    for i, x in enumerate(tensors):
        if x.ndim != 2 and not (x.ndim == 1 and i in (0, last)):
            raise ShapeError(
                f"multi_dot: xs[{i}] must be a matrix{' or a vector' if i in (0, last) else ''}, "
                f"got shape {x.shape}"
            )
    if last == 0:
        return tensors[0]
    is_row, is_column = tensors[0].ndim == 1, tensors[-1].ndim == 1
    if is_row:
        tensors[0] = reshape(tensors[0], (1, -1))
    if is_column:
        tensors[-1] = reshape(tensors[-1], (-1, 1))
    sizes = [x.shape[0] for x in tensors] + [tensors[-1].shape[1]]
    for i, x in enumerate(tensors[:-1]):
        if x.shape[1] != sizes[i + 1]:
            raise ShapeError(
                f"multi_dot: xs[{i}] has {x.shape[1]} columns and xs[{i + 1}] {sizes[i + 1]} rows; "
                f"these must be as many, got shapes {x.shape} and {tensors[i + 1].shape}"
            )
    out = _multiplied(tensors, _cuts(sizes), 0, last)
    shape = [n for n, kept in zip(out.shape, (not is_row, not is_column), strict=True) if kept]
    return reshape(out, tuple(shape))


def _cuts(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """For each run of matrices where it is best divided (Cormen et al., Algorithms, 15.2)."""
    count = len(sizes) - 1
    cost: dict[tuple[int, int], int] = {(i, i): 0 for i in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            each = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], cuts[i, j] = sorted(each)[0]
    return cuts


def _multiplied(xs: Sequence[Tensor], cuts: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return xs[i]
    k = cuts[i, j]
    return matmul(_multiplied(xs, cuts, i, k), _multiplied(xs, cuts, k + 1, j))
