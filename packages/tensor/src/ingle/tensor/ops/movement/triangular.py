"""Triangles and diagonals of matrices: tril, triu, eye, diagonal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...device import Device
from ...dispatch import TensorLike, handle_of
from ...dtypes import default_float, int64
from ...errors import ShapeError
from .._guarding import guarded
from .._rules import as_int, dtype_argument, matrix_shape
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.comparison import equal, greater_equal
from ..elementwise.where import where
from .shapes import reshape
from .slicing import slice

if TYPE_CHECKING:
    from ...contract import Shape
    from ...tensor import Tensor


@guarded
def tril(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The lower triangle of each matrix of a stack, zeros above it.

    Args:
        x: a tensor of at least 2 axes; the last two are the matrices.
        k: the last diagonal to keep: 0 is the main one, 1 the one above.

    >>> import ingle.tensor as it
    >>> it.tril(it.ones((2, 3))).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    rows, columns = _positions("tril", x, k)
    return where(greater_equal(rows, columns), x, False)


@guarded
def triu(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The upper triangle of each matrix of a stack, zeros below it.

    Args:
        x: a tensor of at least 2 axes; the last two are the matrices.
        k: the first diagonal to keep: 0 is the main one, 1 the one above.

    >>> import ingle.tensor as it
    >>> it.triu(it.ones((2, 3)), k=1).tolist()
    [[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]
    """
    rows, columns = _positions("triu", x, k)
    return where(greater_equal(columns, rows), x, False)


@guarded
def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """A matrix with ones on a diagonal and zeros elsewhere.

    Args:
        n_rows, n_cols: its shape; square if `n_cols` is not given.
        k: which diagonal: 0 is the main one, 1 the one above.
        dtype: the dtype; the default float dtype if not given.
        device: where to put it; the default device if not given.

    >>> import ingle.tensor as it
    >>> it.eye(2, 3, k=1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    shape = matrix_shape("eye", n_rows, n_cols)
    rows, columns = _grid(shape, as_int(k, "eye", "k"), device)
    return astype(equal(rows, columns), dtype_argument(dtype, "eye", default_float))


@guarded
def diagonal(x: TensorLike, /, *, offset: int = 0) -> Tensor:
    """The elements on a diagonal of each matrix of a stack, as the last axis of the result.

    Args:
        x: a tensor of at least 2 axes; the last two are the matrices.
        offset: which diagonal: 0 is the main one, 1 the one above.

    >>> import ingle.tensor as it
    >>> it.diagonal(it.asarray([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    shape = _matrices("diagonal", x)
    k = as_int(offset, "diagonal", "offset")
    n, m = shape[-2:]
    size = max(0, min(n, m - k) if k >= 0 else min(n + k, m))
    lead = shape[:-2]
    # In the matrix laid out flat, one step down and right is one row and one element.
    flat = reshape(x, (*lead, n * m))
    start = 0 if not size else k if k >= 0 else -k * m
    steps = (*[1] * len(lead), m + 1)
    return slice(flat, (*[0] * len(lead), start), (*lead, size), steps)


def _matrices(name: str, x: TensorLike) -> Shape:
    shape = handle_of(x, name).shape
    if len(shape) < 2:
        raise ShapeError(f"{name}: x must have at least 2 axes, got shape {shape}")
    return shape


def _positions(name: str, x: TensorLike, k: int) -> tuple[Tensor, Tensor]:
    shape = _matrices(name, x)
    device = handle_of(x, name).backend.device
    return _grid((shape[-2], shape[-1]), as_int(k, name, "k"), device)


def _grid(shape: Shape, k: int, device: Device | str | None) -> tuple[Tensor, Tensor]:
    """Row numbers, shifted by the diagonal, as a column; column numbers as a row."""
    n, m = shape
    k = max(-n, min(k, m))  # beyond the corners all diagonals are alike
    rows = reshape(arange(k, n + k, dtype=int64, device=device), (n, 1))
    return rows, arange(m, dtype=int64, device=device)
