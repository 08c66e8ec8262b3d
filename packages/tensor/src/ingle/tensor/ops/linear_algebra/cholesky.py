"""The Cholesky decomposition of positive definite matrices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import TensorLike, run1, wrap
from ...operation import Operation
from ...sample import Draw, Sample
from .._guarding import guarded
from ..movement.triangular import eye
from ._matrices import (
    DECOMPOSITION,
    adjoint,
    hermitian_part,
    lower_half,
    same_rule,
    sample_hermitian,
    square_matrices,
)
from .triangular_systems import solve_triangular

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def cholesky(x: TensorLike, /, *, upper: bool = False) -> Tensor:
    """The lower triangular `l` with `l @ conj(l).mT == x`, for each matrix of a stack.

    Args:
        x: Hermitian, positive definite matrices. Of others the Hermitian part
            `(x + conj(x).mT) / 2` is decomposed, so that gradients are Hermitian too.
        upper: whether to return the upper triangular `conj(l).mT` instead.

    Raises:
        LinearAlgebraError: a matrix is not positive definite.

    >>> import ingle.tensor as it
    >>> it.linalg.cholesky(it.asarray([[4.0, 2.0], [2.0, 2.0]])).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    lower = run1(_CHOLESKY, hermitian_part(square_matrices("cholesky", x))._handle)
    return adjoint(lower) if upper else lower


def _vjp(g: Tensor, out: Tensor) -> Tensor:
    """Murray, Differentiation of the Cholesky decomposition (2016), with adjoints."""
    transposed = adjoint(out)
    half = lower_half(transposed @ g)
    left = solve_triangular(transposed, half + adjoint(half), upper=True)
    return adjoint(solve_triangular(transposed, adjoint(left), upper=True)) * 0.5


def _samples(draw: Draw) -> Iterator[Sample]:
    for shape, kwargs in (
        ((1, 1), {}), ((5, 5), {}), ((3, 3), {"upper": True}), ((2, 3, 3), {}), ((0, 0), {}),
    ):  # fmt: skip
        yield Sample((sample_hermitian(draw, draw.shape(shape)),), kwargs, condition=16)


def _reference(x: Any, upper: bool = False) -> Any:
    lower = np.linalg.cholesky((x + np.conj(x).mT) / 2)
    return np.conj(lower).mT if upper else lower


_CHOLESKY = Operation(
    "cholesky",
    tensors=("x",),
    rule=partial(same_rule, "cholesky"),
    traits=DECOMPOSITION,
    vjp={"x": _vjp},
    batch=(),
    public=cholesky,
    samples=_samples,
    reference=_reference,
).op()


@guarded
def cholesky_solve(x1: TensorLike, x2: TensorLike, /, *, upper: bool = False) -> Tensor:
    """The solution `x` of `a @ x = x2` from what `cholesky(a)` returned.

    Args:
        x1: triangular matrices `(..., m, m)` of `cholesky`; the other triangle is not looked at.
        x2: one vector `(m,)`, or matrices `(..., m, k)`; leading axes broadcast.
        upper: whether `x1` are upper triangles.

    >>> import ingle.tensor as it
    >>> factor = it.linalg.cholesky(it.asarray([[4.0, 2.0], [2.0, 2.0]]))
    >>> it.linalg.cholesky_solve(factor, it.asarray([6.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    cure = "; the factor comes first, as in SciPy: cholesky_solve(factor, b)"
    factor = wrap(square_matrices("cholesky_solve", x1, "x1", cure))
    lower, raised = (adjoint(factor), factor) if upper else (factor, adjoint(factor))
    return solve_triangular(raised, solve_triangular(lower, x2, upper=False), upper=True)


@guarded
def cholesky_inverse(x: TensorLike, /, *, upper: bool = False) -> Tensor:
    """The inverse of the matrices `a` of which `cholesky(a)` returned `x`.

    Args:
        x: triangular matrices `(..., m, m)`; the other triangle is not looked at.
        upper: whether they are upper triangles.

    >>> import ingle.tensor as it
    >>> it.linalg.cholesky_inverse(it.asarray([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [[0.25, 0.0], [0.0, 1.0]]
    """
    factor = wrap(square_matrices("cholesky_inverse", x))
    one = eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    return cholesky_solve(factor, one, upper=upper)
