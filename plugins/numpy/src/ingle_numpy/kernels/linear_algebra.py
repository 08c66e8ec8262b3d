"""Decompositions and systems of equations, by LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.errors import LinearAlgebraError
from ingle.tensor.operation import Op

Kernel = Callable[..., Any]


def _lapack(function: Kernel, hint: str) -> Kernel:
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
    _refuse_endless("Eigenvalues", np.tril(x))
    return np.linalg.eigh(x)


def _eigvalsh(x: np.ndarray) -> Any:
    _refuse_endless("Eigenvalues", np.tril(x))
    return np.linalg.eigvalsh(x)


def _svd(x: np.ndarray, full_matrices: bool = True) -> Any:
    _refuse_endless("SVD", x)
    return np.linalg.svd(x, full_matrices)


def _singular_values(x: np.ndarray) -> Any:
    _refuse_endless("SVD", x)
    return np.linalg.svd(x, compute_uv=False)


def _refuse_endless(what: str, x: np.ndarray) -> None:
    """Raises what LAPACK answers for NaN in matrices of most sizes.

    For infinity it may iterate for ever, and of two rows with NaN on the diagonal it finds
    eigenvalues that are numbers.
    """
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError(f"{what} did not converge")


_SINGULAR = "add a multiple of the identity, or use pinv"
_ENDLESS = "the iteration did not converge, which NaN and inf among the elements cause"

KERNELS: dict[str, Kernel] = {
    "cholesky": _lapack(np.linalg.cholesky, "add a multiple of the identity, or use eigh"),
    "det": _lapack(np.linalg.det, _SINGULAR),
    "eig": _lapack(_eig, _ENDLESS),
    "eigh": _lapack(_eigh, _ENDLESS),
    "eigvals": _lapack(_eigvals, _ENDLESS),
    "eigvalsh": _lapack(_eigvalsh, _ENDLESS),
    "inv": _lapack(np.linalg.inv, _SINGULAR),
    "qr": _lapack(np.linalg.qr, _ENDLESS),
    "slogdet": _lapack(np.linalg.slogdet, _SINGULAR),
    "solve": _lapack(np.linalg.solve, _SINGULAR),
    "svd": _lapack(_svd, _ENDLESS),
    "svdvals": _lapack(_singular_values, _ENDLESS),
}
