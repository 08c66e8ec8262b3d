"""Systems of equations whose matrix is triangular."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, promote, run2, wrap
from ...errors import ShapeError
from ...operation import Operation
from ...sample import Draw, Sample
from .._batching import Batched, with_axes
from .._guarding import guarded
from .._rules import broadcast_shapes, sum_to
from ..movement.shapes import reshape
from ..movement.triangular import eye, tril, triu
from ._matrices import DECOMPOSITION, adjoint, check_dtype, sample_matrix, square_matrices
from .linear_systems import solve
from .products import matrix_transpose

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def solve_triangular(
    x1: TensorLike, x2: TensorLike, /, *, upper: bool, unitriangular: bool = False,
    left: bool = True,
) -> Tensor:  # fmt: skip
    """The solution `x` of `x1 @ x = x2` for triangular matrices.

    Args:
        x1: matrices `(..., m, m)`, of which only one triangle is looked at.
        x2: one vector `(m,)`, or matrices `(..., m, k)` whose columns are the right-hand sides;
            leading axes broadcast.
        upper: which triangle.
        unitriangular: whether to take ones for the diagonal, whatever stands there.
        left: whether `x1` stands on the left. If not, `x @ x1 = x2` is solved, for one vector or
            matrices `(..., k, m)` whose rows are the right-hand sides.

    Raises:
        LinearAlgebraError: there is a zero on a diagonal.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[2.0, 9.0], [1.0, 4.0]])
    >>> it.linalg.solve_triangular(x, it.asarray([2.0, 5.0]), upper=False).tolist()
    [1.0, 1.0]
    """
    name = "solve_triangular"
    a = square_matrices(name, x1, "x1")
    b = handle_of(x2, name, "x2")
    if not b.shape:
        raise ShapeError(f"{name}: x2 must be a vector or a stack of matrices, got a 0-d tensor")
    if not left:
        turned = matrix_transpose(wrap(b)) if len(b.shape) > 1 else wrap(b)
        out = solve_triangular(
            matrix_transpose(wrap(a)), turned, upper=not upper, unitriangular=unitriangular
        )
        return matrix_transpose(out) if len(b.shape) > 1 else out
    right = x2 if len(b.shape) > 1 else reshape(x2, (*b.shape, 1))
    op = _SOLVE_TRIANGULAR.op(upper=bool(upper), unitriangular=bool(unitriangular))
    out = run2(op, *promote(name, ("x1", wrap(a)), ("x2", right)))
    return out if len(b.shape) > 1 else reshape(out, out.shape[:-1])


def _rule(x1: Aval, x2: Aval, *, upper: bool, unitriangular: bool) -> Aval:
    check_dtype("solve_triangular", x1)
    if x1.shape[-1] != x2.shape[-2]:
        raise ShapeError(
            f"solve_triangular: x2 must have {x1.shape[-1]} rows, as x1 {x1.shape} has, got "
            f"{x2.shape}"
        )
    shapes = x1.shape[:-2], x2.shape[:-2]
    lead = broadcast_shapes("solve_triangular", *shapes, arguments=("x1", "x2"))
    return Aval((*lead, *x2.shape[-2:]), x1.dtype)


def _triangle(x: Tensor, upper: bool, strict: bool) -> Tensor:
    return triu(x, k=int(strict)) if upper else tril(x, k=-int(strict))


def _body(x1: Tensor, x2: Tensor, *, upper: bool, unitriangular: bool) -> Tensor:
    matrix = _triangle(x1, upper, unitriangular)
    if unitriangular:
        matrix = matrix + eye(x1.shape[-1], dtype=x1.dtype, device=x1.device)
    return solve(matrix, x2)


def _vjp(
    g: Tensor, x1: Tensor, out: Tensor, x2_aval: Aval, needs: tuple[bool, bool], upper: bool,
    unitriangular: bool,
) -> tuple[Tensor | None, Tensor]:  # fmt: skip
    right = solve_triangular(adjoint(x1), g, upper=not upper, unitriangular=unitriangular)
    left = None
    if needs[0]:
        left = _triangle(sum_to(-right @ adjoint(out), x1.shape), upper, unitriangular)
    return left, sum_to(right, x2_aval.shape)


def _batch(batched: Batched, x1: Tensor, x2: Tensor, **statics: bool) -> Tensor:
    ndim = max(x1.ndim - batched[0], x2.ndim - batched[1])
    a, b = [with_axes(x, ndim) if f else x for x, f in zip((x1, x2), batched, strict=True)]
    return solve_triangular(a, b, **statics)


def _samples(draw: Draw) -> Iterator[Sample]:
    for a, b, upper in (
        ((3, 3), (3,), True), ((5, 5), (5, 2), False), ((2, 3, 3), (3, 5), False),
        ((0, 0), (0, 2), True), ((2, 1, 3, 3), (5, 3, 2), True),
    ):  # fmt: skip
        left, right = _well_conditioned(draw, draw.shape(a)), draw.array(draw.shape(b))
        yield Sample((left, right), {"upper": upper}, condition=16)
        yield Sample(
            (left, right), {"upper": upper, "unitriangular": True}, condition=32, magnitude=8.0
        )
    matrix, rows = _well_conditioned(draw, draw.shape((3, 3))), draw.array(draw.shape((2, 3)))
    yield Sample((matrix, rows), {"upper": True, "left": False}, condition=16)


def _well_conditioned(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    # Both triangles are full, to show that only one counts.
    if not draw.dtype.is_inexact:
        return sample_matrix(draw, shape)
    noise = draw.array(shape, low=-0.25, high=0.25)
    return np.asarray(noise + np.eye(shape[-1]), draw.dtype.dtype)


def _reference(
    x1: Any, x2: Any, *, upper: bool, unitriangular: bool = False, left: bool = True
) -> Any:
    if not left:
        return _reference(x1.mT, x2.mT, upper=not upper, unitriangular=unitriangular).mT
    matrix = np.triu(x1, int(unitriangular)) if upper else np.tril(x1, -int(unitriangular))
    return np.linalg.solve(matrix + np.eye(x1.shape[-1]) if unitriangular else matrix, x2)


_SOLVE_TRIANGULAR = Operation(
    "solve_triangular",
    tensors=("x1", "x2"),
    statics=("upper", "unitriangular"),
    rule=_rule,
    traits=DECOMPOSITION,
    vjp={("x1", "x2"): _vjp},
    body=_body,
    batch=_batch,
    public=solve_triangular,
    samples=_samples,
    reference=_reference,
)
