"""Eigenvalues and eigenvectors of any square matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, run, run1
from ...dtypes import complex_dtype
from ...sample import Draw, Sample
from .._rules import conj
from ..elementwise.complex import real
from ..elementwise.where import where
from ..movement.axes import expand_dims
from ..movement.diagonals import diag_embed
from ..movement.triangular import eye
from ..reductions.basic import sum
from ._matrices import adjoint, square_matrices
from ._spectra import values_alone, with_vectors
from .linear_systems import solve

if TYPE_CHECKING:
    from ...tensor import Tensor


class GeneralEigen(NamedTuple):
    """The eigenvalues in no certain order, and the eigenvectors as columns of a matrix."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _samples(view: Any, draw: Draw) -> Iterator[Sample]:
    """Nearly triangular matrices, whose eigenvalues keep their order when rounded otherwise."""
    for shape in ((1, 1), (5, 5), (2, 3, 3), (0, 0)):
        size = draw.shape(shape)
        n = size[-1]
        x = draw.array(size, low=-0.3, high=0.3)
        if draw.dtype.is_inexact:
            steps = np.diag(np.arange(1.0, n + 1))
            x = np.asarray(np.triu(x) + np.tril(x) * 0.1 + steps, draw.dtype.dtype)
        else:
            x = np.asarray(np.triu(np.ones(size)) * np.eye(n), draw.dtype.dtype)
        yield Sample((x,), condition=64, magnitude=5.0, view=view if n else None)
    if draw.dtype.is_floating:
        x = np.asarray([[1.0, -2.0, 0.0], [0.5, 1.0, 0.3], [0.0, 0.2, 3.0]], draw.dtype.dtype)
        yield Sample((x,), condition=64, magnitude=5.0, view=view, label="a pair")


def eig(x: TensorLike, /) -> GeneralEigen:
    """The eigenvalues and eigenvectors of each matrix of a stack: `x @ v == v * w`.

    Both are complex. The vectors have norm 1, and their phases are the library's choice: losses
    must not depend on them. The gradient through eigenvectors is infinite where two eigenvalues are
    equal; a matrix that has not as many independent eigenvectors as rows has no gradient. For
    Hermitian matrices use `eigh`.

    Args:
        x: matrices of shape `(..., n, n)`.

    Returns:
        Eigenvalues `(..., n)` in no certain order, and eigenvectors `(..., n, n)`, one a column.

    Raises:
        LinearAlgebraError: the iteration did not converge.

    >>> import ingle.tensor as it
    >>> values, vectors = it.linalg.eig(it.asarray([[0.0, -1.0], [1.0, 0.0]]))
    >>> sorted(it.imag(values).tolist())
    [-1.0, 1.0]
    """
    return GeneralEigen(*run(_EIG, (square_matrices("eig", x),)))


def _vjp(g: tuple[Any, Any], w: Tensor, v: Tensor, x_aval: Aval) -> Tensor:
    """Boeddeker et al., On the computation of complex-valued gradients (2017), eq. 4.77."""
    along, across = g
    turned = adjoint(v)
    total: Any = 0
    if across is not None:
        one = eye(w.shape[-1], dtype=w.dtype, device=w.device)
        gaps = expand_dims(conj(w), axis=-2) - expand_dims(conj(w), axis=-1)
        # Vectors keep their length, so what a cotangent wants along them does not count.
        along_vectors = real(sum(conj(v) * across, axis=-2, keepdims=True))
        turn = turned @ (across - v * along_vectors)
        total = where(one != 0, 0, turn) / (gaps + one)
    if along is not None:
        total = diag_embed(along) + total
    found = solve(turned, total @ turned)
    return found if x_aval.dtype.is_complex else real(found)


def _without_phases(w: Any, v: Any) -> tuple[Any, Any]:
    return w, v[..., :1, :].conj() * v


_EIG = with_vectors(
    eig,
    dtypes=(complex_dtype, complex_dtype),
    vjp=_vjp,
    samples=_samples,
    view=_without_phases,
    reference=np.linalg.eig,
)


def eigvals(x: TensorLike, /) -> Tensor:
    """The eigenvalues of each matrix of a stack, complex and in no certain order.

    Args:
        x: matrices of shape `(..., n, n)`.

    Raises:
        LinearAlgebraError: the iteration did not converge.

    >>> import ingle.tensor as it
    >>> sorted(it.real(it.linalg.eigvals(it.asarray([[2.0, 1.0], [0.0, 3.0]]))).tolist())
    [2.0, 3.0]
    """
    return run1(_EIGVALS, square_matrices("eigvals", x))


_EIGVALS = values_alone(
    eigvals, _EIG, dtype=complex_dtype, samples=_samples, reference=np.linalg.eigvals
)
