"""Decompositions and systems of equations, by LAPACK; of many small matrices by steps for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.errors import LinearAlgebraError
from ingle.tensor.operation import Op

from . import small_matrices

Kernel = Callable[..., Any]


def explained(function: Kernel, hint: str) -> Kernel:
    """A kernel that says which operation failed, and why that may be."""

    def kernel(op: Op, *arrays: np.ndarray) -> Any:
        try:
            found = function(*arrays, **op.attributes)
        except np.linalg.LinAlgError as error:
            names = zip(op.operation.tensors, arrays, strict=True)
            given = ", ".join(f"{name} of shape {a.shape}" for name, a in names)
            raise LinearAlgebraError(f"{op.operation.name}: {error}, got {given}; {hint}") from None
        return tuple(found) if isinstance(found, tuple) else found

    return kernel


def _eig(x: np.ndarray) -> Any:
    # Where no eigenvalue has an imaginary part, NumPy leaves it out.
    return tuple([_as_complex(part, x) for part in np.linalg.eig(x)])


def _eigvals(x: np.ndarray) -> Any:
    return _as_complex(np.linalg.eigvals(x), x)


def _as_complex(part: np.ndarray, x: np.ndarray) -> np.ndarray:
    return part.astype(np.result_type(x.dtype, np.complex64), copy=False)


def _eigh(x: np.ndarray) -> Any:
    refuse_endless("Eigenvalues", np.tril(x))
    return np.linalg.eigh(x)


def _eigvalsh(x: np.ndarray) -> Any:
    refuse_endless("Eigenvalues", np.tril(x))
    return np.linalg.eigvalsh(x)


def _svd(x: np.ndarray, full_matrices: bool = True) -> Any:
    refuse_endless("SVD", x)
    return np.linalg.svd(x, full_matrices)


def _singular_values(x: np.ndarray) -> Any:
    refuse_endless("SVD", x)
    return np.linalg.svd(x, compute_uv=False)


def _adjugate(x: np.ndarray) -> Any:
    """Cofactors of small matrices, else the determinant times the inverse, in double precision.

    A matrix that is too close to a singular one for that goes by singular values, as the body does:
    a matrix alone has the same bits as in a stack.
    """
    n = x.shape[-1]
    wide = x.astype(np.result_type(x.dtype, np.float64), copy=False)
    with np.errstate(all="ignore"):
        if n < 2 or not x.size:
            return np.ones_like(x)
        if n <= 3:
            out = _transposed_cofactors(wide)
        else:
            out = _adjugates(wide.reshape(-1, n, n), MOST_SINGULAR[x.dtype.char in "fF"])
        return out.reshape(x.shape).astype(x.dtype, copy=False)


def _adjugates(x: np.ndarray, most: float) -> np.ndarray:
    out = np.empty(x.shape, x.dtype)
    regular = _by_inverse(x, out, most)
    if not regular.all():
        out[~regular] = _by_singular_values(x[~regular])
    return out


def _transposed_cofactors(x: np.ndarray) -> Any:
    """Of 2 rows or 3, of which each row of cofactors is the product of the other two."""
    if x.shape[-1] == 2:
        turned = x[..., ::-1, ::-1].mT
        return turned * np.asarray([[1.0, -1.0], [-1.0, 1.0]])
    rows = [x[..., i, :] for i in range(3)]
    crossed = [np.cross(rows[i - 2], rows[i - 1]) for i in range(3)]
    return np.stack(crossed, axis=-1)


def _by_inverse(x: np.ndarray, out: np.ndarray, most: float) -> Any:
    """Writes the adjugates of matrices of smaller condition numbers, and says which these are."""
    factor = np.linalg.det(x)
    # A determinant may be beyond all numbers, of which NaN is none.
    regular = (factor != 0) & np.isfinite(x).all(axis=(-2, -1))
    given = x[regular]
    inverse = np.linalg.inv(given)
    condition = np.abs(given).sum(-2).max(-1) * np.abs(inverse).sum(-2).max(-1)
    good = condition < most
    regular[regular] = good
    out[regular] = factor[regular, None, None] * inverse[good]
    return regular


def _by_singular_values(x: np.ndarray) -> Any:
    u, s, vh = _svd(x, full_matrices=False)
    one = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([one, s[..., :-1]], -1), -1)
    behind = np.cumprod(np.concatenate([one, s[..., :0:-1]], -1), -1)[..., ::-1]
    signs = np.linalg.det(u) * np.linalg.det(vh)
    turned = np.conj(vh).mT * (before * behind)[:, None]
    return signs[:, None, None] * (turned @ np.conj(u).mT)


def _cholesky(x: np.ndarray) -> Any:
    return small_matrices.cholesky(x) if small_matrices.by_steps(x) else np.linalg.cholesky(x)


def _det(x: np.ndarray) -> Any:
    return small_matrices.det(x) if small_matrices.by_cofactors(x) else np.linalg.det(x)


def _inv(x: np.ndarray) -> Any:
    return small_matrices.inv(x) if small_matrices.by_cofactors(x) else np.linalg.inv(x)


def _solve(x1: np.ndarray, x2: np.ndarray) -> Any:
    if small_matrices.by_cofactors(x1) and np.isfinite(x2).all():
        return small_matrices.solve(x1, x2)
    return np.linalg.solve(x1, x2)


def refuse_endless(what: str, x: np.ndarray) -> None:
    """Raises what LAPACK answers for NaN in matrices of most sizes.

    For infinity it may iterate for ever, and of two rows with NaN on the diagonal it finds
    eigenvalues that are numbers.
    """
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError(f"{what} did not converge")


MOST_SINGULAR = (1e6, 1e8)
"""Condition numbers up to which an inverse in double precision has ten right digits, and eight, as
many as float32 has."""
SINGULAR = "add a multiple of the identity, or use pinv"
INDEFINITE = "add a multiple of the identity, or use eigh"
ENDLESS = "the iteration did not converge, which NaN and inf among the elements cause"

KERNELS: dict[str, Kernel] = {
    "adjugate": explained(_adjugate, ENDLESS),
    "cholesky": explained(_cholesky, INDEFINITE),
    "det": explained(_det, SINGULAR),
    "eig": explained(_eig, ENDLESS),
    "eigh": explained(_eigh, ENDLESS),
    "eigvals": explained(_eigvals, ENDLESS),
    "eigvalsh": explained(_eigvalsh, ENDLESS),
    "inv": explained(_inv, SINGULAR),
    "qr": explained(np.linalg.qr, ENDLESS),
    "slogdet": explained(np.linalg.slogdet, SINGULAR),
    "solve": explained(_solve, SINGULAR),
    "svd": explained(_svd, ENDLESS),
    "svdvals": explained(_singular_values, ENDLESS),
}
