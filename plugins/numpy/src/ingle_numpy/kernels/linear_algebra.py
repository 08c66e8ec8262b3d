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


def _singular_values(x: np.ndarray) -> Any:
    return np.linalg.svd(x, compute_uv=False)


_SINGULAR = "add a multiple of the identity, or use pinv"
_ENDLESS = "the iteration did not converge, which NaN and inf among the elements cause"

KERNELS: dict[str, Kernel] = {
    "cholesky": _lapack(np.linalg.cholesky, "add a multiple of the identity, or use eigh"),
    "det": _lapack(np.linalg.det, _SINGULAR),
    "eig": _lapack(_eig, _ENDLESS),
    "eigh": _lapack(np.linalg.eigh, _ENDLESS),
    "eigvals": _lapack(_eigvals, _ENDLESS),
    "eigvalsh": _lapack(np.linalg.eigvalsh, _ENDLESS),
    "inv": _lapack(np.linalg.inv, _SINGULAR),
    "qr": _lapack(np.linalg.qr, _ENDLESS),
    "slogdet": _lapack(np.linalg.slogdet, _SINGULAR),
    "solve": _lapack(np.linalg.solve, _SINGULAR),
    "svd": _lapack(np.linalg.svd, _ENDLESS),
    "svdvals": _lapack(_singular_values, _ENDLESS),
}
