"""What the rooms of linear algebra share: checks of matrices, and samples of well-behaved ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle
from ...dispatch import TensorLike, as_floating, wrap
from ...dtypes import bfloat16, float16
from ...errors import DTypeError, ShapeError
from ...operation import Traits
from ...sample import Draw
from .._rules import INEXACT, conj

if TYPE_CHECKING:
    from ...tensor import Tensor

DECOMPOSITION = Traits("opaque", precision="high", bound="compute")


def matrices(name: str, x: TensorLike, argument: str = "x") -> Handle:
    """The handle of a stack of matrices of a dtype that linear algebra is done in."""
    handle = as_floating(x, name, argument)
    if len(handle.shape) < 2:
        raise ShapeError(
            f"{name}: {argument} must be a matrix or a stack of them, got shape {handle.shape}"
        )
    return handle


def square_matrices(name: str, x: TensorLike, argument: str = "x", cure: str = "") -> Handle:
    """Like `matrices`, with as many rows as columns; `cure` ends the error of others."""
    handle = as_floating(x, name, argument)
    if len(handle.shape) < 2 or handle.shape[-1] != handle.shape[-2]:
        raise ShapeError(
            f"{name}: {argument} must have square matrices, got shape {handle.shape}{cure}"
        )
    return handle


def check_dtype(name: str, x: Aval) -> None:
    """Refuses half types: no library decomposes matrices in them."""
    if x.dtype.kind not in INEXACT or x.dtype in (float16, bfloat16):
        raise DTypeError(
            f"{name}: x must be float32, float64, complex64 or complex128, got {x.dtype}; cast "
            "with x.astype('float32')"
        )


def same_rule(name: str, x: Aval) -> Aval:
    """A result of the input's shape and dtype."""
    check_dtype(name, x)
    return x


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of each matrix of a stack."""
    return conj(x).mT  # type: ignore[no-any-return]


def beside(g: Tensor, q: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The cotangent of the first k columns of a unitary `q` that says all, and these columns.

    The others span what the first leave over: they turn when the first turn, `dq2 = -q1 @ (dq1's
    adjoint) @ q2`, and else only among themselves, which is arbitrary.
    """
    from ..movement.slicing import slice_axis

    rest = q.shape[-1] - k
    q1, q2 = slice_axis(q, -1, 0, k), slice_axis(q, -1, k, rest)
    g1, g2 = slice_axis(g, -1, 0, k), slice_axis(g, -1, k, rest)
    return g1 - q2 @ (adjoint(g2) @ q1), q1


def hermitian_part(x: Handle) -> Tensor:
    """`(x + adjoint(x)) / 2`: exactly `x` where that is Hermitian."""
    tensor = wrap(x) * 0.5
    return tensor + adjoint(tensor)


def lower_half(x: Tensor) -> Tensor:
    """The lower triangle of each matrix, with half of its diagonal."""
    from ..movement.triangular import eye, tril

    n = x.shape[-1]
    return tril(x) - x * (eye(n, dtype=x.dtype, device=x.device) * 0.5)


def sample_matrix(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Matrices whose singular values lie well apart, between 1 and 2.5; of integers triangles."""
    *lead, m, n = shape
    k = min(m, n)
    if not all(shape):
        return draw.array(shape)
    if not draw.dtype.is_inexact:
        return np.broadcast_to(np.triu(np.ones((m, n))), shape).astype(draw.dtype.dtype)
    rows = np.linalg.qr(_wide(draw, (*lead, m, k)))[0]
    columns = np.linalg.qr(_wide(draw, (*lead, n, k)))[0]
    values = np.linspace(2.5, 1, k)
    return np.asarray((rows * values) @ np.conj(columns).mT, draw.dtype.dtype)


def sample_hermitian(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Positive definite matrices whose eigenvalues lie well apart, between 1 and 2.5.

    Of integers, diagonal ones; bools are the identity.
    """
    n = shape[-1]
    if not all(shape):
        return draw.array(shape)
    if not draw.dtype.is_inexact:
        return np.broadcast_to(np.diag(np.arange(1, n + 1)), shape).astype(draw.dtype.dtype)
    vectors = np.linalg.qr(_wide(draw, shape))[0]
    whole = (vectors * np.linspace(1, 2.5, n)) @ np.conj(vectors).mT
    return np.asarray((whole + np.conj(whole).mT) / 2, draw.dtype.dtype)


def _wide(draw: Draw, shape: tuple[int, ...]) -> Any:
    return draw.array(shape, dtype="complex128" if draw.dtype.is_complex else "float64")
