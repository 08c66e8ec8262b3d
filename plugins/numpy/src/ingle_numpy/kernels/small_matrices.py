"""Stacks of many small matrices: an element of all of them after the other.

NumPy copies each matrix of a stack into LAPACK, which for three rows takes longer than the
arithmetic. Here the stack is the last axis, so that each step is one operation on a long row of
memory, in double precision, as NumPy takes for LAPACK. Which way is taken follows from shapes,
dtypes and whether all elements are finite.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MANY = 512
"""Matrices from which on the steps for all of them cost less than a call of LAPACK for each."""
COFACTORS = 3
"""Rows up to which determinants and inverses go by cofactors."""
CHOLESKY = 6
"""Rows up to which Cholesky's decomposition goes by steps for all matrices."""


def by_cofactors(x: Array) -> bool:
    """Whether `det`, `inv` and `solve` here serve a stack.

    Cofactors of single precision lose nothing: double precision holds their products.
    """
    small = x.dtype == np.float32 and 1 < x.shape[-1] <= COFACTORS and count(x) >= MANY
    return small and bool(np.isfinite(x).all())


def by_steps(x: Array) -> bool:
    """Whether `cholesky` here serves a stack."""
    return x.dtype.kind == "f" and 0 < x.shape[-1] <= CHOLESKY and count(x) >= MANY


def count(x: Array) -> int:
    """How many matrices a stack has."""
    return math.prod(x.shape[:-2])


def det(x: Array) -> Array:
    """The determinant of each matrix."""
    return _adjugate(x)[1].astype(x.dtype).reshape(x.shape[:-2])


def inv(x: Array) -> Array:
    """The inverse of each matrix.

    Raises:
        numpy.linalg.LinAlgError: a matrix is singular.
    """
    return matrices_first(_inverse(x), x.shape, x.dtype)


def solve(x: Array, b: Array) -> Array:
    """The solutions of `x @ solution = b`, for stacks that broadcast.

    Raises:
        numpy.linalg.LinAlgError: a matrix is singular.
    """
    lead = np.broadcast_shapes(x.shape[:-2], b.shape[:-2])
    left, right = (np.broadcast_to(m, (*lead, *m.shape[-2:])) for m in (x, b))
    inverse, columns = _inverse(left), elements_first(right)
    found = sum(inverse[:, k, None] * columns[k] for k in range(len(columns)))
    return matrices_first(np.asarray(found), right.shape, b.dtype)


def cholesky(x: Array) -> Array:
    """Lower triangles `l` with `l @ l.mT == x`, of which only the lower half is read.

    Raises:
        numpy.linalg.LinAlgError: a matrix is not positive definite.
    """
    a = elements_first(x)
    for j in range(len(a)):
        if not (a[j, j] > 0).all():
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        np.sqrt(a[j, j], out=a[j, j])
        column = a[j + 1 :, j]
        column /= a[j, j]
        a[j + 1 :, j + 1 :] -= column[:, None] * column
        a[:j, j] = 0
    return matrices_first(a, x.shape, x.dtype)


def substitute(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """The solutions of triangular systems, row after row.

    Args:
        a: `(..., n, n)`, of which one triangle is read.
        b: `(..., n, k)`, of as many matrices.
        upper: which triangle.
        unit: whether to take ones for the diagonal.
    """
    n, left, rows = a.shape[-1], elements_first(a), elements_first(b)
    for j in reversed(range(n)) if upper else range(n):
        rest = slice(0, j) if upper else slice(j + 1, n)
        if not unit:
            rows[j] /= left[j, j]
        rows[rest] -= left[rest, j, None] * rows[j]
    return matrices_first(rows, b.shape, b.dtype)


def elements_first(x: Array) -> Array:
    """A stack `(..., m, n)` as a copy of shape `(m, n, count)` in double precision."""
    flat = x.reshape(count(x), *x.shape[-2:]).transpose(1, 2, 0)
    return np.array(flat, np.result_type(x.dtype, np.float64), order="C")


def matrices_first(a: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The stack of a shape and dtype that `elements_first` was given."""
    return np.asarray(a.transpose(2, 0, 1), dtype, order="C").reshape(shape)


def _inverse(x: Array) -> Array:
    adjugate, factor = _adjugate(x)
    if not factor.all():
        raise np.linalg.LinAlgError("Singular matrix")
    return adjugate / factor


def _adjugate(x: Array) -> tuple[Array, Array]:
    """The adjugates of matrices of 2 rows or 3, elements first, and their determinants."""
    a = elements_first(x)
    if len(a) == 2:
        out = np.stack([np.stack([a[1, 1], -a[0, 1]]), np.stack([-a[1, 0], a[0, 0]])])
    else:
        out = np.stack([_cross(a[j - 2], a[j - 1]) for j in range(3)], axis=1)
    return out, np.asarray((a[0] * out[:, 0]).sum(0))


def _cross(x: Array, y: Array) -> Array:
    """Products of vectors `(3, count)`."""
    x1, y1, x2, y2 = x[[1, 2, 0]], y[[1, 2, 0]], x[[2, 0, 1]], y[[2, 0, 1]]
    x1 *= y2
    x2 *= y1
    x1 -= x2
    return x1
