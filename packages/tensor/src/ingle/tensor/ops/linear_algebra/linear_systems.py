"""Systems of linear equations and inverse matrices: solve, inv."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, promote, run1, run2, wrap
from ...errors import ShapeError
from ...operation import Operation
from ...sample import Draw, Sample
from .._batching import solve_batch
from .._guarding import guarded
from .._rules import broadcast_shapes, sum_to
from ..movement.shapes import reshape
from ._matrices import (
    DECOMPOSITION,
    adjoint,
    check_dtype,
    same_rule,
    sample_matrix,
    square_matrices,
)
from .products import matrix_transpose

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def solve(x1: TensorLike, x2: TensorLike, /, *, left: bool = True) -> Tensor:
    """The solution `x` of `x1 @ x = x2` for each matrix of a stack.

    Args:
        x1: square matrices of full rank, `(..., m, m)`.
        x2: one vector `(m,)`, or matrices `(..., m, k)` whose columns are the right-hand sides;
            leading axes broadcast.
        left: whether `x1` stands on the left. If not, `x @ x1 = x2` is solved, for one vector or
            the rows of matrices `(..., k, m)`.

    Raises:
        LinearAlgebraError: a matrix is singular.

    >>> import ingle.tensor as it
    >>> it.linalg.solve(it.asarray([[2.0, 0.0], [0.0, 4.0]]), it.asarray([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    a = square_matrices("solve", x1, "x1")
    b = handle_of(x2, "solve", "x2")
    if not left:
        turned = matrix_transpose(wrap(b)) if len(b.shape) > 1 else wrap(b)
        out = solve(matrix_transpose(wrap(a)), turned)
        return matrix_transpose(out) if len(b.shape) > 1 else out
    if not b.shape:
        raise ShapeError("solve: x2 must be a vector or a stack of matrices, got a 0-d tensor")
    right = x2 if len(b.shape) > 1 else reshape(x2, (*b.shape, 1))
    out = run2(_SOLVE, *promote("solve", ("x1", wrap(a)), ("x2", right)))
    return out if len(b.shape) > 1 else reshape(out, out.shape[:-1])


def _solve_rule(x1: Aval, x2: Aval) -> Aval:
    check_dtype("solve", x1)
    if x1.shape[-1] != x2.shape[-2]:
        raise ShapeError(
            f"solve: x2 must have {x1.shape[-1]} rows, as x1 {x1.shape} has columns, got {x2.shape}"
        )
    lead = broadcast_shapes("solve", x1.shape[:-2], x2.shape[:-2], arguments=("x1", "x2"))
    return Aval((*lead, *x2.shape[-2:]), x1.dtype)


def _solve_vjp(
    g: Tensor, x1: Tensor, out: Tensor, x2_aval: Aval, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor]:
    right = solve(adjoint(x1), g)
    left = sum_to(-right @ adjoint(out), x1.shape) if needs[0] else None
    return left, sum_to(right, x2_aval.shape)


def _solve_samples(draw: Draw) -> Iterator[Sample]:
    for a, b in (
        ((3, 3), (3,)), ((5, 5), (5, 2)), ((2, 3, 3), (3, 5)), ((3, 3), (2, 3, 1)),
        ((0, 0), (0, 2)), ((2, 1, 3, 3), (5, 3, 2)),
    ):  # fmt: skip
        left, right = sample_matrix(draw, draw.shape(a)), draw.array(draw.shape(b))
        yield Sample((left, right), condition=16)
    rows = draw.array(draw.shape((2, 3)))
    matrix = sample_matrix(draw, (rows.shape[-1], rows.shape[-1]))
    yield Sample((matrix, rows), {"left": False}, condition=16)


def _reference(x1: Any, x2: Any, left: bool = True) -> Any:
    return np.linalg.solve(x1, x2) if left else np.linalg.solve(x1.mT, x2.mT).mT


_SOLVE = Operation(
    "solve",
    tensors=("x1", "x2"),
    rule=_solve_rule,
    traits=DECOMPOSITION,
    vjp={("x1", "x2"): _solve_vjp},
    batch=solve_batch,
    public=solve,
    samples=_solve_samples,
    reference=_reference,
).op()


def inv(x: TensorLike, /) -> Tensor:
    """The inverse of each matrix of a stack. For `inv(a) @ b` use `solve(a, b)`.

    Raises:
        LinearAlgebraError: a matrix is singular.

    >>> import ingle.tensor as it
    >>> it.linalg.inv(it.asarray([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return run1(_INV, square_matrices("inv", x))


def _inv_vjp(g: Tensor, out: Tensor) -> Tensor:
    transposed = adjoint(out)
    return -transposed @ g @ transposed


def _inv_samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((1, 1), (5, 5), (2, 3, 3), (0, 0), (0, 3, 3)):
        yield Sample((sample_matrix(draw, draw.shape(shape)),), condition=16)


_INV = Operation(
    "inv",
    tensors=("x",),
    rule=partial(same_rule, "inv"),
    traits=DECOMPOSITION,
    vjp={"x": _inv_vjp},
    batch=(),
    public=inv,
    samples=_inv_samples,
    reference=np.linalg.inv,
).op()
